"""Diagnostics of the coefficients of a trained model as a few numbers (Principles 2, 2.1, 2.2).

Also the eigenvalues of its transitions before and after training (eigenvalue paper, Figure 1), how
right it is on sequences longer than those it was trained on (Principle 4), and without each of its
heads.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch

from coefdyn import lens
from coefdyn.analysis.spectra import modulus_histogram, transition_moduli
from coefdyn.lab.tasks import IGNORE, TaskConfig, sample, split_generator
from coefdyn.models import SequenceModel
from coefdyn.shapes import Float, Int, Tensor

__all__ = ["DIAGNOSTICS", "run_diagnostics"]

#: abs(alpha) up to this counts as near zero (paper, section 5)
NEAR_ZERO = 1e-3
#: abs(alpha) up to this counts as zero (paper, Appendix D.2)
ZERO = 1e-6
#: alpha in this range counts as large (paper, Appendix D.2)
LARGE = (0.9, 1.0)

#: histograms of moduli are averaged over this many sequences (eigenvalue paper: 8 to 64)
SEQUENCES = 32

#: the sequences of "longer" and "lengths": how many, and how many times as long as the training's
LONGER, TIMES, LENGTHS = 256, 4, (1, 2, 4, 8)

Layers = list[Tensor]


def run_diagnostics(
    names: Sequence[str],
    model: SequenceModel,
    inputs: Int[Tensor, "batch L"],
    untrained: Callable[[], SequenceModel] | None = None,
    task: TaskConfig | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """The named diagnostics of a model on a few sequences; empty for no names.

    Args:
        names: of ``DIAGNOSTICS``, "moduli", "longer", "lengths" or "heads".
        model: the trained model.
        inputs: the sequences.
        untrained: makes the same model as it was before training, for "moduli".
        task, seed: what it was trained on, for the last three.

    Raises:
        ValueError: for an unknown name, and for one of the last three without a task.
    """
    drawn: dict[str, Callable[[SequenceModel, TaskConfig, int], Any]] = {
        "longer": beyond,
        "lengths": at_lengths,
        "heads": without_heads,
    }
    known = (*DIAGNOSTICS, "moduli", *drawn)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"unknown diagnostics {unknown}; known: {', '.join(known)}.")
    found: dict[str, Any] = {}
    of_rows = [name for name in names if name in DIAGNOSTICS]
    with torch.no_grad():
        if of_rows:
            dynamics = model.dynamics(inputs)
            for form, normalized in (("raw", False), ("normalized", True)):
                layers = [one.coefficients(normalized=normalized) for one in dynamics]
                found[form] = {name: DIAGNOSTICS[name](layers) for name in of_rows}
        if "moduli" in names:
            models = {"trained": model} | ({"initial": untrained()} if untrained else {})
            spectra = {name: moduli(one, inputs) for name, one in models.items()}
            found.setdefault("normalized", {})["moduli"] = spectra
        for name in (one for one in names if one in drawn):
            if task is None:
                raise ValueError(f"the diagnostic {name!r} draws sequences: give it the task.")
            found[name] = drawn[name](model, task, seed)
    return found


def at_lengths(model: SequenceModel, task: TaskConfig, seed: int) -> dict[str, float]:
    """Share of right answers by how many times as long as the training's the sequences are."""
    return {str(times): round(beyond(model, task, seed, times)["accuracy"], 4) for times in LENGTHS}


def without_heads(
    model: SequenceModel, task: TaskConfig, seed: int
) -> list[list[dict[str, float]]]:
    """Every head ablated in turn, by layer and head.

    "map": mean share of abs(coefficients) that a question puts on the places of its answer, the
    token that is asked for; "lost": accuracy of the whole model less that without the head, with
    zeros where it enters the output projection.
    """
    inputs, targets = sample(task, LONGER, split_generator(seed, "test"), "test")
    asked = targets != IGNORE
    answers = (inputs[:, None] == targets[:, :, None])[:, None]  # (batch, 1, question, place)

    def accuracy() -> float:
        return float((model(inputs).argmax(-1) == targets)[asked].double().mean())

    whole, found = accuracy(), []
    for layer, dynamics in enumerate(model.dynamics(inputs)):
        heads = []
        on_answers = (lens.shares(dynamics) * answers).sum(-1)  # (batch, heads, question)
        for head in range(on_answers.shape[1]):
            with lens.replaced(model, {(layer, head): "ablate"}):
                lost = whole - accuracy()
            seen = float(on_answers[:, head][asked].mean())
            heads.append({"map": round(seen, 4), "lost": round(lost, 4)})
        found.append(heads)
    return found


def beyond(model: SequenceModel, task: TaskConfig, seed: int, times: int = TIMES) -> dict[str, Any]:
    """Accuracy of a model on test sequences ``times`` times as long as those of training.

    "accuracy": share of right answers; "by_position": that share at each position of the targets,
    None where nothing is asked.
    """
    longer = dataclasses.replace(task, seq_len=times * task.seq_len)
    inputs, targets = sample(longer, LONGER, split_generator(seed, "test"), "test")
    device = next(model.parameters()).device
    said = torch.cat([model(some.to(device)).argmax(-1).cpu() for some in inputs.split(64)])
    asked = targets != IGNORE
    right = ((said == targets) & asked).sum(0)
    return {
        "accuracy": int(right.sum()) / int(asked.sum()),
        "by_position": [
            round(int(some) / int(of), 4) if of else None
            for some, of in zip(right, asked.sum(0), strict=True)
        ],
    }


def moduli(model: SequenceModel, inputs: Int[Tensor, "batch L"]) -> list[dict[str, list[float]]]:
    """Histogram of abs(eigenvalue of Lambda_t) of every layer, over heads, positions and channels.

    Mean share per bin of ``coefdyn.analysis.spectra.EDGES`` and its standard deviation over the
    sequences. They go through the model one at a time: rows of long ones fill the memory.
    """
    layers: dict[int, list[Tensor]] = {}
    for sequence in inputs[:SEQUENCES]:
        for layer, dynamics in enumerate(model.dynamics(sequence)):
            layers.setdefault(layer, []).append(transition_moduli(dynamics).flatten())
    spectra = [modulus_histogram(torch.stack(rows)) for rows in layers.values()]
    return [
        {
            "share": [round(value, 4) for value in one.share],
            "deviation": [round(value, 4) for value in one.deviation],
        }
        for one in spectra
    ]


def _causal(alpha: Float[Tensor, "*batch L L"]) -> Tensor:
    """Causal coefficients, j <= i, as one list."""
    length = alpha.shape[-1]
    mask = torch.ones(length, length, dtype=torch.bool, device=alpha.device).tril()
    return alpha[..., mask].flatten()


def _share(layers: Layers, test: Callable[[Tensor], Tensor]) -> float:
    parts = [test(_causal(alpha)) for alpha in layers]
    total = sum(part.numel() for part in parts)
    return sum(int(part.sum()) for part in parts) / total


def near_zero_fraction(layers: Layers) -> float:
    """Share of causal coefficients with abs(alpha) <= 1e-3, over layers, heads and sequences."""
    return _share(layers, lambda alpha: alpha.abs() <= NEAR_ZERO)


def large_fraction(layers: Layers) -> float:
    """Share of causal coefficients in [0.9, 1]."""
    return _share(layers, lambda alpha: (alpha >= LARGE[0]) & (alpha <= LARGE[1]))


def large_to_near_zero(layers: Layers) -> float | None:
    """Number of coefficients in [0.9, 1] over the number near zero; None when none is near zero."""
    near = near_zero_fraction(layers)
    return large_fraction(layers) / near if near else None


def zero_counts(layers: Layers) -> list[list[list[float]]]:
    """Mean number of abs(alpha) <= 1e-6 per time index: [layer][head][i]; paper, Figure 9."""
    rows = []
    for alpha in layers:
        length = alpha.shape[-1]
        mask = torch.ones(length, length, dtype=torch.bool, device=alpha.device).tril()
        count = ((alpha.abs() <= ZERO) & mask).sum(-1).double()
        count = count.reshape(-1, *count.shape[-2:]).mean(0)
        rows.append([[round(value, 4) for value in head] for head in count.tolist()])
    return rows


def largest_zero_count(layers: Layers) -> int:
    """The largest number of abs(alpha) <= 1e-6 at any one time index, head and sequence."""
    most = 0
    for alpha in layers:
        length = alpha.shape[-1]
        mask = torch.ones(length, length, dtype=torch.bool, device=alpha.device).tril()
        most = max(most, int(((alpha.abs() <= ZERO) & mask).sum(-1).max()))
    return most


DIAGNOSTICS: dict[str, Callable[[Layers], Any]] = {
    "near_zero_fraction": near_zero_fraction,
    "large_fraction": large_fraction,
    "large_to_near_zero": large_to_near_zero,
    "zero_counts": zero_counts,
    "largest_zero_count": largest_zero_count,
}
