"""The comparison of designs on tasks, and the command that asks for it."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from coefdyn.lab.commands import arguments as given
from coefdyn.lab.experiments import intervals, rule
from coefdyn.lab.experiments.baselines import baseline
from coefdyn.lab.experiments.board import STEPS, board_cell
from coefdyn.lab.experiments.plan import STANDARD, Plan, Variant, standard_training
from coefdyn.lab.experiments.result import Outcome
from coefdyn.lab.headline import runs
from coefdyn.lab.headline.claim import Ahead, Claim, kebab
from coefdyn.lab.headline.group import Group
from coefdyn.lab.headline.judge import Judged, as_judged, judge
from coefdyn.lab.judge.admit import check_design, find_task, frame
from coefdyn.lab.judge.page import judged_html, state_in_words
from coefdyn.lab.places import checkout, data_folder
from coefdyn.lab.training import RunOptions
from coefdyn.mixers.base import Mixer
from coefdyn.models import SequenceModel
from coefdyn.options import check_count

__all__ = ["DESCRIBED", "Comparison", "compare_designs"]

#: status of a comparison with fewer seeds than a verdict takes
DESCRIBED = "described"


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Designs on tasks: what was trained, and what it says.

    Attributes:
        result: the finished runs; its variants have the facets "task" and "design".
        mine: the design that the others are compared with.
    """

    result: Judged
    mine: str

    @property
    def seeds(self) -> int:
        """Judged seeds per design and task."""
        return len(self.result.plan.seeds)

    def rows(self) -> list[dict[str, Any]]:
        """One row per task and design: k of n, intervals, learning rate and cost.

        ``solved`` of ``seeds`` have an accuracy of at least .9; ``share`` is the exact 95 %
        interval of that share, ``accuracy`` the mean with Student's, cut at 0 and 1, beyond which
        no accuracy lies. ``steps`` is when each seed first reached .9 on validation sequences
        (None: never), ``bracketed`` whether both neighbours of the learning rate are no better.
        ``state`` counts numbers per sequence, all layers (None: unknown, or growing by
        ``state_growth`` a token). ``seconds_per_step`` is the median, evaluations included. Before
        the first judged run there is the cost alone.
        """
        return [self._row(one) for one in self.result.variants]

    def verdicts(self) -> list[tuple[str, str, str]]:
        """Sentence, status and numbers, per task and rival.

        Below twelve seeds the status is "described"; from twelve on it is a verdict,
        exploratory because no threshold was registered.
        """
        designs = list(dict.fromkeys(v.facets["design"] for v in self.result.variants))
        tasks = dict.fromkeys(v.facets["task"] for v in self.result.variants)
        return [self._verdict(task, one) for task in tasks for one in designs if one != self.mine]

    def limits(self) -> list[str]:
        """Limits of so many seeds: what they cannot decide, in sentences."""
        n, needed = self.seeds, len(runs.SEEDS)
        whole, lead = intervals.share_interval(n, n), intervals.smallest_lead(n)
        shown = f"a lead of at least {round(lead * n)} seeds" if lead <= 1 else "no lead at all"
        words = [
            f"If all {n} seeds solve a task, the share of seeds that do may still be as low as "
            f"{whole.low:.2f} (exact 95 % interval).",
            f"Over a design that no seed solves, {n} seeds each can show {shown}.",
        ]
        if n < needed:
            words.append(
                f"{n} seeds describe: they give no verdict. That takes {needed}; the same call "
                f"with seeds={needed} (--seeds {needed}) trains the rest."
            )
        steps = {one["config"]["train"]["steps"] for one in self.result.records} - {STEPS}
        if steps:
            words.append(
                f"Runs of {', '.join(map(str, sorted(steps)))} steps: the protocol has {STEPS}, so "
                "a design that fails here may only be slow."
            )
        words.append(
            "Small models, these tasks, at most seven learning rates, parameters and states not "
            "matched: nothing here speaks of larger models or of language."
        )
        return words

    def table(self) -> list[str]:
        """Rows and comparisons as lines of text."""
        lines = [_line(one) for one in self.rows()]
        lines += [f"{status:<9} {words} [{told}]" for words, status, told in self.verdicts()]
        return lines + self.limits()

    def html(self) -> str:
        """One page that needs nothing else: rows, curves, comparisons, limits, protocol."""
        return judged_html(
            self.result,
            self.mine,
            rows=self.rows(),
            verdicts=self.verdicts(),
            limits=self.limits(),
        )

    def outcome(self, task: str, design: str) -> Outcome | None:
        """The judged seeds of one design on one task; None before the first."""
        return self.result.one(task=task, design=design)

    def _row(self, variant: Variant) -> dict[str, Any]:
        model = SequenceModel(
            variant.model,
            vocab=variant.task.vocab_size,
            classes=variant.task.num_classes,
            length=variant.task.input_length,
        )
        sizes, growths = zip(*(_state(block.mixer) for block in model.blocks), strict=True)
        row: dict[str, Any] = {
            **variant.facets,
            "guess": baseline(variant.task)[0],
            "parameters": model.core_parameters(),
            "state": None if None in sizes else sum(sizes),
            "state_growth": None if None in growths else sum(growths),
            "seeds": 0,
        }
        outcome = self.result.outcome(variant)
        if outcome is None:
            return row
        values, records = outcome.values(), outcome.records
        return row | {
            "seeds": len(values),
            "values": values,
            "solved": intervals.solved(values),
            "share": intervals.share_interval(intervals.solved(values), len(values)),
            "accuracy": _of_a_share(intervals.t_interval(values, intervals.JUDGED_CONFIDENCE)),
            "steps": outcome.steps_to(),
            "diverged": outcome.diverged,
            "learning_rate": records[0]["config"]["train"]["learning_rate"],
            "bracketed": not self.result.unbracketed(variant),
            "seconds_per_step": statistics.median(
                one["wall_s"] / max(one["steps_done"], 1) for one in records
            ),
        }

    def _verdict(self, task: str, rival: str) -> tuple[str, str, str]:
        a, b = ({"task": task, "design": one} for one in (self.mine, rival))
        sentence = f"{task}: {self.mine} is ahead of {rival}"
        found = [self.result.one(**facets) for facets in (a, b)]
        both = [one for one in found if one is not None]
        if len(both) < 2:
            return sentence, rule.NOT_RUN, "the pilot seeds are not finished"
        (first, second) = (one.values() for one in both)
        (k, n), (other_k, other_n) = ((intervals.solved(one), len(one)) for one in (first, second))
        gap = intervals.share_difference(k, n, other_k, other_n)
        means = " against ".join(f"{statistics.fmean(one):.3f}" for one in (first, second))
        told = (
            f"{k} of {n} against {other_k} of {other_n} seeds solved; difference {gap}; mean "
            f"accuracy {means}"
        )
        if min(n, other_n) < self.result.fewest:
            side = "contains" if gap.low <= 0 <= gap.high else "leaves out"
            return (
                f"{task}: {self.mine} against {rival}",
                DESCRIBED,
                f"{told}; the interval {side} 0",
            )
        claim = Claim(id="judged/ahead", sentence=sentence, test=Ahead(a=a, b=b), why="none")
        status, why = judge(claim, self.result)
        return sentence, status, told if told.startswith(why) else f"{told}; {why}"


def _of_a_share(found: intervals.Interval) -> intervals.Interval:
    """The part of an interval in which a share can lie; it covers what the whole one covers."""
    return replace(found, low=max(found.low, 0.0), high=min(found.high, 1.0))


def compare_designs(
    designs: Mapping[str, Any],
    task: Any,
    seeds: int = 4,
    *,
    steps: int = STEPS,
    out: Path | str | None = None,
    options: RunOptions | None = None,
) -> Comparison:
    """Train designs on tasks by the book's protocol; the first one is compared with the others.

    Two pilot seeds search the learning rate from three a factor of 3 apart until it is bracketed;
    ``seeds`` fresh seeds are judged. Runs take one process, or the workers of a cluster, to which
    the code of the designs is sent.

    Args:
        designs: name -> a mixer of ``coefdyn.mixers`` or a row of the scoreboard by name; a
            subclass of ``Mixer``; a class or function that makes, from the width d, a causal
            ``nn.Module`` from (B, L, d) to (B, L, d); ``"module:Name"`` of either; a
            ``ModelConfig``; or a dict of its fields, whose "mixer" is any of these.
        task: a task of the scoreboard by name, the configuration of a registered task,
            ``"module:name"`` of one, or a list of such.
        seeds: judged seeds; twelve give a verdict.
        steps: optimiser steps; the protocol has 2000.
        out: folder of the reader's own that keeps the runs; None keeps nothing.
        options: device, mode, budget, cluster; without a cluster ``workers`` is 1.

    Raises:
        ValueError: for a design that is not causal, mixes sequences, or has another shape; a task
            that is not judged by accuracy, or whose sequences do not repeat; a folder of the book.
        FileNotFoundError: for a task whose data are not here.
    """
    check_count("seeds", seeds)
    check_count("steps", steps)
    if not isinstance(designs, Mapping) or not designs:
        raise ValueError(f'designs maps names to designs, as {{"mine": MyMixer}}; got {designs!r}.')
    asked = task if isinstance(task, (list, tuple)) else [task]
    if not asked:
        raise ValueError("task must name at least one task, got an empty list.")
    tasks = dict(find_task(one) for one in asked)
    if len(tasks) < len(asked):
        raise ValueError(f"two of these tasks bear the same name: {asked}.")
    models = {name: frame(name, one, kept=out is not None) for name, one in designs.items()}
    for name, model in models.items():
        for length in sorted({one.input_length for one in tasks.values()}):
            check_design(name, model, length)
    if out is not None:
        _check_folder(Path(out))
    variants = [
        board_cell({"task": label, "design": name}, config, model, steps)
        for label, config in tasks.items()
        for name, model in models.items()
    ]
    variants = [replace(one, train=_short(one.train, steps)) for one in variants]
    experiment = _Judgement(tuple(variants), range(seeds), steps)
    options = options or RunOptions()
    if options.scheduler() is None:
        options = replace(options, workers=1)
    result = as_judged(experiment.run(STANDARD, out=out, options=options))
    return Comparison(result=result, mine=next(iter(models)))


class _Judgement(Group):
    """The reader's variants as a group of the headline claims, with no claim registered."""

    def __init__(self, variants: tuple[Variant, ...], seeds: Sequence[int], steps: int) -> None:
        self.id, self.title = "runs", "A reader's designs"
        plan = runs.judged_plan(variants, standard_training(steps))
        self._plan_ = plan.with_seeds([runs.SEEDS[0] + one for one in seeds])

    def plan(self, profile: str) -> Plan:  # type: ignore[override]
        return self._plan_

    def registered_claims(self) -> list[Claim]:
        return []


def _short(train: Any, steps: int) -> Any:
    """Settings that look at the validation split ten times in a short run, too."""
    return replace(train, evaluate_every=max(1, min(train.evaluate_every, steps // 10)))


def _check_folder(out: Path) -> None:
    book = data_folder().resolve()
    if checkout() is not None and (out.resolve() == book or book in out.resolve().parents):
        raise ValueError(f"{out} belongs to the book; keep runs of your own in another folder.")
    given.writable(out)


def _state(mixer: Mixer) -> tuple[int | None, int | None]:
    """Numbers that a mixer keeps, and adds with a token; None where it cannot generate."""
    try:
        return mixer.state_size(), mixer.state_growth()
    except Exception:  # somebody else's, which the training does not need to generate
        return None, None


def _line(row: Mapping[str, Any]) -> str:
    head = f"{row['task']:<12} {row['design']:<20}"
    cost = f"{row['parameters']} parameters, state {state_in_words(row)}"
    if not row["seeds"]:
        return f"{head} not run; {cost}"
    rate = f"lr {row['learning_rate']:g}{'' if row['bracketed'] else ', not bracketed'}"
    share = f"[{row['share'].low:.2f}, {row['share'].high:.2f}]"
    return (
        f"{head} {row['solved']} of {row['seeds']} {share}; mean {row['accuracy']}; "
        f"{rate}; {cost}, {1000 * row['seconds_per_step']:.1f} ms a step"
    )


def add_parser(commands: Any) -> None:
    """Add the command ``judge`` to the lab's."""
    parser = commands.add_parser("judge", help="a mixer of your own by the book's protocol")
    parser.add_argument("design", metavar="MODULE:NAME", help="a Mixer or a causal nn.Module")
    parser.add_argument("--tasks", nargs="+", default=[], help="of the scoreboard")
    parser.add_argument(
        "--task",
        action="append",
        default=[],
        metavar="MODULE:NAME",
        help="a task of one's own; may be given again",
    )
    parser.add_argument(
        "--against",
        nargs="+",
        default=["GatedDeltaNet"],
        metavar="NAME",
        help="mixers of the library to compare with; default: GatedDeltaNet",
    )
    parser.add_argument("--seeds", type=given.count, default=4, help="12 give a verdict")
    parser.add_argument("--steps", type=given.count, default=STEPS, help=f"default: {STEPS}")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        default=Path("judged"),
        help="keeps the runs, which a second call goes on with; default: judged",
    )
    given.cluster(parser)
    parser.add_argument(
        "--mode",
        default="eager",
        choices=("eager", "compiled"),
        help="compiled pays for long runs; default: eager",
    )
    parser.add_argument(
        "--budget",
        type=given.seconds,
        metavar="SECONDS",
        help="stop after so long; the same call goes on",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress bar")


def command(parsed: argparse.Namespace) -> int:
    """Run ``judge``; 1 while runs are missing."""
    named: dict[str, str] = {}
    for one in (parsed.design, *parsed.against):
        short = one.partition(":")[2] or one
        named[one if short in named else short] = one
    comparison = compare_designs(
        named,
        [*parsed.tasks, *parsed.task] or ["recall", "overwrite", "parity"],
        parsed.seeds,
        steps=parsed.steps,
        out=parsed.out,
        options=RunOptions(
            device=parsed.device,
            cluster=parsed.cluster,
            mode=parsed.mode,
            budget_s=parsed.budget,
            progress=False if parsed.quiet else None,
        ),
    )
    print("\n".join(comparison.table()))
    page = parsed.out / f"{kebab(comparison.mine)}.html"
    page.write_text(comparison.html(), encoding="utf-8")
    print(f"{page}: {comparison.result.caption()}")
    return int(comparison.result.missing > 0)
