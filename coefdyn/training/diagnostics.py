"""What the coefficients of a trained model look like, as a few numbers (Principles 2, 2.1, 2.2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from coefdyn.models import SequenceModel
from coefdyn.shapes import Float, Int, Tensor

__all__ = ["DIAGNOSTICS", "run_diagnostics"]

#: abs(alpha) up to this counts as near zero (paper, section 5)
NEAR_ZERO = 1e-3
#: abs(alpha) up to this counts as zero (paper, Appendix D.2)
ZERO = 1e-6
#: alpha in this range counts as large (paper, Appendix D.2)
LARGE = (0.9, 1.0)

Layers = list[Tensor]


def run_diagnostics(
    names: Sequence[str], model: SequenceModel, inputs: Int[Tensor, "batch L"]
) -> dict[str, Any]:
    """The named diagnostics of a model on a few sequences; empty for no names.

    Raises:
        ValueError: for an unknown name.
    """
    unknown = [name for name in names if name not in DIAGNOSTICS]
    if unknown:
        raise ValueError(f"unknown diagnostics {unknown}; known: {', '.join(DIAGNOSTICS)}.")
    if not names:
        return {}
    with torch.no_grad():
        dynamics = model.dynamics(inputs)
        found: dict[str, Any] = {}
        for form, normalized in (("raw", False), ("normalized", True)):
            layers = [one.coefficients(normalized=normalized) for one in dynamics]
            found[form] = {name: DIAGNOSTICS[name](layers) for name in names}
    return found


def _causal(alpha: Float[Tensor, "*batch L L"]) -> Tensor:
    """The coefficients with j <= i, as one list."""
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
