"""Parts of a declaration: variants, and the plans, trainings and models of the profiles."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from coefdyn.lab.experiments.sweep import AnyPlan, Plan, Setting, Variant
from coefdyn.lab.tasks import TaskConfig
from coefdyn.lab.training import TrainConfig
from coefdyn.models import ModelConfig
from coefdyn.options import check_choice

__all__ = [
    "PROFILES",
    "STANDARD",
    "AnyPlan",
    "Plan",
    "Setting",
    "Variant",
    "check_profile",
    "mad_model",
    "mad_training",
    "numbered",
    "paper_plan",
    "quick_model",
    "quick_plan",
    "standard_plan",
    "standard_training",
]

#: "quick" is what a chapter trains while it is read; "standard" decides claims on CPU cores;
#: "paper" is the source's size, for a GPU
PROFILES = ("quick", "standard", "paper")
STANDARD = "standard"
#: the sweep of the coefficient-dynamics paper, Table 4
LEARNING_RATES = (1e-4, 5e-4, 1e-3, 5e-3, 1e-2)
WEIGHT_DECAYS = (0.0, 0.1)


def check_profile(name: str) -> str:
    """The name of a profile.

    Raises:
        ValueError: for an unknown one, naming the nearest, and for "live", the former name of
            "quick".
    """
    if name == "live":
        raise ValueError("profile 'live' is called 'quick' now: what a chapter trains.")
    check_choice("profile", name, PROFILES)
    return name


def numbered(seeds: int | Iterable[int] | None) -> tuple[int, ...] | None:
    """Seeds as they are asked for: n stands for 0 to n - 1, and None for a profile's own.

    Raises:
        ValueError: for anything else, such as a string, or for no seed.
    """
    if seeds is None:
        return None
    if isinstance(seeds, Iterable) and not isinstance(seeds, str | bytes):
        each = tuple(seeds)
        if each and all(type(seed) is int and seed >= 0 for seed in each):
            return each
    elif type(seeds) is int and seeds > 0:
        return tuple(range(seeds))
    raise ValueError(
        f"seeds={seeds!r} ({type(seeds).__name__}) is no number of seeds; use a whole number from "
        "1 on (papermill: -p seeds 3, because -r hands over text), or None for the profile's."
    )


#: learning rates of the standard profile, a factor of 3 apart; the middle one is tried first
STANDARD_RATES = (3e-3, 1e-3, 1e-2)
#: sequences on which the standard profile chooses its learning rate
VALIDATION = 512


def standard_training(steps: int, **changes: Any) -> TrainConfig:
    """A run of the standard profile: cosine to 0 over ``steps``, ended early where solved.

    The validation split is looked at 20 to 60 times; a run whose accuracy on it exceeds 0.999 is
    finished. ``changes`` replace fields of ``TrainConfig``.
    """
    settings = {
        "steps": steps,
        "batch": 32,
        "warmup": steps // 20,
        "final_learning_rate": 0.0,
        "clip": 1.0,
        "evaluate_every": 100,
        "validation": VALIDATION,
    }
    return TrainConfig(**{**settings, **changes})


def standard_plan(
    variants: Iterable[Variant],
    train: TrainConfig,
    *,
    learning_rates: tuple[float, ...] = STANDARD_RATES,
    weight_decay: float = 0.0,
    seeds: int = 4,
    pilot: int = 2,
    pilot_train: TrainConfig | None = None,
    until_solved: bool = True,
    by_loss: bool = False,
) -> Plan:
    """The protocol as a plan: seeds 0, 1, ...; the first ``pilot`` of them try the learning rates.

    The rates are tried from the middle one on until one solves the task, see ``Plan``; not so where
    runs were made before this rule. Seed by seed, so that what is finished compares all variants.
    Two seeds of a pilot are one more guard against a lucky rate; a large grid has one, so that its
    hours go into seeds that are compared.
    """
    return Plan(
        variants=tuple(variants),
        train=train,
        learning_rates=learning_rates,
        weight_decays=(weight_decay,),
        seeds=tuple(range(seeds)),
        pilot=tuple(range(pilot)),
        pilot_train=pilot_train,
        until_solved=until_solved and not by_loss,
        by_loss=by_loss,
    )


def quick_plan(
    variants: Iterable[Variant],
    steps: int,
    *,
    seeds: int = 1,
    learning_rate: float = 3e-3,
    weight_decay: float = 0.0,
    **changes: Any,
) -> Plan:
    """Training of a chapter while it is read: one setting, batches of 32, a cosine to 0.

    ``changes`` replace fields of ``TrainConfig``.
    """
    settings = {"batch": 32, "final_learning_rate": 0.0, "evaluate_every": 100}
    return Plan(
        variants=tuple(variants),
        train=TrainConfig(steps=steps, **{**settings, **changes}),
        learning_rates=(learning_rate,),
        weight_decays=(weight_decay,),
        seeds=tuple(range(seeds)),
    )


def paper_plan(
    variants: Iterable[Variant],
    train: TrainConfig,
    *,
    learning_rates: tuple[float, ...] = LEARNING_RATES,
    weight_decays: tuple[float, ...] = WEIGHT_DECAYS,
    seeds: int = 1,
) -> Plan:
    """The sweep of a paper: every seed tries every setting, and the best mean is shown."""
    return Plan(
        variants=tuple(variants),
        train=train,
        learning_rates=learning_rates,
        weight_decays=weight_decays,
        seeds=tuple(range(seeds)),
    )


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
