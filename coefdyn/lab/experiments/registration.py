"""Registration of claims: the commit of the first run, written into every record and kept."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple

from coefdyn.lab.experiments.claim import Claim
from coefdyn.lab.experiments.measure import Measure
from coefdyn.lab.experiments.plan import AnyPlan, Plan
from coefdyn.lab.tasks import TaskConfig
from coefdyn.lab.training import Record, ResultFile
from coefdyn.lab.training.provenance import code_revision
from coefdyn.lab.training.results import config_key

__all__ = ["Registered", "before_ids", "changed_since", "digest", "registered_in", "registration"]


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
        name: registered_in(records, name, shared=len(claims) > 1)
        or Registered(code_revision(), now)
        for name, now in claims.items()
    }
    return {
        "registered": {name: one.commit for name, one in found.items()},
        "claims": {name: dict(one.digests) for name, one in found.items()},
    }


def registered_in(records: Iterable[Record], name: str, *, shared: bool) -> Registered | None:
    """Registration in the first record that contains one, or None.

    Older records hold digests that included the sentences (``before_ids``): a list of them, or one
    list per experiment.

    Args:
        records: of its file, oldest first.
        name: the experiment's id.
        shared: whether other experiments look at the same file. A list that names no experiment
            says there nothing about this one, because it can be another one's.
    """
    for record in records:
        commit, told = record.get("registered"), record.get("claims")
        if isinstance(told, dict) and isinstance(commit, dict):
            if name in told:
                return Registered(commit[name], _by_id(name, told[name]))
        elif told is not None and not shared:
            return Registered(str(commit), _by_id(name, told))
        elif told is not None and name in (known := before_ids()) and known[name].commit == commit:
            return Registered(commit, {id_: now for id_, (_, now) in known[name].digests.items()})
    return None


def _by_id(name: str, told: Mapping[str, str] | list[str]) -> dict[str, str]:
    if isinstance(told, Mapping):
        return dict(told)
    known = before_ids().get(name)
    pairs = {} if known is None else known.digests
    return {id_: now for id_, (then, now) in pairs.items() if then in told}


class BeforeIds(NamedTuple):
    """The commit, and claim id -> (digest with its sentence, digest of today's form)."""

    commit: str
    digests: Mapping[str, tuple[str, str]]


def before_ids() -> dict[str, BeforeIds]:
    """Experiment -> what its kept records registered before claims had ids.

    A digest was then of a claim's sentence, test, control and reason as text. The table was made
    when the ids came: a claim has a row if that digest of it, as it then stood, was among those of
    the first record of its file; the other 25 had changed or were added after their first run. The
    second digest of a row is of the same claim in today's form, with the task's settings of the
    runs that are kept.

    The file that principle-2.1 and principle-2.2 share was begun by the latter, and its records
    hold that one's digests alone. Those of principle-2.1 are its claims as the code of the same
    commit computes them; the commit is older than the first run of the file.
    """
    text = Path(__file__).with_name("registered.json").read_text(encoding="utf-8")
    return {
        name: BeforeIds(one["commit"], {id_: tuple(two) for id_, two in one["claims"].items()})
        for name, one in json.loads(text).items()
    }


def changed_since(now: Mapping[str, str], first: Registered | None) -> list[str]:
    """Ids of the claims that differ from those registered at a file's first run, or came later.

    None of them where it is not known what was registered.

    Args:
        now: claim id -> digest.
        first: what was registered.
    """
    return [] if first is None else [id_ for id_ in now if first.digests.get(id_) != now[id_]]
