"""The commands of the headline claims.

python -m coefdyn.lab.headline run [GROUP ...] [--workers 1] [--mode compiled]
python -m coefdyn.lab.headline show [CLAIM ...]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from coefdyn.lab.commands import arguments as given
from coefdyn.lab.experiments.plan import STANDARD
from coefdyn.lab.experiments.result import core_hours
from coefdyn.lab.headline.claims import HEADLINES
from coefdyn.lab.headline.former import FORMER
from coefdyn.lab.headline.group import Group, changed_since, verdict_of
from coefdyn.lab.headline.runs import GROUPS
from coefdyn.lab.training import RunOptions
from coefdyn.options import check_choice

__all__ = ["main"]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m coefdyn.lab.headline", description="the headline claims"
    )
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="train what is missing; interrupt and repeat at will")
    run.add_argument("groups", nargs="*", metavar="GROUP", help="default: all, by value")
    run.add_argument("--workers", type=given.count, default=1)
    run.add_argument("--mode", default="compiled", choices=("eager", "compiled"))
    run.add_argument("--budget", type=given.seconds, metavar="SECONDS", help="per group")
    show = commands.add_parser("show", help="every claim, its verdict and what limits it")
    show.add_argument("ids", nargs="*", metavar="CLAIM", help="default: all")
    for one in (run, show):
        one.add_argument("--out", type=Path, metavar="DIR", help="default: data/results")
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
    every = (*HEADLINES, *FORMER)
    by_id = {one.id: one for one in every}
    for name in parsed.ids:
        check_choice("claim", name, by_id)
    hours = []
    groups = dict.fromkeys(one.group for one in every if one.group is not None)
    for name in groups:
        group = Group(name)
        result = group.load(STANDARD, out=parsed.out)
        hours.append(result)
        changed = changed_since(group.registrations(), group.registered(result))
        if changed:
            print(f"changed since the first run: {', '.join(changed)}")
    for one in [by_id[name] for name in parsed.ids] or every:
        print("\n".join(one.lines(verdict_of(one, parsed.out))))
    print(f"core-hours: {core_hours(*hours):.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
