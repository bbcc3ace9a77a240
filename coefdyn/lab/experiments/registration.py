"""Registration of claims: the commit of the first run, written into every record and kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

from coefdyn.lab.experiments.claim import Claim
from coefdyn.lab.experiments.measure import Measure
from coefdyn.lab.experiments.plan import AnyPlan, Plan
from coefdyn.lab.tasks import TaskConfig
from coefdyn.lab.training import Record, ResultFile
from coefdyn.lab.training.provenance import code_revision
from coefdyn.lab.training.results import config_key

__all__ = ["Registered", "changed_since", "digest", "registered_in", "registration"]


class Registered(NamedTuple):
    """Registration before an experiment's first run: the commit, and claim id -> digest."""

    commit: str
    digests: Mapping[str, str]


def digest(claim: Claim, plan: AnyPlan) -> str:
    """A short name of a claim's test, threshold and control, and of its tasks' settings.

    Sentences are no part of it, so that a corrected one leaves a registration as it is. Neither are
    fields of a task that have their default, so that a later field changes no digest.

    Args:
        claim: which one.
        plan: of the standard profile, whose variants the claim compares.
    """
    variants = plan.those_with(claim.compared) if isinstance(plan, Plan) else []
    tasks = {config_key(task): task for task in (_of_task(one.task) for one in variants)}
    told = {"test": _of_test(claim.test), "control": _of_test(claim.control)}
    return config_key({**told, "tasks": [tasks[key] for key in sorted(tasks)]})


def _of_test(value: Any) -> Any:
    """A test as plain values; options that are off are left out, so that a later one is as well."""
    if isinstance(value, Measure):
        return value.name
    if is_dataclass(value):
        found = {one.name: _of_test(getattr(value, one.name)) for one in fields(value)}
        return {type(value).__name__: {name: one for name, one in found.items() if one}}
    if isinstance(value, Mapping):
        return dict(value)
    return [_of_test(one) for one in value] if isinstance(value, tuple) else value


def _of_task(task: TaskConfig) -> dict[str, Any]:
    values = {one.name: (getattr(task, one.name), one.default) for one in fields(task)}
    return {"task": task.task_name, **{name: x for name, (x, y) in values.items() if x != y}}


def registration(
    claims: Mapping[str, Mapping[str, str]], results: ResultFile | None
) -> dict[str, Any]:
    """Entries of a record: the commit in which the claims stood at the file's first run.

    ``registered``: experiment -> that commit; a "+" behind it says that the code was modified.
    ``claims``: experiment -> claim id -> its digest then. Both are copied from the file's first
    record, so that a later change of a claim can be seen (``changed_since``).

    Args:
        claims: experiment -> claim id -> digest, of every experiment that looks at the file.
        results: the file; None where nothing is kept.
    """
    records = [] if results is None else results.records()
    found = {
        name: registered_in(records, name) or Registered(code_revision(), now)
        for name, now in claims.items()
    }
    return {
        "registered": {name: one.commit for name, one in found.items()},
        "claims": {name: dict(one.digests) for name, one in found.items()},
    }


def registered_in(records: Iterable[Record], name: str) -> Registered | None:
    """Registration in the first record that contains one, or None.

    Args:
        records: of its file, oldest first.
        name: the experiment's id.
    """
    for record in records:
        if name in record.get("claims", ()):
            return Registered(record["registered"][name], dict(record["claims"][name]))
    return None


def changed_since(now: Mapping[str, str], first: Registered | None) -> list[str]:
    """Ids of the claims that differ from those registered at a file's first run, or came later.

    None of them where it is not known what was registered.

    Args:
        now: claim id -> digest.
        first: what was registered.
    """
    return [] if first is None else [id_ for id_ in now if first.digests.get(id_) != now[id_]]
