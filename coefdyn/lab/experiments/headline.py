"""The headline claims: some fifteen, each with its kind, its test and what limits it.

    python -m coefdyn.lab.experiments.headline run [GROUP ...] [--workers 1] [--mode compiled]
    python -m coefdyn.lab.experiments.headline show [CLAIM ...]

Trained claims are judged on twelve fresh seeds, once all twelve are there;
their thresholds were committed before the first run. Proved and timed claims name what shows them.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coefdyn.lab import arguments as given
from coefdyn.lab.experiments import intervals
from coefdyn.lab.experiments.base import Experiment
from coefdyn.lab.experiments.claim import Claim
from coefdyn.lab.experiments.figures import grouped_points, new_figure
from coefdyn.lab.experiments.headline_claim import Headline
from coefdyn.lab.experiments.headline_claims import HEADLINES
from coefdyn.lab.experiments.headline_runs import GROUPS, SEEDS
from coefdyn.lab.experiments.judgement import Judged, judge
from coefdyn.lab.experiments.plan import STANDARD, AnyPlan, Plan
from coefdyn.lab.experiments.registration import (
    Registered,
    changed_since,
    digest,
    registered_in,
    registration,
)
from coefdyn.lab.experiments.result import Outcome, Result, Verdict, core_hours
from coefdyn.lab.training import ResultFile, RunOptions
from coefdyn.options import check_choice

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Group", "as_judged", "main", "verdict_of"]


class Group(Experiment):
    """The runs of one group and the claims on them, as an experiment.

    Args:
        name: of ``headline_runs.GROUPS``.

    Raises:
        ValueError: for an unknown name, naming the nearest one.
    """

    source = "the headline claims"
    profiles = (STANDARD,)

    def __init__(self, name: str) -> None:
        check_choice("group", name, GROUPS)
        self.name, self.id = name, f"headline/{name}"
        self.title = f"Runs of the headline claims: {name}"
        self.about = "Twelve fresh seeds and bracketed learning rates."

    @lru_cache(maxsize=1)  # noqa: B019
    def plan(self, profile: str) -> Plan:
        return GROUPS[self.name]().plan()

    def registered_claims(self) -> list[Claim]:
        return [one.claim for one in HEADLINES if one.group == self.name and one.claim is not None]

    def claims(self, result: Result) -> list[Verdict]:
        """Judged by ``judgement``; "not run" before the twelfth seed."""
        judged = as_judged(result)
        found = []
        for claim in self.registered_claims():
            status, numbers = judge(claim, judged)
            found.append(
                Verdict(
                    claim.sentence, status, numbers, id=claim.id, test=claim.test.words,
                    control=claim.why,
                )
            )  # fmt: skip
        return found

    def registrations(self) -> dict[str, str]:
        """Id -> digest of every registered claim, as it stands now."""
        return {one.id: digest(one, self.plan(STANDARD)) for one in self.registered_claims()}

    def registered(self, result: Result) -> Registered | None:
        """Claims registered before the first run of a result; None where its records lack them."""
        return registered_in(result.records, self.id)

    def _labels(
        self, profile: str, plan: AnyPlan, results: ResultFile | None
    ) -> Callable[[str], dict[str, Any]]:
        labels = super()._labels(profile, plan, results)
        first = registration({self.id: self.registrations()}, results)
        return lambda key: {**labels(key), **first}

    def draw(self, result: Result) -> Figure:
        """Accuracy of every finished variant, a point per seed."""
        drawn, (axes,) = new_figure(width=8.0, height=3.8)
        tasks = list(dict.fromkeys(v.facets["task"] for v in result.variants))
        designs = list(dict.fromkeys(v.facets["design"] for v in result.variants))
        series: Mapping[str, list[Outcome | None]] = {
            design: [result.one(task=task, design=design) for task in tasks] for design in designs
        }
        grouped_points(axes, tasks, series)
        return drawn


def as_judged(result: Result) -> Judged:
    """A group's result as the judge sees it: nothing before the twelfth seed."""
    seen = {one.name: getattr(result, one.name) for one in fields(Result) if one.init}
    return Judged(**{**seen, "confidence": intervals.JUDGED_CONFIDENCE, "fewest": len(SEEDS)})


def verdict_of(headline: Headline, out: Path | str | None = None) -> Verdict | None:
    """The verdict on a trained claim; None for one that is proved or timed.

    Args:
        headline: which claim.
        out: folder of the result files; None for ``data/results``.
    """
    if headline.group is None:
        return None
    group = Group(headline.group)
    found = {one.id: one for one in group.claims(group.load(STANDARD, out=out))}
    return found[headline.id]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m coefdyn.lab.experiments.headline", description="the headline claims"
    )
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="train what is missing; interrupt and repeat at will")
    run.add_argument("groups", nargs="*", metavar="GROUP", help="default: all, by value")
    run.add_argument("--workers", type=given.count, default=1)
    run.add_argument("--mode", default="compiled", choices=("eager", "compiled"))
    run.add_argument("--budget", type=given.seconds, metavar="SECONDS", help="per group")
    run.add_argument("--nice", type=int, default=10, metavar="N")
    show = commands.add_parser("show", help="every claim, its verdict and what limits it")
    show.add_argument("ids", nargs="*", metavar="CLAIM", help="default: all")
    for one in (run, show):
        one.add_argument("--out", type=given.folder, metavar="DIR", help="default: data/results")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit status is 0, or 1 when something did not finish."""
    parsed = _parser().parse_args(arguments)
    try:
        return {"run": _run, "show": _show}[parsed.command](parsed)
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from here", file=sys.stderr)
    except (ValueError, ImportError, OSError) as error:
        print(error, file=sys.stderr)
    return 1


def _run(parsed: argparse.Namespace) -> int:
    if hasattr(os, "nice"):
        os.nice(parsed.nice)
    missing = 0
    for group in [Group(name) for name in parsed.groups or GROUPS]:
        options = RunOptions(
            device="cpu", workers=parsed.workers, mode=parsed.mode, budget_s=parsed.budget
        )
        out = parsed.out or group.file(STANDARD).path.parents[2]
        given.writable(out)
        result = group.run(STANDARD, out=out, options=options)
        missing += result.missing
        print(result.caption(), flush=True)
        for one in group.claims(result):
            print(f"  {one.status:<9} {one.id}: {one.claim} [{one.numbers}]", flush=True)
    return 1 if missing else 0


def _show(parsed: argparse.Namespace) -> int:
    by_id = {one.id: one for one in HEADLINES}
    for name in parsed.ids:
        check_choice("claim", name, by_id)
    hours = []
    groups = dict.fromkeys(one.group for one in HEADLINES if one.group is not None)
    for name in groups:
        group = Group(name)
        result = group.load(STANDARD, out=parsed.out)
        hours.append(result)
        changed = changed_since(group.registrations(), group.registered(result))
        if changed:
            print(f"changed since the first run: {', '.join(changed)}")
    for one in [by_id[name] for name in parsed.ids] or HEADLINES:
        print("\n".join(one.lines(verdict_of(one, parsed.out))))
    print(f"core-hours: {core_hours(*hours):.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
