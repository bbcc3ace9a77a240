"""The ledger: verdicts of the book's first rule on 182 claims of the sources, kept as data.

``data/results/ledger.json`` was written once from the runs of the standard profile, by the code of
the commit that it names. It decides nothing here: what is judged are the headline claims.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import Any

from coefdyn.lab.experiments.plan import Plan
from coefdyn.lab.experiments.result import Verdict
from coefdyn.lab.places import data_folder

__all__ = ["judged_by", "planned", "verdicts"]


@cache
def _kept() -> dict[str, Any]:
    """Content of the file; of one that is absent, as outside the repository, no experiments."""
    path = data_folder() / "results" / "ledger.json"
    if not path.exists():
        return {"judged_by": "", "experiments": {}}
    return dict(json.loads(path.read_text(encoding="utf-8")))


def _of(experiment: str) -> dict[str, Any]:
    return dict(_kept()["experiments"].get(experiment, {}))


def judged_by() -> str:
    """Commit whose code can still judge these claims; empty without the file."""
    return str(_kept()["judged_by"])


def verdicts(experiment: str | None = None) -> list[Verdict]:
    """The kept verdicts on an experiment's claims, or on all; empty for one that has none."""
    asked = _kept()["experiments"] if experiment is None else (experiment,)
    return [Verdict(**one) for name in asked for one in _of(name).get("claims", ())]


def planned(plan: Plan, experiment: str) -> Plan:
    """A plan with the further seeds that some variants were given after four."""
    again = _of(experiment).get("again", {})
    return replace(
        plan, again={**plan.again, **{name: tuple(seeds) for name, seeds in again.items()}}
    )
