"""Measured coefficients of any causal map: its response to the identity as values.

    f(v)_i = sum_{j <= i} alpha_{i,j} v_j      for one alpha, the same for every channel of v

If a mixer has this form while everything but v is fixed, then column j of alpha is its output for
the values v = e_j, and no formula is needed to read it off. It has the form if and only if it is
linear in v, causal, and treats all channels of v alike and apart; each of these is measured here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from coefdyn.shapes import Float, Tensor

__all__ = ["Probe", "probe"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Probe:
    """Response of a map to the identity as values, and its distance from having coefficients.

    The four numbers are relative to the size of the map's response to the values it was given; all
    are 0, up to rounding, exactly if the map has coefficients.

    Attributes:
        coefficients: ``(..., L, L)``, normalized: alpha_{i,j} / eta_i. Only meaningful where
            ``residual`` is small.
        deviation: |f(v+w) - f(v) - f(w) + f(0)|: how far from linear (from affine) in v.
        offset: |f(0)|: an output without values.
        residual: |f(v) - f(0) - alpha v| with alpha the causal half of ``coefficients``: what no
            coefficients explain. The map may not be linear, mix the channels of v, or look ahead.
        future: the change of the first half of the outputs with the second half of the values.
    """

    coefficients: Float[Tensor, "*batch L L"]
    deviation: float
    offset: float
    residual: float
    future: float

    def has_coefficients(self, tolerance: float = 1e-5) -> bool:
        """Return whether all four numbers are at most ``tolerance`` (NaN is not)."""
        found = (self.deviation, self.offset, self.residual, self.future)
        return all(value <= tolerance for value in found)

    def __str__(self) -> str:
        verdict = "has coefficients" if self.has_coefficients() else "has no coefficients"
        return (
            f"{verdict}: deviation from linearity {self.deviation:.1e}, f(0) {self.offset:.1e}, "
            f"left unexplained {self.residual:.1e}, from the future {self.future:.1e}"
        )


def probe(
    op: Callable[[Tensor], Tensor],
    v: Float[Tensor, "*batch L dv"],
    *,
    columns: int | None = None,
    seed: int = 0,
) -> Probe:
    """Coefficients of ``op`` from its response to the identity, and whether it has any.

    Takes ceil(L / columns) + 6 calls, without gradients. The map is called with everything but v
    fixed: close over its queries, keys and gates. A nonlinear map can look linear for small v, so
    give values of the size that matters.

    Args:
        op: values ``(..., L, d_v)`` to outputs of the same shape; deterministic.
        v: values to measure at, ``(..., L, d_v)``, real floating point; float64 where op allows.
        columns: how many columns of the identity go into one call; None for d_v, which every op
            takes. An op for any number of channels is probed in one call with ``columns=L``.
        seed: of the second values w (standard normal times the size of v).

    Raises:
        ValueError: for v that is not real floating point ``(..., L, d_v)`` or is all zero, columns
            below 1, or an op whose output is no tensor of the shape of its input.
    """
    _check(v, columns)
    generator = torch.Generator().manual_seed(seed)
    w = torch.randn(v.shape, generator=generator, dtype=torch.float64).to(v) * _size(v)
    with torch.no_grad():
        at_v, at_w, at_both, at_zero = (_call(op, x) for x in (v, w, v + w, torch.zeros_like(v)))
        alpha = _columns(op, v, columns or v.shape[-1])
        explained = alpha.tril() @ v
        response = torch.linalg.vector_norm(at_v - at_zero)
        curved = at_both - at_v - at_w + at_zero
        unexplained = at_v - at_zero - explained
        half = (v.shape[-2] + 1) // 2
        swapped = _call(op, torch.cat([v[..., :half, :], w[..., half:, :]], dim=-2))
        ahead = (swapped - at_v)[..., :half, :]
    return Probe(
        coefficients=alpha,
        deviation=_ratio(curved, torch.linalg.vector_norm(at_both - at_zero)),
        offset=_ratio(at_zero, response),
        residual=_ratio(unexplained, response),
        future=_ratio(ahead, response),
    )


def _check(v: object, columns: int | None) -> None:
    if not isinstance(v, Tensor) or not v.is_floating_point() or v.ndim < 2 or v.numel() == 0:
        shown = f"{tuple(v.shape)} {v.dtype}" if isinstance(v, Tensor) else type(v).__name__
        raise ValueError(f"v must be real floating point values (..., L, d_v), got {shown}.")
    if not bool((v != 0).any()):
        raise ValueError("v is all zero, and nothing can be told from that; draw it at random.")
    if columns is not None and (not isinstance(columns, int) or columns < 1):
        raise ValueError(f"columns must be a whole number of at least 1 or None, got {columns!r}.")


def _call(op: Callable[[Tensor], Tensor], v: Tensor) -> Tensor:
    """Checked value of op(v)."""
    y = op(v)
    if not isinstance(y, Tensor) or y.shape != v.shape:
        got = tuple(y.shape) if isinstance(y, Tensor) else type(y).__name__
        raise ValueError(
            f"op must return a tensor of the shape of v, {tuple(v.shape)}, got {got}; probe the "
            "mixing of the values alone, without the projections and norms around it."
        )
    return y


def _columns(op: Callable[[Tensor], Tensor], v: Tensor, width: int) -> Tensor:
    """Columns of alpha, ``width`` at a time, with f(0) subtracted."""
    length = v.shape[-2]
    width = v.shape[-1] if width == v.shape[-1] else min(width, length)
    eye = torch.eye(length, dtype=v.dtype, device=v.device)
    eye = torch.nn.functional.pad(eye, (0, -length % width)).expand(*v.shape[:-2], -1, -1)
    zero = _call(op, torch.zeros_like(eye[..., :width]))
    blocks = [_call(op, block.contiguous()) - zero for block in eye.split(width, dim=-1)]
    return torch.cat(blocks, dim=-1)[..., :length]


def _size(v: Tensor) -> Tensor:
    """Root mean square."""
    return v.square().mean().sqrt()


def _ratio(part: Tensor, whole: Tensor) -> float:
    """|part| / |whole|; 0 for 0/0: a map that is zero everywhere has coefficients, all zero."""
    size = torch.linalg.vector_norm(part).item()
    return size / whole.item() if whole.item() else (0.0 if size == 0 else float("inf"))
