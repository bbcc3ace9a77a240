"""Result of an experiment: records by variant, and the verdicts on its claims."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from coefdyn.lab.experiments.intervals import CONFIDENCE, Interval, t_interval
from coefdyn.lab.experiments.plan import AnyPlan, Plan, Variant
from coefdyn.lab.experiments.rule import MIN_SEEDS
from coefdyn.lab.training import Record

__all__ = ["Outcome", "Result", "Verdict", "core_hours"]


@dataclass(frozen=True)
class Outcome:
    """One variant at the best learning rate and weight decay of its sweep (``Plan.setting_of``).

    Args:
        variant: which one.
        records: one per seed, in the order of the plan's seeds.
    """

    variant: Variant
    records: tuple[Record, ...]

    def values(self, metric: str = "accuracy") -> list[float]:
        """A final metric, one value per seed; NaN where it could not be computed."""
        found = [record["final"].get(metric) for record in self.records]
        return [float("nan") if value is None else value for value in found]

    @property
    def seeds(self) -> list[int]:
        """The seeds, in the order of the records."""
        return [record["seed"] for record in self.records]

    def steps_to(self, level: float = 0.9) -> list[int | None]:
        """First evaluated step at which accuracy reached ``level``, per seed; None for never."""
        found: list[int | None] = []
        for record in self.records:
            curve = record["metrics"]
            steps = zip(curve["step"], curve["accuracy"], strict=True)
            found.append(next((int(t) for t, x in steps if x is not None and x >= level), None))
        return found

    @property
    def rate(self) -> float:
        """The learning rate of all of its runs."""
        return float(self.records[0]["config"]["train"]["learning_rate"])

    @property
    def accuracy(self) -> float:
        """Mean final test accuracy over the seeds, in [0, 1]."""
        return statistics.fmean(self.values())

    @property
    def diverged(self) -> int:
        """Number of seeds whose training turned NaN."""
        return sum(record["diverged_at"] is not None for record in self.records)

    def diagnostic(self, name: str, form: str = "normalized") -> list[Any]:
        """A diagnostic of the trained model, one value per seed; form "normalized" or "raw"."""
        return [record["diagnostics"][form][name] for record in self.records]


@dataclass(frozen=True)
class Verdict:
    """Verdict of the numbers on one claim.

    Args:
        claim: what the paper says, in one sentence of ours.
        status: one of ``coefdyn.lab.experiments.rule.STATUSES``.
        numbers: the numbers that decided it, in words; empty if not run.
        id: of a registered claim, its id.
        test: the comparison and its threshold, where the claim is registered.
        control: the control and what it found, or why there is none.
        reason: of a claim of the ledger without a test, why there is none.
    """

    claim: str
    status: str
    numbers: str
    id: str = ""
    test: str = ""
    control: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Result:
    """The finished runs of one experiment and profile.

    Args:
        experiment: its id.
        profile: one of ``coefdyn.lab.experiments.plan.PROFILES``.
        plan: what was to be run.
        records: what has been run, any order.
        confidence: of the intervals that judge claims on it.
        fewest: seeds below which a model decides nothing.
    """

    experiment: str
    profile: str
    plan: AnyPlan
    records: tuple[Record, ...]
    confidence: float = CONFIDENCE
    fewest: int = MIN_SEEDS
    _cache: dict[str, Outcome | None] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def _sweep(self) -> Plan:
        assert isinstance(self.plan, Plan), f"{self.experiment} does not train"
        return self.plan

    @property
    def variants(self) -> tuple[Variant, ...]:
        """The points of the figure, run or not."""
        return self._sweep.variants

    def interval(self, values: Sequence[float]) -> Interval:
        """Interval of the mean of one value per seed, by which claims on this result are judged."""
        return t_interval(values, self.confidence)

    @property
    def missing(self) -> int:
        """Number of planned runs without a record."""
        waiting = self.plan.waiting if isinstance(self.plan, Plan) else 0
        return len(self._keys()) - len(self.records) + waiting

    def _keys(self) -> set[str]:
        return {run.key for _, run in self.plan.runs()}

    def outcome(self, variant: Variant) -> Outcome | None:
        """The variant at its best setting, or None while runs are missing.

        With a pilot: None while the pilot is missing, then with the seeds finished so far.
        """
        cache = self._cache
        if variant.name not in cache:
            cache[variant.name] = self._outcome(variant)
        return cache[variant.name]

    def _outcome(self, variant: Variant) -> Outcome | None:
        by_key = {record["key"]: record for record in self.records}
        plan = self._sweep
        setting = plan.setting_of(variant, by_key)
        if setting is None:
            return None
        keys = [plan.run_of(variant, seed, setting).key for seed in plan.seeds_of(variant)]
        return Outcome(variant, tuple(by_key[key] for key in keys if key in by_key))

    def find(self, **facets: str) -> list[Outcome | None]:
        """Outcomes of every variant with these facets; None for one that is not finished."""
        return [self.outcome(variant) for variant in self._sweep.those_with([facets])]

    def one(self, **facets: str) -> Outcome | None:
        """The outcome of the single variant with these facets; None if unfinished or not planned.

        Raises:
            ValueError: if several variants have these facets.
        """
        found = self.find(**facets)
        if len(found) > 1:
            raise ValueError(f"{len(found)} variants of {self.experiment} have {facets}.")
        return found[0] if found else None

    def outcomes(self) -> list[Outcome]:
        """Every finished variant's outcome, in the plan's order."""
        found = [self.outcome(variant) for variant in self._sweep.variants]
        return [outcome for outcome in found if outcome is not None]

    def tried(self, variant: Variant) -> tuple[float, ...]:
        """The learning rates that were tried for a variant, the smallest first."""
        by_key = {record["key"]: record for record in self.records}
        return tuple(sorted({*self._sweep.search(variant, by_key)[0]}))

    def at_edge(self, outcome: Outcome) -> bool:
        """True where a better learning rate may lie beyond those tried.

        It may where a variant ended at the smallest or the largest of several, and the seeds that
        chose it do not all solve the task with it.
        """
        rates, chose = self.tried(outcome.variant), self._sweep.pilot or outcome.seeds
        solved = all(one["solved"] for one in outcome.records if one["seed"] in chose)
        return len(rates) > 1 and outcome.rate in (rates[0], rates[-1]) and not solved

    def seeds_in_words(self) -> str:
        """Seeds of the records in words; those of a second look, which few variants have, apart."""
        seeds = sorted({record["seed"] for record in self.records})
        again = self.plan.again if isinstance(self.plan, Plan) else {}
        later = {seed for those in again.values() for seed in those} - set(self.plan.seeds)
        own = [seed for seed in seeds if seed not in later]
        words = f"seed{_s(own)} {', '.join(map(str, own))}"
        further = [seed for seed in seeds if seed in later]
        if further:
            words += f" and, for {_variants(len(again))} of a second look, {len(further)} more"
        return words

    def caption(self) -> str:
        """Source of these numbers: runs, seeds, devices, versions, days."""
        if not self.records:
            return f"{self.experiment}, profile {self.profile}: not yet run."
        days = sorted({record["timestamp"][:10] for record in self.records})
        span = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
        words = [
            f"{self.experiment}, profile {self.profile}: {len(self.records)} run{_s(self.records)}",
            self.seeds_in_words(),
            " and ".join(sorted({record["device"] for record in self.records})),
            "torch " + " and ".join(sorted({record["torch"] for record in self.records})),
            "code " + " and ".join(sorted({record["revision"] for record in self.records})),
            span,
        ]
        if self.missing:
            words.insert(1, f"{self.missing} not yet run")
        return ", ".join(words) + "."


def core_hours(*results: Result) -> float:
    """Hours of one core that the runs took, waiting included; runs on a GPU do not count.

    A run that several experiments share, by a copied record or by one file, counts once; runs that
    were trained together share their time.
    """
    runs = {
        (one["key"], one["timestamp"]): one["wall_s"] / one.get("replicas", 1)
        for found in results
        for one in found.records
        if one["device"].startswith("cpu")
    }
    return sum(runs.values()) / 3600


def _variants(count: int) -> str:
    return "1 variant" if count == 1 else f"{count} variants"


def _s(things: Sequence[object]) -> str:
    """Plural ending."""
    return "" if len(things) == 1 else "s"
