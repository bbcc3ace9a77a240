"""Plan of an experiment's training: variants, times learning rates, weight decays and seeds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

from coefdyn.lab.experiments.rates import MOST_RATES, Search, search_rate
from coefdyn.lab.tasks import TaskConfig
from coefdyn.lab.training import Record, RunConfig, TrainConfig
from coefdyn.models import ModelConfig

__all__ = ["AnyPlan", "Plan", "Setting", "Variant"]

#: learning rate and weight decay
Setting = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One point of a figure: a task, a model, and what sets it apart.

    Args:
        facets: what is varied, by name; their values together name the variant.
        task: which sequences.
        model: which network.
        diagnostics: computed on each trained model.
        train: replaces the plan's settings for this variant, or None.
        method: how its coefficients are applied, or None for what the run's options say.
        keep: whether the trained weights of its judged runs are kept.
    """

    facets: dict[str, str]
    task: TaskConfig
    model: ModelConfig
    diagnostics: tuple[str, ...] = ()
    train: TrainConfig | None = None
    method: str | None = None
    keep: bool = False

    @property
    def name(self) -> str:
        """The facets' values, joined."""
        return ", ".join(self.facets.values())


class AnyPlan(ABC):
    """A list of things to run, each with a ``key``, a ``seed`` and ``matches(record)``."""

    #: repetitions of everything
    seeds: tuple[int, ...]

    @abstractmethod
    def with_seeds(self, seeds: Sequence[int] | None) -> AnyPlan:
        """The same plan for other seeds; unchanged for None."""

    @abstractmethod
    def runs(self) -> list[tuple[Any, Any]]:
        """(variant, run) in the order of running."""


@dataclass(frozen=True, kw_only=True)
class Plan(AnyPlan):
    """A profile of an experiment that trains.

    Args:
        variants: the points of its figure.
        train: optimiser settings; learning rate and weight decay are replaced by the sweep.
        learning_rates, weight_decays: the sweep; the best pair per variant is shown.
        seeds: repetitions of everything.
        again: variant name -> further seeds of that variant alone; see ``ledger``.
        pilot: these seeds try the sweep, and the others only the setting that the pilot's
            validation sequences chose; None: every seed tries all of it.
        until_solved: the pilot tries its settings in turn, in the sweep's order, and ends with the
            first that solves the task with all its seeds: no other could be chosen over it by
            accuracy. Where none does, all are tried.
        pilot_train: the pilot's own optimiser settings, where its runs are shorter than those that
            are judged; its seeds then run the chosen setting in full as well. None, and for a
            variant with settings of its own: one length.
        bracketed: the pilot's seeds are none of ``seeds``, so they are never judged, and a best
            rate at an edge of the grid extends it (``rates.search_rate``). A rate that solves the
            task with all pilot seeds ends the search: no neighbour can be better.
        tried: variant name -> the settings that the pilot is known to need; see ``settled``.
        chosen: variant name -> setting, as far as the pilot is finished; see ``settled``.
        by_loss: choose by the lowest loss instead of the highest accuracy.

    Raises:
        ValueError: for a bracketed search over several weight decays, or with a pilot seed that is
            judged.
    """

    variants: tuple[Variant, ...]
    train: TrainConfig
    learning_rates: tuple[float, ...]
    weight_decays: tuple[float, ...] = (0.0,)
    seeds: tuple[int, ...] = (0,)
    again: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    pilot: tuple[int, ...] | None = None
    until_solved: bool = False
    pilot_train: TrainConfig | None = None
    bracketed: bool = False
    tried: Mapping[str, tuple[Setting, ...]] = field(default_factory=dict)
    chosen: Mapping[str, Setting] = field(default_factory=dict)
    by_loss: bool = False

    def __post_init__(self) -> None:
        if not self.bracketed:
            return
        both = sorted({*self.seeds} & {*(self.pilot or ())})
        if not self.pilot or both or len(self.weight_decays) > 1 or self.pilot_train:
            raise ValueError(
                "a bracketed search needs pilot seeds that are not judged, one weight decay and "
                f"one length of runs; got seeds {self.seeds}, pilot {self.pilot}, weight decays "
                f"{self.weight_decays}."
            )

    def with_seeds(self, seeds: Sequence[int] | None) -> Plan:
        """The same plan for other seeds, and for these alone; unchanged for None."""
        return self if seeds is None else replace(self, seeds=tuple(seeds), again={})

    def those_with(self, wanted: Sequence[Mapping[str, str]]) -> list[Variant]:
        """The variants that have all facets of at least one of these."""
        return [
            one
            for one in self.variants
            if any(facets.items() <= one.facets.items() for facets in wanted)
        ]

    def seeds_of(self, variant: Variant) -> tuple[int, ...]:
        """Every seed of one variant."""
        return (*self.seeds, *self.again.get(variant.name, ()))

    @property
    def sweep(self) -> list[Setting]:
        """Every pair of learning rate and weight decay."""
        return [(rate, decay) for rate in self.learning_rates for decay in self.weight_decays]

    def run_of(
        self, variant: Variant, seed: int, setting: Setting, *, pilot: bool = False
    ) -> RunConfig:
        """One run that is judged; with ``pilot``, one that the choice of a setting rests on."""
        rate, decay = setting
        base = variant.train or (self.pilot_train if pilot else None) or self.train
        return RunConfig(
            task=variant.task,
            model=variant.model,
            train=replace(base, learning_rate=rate, weight_decay=decay),
            seed=seed,
            diagnostics=variant.diagnostics,
            method=variant.method,
            keep=variant.keep and not pilot,
        )

    def settings_of(self, variant: Variant) -> tuple[Setting, ...]:
        """Settings that the pilot of one variant tries, as far as they are known by now."""
        first = self.sweep[:1] if self.until_solved else self.sweep
        return self.tried.get(variant.name, tuple(first))

    def runs_of(self, variant: Variant) -> list[RunConfig]:
        """Every run of one variant that is known by now."""
        later = [self.chosen[variant.name]] if variant.name in self.chosen else []
        seeds = self.seeds_of(variant)
        if self.pilot is None:
            return [self.run_of(variant, seed, one) for seed in seeds for one in self.sweep]
        runs = []
        for seed in (*self.pilot, *seeds) if self.bracketed else seeds:
            if seed in self.pilot:
                tried = self.settings_of(variant)
                runs += [self.run_of(variant, seed, one, pilot=True) for one in tried]
            if seed in self._judged_later(variant):
                runs += [self.run_of(variant, seed, one) for one in later]
        return runs

    def _judged_later(self, variant: Variant) -> list[int]:
        """The seeds whose judged run is none of the pilot's."""
        apart = self.pilot_train is not None and variant.train is None
        own = () if self.pilot is None or apart else self.pilot
        return [seed for seed in self.seeds_of(variant) if seed not in own]

    @property
    def waiting(self) -> int:
        """Runs, at most, that are not known yet because their pilot is not finished."""
        if self.pilot is None:
            return 0
        open_ones = [one for one in self.variants if one.name not in self.chosen]
        pilots = len([seed for seed in self.pilot if self.bracketed or seed in self.seeds])
        most = MOST_RATES if self.bracketed else len(self.sweep)
        rates = sum(most - len(self.settings_of(one)) for one in open_ones)
        return sum(len(self._judged_later(one)) for one in open_ones) + pilots * rates

    def setting_of(self, variant: Variant, records: Mapping[str, Record]) -> Setting | None:
        """The best setting of a variant: over its pilot, or over all seeds; None if unfinished.

        "Best" is the highest mean accuracy, then the lowest mean loss, on the validation split; a
        run without one was judged on its test split, as in the sources.

        Args:
            variant: which one.
            records: finished runs by key.
        """
        return self._walk(variant, records)[1]

    def search(
        self, variant: Variant, records: Mapping[str, Record]
    ) -> tuple[tuple[float, ...], Search | None]:
        """The rates that the pilot of a variant is known to need, and the search once they are run.

        The grid's rates come first, in its order; then one beyond an edge at a time.

        Args:
            variant: which one.
            records: finished runs by key.
        """
        needed, best, bracketed = self._walk(variant, records)
        rates = tuple(rate for rate, _ in needed)
        return rates, None if best is None else Search(best[0], (), bracketed)

    def _walk(
        self, variant: Variant, records: Mapping[str, Record]
    ) -> tuple[tuple[Setting, ...], Setting | None, bool]:
        """Settings that the pilot is known to need; once they are run the best, and if bracketed.

        One that solves the task ends an adaptive search; else all of the sweep are compared, and a
        bracketed search goes on beyond its edges.
        """
        settings, scores = self.sweep, dict[Setting, tuple[float, ...]]()
        while True:
            for place, setting in enumerate(settings):
                found = self._pilot_of(variant, setting, records)
                if found is None:
                    ahead = place + 1 if self.until_solved else len(settings)
                    return tuple(settings[:ahead]), None, False
                if self._adaptive and all(one["solved"] for one in found):
                    return tuple(settings[: place + 1]), setting, True
                right, loss = _right_and_loss(found)
                scores[setting] = (-loss,) if self.by_loss else (right, -loss)
            if not self.bracketed:
                best = max(scores, key=lambda setting: scores[setting], default=None)
                return tuple(settings), best, False
            search = search_rate({rate: score[0] for (rate, _), score in scores.items()})
            if not search.missing:
                return tuple(settings), (search.best, self.weight_decays[0]), search.bracketed
            settings += [(rate, self.weight_decays[0]) for rate in search.missing]

    @property
    def _adaptive(self) -> bool:
        """Whether what is run next depends on what was found."""
        return self.until_solved or self.bracketed

    def _pilot_of(
        self, variant: Variant, setting: Setting, records: Mapping[str, Record]
    ) -> list[Record] | None:
        """The records of a setting that its choice rests on, or None while one is missing."""
        pilot = self.pilot is not None
        seeds = self.pilot or self.seeds
        keys = [self.run_of(variant, seed, setting, pilot=pilot).key for seed in seeds]
        return [records[key] for key in keys] if all(key in records for key in keys) else None

    def settled(self, records: Mapping[str, Record]) -> Plan:
        """The plan with the choice of every variant whose pilot is among the records (by key)."""
        if self.pilot is None:
            return self
        walks = {one.name: self._walk(one, records) for one in self.variants}
        chosen = {name: best for name, (_, best, _) in walks.items() if best is not None}
        tried = {name: needed for name, (needed, *_) in walks.items()} if self._adaptive else {}
        return replace(self, chosen=chosen, tried=tried)

    def runs(self) -> list[tuple[Variant, RunConfig]]:
        """All runs; the first seed of every variant comes first, so that a cut still compares."""
        pairs = [(variant, run) for variant in self.variants for run in self.runs_of(variant)]
        later = (seed for seeds in self.again.values() for seed in seeds)
        every = (
            (*(self.pilot or ()), *self.seeds, *later) if self.bracketed else (*self.seeds, *later)
        )
        order = {seed: place for place, seed in enumerate(dict.fromkeys(every))}
        return sorted(pairs, key=lambda pair: order[pair[1].seed])


def _right_and_loss(records: Sequence[Record]) -> tuple[float, float]:
    """Mean accuracy and mean loss on the validation split; of runs without one, on the test's."""
    seen = [one.get("validation", one["final"]) for one in records]
    losses = [one.get("loss") for one in seen]
    loss = fmean(float("inf") if value is None else value for value in losses)
    return fmean(one.get("accuracy") or 0.0 for one in seen), loss
