"""A training film: how the coefficients of a real run change over its training steps.

Matrices are kept as one signed byte per coefficient and one scale per matrix: the largest error is
``scale / 254``. So a run of 20 steps with four heads at L = 32 takes 42 kB.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import anywidget
import torch
import traitlets

from coefdyn.shapes import Float, Tensor
from coefdyn.widgets.source import film_source, style_source

__all__ = ["TrainingFilm", "quantise"]


def quantise(matrices: Float[Tensor, "*frames L L"]) -> tuple[bytes, list[float]]:
    """Lower triangles as signed bytes, row after row, and each matrix's largest magnitude.

    Raises:
        ValueError: for values that are not finite.
    """
    if not bool(matrices.isfinite().all()):
        raise ValueError("a film needs finite coefficients; got inf or NaN in some matrix.")
    length = matrices.shape[-1]
    i, j = torch.tril_indices(length, length)
    lower = matrices.detach().to("cpu", torch.float64)[..., i, j].reshape(-1, len(i))
    scales = lower.abs().amax(dim=-1, keepdim=True)
    steps = (lower / scales.clamp(min=1e-300) * 127).round().to(torch.int8)
    return steps.numpy().tobytes(), scales.flatten().tolist()


class TrainingFilm(anywidget.AnyWidget):
    """Coefficients of a trained model, scrubbed over training step, layer and head.

    Args:
        coefficients: alpha or alpha / eta, ``(steps, layers, heads, L, L)``, L up to 64.
        steps: the training step of each frame, increasing.
        provenance: one line that says where the numbers come from (run, data, device, date).
        title: what the figure shows.
        epsilon: threshold of the near-zero set; one byte tells values apart by scale / 127 only.

    Raises:
        ValueError: for shapes that do not fit, an empty provenance, or values that are not finite.
    """

    _esm = film_source()
    _css = style_source()

    film = traitlets.Dict().tag(sync=True)
    frames = traitlets.Bytes().tag(sync=True)
    settings = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        coefficients: Float[Tensor, "steps layers heads L L"],
        *,
        steps: Sequence[int],
        provenance: str,
        title: str = "Coefficients during training",
        epsilon: float = 0.01,
    ) -> None:
        _check(coefficients, steps, provenance)
        frames, scales = quantise(coefficients)
        _, layers, heads, length, _ = coefficients.shape
        film: dict[str, Any] = {
            "title": title,
            "provenance": provenance,
            "steps": list(steps),
            "layers": layers,
            "heads": heads,
            "length": length,
            "scales": scales,
            "epsilon": epsilon,
        }
        super().__init__(film=film, frames=frames)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{key}={self.film[key]}" for key in ("layers", "heads", "length"))
        return f"TrainingFilm(steps={self.film['steps']}, {sizes})"


def _check(coefficients: Tensor, steps: Sequence[int], provenance: str) -> None:
    shape = tuple(coefficients.shape)
    if len(shape) != 5 or shape[-1] != shape[-2] or not 2 <= shape[-1] <= 64:
        raise ValueError(
            f"coefficients must be (steps, layers, heads, L, L) with L from 2 to 64, got {shape}."
        )
    if len(steps) != shape[0] or any(b <= a for a, b in pairwise(steps)):
        raise ValueError(
            f"steps must increase and have one entry per frame: {shape[0]} frames, "
            f"got {list(steps)}."
        )
    if not provenance.strip():
        raise ValueError("a film says where its numbers come from; provenance is empty.")
