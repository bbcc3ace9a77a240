"""A group of the headline claims: its runs as an experiment, and the registration of its claims.

Registration is the commit of the first run, written into every record and kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from coefdyn.lab.experiments.base import Experiment
from coefdyn.lab.experiments.figures import grouped_points, new_figure
from coefdyn.lab.experiments.measure import Measure
from coefdyn.lab.experiments.plan import STANDARD, AnyPlan, Plan
from coefdyn.lab.experiments.result import Outcome, Result, Verdict
from coefdyn.lab.headline.claim import Claim, Headline
from coefdyn.lab.headline.claims import HEADLINES
from coefdyn.lab.headline.former import FORMER
from coefdyn.lab.headline.judge import as_judged, judge
from coefdyn.lab.headline.runs import BEGUN, GROUPS, SEEDS
from coefdyn.lab.tasks import TaskConfig
from coefdyn.lab.training import Record, ResultFile
from coefdyn.lab.training.provenance import code_revision
from coefdyn.lab.training.results import config_key
from coefdyn.options import check_choice

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "Group",
    "Registered",
    "changed_since",
    "digest",
    "registered_in",
    "registration",
    "verdict_of",
]


class Group(Experiment):
    """The runs of one group and the claims on them, as an experiment.

    Args:
        name: of ``runs.GROUPS``.

    Raises:
        ValueError: for an unknown name, naming the nearest one.
    """

    source = "the headline claims"
    profiles = (STANDARD,)

    def __init__(self, name: str) -> None:
        check_choice("group", name, GROUPS)
        self.name, self.id = name, f"headline/{name}"
        self.title = f"Runs of the headline claims: {name}"
        self.about = "Fresh seeds and bracketed learning rates."
        self.borrows_from = BEGUN.get(name)  # a folder beside its own

    @lru_cache(maxsize=1)  # noqa: B019
    def plan(self, profile: str) -> Plan:
        return GROUPS[self.name]()

    def registered_claims(self) -> list[Claim]:
        known = (*HEADLINES, *FORMER)
        return [one.claim for one in known if one.group == self.name and one.claim is not None]

    def claims(self, result: Result) -> list[Verdict]:
        """Judged by ``judge``; "not run" before the last seed."""
        judged = as_judged(result)
        found = []
        for claim in self.registered_claims():
            status, numbers = judge(claim, judged)
            found.append(
                Verdict(
                    claim.sentence, status, numbers, id=claim.id, test=claim.test.words,
                    control=claim.why,
                )
            )  # fmt: skip
        return found

    def registrations(self) -> dict[str, str]:
        """Id -> digest of every registered claim, as it stands now."""
        return {one.id: digest(one, self.plan(STANDARD)) for one in self.registered_claims()}

    def registered(self, result: Result) -> Registered | None:
        """Claims registered before the first run of a result; None where its records lack them."""
        return registered_in(result.records, self.id)

    def _labels(
        self, profile: str, plan: AnyPlan, results: ResultFile | None
    ) -> Callable[[str], dict[str, Any]]:
        labels = super()._labels(profile, plan, results)
        first = registration(self.id, self.registrations(), results)
        return lambda key: {**labels(key), **first}

    def draw(self, result: Result) -> Figure:
        """Accuracy of every finished variant, a point per seed."""
        drawn, (axes,) = new_figure(width=8.0, height=3.8)
        tasks = list(dict.fromkeys(v.facets["task"] for v in result.variants))
        designs = list(dict.fromkeys(v.facets["design"] for v in result.variants))
        series: Mapping[str, list[Outcome | None]] = {
            design: [result.one(task=task, design=design) for task in tasks] for design in designs
        }
        grouped_points(axes, tasks, series)
        return drawn


def verdict_of(headline: Headline, out: Path | str | None = None) -> Verdict | None:
    """The verdict on a trained claim; None for one that is proved or timed.

    Args:
        headline: which claim.
        out: folder of the result files; None for ``data/results``.
    """
    if headline.group is None:
        return None
    group = Group(headline.group)
    found = {one.id: one for one in group.claims(group.load(STANDARD, out=out))}
    return found[headline.id]


class Registered(NamedTuple):
    """Registration before an experiment's first run: the commit, and claim id -> digest."""

    commit: str
    digests: Mapping[str, str]


def digest(claim: Claim, plan: Plan) -> str:
    """A short name of a claim's test, threshold and control, and of its tasks' settings.

    The number of seeds is a part of it where it is not that of the first claims.

    Sentences are no part of it, so that a corrected one leaves a registration as it is. Neither are
    fields of a task that have their default, so that a later field changes no digest.

    Args:
        claim: which one.
        plan: of the standard profile, whose variants the claim compares.
    """
    variants = plan.those_with(claim.compared)
    tasks = {config_key(task): task for task in (_of_task(one.task) for one in variants)}
    told = {"test": _of_test(claim.test), "control": _of_test(claim.control)}
    seeds = {one.name: list(plan.seeds_of(one)) for one in variants}
    if any(those != list(SEEDS) for those in seeds.values()):
        told["seeds"] = seeds
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
    name: str, claims: Mapping[str, str], results: ResultFile | None
) -> dict[str, Any]:
    """Entries of a record: the commit in which a group's claims stood at its first run.

    ``registered``: the group's id -> that commit; a "+" behind it says that the code was modified.
    ``claims``: the group's id -> claim id -> its digest then. Both are copied from the file's first
    record, so that a later change of a claim can be seen (``changed_since``).

    Args:
        name: the group's id.
        claims: claim id -> digest.
        results: the file; None where nothing is kept.
    """
    records = [] if results is None else results.records()
    first = registered_in(records, name) or Registered(code_revision(), claims)
    return {"registered": {name: first.commit}, "claims": {name: dict(first.digests)}}


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
