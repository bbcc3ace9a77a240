"""What an experiment trains: variants, times learning rates, weight decays and seeds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from coefdyn.lab.tasks import TaskConfig
from coefdyn.lab.training import RunConfig, TrainConfig
from coefdyn.models import ModelConfig

__all__ = ["PROFILES", "AnyPlan", "Plan", "Variant", "mad_model", "mad_training", "quick_model"]

#: "live" is a part of "quick" that a chapter trains while it is read; "paper" is for a GPU
PROFILES = ("live", "quick", "paper")

#: the sweep of the coefficient-dynamics paper, Table 4
LEARNING_RATES = (1e-4, 5e-4, 1e-3, 5e-3, 1e-2)
WEIGHT_DECAYS = (0.0, 0.1)


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One point of a figure: a task, a model, and what sets it apart.

    Args:
        facets: what is varied, by name; their values together name the variant.
        task: which sequences.
        model: which network.
        diagnostics: computed on each trained model.
        train: replaces the plan's settings for this variant, or None.
    """

    facets: dict[str, str]
    task: TaskConfig
    model: ModelConfig
    diagnostics: tuple[str, ...] = ()
    train: TrainConfig | None = None

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
    """

    variants: tuple[Variant, ...]
    train: TrainConfig
    learning_rates: tuple[float, ...]
    weight_decays: tuple[float, ...] = (0.0,)
    seeds: tuple[int, ...] = (0,)

    def with_seeds(self, seeds: Sequence[int] | None) -> Plan:
        """The same plan for other seeds; unchanged for None."""
        return self if seeds is None else replace(self, seeds=tuple(seeds))

    def runs_of(self, variant: Variant) -> list[RunConfig]:
        """Every run of one variant."""
        base = variant.train or self.train
        return [
            RunConfig(
                task=variant.task,
                model=variant.model,
                train=replace(base, learning_rate=rate, weight_decay=decay),
                seed=seed,
                diagnostics=variant.diagnostics,
            )
            for seed in self.seeds
            for rate in self.learning_rates
            for decay in self.weight_decays
        ]

    def runs(self) -> list[tuple[Variant, RunConfig]]:
        """All runs; the first seed of every variant comes first, so that a cut still compares."""
        pairs = [(variant, run) for variant in self.variants for run in self.runs_of(variant)]
        order = {seed: place for place, seed in enumerate(self.seeds)}
        return sorted(pairs, key=lambda pair: order[pair[1].seed])


def mad_training(task: TaskConfig, *, epochs: int = 200, batch: int = 128) -> TrainConfig:
    """The paper's Table 4 for a task: 200 epochs, cosine without warm-up held per epoch, as MAD.

    The test set is evaluated every fourth epoch; MAD does so every epoch. A replica ends when its
    test accuracy exceeds 0.999, MAD's stopping threshold.
    """
    per_epoch = task.train_examples // batch
    return TrainConfig(
        steps=epochs * per_epoch,
        batch=batch,
        cosine_per_epoch=True,
        evaluate_every=4 * per_epoch,
        precision="tf32",
    )


def mad_model(options: dict[str, Any], **changes: Any) -> ModelConfig:
    """The paper's model for MAD (Tables 6 to 12): 2 layers, d = n = d_v = 128, SwiGLU 256."""
    return ModelConfig(**{"width": 128, "layers": 2, "mlp": 256, **changes}, options=options)


def quick_model(options: dict[str, Any], **changes: Any) -> ModelConfig:
    """Half the paper's width: d = n = d_v = 64, SwiGLU 128, for two CPU cores."""
    return ModelConfig(**{"width": 64, "layers": 2, "mlp": 128, **changes}, options=options)
