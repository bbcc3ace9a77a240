"""Eigenvalue paper, Figure 1: where the eigenvalues of Lambda_i lie, by task and model.

`spectra_mods` and `dsf_table_1` take its tasks, models and shares from here. What the standard
profile claims is in `spectra_standard`. A little over 400 lines: tasks, models and drawing share
the names of their facets.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from coefdyn.lab.experiments.base import Experiment
from coefdyn.lab.experiments.figures import PALETTE, leaks, new_figure
from coefdyn.lab.experiments.plan import (
    STANDARD,
    Plan,
    Variant,
    standard_plan,
    standard_training,
)
from coefdyn.lab.experiments.result import Outcome, Result
from coefdyn.lab.experiments.spectra_standard import (
    NEAR_ONE,
    NEAR_ZERO,
    seed_masses,
)
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

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "EXPERIMENT",
    "MODELS",
    "NEAR_ONE",
    "NEAR_ZERO",
    "claims",
    "draw_moduli",
    "figure",
    "load",
    "masses",
    "model_of",
    "run",
    "seed_masses",
    "spectra_variant",
]

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
#: (depth, width, state, heads, MLP, epochs or steps, batch) of its Table 1; the batch is of its
#: evaluation and taken for training too, since the training batch is not in its text
TABLE_1 = {
    "pixels": (6, 512, 64, 4, 128, 50, 64),
    "byte text": (4, 128, 64, 4, 512, 30, 32),
    "ListOps": (6, 128, 64, 4, 256, 50, 32),
    "MQAR": (2, 128, 128, 1, None, 40_000, 64),
    "language": (6, 512, 512, 8, 512, 130_000, 8),
}
#: (depth, width, state, heads, MLP, steps, batch) of the quick profile
QUICK = {
    "MQAR": (2, 64, 16, 1, 128, 500, 64),
    "ListOps": (2, 32, 16, 4, 64, 400, 16),
    "pixels": (2, 32, 16, 4, 64, 400, 16),
    "language": (2, 32, 16, 4, 64, 400, 16),
}
#: steps of the standard profile; its models and tasks are those of the quick one
STANDARD_STEPS = 3000


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
    chosen = profile == STANDARD  # on sequences that training does not see
    return {
        "MQAR": MqarConfig(
            vocab_size=32, seq_len=16, pairs=4, **{**small, "train_examples": 6_400}
        ),
        "ListOps": ListOpsConfig.quick().with_changes({**small, "min_length": 23}),
        "pixels": DigitsConfig.quick().with_changes(
            {"test_examples": 256}
            | ({"train_examples": 1_024, "validation_images": True} if chosen else {})
        ),
        "language": ByteTextConfig.quick().with_changes(
            {**small, "seq_len": 64, "validation_topics": chosen}
        ),
    }


def model_of(name: str, task: str, profile: str, **options: Any) -> ModelConfig:
    """A model of Figure 1 at the sizes of a task; learned positions for softmax and linear only.

    n of one attention head is width / heads; S4D's, LRU's and Mamba-2's is the state dimension.
    """
    mixer, own = MODELS[name]
    depth, width, state, heads, mlp = (TABLE_1 if profile == "paper" else QUICK)[task][:5]
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
    if profile == STANDARD:
        kept = {"validation": 256} if task == "pixels" else {}  # of 1797 images
        return standard_training(STANDARD_STEPS, batch=QUICK[task][6], **kept)
    if profile != "paper":
        steps, batch = QUICK[task][5:]
        steps = 150 if profile == "live" else steps
    else:
        amount, batch = TABLE_1[task][5:]
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
) -> Variant:
    """A model on a task with its histograms of moduli; ``layers`` and mixer options may differ."""
    layers = options.pop("layers", None)
    config, network = tasks_of(profile)[task], model_of(model, task, profile, **options)
    return Variant(
        facets=facets,
        task=config,
        model=network if layers is None else replace(network, layers=layers),
        diagnostics=("moduli",),
        train=training_of(task, config, profile),
    )


def plan_of(variants: Sequence[Variant], profile: str, *, pilot: int = 2) -> Plan:
    """Four learning rates and seeds at the paper's scale; one rate, and two seeds in quick.

    The standard profile follows the protocol of all of them; there ``pilot`` seeds try the rates.
    """
    assert variants[0].train is not None, "set by spectra_variant"
    if profile == STANDARD:
        return standard_plan(variants, variants[0].train, pilot=pilot)
    paper = profile == "paper"
    return Plan(
        variants=tuple(variants),
        train=variants[0].train,
        learning_rates=(1e-4, 5e-4, 2e-3, 1e-2) if paper else (3e-3,),
        weight_decays=(0.1,) if paper else (0.0,),
        seeds={"paper": (0, 1, 2, 3), "quick": (0, 1), "live": (0,)}[profile],
    )


def masses(outcome: Outcome, span: tuple[float, float], when: str = "trained") -> list[float]:
    """``seed_masses``, mean over the seeds: one share per layer."""
    seeds = seed_masses(outcome, span, when)
    return [statistics.fmean(layer) for layer in zip(*seeds, strict=True)]


def draw_moduli(axes: Axes, outcome: Outcome | None, color: str) -> None:
    """First layer upwards, last layer downwards; grey: at initialisation; one line per seed.

    Every panel has a scale of its own, from 0 to the largest share.
    """
    from coefdyn.plots import plot_moduli

    if outcome is None:
        axes.axis("off")
        axes.text(0.5, 0.5, "not run", ha="center", transform=axes.transAxes, fontsize="small")
        return
    top = 0.0
    for one in outcome.diagnostic("moduli"):
        for layer, below in ((0, False), (-1, True)):
            start, end = one["initial"][layer], one["trained"][layer]
            plot_moduli(axes, start["share"], color="#8A8A8A", below=below, filled=True)
            plot_moduli(axes, end["share"], end["deviation"], color=color, below=below)
            top = max(top, *start["share"], *end["share"])
    axes.set_ylim(-1.15 * top, 1.15 * top)
    axes.set_yticks([-top, 0, top], [f"{top:.2f}", "0", f"{top:.2f}"])


class Spectra(Experiment):
    id = "spectra"
    title = "Eigenvalues near one where memory matters, near zero where selection matters"
    source = "eigenvalue paper, Figure 1"
    profiles = ("live", "quick", "standard", "paper")
    about = (
        "Histograms of abs(eigenvalue of Lambda_i), at initialisation and after training, over "
        "positions, heads and 32 test sequences. S4D stands in for S4. Mamba-2 alone has a short "
        "convolution (width 4), as in the paper; spectra-mods evens that. Quick: 2 layers, d = 32, "
        "state 16; MQAR with 4 pairs (d = 64: at 32 no model learned it), ListOps of 24 to 47 "
        "tokens, handwritten digits for CIFAR-10, next-byte prediction on the embedded text for "
        "WikiText-103, and no IMDb (no labelled text is embedded); 400 or 500 steps, one learning "
        "rate, two seeds. Paper: its Table 1; learning "
        "rates and training batches are not in its text. Live: two models on the digits. Standard: "
        "the quick models and tasks with 3000 steps, three learning rates and four seeds."
    )

    def plan(self, profile: str) -> Plan:
        cells = [(task, model) for task in tasks_of(profile) for model in MODELS]
        if profile == "live":
            cells = [("pixels", "S4D"), ("pixels", "softmax")]
        variants = [
            spectra_variant({"task": task, "model": model}, model, task, profile)
            for task, model in cells
        ]
        return plan_of(variants, profile)

    def draw(self, result: Result) -> Figure:
        tasks = list(dict.fromkeys(v.facets["task"] for v in result.variants))
        tasks = [task for task in tasks if not leaks(task, result.profile)]
        models = list(dict.fromkeys(v.facets["model"] for v in result.variants))
        drawn, panels = new_figure(len(tasks), len(models), width=2.1, height=1.45)
        for place, axes in enumerate(panels):
            row, column = divmod(place, len(tasks))
            outcome = result.one(task=tasks[column], model=models[row])
            draw_moduli(axes, outcome, PALETTE[row])
            words = "" if outcome is None else f"accuracy {outcome.accuracy:.2f}"
            axes.set_title(f"{tasks[column]}\n{words}" if row == 0 else words, fontsize="small")
            if column == 0:
                axes.set_ylabel(models[row])
            if row == len(models) - 1:
                axes.set_xlabel("modulus")
        return drawn


EXPERIMENT = Spectra()
run, load, figure, claims = EXPERIMENT.functions()
