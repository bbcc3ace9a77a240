"""Kept runs that were trained once more, as Markdown: from ``data/repeats``, never typed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from coefdyn.lab.experiments.plan import STANDARD
from coefdyn.lab.pages.markdown import plain, table
from coefdyn.lab.places import data_folder
from coefdyn.lab.repeat import DIFFERS, EQUAL, WITHIN

__all__ = ["load_repeats", "repeats_markdown"]

NONE_YET = "None so far: `python -m coefdyn.lab repeat --profile standard --runs 3 --draw 1`."
HEADS = ["run", "kept", "repeated", "90 % interval of the seeds", "outcome", "kept by", "repeated"]


def load_repeats(folder: Path | str | None = None) -> list[dict[str, Any]]:
    """What came of every repeated run of the standard size, oldest first.

    Args:
        folder: where ``standard.json`` lies; None for ``data/repeats``.
    """
    folder = data_folder() / "repeats" if folder is None else Path(folder)
    path = folder / f"{STANDARD}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []


def repeats_markdown(found: Sequence[Mapping[str, Any]]) -> str:
    """How many repeated runs were equal, within the interval or neither, and a row for each.

    Args:
        found: what ``load_repeats`` returns.
    """
    if not found:
        return NONE_YET
    statuses = [one["status"] for one in found]
    counts = {status: statuses.count(status) for status in (EQUAL, WITHIN, DIFFERS)}
    alike = [one for one in found if one["kept_by"]["device"] == one["again_by"]["device"]]
    same = sum(one["status"] == EQUAL for one in alike)
    told = (
        f"Of {len(found)} repeated runs {counts[EQUAL]} gave the same numbers to the last digit, "
        f"{counts[WITHIN]} an accuracy within the interval, and {counts[DIFFERS]} another one. "
        f"On the type of machine that had kept them, {same} of {len(alike)} were equal."
    )
    return f"{told}\n\n{table(HEADS, [_row(one) for one in found])}"


def _row(one: Mapping[str, Any]) -> list[str]:
    facets = ", ".join(one["variant"].values())
    name = f"{one['experiment']}: {facets}, seed {one['seed']}, rate {one['learning_rate']:g}"
    interval = one["interval"]
    was, now = one["kept_by"], one["again_by"]
    device = "the same type" if was["device"] == now["device"] else plain(now["device"])
    return [
        plain(name),
        _accuracy(one["kept"]),
        _accuracy(one["again"]),
        "one seed" if interval is None else f"{interval[0]:.4f} to {interval[1]:.4f}",
        one["status"],
        f"{plain(was['device'])}, commit {was['revision']}",
        f"{device}, commit {now['revision']}, {now['timestamp'][:10]}",
    ]


def _accuracy(final: Mapping[str, Any]) -> str:
    return "NaN" if final["accuracy"] is None else f"{final['accuracy']:.4f}"
