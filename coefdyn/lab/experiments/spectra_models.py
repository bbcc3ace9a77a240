"""Models and tasks of the eigenvalue paper, which three experiments train."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from coefdyn.lab.experiments import plan
from coefdyn.lab.tasks import (
    ByteTextConfig,
    Cifar10Config,
    DigitsConfig,
    ImdbConfig,
    ListOpsConfig,
    MqarConfig,
    TaskConfig,
    WikiTextConfig,
)
from coefdyn.lab.training import TrainConfig
from coefdyn.models import ModelConfig

__all__ = ["MODELS", "model_of", "plan_of", "spectra_variant", "tasks_of"]

INVARIANT = ("S4D", "LRU")
#: the six models of Figure 1: the mixer, and what it is given besides sizes
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "S4D": ("S4D", {}),
    "LRU": ("LRU", {}),
    "Mamba-2": ("Mamba2", {"output_gate": "none", "output_norm": "none"}),
    "softmax": ("SoftmaxAttention", {}),
    "linear": ("LinearAttention", {}),
    "normalized": ("NormalizedAttention", {"eta": "softplus"}),
}
#: (depth, width, state, heads, MLP, batch) of its Table 1, and epochs, or steps from 1000 on; the
#: batch is of its evaluation and taken for training too, since the training batch is not in its
#: text
TABLE_1 = {
    "pixels": (6, 512, 64, 4, 128, 64, 50),
    "byte text": (4, 128, 64, 4, 512, 32, 30),
    "ListOps": (6, 128, 64, 4, 256, 32, 50),
    "MQAR": (2, 128, 128, 1, None, 64, 40_000),
    "language": (6, 512, 512, 8, 512, 8, 130_000),
}
#: the same sizes and batch of the other profiles
SMALL = {
    "MQAR": (2, 64, 16, 1, 128, 64),
    "ListOps": (2, 32, 16, 4, 64, 16),
    "pixels": (2, 32, 16, 4, 64, 16),
    "language": (2, 32, 16, 4, 64, 16),
}
QUICK_STEPS, STANDARD_STEPS = 150, 3000


def tasks_of(profile: str) -> dict[str, TaskConfig]:
    """The tasks at a profile's size. IMDb has no embedded stand-in with labels."""
    if profile == "paper":
        return {
            "MQAR": MqarConfig.paper(512).with_changes({"random_filler": True}),
            "ListOps": ListOpsConfig.paper(),
            "pixels": Cifar10Config.paper(),
            "byte text": ImdbConfig.paper(),
            "language": WikiTextConfig.paper(),
        }
    small = {"train_examples": 3_200, "test_examples": 256}
    chosen = profile == plan.STANDARD  # on sequences that training does not see
    pixels: dict[str, Any] = {"test_examples": 256}
    if chosen:
        pixels |= {"train_examples": 1_024, "validation_images": True}
    return {
        "MQAR": MqarConfig(
            vocab_size=32, seq_len=16, pairs=4, train_examples=6_400, test_examples=256
        ),
        "ListOps": ListOpsConfig.quick().with_changes({**small, "min_length": 23}),
        "pixels": DigitsConfig.quick().with_changes(pixels),
        "language": ByteTextConfig.quick().with_changes(
            {**small, "seq_len": 64, "validation_topics": chosen}
        ),
    }


def model_of(name: str, task: str, profile: str, **options: Any) -> ModelConfig:
    """A model of Figure 1 at the sizes of a task; learned positions for softmax and linear only.

    n of one attention head is width / heads; S4D's, LRU's and Mamba-2's is the state dimension.
    """
    mixer, own = MODELS[name]
    depth, width, state, heads, mlp = (TABLE_1 if profile == "paper" else SMALL)[task][:5]
    sizes = {"state_dim": state} if name in INVARIANT else {"n_heads": heads}
    sizes |= {"key_dim": state} if name == "Mamba-2" else {}
    return ModelConfig(
        width=width,
        layers=depth,
        mixer=mixer,
        options={**sizes, **own, **options},
        mlp=mlp,
        position="learned" if name in ("softmax", "linear") else "none",
    )


def training_of(task: str, config: TaskConfig, profile: str) -> TrainConfig:
    """Table 1's number of epochs or steps; a warm-up of a tenth, then a cosine to 0."""
    if profile == plan.STANDARD:
        kept = {"validation": 256} if task == "pixels" else {}  # of 1797 images
        return plan.standard_training(STANDARD_STEPS, batch=SMALL[task][5], **kept)
    steps, batch = QUICK_STEPS, (TABLE_1 if profile == "paper" else SMALL)[task][5]
    if profile == "paper":
        amount = TABLE_1[task][6]
        steps = amount if amount > 1000 else amount * (config.train_examples // batch)
    return TrainConfig(
        steps=steps,
        batch=batch,
        warmup=steps // 10,
        final_learning_rate=0.0,
        clip=1.0,
        evaluate_every=max(50, steps // 8),
        stop_accuracy=None,
        precision="bfloat16" if profile == "paper" else "float32",
    )


def spectra_variant(
    facets: dict[str, str], model: str, task: str, profile: str, **options: Any
) -> plan.Variant:
    """A model on a task with its histograms of moduli; ``layers`` and mixer options may differ."""
    layers = options.pop("layers", None)
    config, network = tasks_of(profile)[task], model_of(model, task, profile, **options)
    return plan.Variant(
        facets=facets,
        task=config,
        model=network if layers is None else replace(network, layers=layers),
        diagnostics=("moduli",),
        train=training_of(task, config, profile),
    )


def plan_of(variants: Sequence[plan.Variant], profile: str, *, pilot: int = 2) -> plan.Plan:
    """Four learning rates and seeds at the paper's scale, and one of each in the quick profile.

    The standard profile follows the protocol of all of them; there ``pilot`` seeds try the rates.
    """
    train = variants[0].train
    assert train is not None, "set by spectra_variant"
    if profile == plan.STANDARD:
        return plan.standard_plan(variants, train, pilot=pilot)
    if profile == "quick":
        return plan.quick_plan(variants, QUICK_STEPS)
    return plan.paper_plan(
        variants,
        train,
        learning_rates=(1e-4, 5e-4, 2e-3, 1e-2),
        weight_decays=(0.1,),
        seeds=4,
    )
