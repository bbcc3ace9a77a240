"""Configuration of one run as plain data for JSON: task, model, optimiser settings and seed."""

from __future__ import annotations

from dataclasses import MISSING, asdict, dataclass, field, fields
from functools import cached_property
from typing import Any

from coefdyn.lab.tasks import TaskConfig, config_from_dict
from coefdyn.lab.training.results import config_key, plain
from coefdyn.models import ModelConfig
from coefdyn.options import check_choice, check_count, check_number, from_plain

__all__ = ["PRECISIONS", "RunConfig", "TrainConfig"]

PRECISIONS = ("float64", "float32", "tf32", "bfloat16")


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Optimiser settings; the defaults are the coefficient-dynamics paper's for MAD (Table 4).

    Args:
        steps: optimiser steps, at least 1.
        batch: sequences per step.
        learning_rate: peak value.
        weight_decay: AdamW's, decoupled.
        betas, epsilon: AdamW's moments and offset.
        schedule: "cosine" or "constant".
        warmup: steps of linear growth before it.
        final_learning_rate: where the cosine ends.
        cosine_per_epoch: hold the rate constant within an epoch, as MAD does.
        clip: largest gradient norm, or None.
        evaluate_every: steps between two evaluations; the last step is always evaluated.
        stop_accuracy: a run is finished once its accuracy at an evaluation exceeds this; None
            for never.
        validation: sequences of the validation split. Curves, early stop and the choice of a
            learning rate then rest on these, and the test split is looked at once, at the end; 0:
            the test split serves for all of it, as in the sources.
        precision: "float64", "float32", "tf32" (float32 with TF32 products on a GPU) or "bfloat16"
            (torch's automatic mixed precision).

    Raises:
        ValueError: for an unknown choice, naming the nearest one, or a number out of range.
    """

    steps: int
    batch: int = 128
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    betas: tuple[float, float] = (0.9, 0.98)
    epsilon: float = 1e-8
    schedule: str = "cosine"
    warmup: int = 0
    final_learning_rate: float = 1e-6
    cosine_per_epoch: bool = False
    clip: float | None = None
    evaluate_every: int = 100
    stop_accuracy: float | None = 0.999
    validation: int = 0
    precision: str = "float32"

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "evaluate_every"):
            check_count(name, getattr(self, name))
        for name in ("warmup", "validation"):
            check_count(name, getattr(self, name), least=0)
        for name in ("learning_rate", "weight_decay", "final_learning_rate", "epsilon"):
            check_number(name, getattr(self, name), least=0.0)
        if len(self.betas) != 2 or not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas must be two numbers in [0, 1), got {self.betas!r}.")
        if self.clip is not None and not check_number("clip", self.clip) > 0:
            raise ValueError(f"clip must be a norm > 0, or None for none, got {self.clip!r}.")
        check_choice("schedule", self.schedule, ("cosine", "constant"))
        check_choice("precision", self.precision, PRECISIONS)


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything that fixes the numbers of one run.

    Args:
        task: which sequences, from ``coefdyn.lab.tasks``.
        model: which network.
        train: how it is trained.
        seed: of the sequences, the weights and the order, each from its own derived stream.
        diagnostics: names from ``coefdyn.lab.training.diagnostics``, computed on the trained model.
        method: how coefficients are applied, see ``TrainOptions``; None for what these say. It
            changes numbers by rounding only, so equal runs have equal keys whatever it is.
        keep: write the trained weights beside the records; no part of the key.
    """

    task: TaskConfig
    model: ModelConfig
    train: TrainConfig
    seed: int = 0
    diagnostics: tuple[str, ...] = field(default=())
    method: str | None = None
    keep: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain values; ``RunConfig.from_dict`` takes them back."""
        named: dict[str, Any] = {} if self.method is None else {"method": self.method}
        named |= {"keep": True} if self.keep else {}
        return {
            "task": self.task.to_dict(),
            "model": self.model.to_dict(),
            "train": {**asdict(self.train), "betas": list(self.train.betas)},
            "seed": self.seed,
            "diagnostics": list(self.diagnostics),
            **named,
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> RunConfig:
        """The run that ``to_dict`` described.

        Raises:
            ValueError: for an unknown key, naming the nearest known one.
        """
        train = dict(values["train"])
        if "betas" in train:
            train["betas"] = tuple(train["betas"])
        return cls(
            task=config_from_dict(values["task"]),
            model=ModelConfig.from_dict(values["model"]),
            train=from_plain(TrainConfig, train),
            seed=values["seed"],
            diagnostics=tuple(values["diagnostics"]),
            method=values.get("method"),
            keep=values.get("keep", False),
        )

    @cached_property
    def key(self) -> str:
        """Short name, the same for equal runs on every machine.

        Values equal to their default are left out, so that a later field with a default does not
        rename older runs; ``matches`` guards against a default that changed.
        """
        return config_key(
            {
                "task": {"task": self.task.task_name, **_without_defaults(self.task)},
                "model": _without_defaults(self.model),
                "train": _without_defaults(self.train),
                "seed": self.seed,
                "diagnostics": list(self.diagnostics),
            }
        )

    def matches(self, record: dict[str, Any]) -> bool:
        """Return whether a record is of this run: same key, and same values of the known fields."""
        apart = ("method", "keep")
        old = {name: value for name, value in record["config"].items() if name not in apart}
        return record["key"] == self.key and _agrees(old, plain(self.to_dict()))


def _without_defaults(config: Any) -> dict[str, Any]:
    """The fields of a dataclass whose value is not the default."""
    found = {}
    for one in fields(config):
        value = getattr(config, one.name)
        default = one.default_factory() if one.default_factory is not MISSING else one.default
        if default is MISSING or value != default:
            found[one.name] = value
    return found


def _agrees(old: Any, new: Any) -> bool:
    """Return whether values are equal wherever ``old`` has a key."""
    if isinstance(old, dict) and isinstance(new, dict):
        return all(key in new and _agrees(value, new[key]) for key, value in old.items())
    return old == new
