"""Repetition of randomly drawn kept runs from scratch: ``python -m coefdyn.lab repeat``."""

from __future__ import annotations

import argparse
import json
import math
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coefdyn.lab.experiments import EXPERIMENTS, get_experiment
from coefdyn.lab.experiments.intervals import t_interval
from coefdyn.lab.experiments.plan import STANDARD, Plan, check_profile
from coefdyn.lab.experiments.result import Result
from coefdyn.lab.headline.group import Group
from coefdyn.lab.headline.runs import GROUPS
from coefdyn.lab.places import data_folder
from coefdyn.lab.training import Record, RunConfig, RunOptions, train_runs
from coefdyn.lab.training.results import plain
from coefdyn.options import check_choice

__all__ = [
    "DIFFERS",
    "EQUAL",
    "WITHIN",
    "Kept",
    "draw",
    "keep",
    "main",
    "repeat",
    "repeats_file",
    "status",
]

#: outcomes of a repeated run: the same numbers; an accuracy within the spread of the seeds;
#: neither
EQUAL, WITHIN, DIFFERS = "equal", "within the interval", "differs"


@dataclass(frozen=True)
class Kept:
    """A kept run, and the accuracies of its variant's seeds at the same setting."""

    name: str
    config: RunConfig
    record: Record
    seeds: tuple[float, ...]


def status(kept: Kept, again: Record) -> str:
    """``EQUAL`` for the same final numbers and number of steps, to the last digit.

    ``WITHIN`` where the accuracy differs by no more than half the length of the 90 % interval of
    the variant's seeds, ``DIFFERS`` otherwise.
    """
    was = kept.record
    if (was["final"], was["steps_done"]) == (again["final"], again["steps_done"]):
        return EQUAL
    accuracies = [one["final"]["accuracy"] for one in (was, again)]
    if None in accuracies:  # only one of them diverged
        return DIFFERS
    difference, reach = abs(accuracies[1] - accuracies[0]), t_interval(kept.seeds).width / 2
    return WITHIN if math.isfinite(reach) and difference <= reach else DIFFERS


def draw(ids: Sequence[str], profile: str, count: int, seed: int, out: Path | None) -> list[Kept]:
    """Draw ``count`` kept CPU runs from those of all these experiments together.

    A run that two experiments look at counts once. ``headline/GROUP`` stands for the runs of a
    group of headline claims.

    Raises:
        ValueError: if there are fewer.
    """
    groups = {f"headline/{name}": name for name in GROUPS}
    named = [Group(groups[name]) if name in groups else get_experiment(name) for name in ids]
    results = [one.load(profile, out=out) for one in named]
    by_key = {one.record["key"]: one for result in reversed(results) for one in _kept(result)}
    kept = [by_key[key] for key in sorted(by_key)]
    if len(kept) < count:
        raise ValueError(
            f"{len(kept)} runs of profile {profile} are kept here, and {count} were asked for."
        )
    return random.Random(seed).sample(kept, count)


def _kept(result: Result) -> Iterator[Kept]:
    """Runs of a result that were trained on a CPU, without those that measure times."""
    if not isinstance(result.plan, Plan):
        return
    by_key = {one["key"]: one for one in result.records}
    for variant, run in result.plan.runs():
        record = by_key.get(run.key)
        if record is None or not record["device"].startswith("cpu"):
            continue
        setting = (run.train.learning_rate, run.train.weight_decay)
        keys = (
            result.plan.run_of(variant, seed, setting).key for seed in result.plan.seeds_of(variant)
        )
        seeds = tuple(by_key[key]["final"]["accuracy"] for key in keys if key in by_key)
        name = f"{result.experiment}: {variant.name}, seed {run.seed}, rate {setting[0]:g}"
        yield Kept(name, run, record, seeds)


def repeat(kept: Kept, seed: int) -> dict[str, Any]:
    """Train one kept run from scratch, in this process and its own mode; an entry of the outcomes.

    A record of the present loop repeats to the last digit; one of an earlier code version, which it
    names, to rounding.

    Args:
        kept: what is in the result file.
        seed: that of the draw.
    """
    options = RunOptions(device="cpu", workers=1, mode=kept.record["mode"])
    (again,) = train_runs([kept.config], None, options)
    was, interval = kept.record, t_interval(kept.seeds)
    there = ("device", "torch", "revision", "timestamp")
    return {
        "experiment": kept.name.partition(":")[0],
        "variant": was["variant"],
        "seed": was["seed"],
        "learning_rate": kept.config.train.learning_rate,
        "key": was["key"],
        "status": status(kept, again),
        "kept": was["final"],
        "again": again["final"],
        "steps": [was["steps_done"], again["steps_done"]],
        "interval": [interval.low, interval.high] if math.isfinite(interval.width) else None,
        "seeds": len(kept.seeds),
        "kept_by": {name: was[name] for name in there},
        "again_by": {name: again[name] for name in there},
        "draw": seed,
    }


def repeats_file(profile: str, out: Path | None = None) -> Path:
    """Path of the outcomes: ``PROFILE.json`` in ``data/repeats``, or in ``out``/``repeats``.

    A JSON list with an object per repeated run, oldest first: experiment, facets of the variant,
    seed, learning rate, ``status``, the final numbers kept and again, the 90 % interval of the
    accuracy of the variant's seeds (null for one seed), and by both runs device, torch, commit and
    time.
    """
    folder = data_folder() if out is None else Path(out)
    return folder / "repeats" / f"{profile}.json"


def keep(found: dict[str, Any], path: Path) -> None:
    """Append one outcome to a file of ``repeats_file``; the file is replaced only when complete."""
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    text = json.dumps([*before, plain(found)], indent=1, allow_nan=False) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = path.with_suffix(".new")
    whole.write_text(text, encoding="utf-8")
    os.replace(whole, path)


def main(arguments: Sequence[str]) -> int:
    """Repeat and keep some runs; 1 where one of them differs."""
    parser = argparse.ArgumentParser(prog="python -m coefdyn.lab repeat", description=__doc__)
    parser.add_argument("ids", nargs="*", metavar="ID", help="of which experiments; default: all")
    parser.add_argument("--profile", default=STANDARD)
    parser.add_argument("--runs", type=int, default=3, help="how many are drawn")
    parser.add_argument("--draw", type=int, default=0, metavar="SEED", help="which are drawn")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="default: data/results, with what came of it in data/repeats; else in DIR/repeats",
    )
    asked = parser.parse_args(arguments)
    check_profile(asked.profile)
    groups = [f"headline/{name}" for name in GROUPS]
    for name in asked.ids:
        check_choice("experiment", name, (*EXPERIMENTS, *groups))
    ids = asked.ids or [
        *(name for name in EXPERIMENTS if asked.profile in get_experiment(name).profiles),
        *(groups if asked.profile == STANDARD else ()),
    ]
    path = repeats_file(asked.profile, asked.out)
    differing = 0
    for kept in draw(ids, asked.profile, asked.runs, asked.draw, asked.out):
        one = repeat(kept, asked.draw)
        differing += one["status"] == DIFFERS
        numbers = ", ".join(
            f"{name} {one['kept'][name]} then, {one['again'][name]} now"
            for name in ("accuracy", "loss")
        )
        by = f"kept by {one['kept_by']['device']}, torch {one['kept_by']['torch']}"
        print(f"  {one['status']:<9} {kept.name}: {numbers}; {by}", flush=True)
        keep(one, path)
    print(f"kept in {path}")
    return 1 if differing else 0
