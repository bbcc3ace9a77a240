"""Command line of the lab, ``python -m coefdyn.lab``: experiments, films, models, assignments."""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from coefdyn.execution.apply import METHODS
from coefdyn.lab import arguments as given
from coefdyn.lab import judge, lens_commands
from coefdyn.lab.exercises import assignment
from coefdyn.lab.experiments import EXPERIMENTS, Result, Verdict, get_experiment, ledger
from coefdyn.lab.experiments.base import Experiment
from coefdyn.lab.experiments.plan import PROFILES, STANDARD
from coefdyn.lab.experiments.rule import STATUSES
from coefdyn.lab.places import checkout, data_folder
from coefdyn.lab.training import RunOptions
from coefdyn.lab.training.loop import MODES
from coefdyn.options import check_choice

__all__ = ["main"]


def build_parser() -> argparse.ArgumentParser:
    """Build the parser with the arguments of every command."""
    parser = argparse.ArgumentParser(
        prog="python -m coefdyn.lab", description="Run the papers' experiments."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="ids, titles, and how many runs of each profile are finished")
    run = commands.add_parser("run", help="train what is missing; interrupt and repeat at will")
    run.add_argument("ids", nargs="+", metavar="ID", choices=list(EXPERIMENTS))
    run.add_argument("--profile", default="quick", choices=PROFILES)
    run.add_argument(
        "--seeds", type=int, nargs="+", help="instead of the profile's; `show` adds complete ones"
    )
    run.add_argument(
        "--only",
        type=given.facet,
        nargs="+",
        metavar="FACET=VALUE,...",
        help="these variants alone, for example readout=exp A=1,0.95",
    )
    run.add_argument(
        "--device", type=given.device, help="cpu, cuda or cuda:1; default: a GPU if there is one"
    )
    run.add_argument(
        "--budget", type=given.seconds, metavar="SECONDS", help="start no run after that"
    )
    run.add_argument("--out", type=given.folder, metavar="DIR", help="default: data/results")
    run.add_argument(
        "--workers", type=given.count, help="processes; default: one per core, on a GPU one"
    )
    run.add_argument(
        "--mode", default="eager", choices=MODES, help="compiled: loss and gradient, torch.compile"
    )
    run.add_argument(
        "--method",
        default="parallel",
        choices=("auto", *METHODS),
        help="how coefficients are applied; triton needs a GPU",
    )
    run.add_argument(
        "--checkpoints",
        type=given.folder,
        metavar="DIR",
        help="go on within a run after a kill (needs safetensors)",
    )
    run.add_argument("--quiet", action="store_true", help="no progress bar")
    run.add_argument(
        "--nice", type=int, default=0, metavar="N", help="lower the priority by N, 0 to 19"
    )
    judge.add_parser(commands)
    assignment.add_parser(commands)
    show = commands.add_parser("show", help="numbers, claims and the figure of an experiment")
    show.add_argument("id", metavar="ID", choices=list(EXPERIMENTS))
    show.add_argument("--profile", default=STANDARD, choices=PROFILES)
    show.add_argument("--out", type=given.folder, metavar="DIR", help="default: data/results")
    show.add_argument(
        "--figure", type=given.figure_file, metavar="FILE", help="write the figure (.png, .svg)"
    )
    claims = commands.add_parser("claims", help="the ledger: the kept verdicts of the first rule")
    claims.add_argument("ids", nargs="*", metavar="ID", help="such as parity/ladder; default: all")
    again = commands.add_parser("repeat", help="train some kept runs once more and compare")
    again.add_argument("ids", nargs="*", metavar="ID", help="of which experiments; default: all")
    again.add_argument("--profile", default=STANDARD, choices=PROFILES)
    again.add_argument("--runs", type=given.count, default=3, help="how many are drawn")
    again.add_argument("--draw", type=int, default=0, metavar="SEED", help="which are drawn")
    again.add_argument(
        "--out",
        type=given.folder,
        metavar="DIR",
        help="default: data/results, with what came of it in data/repeats; else in DIR/repeats",
    )
    film = commands.add_parser("film", help="record coefficients while a model learns")
    film.add_argument("name", metavar="NAME", help="of coefdyn.lab.films.recording.FILMS")
    film.add_argument("--device", type=given.device, default="cpu", help="cpu, cuda or cuda:1")
    film.add_argument("--out", type=given.folder, metavar="DIR", help="default: data/films")
    lens_commands.add_arguments(commands)
    speed = commands.add_parser("throughput", help="one run after another against processes")
    speed.add_argument("--device", type=given.device, help="default: a GPU if there is one")
    speed.add_argument("--steps", type=given.count, default=300)
    speed.add_argument("--runs", type=given.count, default=6)
    speed.add_argument(
        "--rounds", type=given.count, default=1, help="core-seconds: the median of so many"
    )
    speed.add_argument(
        "--keep",
        type=given.folder,
        nargs="?",
        const=True,
        metavar="DIR",
        help="write DIR/throughput.json; without DIR: data/benchmarks, for the book",
    )
    speed.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit status is 0, or 1 when something did not finish."""
    parsed = build_parser().parse_args(arguments)
    if checkout() is None and getattr(parsed, "out", None) is None:
        print(
            f"coefdyn is installed without the repository of the book, whose results are not here; "
            f"results are read from and written to {data_folder()}.",
            file=sys.stderr,
        )
    commands = {
        "list": _list,
        "run": _run,
        "judge": judge.command,
        "exercises": assignment.command,
        "show": _show,
        "claims": _claims,
        "repeat": _repeat,
        "throughput": _throughput,
        "film": _film,
        **lens_commands.COMMANDS,
    }
    try:
        return commands[parsed.command](parsed)
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from here", file=sys.stderr)
    except (ValueError, ImportError, OSError) as error:
        print(error, file=sys.stderr)
    return 1


def _list(_: argparse.Namespace) -> int:
    status = 0
    for name in EXPERIMENTS:
        experiment = get_experiment(name)
        print(f"{name:<15} {experiment.title} ({experiment.source})")
        for profile in experiment.profiles:
            result = _sound(experiment, profile)
            if result is None:
                status = 1
                continue
            done = len(result.records)
            print(f"{'':<15} {profile:<8} {done} of {done + result.missing} runs finished")
    return status


def _sound(experiment: Experiment, profile: str, out: Path | None = None) -> Result | None:
    """Return the finished runs, or None after a message where their file is damaged."""
    try:
        return experiment.load(profile, out=out)
    except ValueError as damage:
        print(damage, file=sys.stderr)
        return None


def _run(parsed: argparse.Namespace) -> int:
    options = RunOptions(
        device=parsed.device,
        workers=parsed.workers,
        mode=parsed.mode,
        method=parsed.method,
        budget_s=parsed.budget,
        progress=False if parsed.quiet else None,
        checkpoint_folder=parsed.checkpoints,
    )
    if parsed.nice and hasattr(os, "nice"):
        os.nice(parsed.nice)
    status = 0
    for name in parsed.ids:
        experiment = get_experiment(name)
        out = parsed.out or experiment.file(parsed.profile).path.parents[1]
        given.writable(out)
        try:
            result = experiment.run(
                parsed.profile,
                seeds=parsed.seeds,
                only=given.gathered(parsed.only or ()),
                out=out,
                options=options,
            )
        except ValueError as wrong:
            if not parsed.only:
                raise
            raise SystemExit(str(wrong)) from None
        if parsed.only:  # with what the file had of the other variants
            result = experiment.load(parsed.profile, seeds=parsed.seeds, out=out)
        print(result.caption())
        for line in experiment.table(result):
            print(line)
        status = status or int(result.missing > 0)
    return status


def _show(parsed: argparse.Namespace) -> int:
    experiment = get_experiment(parsed.id)
    result: Result = experiment.load(parsed.profile, out=parsed.out)
    print(f"{experiment.title} ({experiment.source})\n")
    print(textwrap.fill(experiment.about, 100) + "\n")
    print(result.caption() + "\n")
    for line in experiment.table(result):
        print(line)
    if parsed.out is None:  # the ledger is about the kept runs
        _print_claims(experiment.claims(result))
    if parsed.figure is not None:
        experiment.figure(result).savefig(parsed.figure)
    return 0


def _claims(parsed: argparse.Namespace) -> int:
    """The ledger: every claim of the sources as the first rule judged it, or those asked for."""
    found = {one.id: one for name in EXPERIMENTS for one in ledger.verdicts(name)}
    for name in parsed.ids:
        check_choice("claim", name, found)
    chosen = [found[name] for name in parsed.ids] or list(found.values())
    for one in chosen:
        _print_claims([one])
        if parsed.ids:
            print(f"    test: {one.test}\n    control: {one.control}")
            if one.reason:
                print(f"    no test because: {one.reason}")
    told = Counter(one.status for one in chosen)
    print(", ".join(f"{told[status]} {status}" for status in STATUSES if told[status]))
    print(f"The code that judged them: commit {ledger.judged_by()}.")
    return 0


def _print_claims(verdicts: Sequence[Verdict]) -> None:
    for one in verdicts:
        numbers = f" [{one.numbers}]" if one.numbers else ""
        print(f"  {one.status:<9} {one.id}: {one.claim}{numbers}")


def _repeat(parsed: argparse.Namespace) -> int:
    from coefdyn.lab.experiments.headline_runs import GROUPS
    from coefdyn.lab.repeat import DIFFERS, draw, keep, repeat, repeats_file

    groups = [f"headline/{name}" for name in GROUPS]
    for name in parsed.ids:
        check_choice("experiment", name, (*EXPERIMENTS, *groups))
    ids = parsed.ids or [
        *(name for name in EXPERIMENTS if parsed.profile in get_experiment(name).profiles),
        *(groups if parsed.profile == STANDARD else ()),
    ]
    path = repeats_file(parsed.profile, parsed.out)
    given.writable(path.parent)
    differing = 0
    for kept in draw(ids, parsed.profile, parsed.runs, parsed.draw, parsed.out):
        one = repeat(kept)
        differing += one.status == DIFFERS
        print(f"  {one}", flush=True)
        keep(one, parsed.draw, path)
    print(f"kept in {path}")
    return 1 if differing else 0


def _throughput(parsed: argparse.Namespace) -> int:
    from coefdyn.lab.throughput import measure, table

    compiled = not parsed.no_compile
    on_cpu = (parsed.device or RunOptions().resolved_device()) == "cpu"
    if parsed.keep and not on_cpu:
        raise ValueError("--keep is about core-seconds, which a CPU has; add --device cpu.")
    if on_cpu:
        from coefdyn.lab import core_seconds as cores

        before = cores.circumstances()
    rows = measure(parsed.device, steps=parsed.steps, runs=parsed.runs, compiled=compiled)
    print(table(rows))
    if on_cpu:
        counted = min(parsed.steps, 100)
        found = cores.core_seconds(counted, compiled=compiled, rounds=parsed.rounds)
        print()
        print(cores.core_table(found))
        if parsed.keep:
            path = cores.throughput_file(None if parsed.keep is True else parsed.keep)
            size = {"steps": counted, "rounds": parsed.rounds}
            ways = [asdict(row) for row in rows]
            cores.keep(path, found, provenance=before, **size, ways=ways)
            print(f"kept in {path}")
    return 0


def _film(parsed: argparse.Namespace) -> int:
    from coefdyn.lab.films.film import films_folder
    from coefdyn.lab.films.recording import record

    given.writable(parsed.out or films_folder())
    film, path = record(parsed.name, parsed.out, device=parsed.device)
    print(f"{path}: {len(film.steps)} frames, {path.stat().st_size / 1000:.0f} kB, {film.source()}")
    for run in film.runs:
        print(f"  {run.name:<26} accuracy {run.accuracy[0]:.3f} to {run.accuracy[-1]:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
