"""Tasks, rows of Table 1 and mixer choices that the page can train."""

from __future__ import annotations

from functools import cache
from typing import Any

from coefdyn.lab.contest.catalogue import CHAPTERS as TRAINED
from coefdyn.lab.contest.catalogue import TASKS
from coefdyn.lab.experiments.baselines import baseline
from coefdyn.lab.tasks import IGNORE

__all__ = [
    "CHAPTERS",
    "MOST_CONSTANT",
    "POSITIONS",
    "RATES",
    "ROWS",
    "SIZE",
    "contests",
    "design_words",
    "offered",
]

#: the model and the batch of every run: two layers of four heads, each with a SwiGLU
SIZE = {"width": 32, "layers": 2, "heads": 4, "mlp": 64, "batch": 16}
RATES = (1e-3, 3e-3, 1e-2, 3e-2)
#: largest |lambda| of one's own A_t = lambda I, and test sequences that can be looked at
MOST_CONSTANT, SEQUENCES = 1.2, 20
#: training steps between two looks at the test set
EVERY = 25
POSITIONS = {"none": "none", "rotary": "rotary", "learned": "learned"}


def _row(
    label: str, short: str, evolution: str, scaling: str, readout: str, normalizer: str, **more: Any
) -> dict[str, Any]:
    options = {"evolution": evolution, "readout": readout, "normalizer": normalizer}
    return {"label": label, "short": short, "options": {**options, "scaling": scaling, **more}}


#: by name: label, the word on its chip, and the keywords of ``DesignMixer``
ROWS: dict[str, dict[str, Any]] = {
    "softmax_attention": _row(
        "Softmax attention", "Softmax", "identity", "inverse_sqrt", "exp", "row_sum"
    ),
    "linear_attention": _row(
        "Linear attention", "Linear", "identity", "inverse_sqrt", "psi_elu1", "row_sum"
    ),
    "normalized_attention": _row(
        "Normalized attention", "Normalized", "identity", "inverse_sqrt", "identity", "exp"
    ),
    "gla": _row(
        "Gated linear attention", "GLA", "diagonal", "inverse_sqrt", "identity", "one", decay="gla"
    ),
    "mamba2": _row("Mamba-2", "Mamba-2", "scalar", "delta", "identity", "one"),
    "deltanet": _row(
        "DeltaNet, β to 2",
        "DeltaNet",
        "householder",
        "beta",
        "identity",
        "one",
        query_key_norm=True,
    ),
    "gated_deltanet": _row(
        "Gated DeltaNet, β to 2",
        "Gated DeltaNet",
        "scaled_householder",
        "beta",
        "identity",
        "one",
        query_key_norm=True,
    ),
    "mlstm": _row(
        "mLSTM with GLA's decay",
        "mLSTM",
        "scalar",
        "exponential",
        "identity",
        "floored",
        decay="gla",
    ),
}

CHOICES: dict[str, dict[str, str]] = {
    "evolution": {
        "identity": "I",
        "constant": "λ I, fixed",
        "scalar": "a_t I, learned",
        "diagonal": "diag(a_t), learned",
        "householder": "I − β k kᵀ",
        "householder_learned": "I − β z zᵀ, z learned",
        "scaled_householder": "a_t (I − β k kᵀ)",
    },
    "readout": {
        "identity": "Id",
        "exp": "exp",
        "relu": "ReLU",
        "softplus": "softplus",
        "psi_elu1": "ψ = elu + 1",
        "psi_relu": "ψ = ReLU",
        "psi_softplus": "ψ = softplus",
        "psi_exp": "ψ = exp",
    },
    "normalizer": {
        "one": "1",
        "row_sum": "row sum",
        "floored": "max(|row sum|, 1)",
        "geometric": "1.05ⁱ",
        "exp": "exp(w x), learned",
        "softplus": "softplus(w x), learned",
        "sigmoid": "σ(w x), learned",
    },
    "scaling": {
        "one": "1",
        "inverse_sqrt": "1/√n",
        "gate": "σ(w x), learned",
        "gate_inverse_sqrt": "σ(w x)/√n, learned",
        "delta": "Δ, learned",
        "beta": "β/√n, learned",
        "exponential": "exp(w x)/√n, learned",
    },
}

#: chapter -> its figure's initial settings, as keywords of ``PageTraining``
CHAPTERS: dict[str, dict[str, Any]] = {name: one.page for name, one in TRAINED.items()}

SPEEDS: dict[str, tuple[str, float]] = {
    "full": ("as fast as it goes", 0.0),
    "ten": ("10 steps a second", 10.0),
    "two": ("2 steps a second", 2.0),
}


def offered() -> dict[str, Any]:
    """All offers as plain values, for the page and its worker."""
    return {
        "tasks": {name: {"label": one.label, "about": one.about} for name, one in TASKS.items()},
        "rows": ROWS,
        "choices": CHOICES,
        "positions": POSITIONS,
        "rates": list(RATES),
        "speeds": {name: label for name, (label, _) in SPEEDS.items()},
        "speeds_per_second": {name: rate for name, (_, rate) in SPEEDS.items()},
        "size": SIZE,
        "most_constant": MOST_CONSTANT,
        "sequences": SEQUENCES,
        "every": EVERY,
    }


@cache
def contests() -> dict[str, dict[str, Any]]:
    """Configuration of each task, and the accuracy of a guess on 1000 of its test sequences."""
    found = {}
    for name, task in TASKS.items():
        base, guess = baseline(task.page.with_changes({"test_examples": 1_000}))
        found[name] = {"config": task.page.to_dict(), "base": round(base, 4), "guess": guess}
    return found


def design_words(design: dict[str, Any]) -> str:
    """Describe a design, given as the figure holds it, in a few words."""
    if design["preset"] != "own":
        return str(ROWS[design["preset"]]["label"])
    constant = f"{design['constant']:g} I"
    matrix = constant if design["evolution"] == "constant" else design["evolution"]
    return f"A = {matrix}, {design['readout']}, eta {design['normalizer']}, b {design['scaling']}"


assert IGNORE == -100, "js/tasks/batch.js has the same number"
