"""Principle 5 on language (Table 3): perplexity against the scaling b_j."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import mean
from typing import TYPE_CHECKING

from coefdyn.lab.experiments.base import Experiment
from coefdyn.lab.experiments.figures import PALETTE, draw_bar, legend_entries, new_figure
from coefdyn.lab.experiments.measure import Measure, metric
from coefdyn.lab.experiments.plan import (
    STANDARD,
    Plan,
    Variant,
    standard_plan,
    standard_training,
)
from coefdyn.lab.experiments.result import Outcome, Result
from coefdyn.lab.tasks import TaskConfig, TokenTextConfig, WikiTextConfig
from coefdyn.lab.training import TrainConfig
from coefdyn.models import language_model_config

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "REPORTED", "claims", "figure", "load", "run"]

#: perplexities of the paper's Table 3
REPORTED = {
    ("mamba2", "one"): 29.23,
    ("mamba2", "inverse_sqrt"): 28.84,
    ("mamba2", "delta"): 28.87,
    ("softmax", "one"): 32.69,
    ("softmax", "inverse_sqrt"): 31.73,
}
MODELS = {"mamba2": "Mamba-2", "softmax": "softmax"}
WORDS = {"one": "1", "inverse_sqrt": "1/sqrt(n)", "delta": "Delta"}
#: the standard profile: model, b, eps of the output norm
STANDARD_CELLS = (
    *(("mamba2", b, "1e-5") for b in ("one", "inverse_sqrt", "0.05", "0.01", "0.001", "delta")),
    *(("mamba2", b, "0") for b in ("one", "0.01", "delta")),
    *(("softmax", b, "1e-5") for b in ("one", "inverse_sqrt")),
)
#: the control of what is claimed without eps, and where perplexities lie
CONTROLS = (("mamba2", "one", "1e-5"), ("mamba2", "0.01", "1e-5"))
POSITIVE = (0.0, math.inf)
#: the runs read their text, 119 000 tokens, about seventeen times over, and end above their best
STOPPED = Measure(
    "lowest perplexity on the validation text",
    lambda outcome: [min(one["metrics"]["perplexity"]) for one in outcome.records],
)
#: windows of 1024 tokens in WikiText-103's training text, about
WIKITEXT_WINDOWS = 115_000


class Principle5LanguageModel(Experiment):
    id = "principle-5-lm"
    title = "Perplexity against the scaling b_j"
    source = "coefficient-dynamics paper, Table 3"
    profiles = ("live", "quick", "standard", "paper")
    about = (
        "Mamba-2 with b in {1, 1/sqrt(n), Delta_j} and softmax attention with b in {1, "
        "1/sqrt(n)}. Paper: WikiText-103 in GPT-2 tokens (needs the network once), 8 layers, d = "
        "768, 130 000 steps of 8 x 1024 tokens. Quick: the embedded topics of the Python "
        "documentation in 1024 byte-pair tokens, length 128, 2 layers, d = 64, 4 heads, 400 "
        "steps: a stand-in that shows the procedure, not the paper's numbers. Standard: 2000 "
        "steps, a validation text, Mamba-2 with b also 0.05, 0.01, 0.001, and without the output "
        "norm's eps of 1e-5."
    )

    def plan(self, profile: str) -> Plan:
        if profile == STANDARD:
            train = standard_training(
                2000, batch=8, betas=(0.9, 0.95), stop_accuracy=None, evaluate_every=100
            )
            variants = [self._standard_variant(*cell) for cell in STANDARD_CELLS]
            return standard_plan(variants, train, weight_decay=0.1, by_loss=True)
        if profile == "paper":
            task: TaskConfig = WikiTextConfig.paper().with_changes(
                {"train_examples": WIKITEXT_WINDOWS}
            )
            train = TrainConfig(
                steps=130_000,
                batch=8,
                betas=(0.9, 0.95),
                warmup=3_000,
                final_learning_rate=0.0,
                evaluate_every=5_000,
                stop_accuracy=None,
                precision="bfloat16",
            )
            rate, decay = 6e-4, 0.1
        else:
            task = TokenTextConfig.quick().with_changes({"train_examples": 1600})
            train = TrainConfig(
                steps=100 if profile == "live" else 400,
                batch=8,
                betas=(0.9, 0.95),
                warmup=20,
                final_learning_rate=0.0,
                evaluate_every=100,
                stop_accuracy=None,
            )
            rate, decay = 3e-3, 0.1
        return Plan(
            variants=tuple(self._variant(task, kind, b, profile) for kind, b in REPORTED),
            train=train,
            learning_rates=(rate,),
            weight_decays=(decay,),
            seeds=(0, 1) if profile == "quick" else (0,),
        )

    def _variant(self, task: TaskConfig, kind: str, scaling: str, profile: str) -> Variant:
        model = language_model_config(kind, scaling=scaling)
        if profile != "paper":
            model = replace(
                model,
                width=64,
                layers=2,
                mlp=128,
                options={**model.options, "n_heads": 4},  # type: ignore[dict-item]
            )
        return Variant(facets={"model": kind, "b": scaling}, task=task, model=model)

    def _standard_variant(self, kind: str, b: str, eps: str) -> Variant:
        task = TokenTextConfig.quick().with_changes(
            {"train_examples": 1600, "validation_topics": True}
        )
        one = self._variant(task, kind, b if b in WORDS else "one", STANDARD)
        changes: dict[str, float] = {} if b in WORDS else {"scaling": float(b)}
        changes |= {"norm_eps": 0.0} if eps == "0" else {}
        model = replace(one.model, options={**one.model.options, **changes})  # type: ignore[dict-item]
        return replace(one, facets={"model": kind, "b": b, "eps": eps}, model=model)

    def table(self, result: Result) -> list[str]:
        """Perplexity by model and scaling, the paper's beside it."""
        if result.profile == STANDARD:
            return [
                f"  {one.variant.name:<32} perplexity {_perplexity(one):8.2f}, "
                f"lowest on the validation text {mean(STOPPED.values(one)):8.2f}"
                for one in result.outcomes()
            ]
        return [
            f"  {MODELS[kind]:<8} b = {WORDS[b]:<10} perplexity {_perplexity(one):8.2f}   "
            f"(paper, WikiText-103: {reported})"
            for (kind, b), reported in REPORTED.items()
            for one in [result.one(model=kind, b=b)]
            if one is not None
        ]

    def draw(self, result: Result) -> Figure:
        if result.profile == STANDARD:
            return _draw_standard(result)
        drawn, (axes,) = new_figure(width=5.2)
        for place, (kind, b) in enumerate(REPORTED):
            outcome = result.one(model=kind, b=b)
            if outcome is None:
                continue
            color = PALETTE[kind == "softmax"]
            draw_bar(axes, place, outcome.values("perplexity"), color=color, bounds=POSITIVE)
        axes.set_xticks(
            range(len(REPORTED)), [f"{MODELS[kind]}\n$b$ = {WORDS[b]}" for kind, b in REPORTED]
        )
        axes.set_ylabel("test perplexity")
        axes.set_title(f"{result.profile} profile", loc="left")
        return drawn


def _draw_standard(result: Result) -> Figure:
    """Perplexity at the end on the test text, and at its lowest on the validation text.

    A bar per variant: the mean over seeds, its interval, and a point for each. The control of what
    is claimed without the output norm's eps is the same pair with it.
    """
    drawn, panels = new_figure(columns=1, rows=2, width=8.0, height=2.9)
    found = result.outcomes()
    names = [
        f"{MODELS[f['model']]}\n$b$ = {WORDS.get(f['b'], f['b'])}"
        + ("\neps 0" if f["eps"] == "0" else "")
        for f in (one.variant.facets for one in found)
    ]
    measures = {"at the end, on the test text": metric("perplexity"), STOPPED.name: STOPPED}
    for axes, (title, measure) in zip(panels, measures.items(), strict=True):
        for place, outcome in enumerate(found):
            facets = outcome.variant.facets
            control = (facets["model"], facets["b"], facets["eps"]) in CONTROLS
            color = PALETTE[facets["model"] == "softmax"]
            values = measure.values(outcome)
            draw_bar(axes, place, values, color=color, bounds=POSITIVE, control=control)
        axes.set_xticks(range(len(names)), names, fontsize="x-small")
        axes.set_ylabel("perplexity")
        axes.set_title(title, loc="left")
    handles = legend_entries(panels, "hatched: control of the pair with eps 0")
    if handles:
        drawn.legend(handles=handles, loc="outside lower center", ncols=2, fontsize="small")
    return drawn


def _perplexity(outcome: Outcome) -> float:
    values = outcome.values("perplexity")
    return sum(values) / len(values)


EXPERIMENT = Principle5LanguageModel()
run, load, figure, claims = EXPERIMENT.functions()
