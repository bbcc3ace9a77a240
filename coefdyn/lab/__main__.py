"""Command line of the lab, ``python -m coefdyn.lab``: experiments, films, models, assignments."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from coefdyn.execution.apply import METHODS
from coefdyn.lab.commands import arguments as given
from coefdyn.lab.commands.cost import cost
from coefdyn.lab.exercises import assignment
from coefdyn.lab.experiments import EXPERIMENTS, Result, Verdict, get_experiment, ledger
from coefdyn.lab.experiments.base import Experiment
from coefdyn.lab.experiments.plan import PROFILES, STANDARD
from coefdyn.lab.experiments.rule import STATUSES
from coefdyn.lab.judge import compare
from coefdyn.lab.places import checkout, data_folder
from coefdyn.lab.training import RunOptions, WorkerFailed
from coefdyn.lab.training.loop import MODES
from coefdyn.options import check_choice

__all__ = ["main"]

#: what each command of ``coefdyn.lab.scripts`` does; ``lens-plan`` is the module ``lens_plan``
SCRIPTS = {
    "capabilities": "what each row can do on each task; checks every entry",
    "step-times": "time per token of the scoreboard's rows, a step and a pass",
    "repeat": "train some kept runs once more and compare",
    "throughput": "core-seconds of one run beside plain torch",
    "lens-models": "train the small models that the lens looks into",
    "lens-heads": "keep heads of SmolLM2-135M (see `make lens`)",
    "lens-ablation": "take heads out of the small models that the lens looks into",
    "lens-plan": "cut key-value heads to a sink and a window, in several orders; measure",
    "lens-peers": "compare a plan with kvpress's methods at equal bytes (see `make lens-peers`)",
}


def build_parser() -> argparse.ArgumentParser:
    """Build the parser with the arguments of every command."""
    parser = argparse.ArgumentParser(
        prog="python -m coefdyn.lab", description="Run the papers' experiments."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    lists = commands.add_parser(
        "list", help="ids, titles, and how many runs of each profile are finished"
    )
    lists.add_argument("ids", nargs="*", metavar="ID", help="default: all")
    lists.add_argument(
        "--cost", action="store_true", help="runs, core-hours and bytes, from measured steps"
    )
    run = commands.add_parser("run", help="train what is missing; interrupt and repeat at will")
    run.add_argument("ids", nargs="+", metavar="ID", choices=list(EXPERIMENTS))
    run.add_argument("--profile", default="quick", help=", ".join(PROFILES))
    run.add_argument("--seeds", type=int, nargs="+", help="instead of the profile's")
    given.cluster(run)
    run.add_argument(
        "--budget", type=given.seconds, metavar="SECONDS", help="start no run after that"
    )
    run.add_argument("--out", type=Path, metavar="DIR", help="default: data/results")
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
        type=Path,
        metavar="DIR",
        help="go on within a run after a kill (needs safetensors)",
    )
    run.add_argument("--quiet", action="store_true", help="no progress bar")
    compare.add_parser(commands)
    assignment.add_parser(commands)
    show = commands.add_parser("show", help="numbers, claims and the figure of an experiment")
    show.add_argument("id", metavar="ID", choices=list(EXPERIMENTS))
    show.add_argument("--profile", default=STANDARD, help=", ".join(PROFILES))
    show.add_argument("--seeds", type=int, nargs="+", help="instead of the profile's")
    show.add_argument("--out", type=Path, metavar="DIR", help="default: data/results")
    show.add_argument("--figure", type=Path, metavar="FILE", help="write the figure (.png, .svg)")
    claims = commands.add_parser("claims", help="the ledger: the kept verdicts of the first rule")
    claims.add_argument("ids", nargs="*", metavar="ID", help="such as parity/ladder; default: all")
    film = commands.add_parser("film", help="record coefficients while a model learns")
    film.add_argument("name", metavar="NAME", help="of coefdyn.lab.films.recording.FILMS")
    film.add_argument("--device", default="cpu", help="cpu, cuda or cuda:1")
    film.add_argument("--out", type=Path, metavar="DIR", help="default: data/films")
    for name, does in SCRIPTS.items():
        commands.add_parser(name, help=does, add_help=False)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit status is 0, or 1 when something did not finish."""
    parser = build_parser()
    parsed, others = parser.parse_known_args(arguments)
    script = parsed.command in SCRIPTS
    if others and not script:
        parser.error(f"unrecognized arguments: {' '.join(others)}")
    if checkout() is None and "--out" not in others and getattr(parsed, "out", None) is None:
        print(
            f"coefdyn is installed without the repository of the book, whose results are not here; "
            f"results are read from and written to {data_folder()}.",
            file=sys.stderr,
        )
    commands = {
        "list": _list,
        "run": _run,
        "judge": compare.command,
        "exercises": assignment.command,
        "show": _show,
        "claims": _claims,
        "film": _film,
    }
    try:
        if script:
            module = import_module(f"coefdyn.lab.scripts.{parsed.command.replace('-', '_')}")
            return module.main(others)
        return commands[parsed.command](parsed)
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from here", file=sys.stderr)
    except (ValueError, ImportError, OSError, WorkerFailed) as error:
        print(error, file=sys.stderr)
    return 1


def _list(parsed: argparse.Namespace) -> int:
    status = 0
    for name in parsed.ids:
        check_choice("experiment", name, EXPERIMENTS)
    for name in parsed.ids or EXPERIMENTS:
        experiment = get_experiment(name)
        print(f"{name:<15} {experiment.title} ({experiment.source})")
        for profile in experiment.profiles:
            result = _sound(experiment, profile)
            if result is None:
                status = 1
                continue
            done = len(result.records)
            print(f"{'':<15} {profile:<8} {done} of {done + result.missing} runs finished")
            if parsed.cost:
                print(f"{'':<24} {cost(experiment, profile)}", flush=True)
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
        cluster=parsed.cluster,
        mode=parsed.mode,
        method=parsed.method,
        budget_s=parsed.budget,
        progress=False if parsed.quiet else None,
        checkpoint_folder=parsed.checkpoints,
    )
    status = 0
    for name in parsed.ids:
        experiment = get_experiment(name)
        out = parsed.out or experiment.file(parsed.profile).path.parents[1]
        given.writable(out)
        result = experiment.run(parsed.profile, seeds=parsed.seeds, out=out, options=options)
        print(result.caption())
        for line in experiment.table(result):
            print(line)
        status = status or int(result.missing > 0)
    return status


def _show(parsed: argparse.Namespace) -> int:
    experiment = get_experiment(parsed.id)
    result: Result = experiment.load(parsed.profile, seeds=parsed.seeds, out=parsed.out)
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
    found = {one.id: one for one in ledger.verdicts()}
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
