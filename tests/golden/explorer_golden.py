"""Golden vectors of the explorer: what the float64 reference gives, kept as JSON beside this file.

    python tests/golden/explorer_golden.py      writes explorer.json anew

tests/unit/test_widgets_golden.py holds the file to the reference, and
tests/browser/test_explorer_golden.py holds the page's JavaScript to the file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from coefdyn.widgets.morph import build_morph
from coefdyn.widgets.settings import schema, validate
from coefdyn.widgets.shown import shown_at
from coefdyn.widgets.tokens import build_dynamics

PATH = Path(__file__).parent / "explorer.json"

_SMALL = {"length": 5, "width": 3, "seed": 3, "column": 2, "row": 4, "epsilon": 0.05}
_EXTRA: tuple[dict[str, Any], ...] = (
    {"structure": "scalar", "flip": True, "decay": 0.8},
    {"structure": "scalar", "decay": 1.2, "tokens": "random"},
    {"structure": "diagonal", "flip": True, "spread": 1.0, "width": 4},
    {
        "structure": "scaled_householder",
        "direction": "fixed",
        "angle": 35,
        "beta": 2.0,
        "flip": True,
    },
    {
        "structure": "householder",
        "direction": "turning",
        "angle": 20,
        "beta": 1.3,
        "variation": 0.9,
    },
    {"structure": "householder", "direction": "key", "angle": 90, "beta": 1.0, "width": 2},
    {"scaling": "one", "scale": 2.5, "variation": 0.0},
    {"scaling": "step", "decay": 0.7, "scale": 0.5},
    {"scaling": "exponential", "variation": 1.0, "readout": "exp", "normalizer": "floored"},
    {"tokens": "random", "duplicate": 5, "readout": "relu", "normalizer": "row_sum"},
    {
        "points": {"q3": [0.5, -1.25], "k1": [1.0, 0.0, -0.5]},
        "normalizer": "geometric",
        "base": 1.1,
    },
    {"preset": "gla", "morph_to": "deltanet", "morph": 0.4},
    {"preset": "softmax_attention", "morph_to": "mlstm", "morph": 0.75},
    {"preset": "linear_attention", "morph_to": "gated_deltanet", "morph": 0.5},
    {
        "preset": "deltanet",
        "direction": "fixed",
        "angle": 60,
        "morph_to": "gated_deltanet",
        "morph": 0.3,
    },
    {"preset": "mamba2", "flip": True, "morph_to": "gla", "morph": 0.2},
    {"readout": "relu", "normalizer": "floored", "floor": 0.7, "scale": 2.0},
    {"preset": "deltanet", "angle": 180, "width": 4, "morph_to": "gated_deltanet", "morph": 0.5},
    {"structure": "erased_diagonal", "flip": True, "direction": "turning", "angle": 25, "width": 4},
    {"structure": "erased_channels", "flip": True, "beta": 1.7, "variation": 1.0, "width": 4},
    {"structure": "erased_channels", "beta": 0.0, "decay": 1.2},
    {"structure": "diagonal_rank_one", "flip": True, "beta": 1.7, "variation": 1.0, "width": 4},
    {"structure": "diagonal_rank_one", "beta": 0.0, "decay": 1.2},
    {"preset": "gated_deltanet", "morph_to": "kda", "morph": 0.4, "flip": True},
    {"preset": "kda", "morph_to": "rwkv7", "morph": 0.7},
    {"preset": "gated_deltanet2", "morph_to": "kda", "morph": 0.4, "flip": True},
    {"preset": "rwkv7", "morph_to": "softmax_attention", "morph": 0.5},
    {"preset": "mamba2_own", "own": -0.8, "morph_to": "gla", "morph": 0.3},
    {"preset": "forgetting_attention", "morph_to": "softmax_sink", "morph": 0.6},
    {"preset": "sliding_window", "window": 2, "morph_to": "alibi", "morph": 0.5},
    {"preset": "softmax_sink", "sink": 3.0, "normalizer": "floored", "readout": "softplus"},
)

#: beside phi: each with a readout that is divided as a logarithm, as a feature map, and plainly
_BESIDE = tuple(
    {"beside": beside, "readout": phi, "normalizer": eta, "decay": 0.8}
    for beside in ("fade", "own", "sink", "window")
    for phi in ("identity", "exp", "relu", "feature_elu", "feature_exp")
    for eta in ("one", "row_sum", "floored")
)


_TOLD = {"epsilon": 0.05, "width": 3, "seed": 5}
_TEXTS = (
    "the cat is black; the dog is brown; the cat is white; ask: cat",
    "hen red, fox brown, owl grey, hen white. What is the owl?",
    "Once upon a time a miller had three sons",
    "  “Tea” = green\n coffee is  BLACK!! ask tea ; ask: bird",
    "\u202eהחתול הוא שחור\u202c; 🐈 is 🖤, 🐈?",
    "cat",
    "<b>x</b> is <script>y</script>; ask: b",
    " ".join(f"w{m}" for m in range(200)),
    "aVeryLongWordThatNobodyWouldReadToItsEnd is short",
)


def told() -> list[dict[str, Any]]:
    """Facts: every text, and every row of Table 1 on the first of them."""
    texts = [{"preset": "gated_deltanet", "text": text} for text in _TEXTS]
    rows = [{"preset": name, "text": _TEXTS[0]} for name in schema()["rows"]]
    more = [
        {"preset": "gla", "text": _TEXTS[1], "duplicate": 4, "column": 2},
        {"preset": "deltanet", "text": _TEXTS[1], "morph_to": "softmax_attention", "morph": 0.4},
        {"preset": "mamba2", "text": _TEXTS[0], "points": {"q13": [0.5, -1.0]}, "variation": 0.5},
    ]
    return [{"tokens": "facts", **_TOLD, **case} for case in (*texts, *rows, *more)]


def cases() -> list[dict[str, Any]]:
    """Settings: every structure x readout x normaliser, what stands beside phi, rows, the rest."""
    choices = schema()["choices"]
    product = [
        {"structure": a, "readout": phi, "normalizer": eta}
        for a in choices["structure"]["options"]
        for phi in choices["readout"]["options"]
        for eta in choices["normalizer"]["options"]
    ]
    rows = [{"preset": name, "length": 7, "width": 4} for name in schema()["rows"]]
    return [{**_SMALL, **case} for case in (*product, *_BESIDE, *rows, *_EXTRA)] + told()


def _lower(matrix: torch.Tensor) -> list[float]:
    i, j = torch.tril_indices(*matrix.shape)
    return matrix[i, j].tolist()


def vectors(case: dict[str, Any]) -> dict[str, Any]:
    """Numbers of the reference for one case: lower triangles row by row, and scalars."""
    settings = validate(case)
    if settings["morph_to"]:
        morph = build_morph(settings)
        alpha = morph.coefficients()
        weights = alpha / morph.eta()[:, None]
        dense = morph.with_readout(morph.ends[0].readout)
    else:
        dense = build_dynamics(settings)
        alpha = dense.coefficients(method="reference")
        weights = dense.coefficients(normalized=True, method="reference")
    matrix = dense.evolution.dense(settings["row"] - 1, settings["width"]).double()
    eigenvalues = torch.linalg.eigvals(matrix).real.sort().values
    pairs = torch.ones_like(alpha).tril().bool()
    if dense.mask is not None:
        pairs = pairs & dense.mask.rows(0, len(alpha), 0, alpha.device)
    shown = weights if settings["view"] == "normalized" else alpha
    return {
        "alpha": _lower(alpha),
        "weights": _lower(weights),
        "path": dense.states(settings["column"] - 1).flatten().tolist(),
        "eigenvalues": eigenvalues.tolist(),
        "near_zero": (shown[pairs].abs() <= settings["epsilon"]).double().mean().item(),
        "row_sum": alpha[settings["row"] - 1].sum().item(),
        **answers(settings),
    }


def answers(settings: dict[str, Any]) -> dict[str, Any]:
    """The words on the axes and in y_i, where the tokens are words."""
    if settings["tokens"] != "facts":
        return {}
    shown = shown_at(settings)
    return {"labels": shown.labels, "said": list(shown.answer), "answer": [*shown.answer.values()]}


def kept(case: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    """Content of the file: of the full product, vectors that eta leaves alone are written once."""
    if "readout" in case and case.get("normalizer", "one") != "one" and "structure" in case:
        return {"weights": row["weights"]}
    return row


def main() -> None:
    table = [{"settings": case, **kept(case, vectors(case))} for case in cases()]
    text = ",\n".join(json.dumps(row, separators=(",", ":")) for row in table)
    PATH.write_text(f"[\n{text}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
