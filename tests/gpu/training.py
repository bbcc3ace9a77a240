"""Train on this machine's GPU: runs in sequence, in processes, then a figure at paper scale.

    python tests/gpu/training.py [--budget SECONDS] [--only throughput|figure] [--fresh]

The throughput table goes to data/benchmarks/training.json, every finished run of the figure to
data/results. A later call continues where the last one stopped, inside a run too if safetensors
is installed. Needs torch; exit status 1 if a way of training failed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

import torch  # noqa: E402

from coefdyn.lab.experiments import EXPERIMENTS, get_experiment  # noqa: E402
from coefdyn.lab.experiments.plan import PROFILES  # noqa: E402
from coefdyn.lab.scripts.throughput import Throughput, seconds_of, table, ways  # noqa: E402
from coefdyn.lab.training import RunOptions, Stopped  # noqa: E402
from coefdyn.lab.training.loop import MODES  # noqa: E402
from coefdyn.lab.training.provenance import provenance  # noqa: E402

TABLE = ROOT / "data" / "benchmarks" / "training.json"
CHECKPOINTS = ROOT / "data" / "scratch" / "checkpoints"
#: entries of the provenance that may differ between a table and its continuation
CHANGING = ("revision", "timestamp")


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--budget", type=float, default=3600.0, help="seconds")
    parser.add_argument("--only", choices=("throughput", "figure"))
    parser.add_argument("--device", help="default: the GPU")
    parser.add_argument("--steps", type=int, default=1000, help="of each run of the table")
    parser.add_argument("--runs", type=int, default=8, help="runs of the table")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--fresh", action="store_true", help="forget the earlier table")
    parser.add_argument("--table", type=Path, default=TABLE, metavar="FILE")
    parser.add_argument("--experiment", default="principle-3", choices=list(EXPERIMENTS))
    parser.add_argument("--profile", default="paper", choices=PROFILES)
    parser.add_argument("--workers", type=int, help="processes that share the device; default: 1")
    parser.add_argument("--mode", choices=MODES, default="eager")
    parser.add_argument("--out", type=Path, metavar="DIR", help="default: data/results")
    parser.add_argument("--checkpoints", type=Path, default=CHECKPOINTS, metavar="DIR")
    return parser


def begun(path: Path, header: dict, fresh: bool) -> dict:
    """The table so far, if it was begun here with the same settings; else an empty one."""
    if path.exists() and not fresh:
        old = json.loads(path.read_text())
        known = {name: old["provenance"].get(name) for name in header}
        if all(known[name] == header[name] for name in header if name not in CHANGING):
            return old
    return {"provenance": header, "seconds": {}, "failed": {}}


def throughput(options: argparse.Namespace, until: float) -> dict:
    """Time what is not timed yet until time runs out, print the table, and return it."""
    settings = {"steps": options.steps, "runs": options.runs}
    content = begun(options.table, {**provenance(options.device), **settings}, options.fresh)
    known = ways(options.device, **settings, compiled=not options.no_compile)
    for name, way in known:
        if name in content["seconds"] or time.monotonic() > until:
            continue
        content["failed"].pop(name, None)
        try:
            content["seconds"][name] = round(seconds_of(way, options.device), 3)
        except Exception as error:  # a compiler has errors of its own
            content["failed"][name] = f"{type(error).__name__}: {str(error)[:300]}"
            print("FAIL", name, content["failed"][name], flush=True)
        options.table.parent.mkdir(parents=True, exist_ok=True)
        options.table.write_text(json.dumps(content, indent=1) + "\n")
    times, steps = content["seconds"], options.steps * options.runs
    if known[0][0] in times:  # the yardstick
        rows = [Throughput(name, times[name], steps) for name, _ in known if name in times]
        print(table(rows), flush=True)
    content["done"] = all(name in times for name, _ in known)
    return content


def figure(options: argparse.Namespace, until: float) -> bool:
    """Train what is missing of a figure until time runs out; True when all is there."""
    experiment = get_experiment(options.experiment)
    out = options.out or experiment.file(options.profile).path.parents[1]
    kept = importlib.util.find_spec("safetensors") is not None
    settings = RunOptions(
        device=options.device,
        workers=options.workers,
        mode=options.mode,
        budget_s=max(0.0, until - time.monotonic()),
        checkpoint_folder=options.checkpoints if kept else None,
        should_stop=lambda: time.monotonic() > until,
    )
    try:
        experiment.run(options.profile, out=out, options=settings)
    except Stopped:
        print("stopped inside a run" + ("; its checkpoint is kept" if kept else ""))
    result = experiment.load(options.profile, out=out)
    print(result.caption())
    for one in experiment.claims(result):
        print(f"  {one.status:<9} {one.claim} {one.numbers}")
    return result.missing == 0


def main(arguments: Sequence[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    if options.device is None and not torch.cuda.is_available():
        print("tests/gpu/training.py needs a CUDA device and found none; see --device")
        return 2
    options.device = options.device or "cuda"
    until = time.monotonic() + options.budget
    done, failed = True, False
    if options.only != "figure":
        timed = throughput(options, until)
        done, failed = timed["done"], bool(timed["failed"])
    if options.only != "throughput":
        done = figure(options, until) and done
    print("done" if done else "not all is done: run again")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
