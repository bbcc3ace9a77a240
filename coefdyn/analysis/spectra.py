"""Eigenvalues: of A_t, and of the transition Lambda_i = (eta_{i-1}/eta_i) A_i of the second view.

Dynamical systems framework: h_i = Lambda_i h_{i-1} + B_i u_i, y_i = C_i h_i + D_i u_i. The
eigenvalues follow from the structure of A_t; only an A_t without one needs an eigensolver.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from coefdyn.analysis.common import check_not_empty, widened
from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.dynamics.evolution import (
    Dense,
    Diagonal,
    Evolution,
    Householder,
    Identity,
    Scalar,
)
from coefdyn.dynamics.normalizer import FlooredRowSum, Given, One
from coefdyn.execution.reference import evolve, read_row
from coefdyn.shapes import Float, Tensor

__all__ = [
    "EDGES",
    "ModulusHistogram",
    "Spectrum",
    "eta",
    "modulus_histogram",
    "spectrum",
    "transition_moduli",
]

#: bins of the histograms of moduli: forty of width 0.05 from 0 to 2, and one for all beyond
EDGES: tuple[float, ...] = (*(round(0.05 * bin, 2) for bin in range(41)), float("inf"))


@dataclass(frozen=True, kw_only=True, eq=False)
class Spectrum:
    """Eigenvalues per position.

    Attributes:
        eigenvalues: complex, ``(..., L, n)``, of A_t (times exp(c_t) of an outer decay).
        transition: complex, ``(..., L, n)``, of Lambda_t; position 0 has no predecessor and is NaN.
        largest_modulus: max |eigenvalue of A_t| over positions 1 .. L-1.
    """

    eigenvalues: Tensor
    transition: Tensor
    largest_modulus: float


@dataclass(frozen=True, kw_only=True)
class ModulusHistogram:
    """Distribution of the moduli of Lambda_t, averaged over sequences (eigenvalue paper, Figure 1).

    Attributes:
        share: of the moduli in each bin of ``EDGES``, mean over the sequences; sums to 1.
        deviation: standard deviation of that share over the sequences (0 for a single one).
    """

    share: tuple[float, ...]
    deviation: tuple[float, ...]


def eta(dynamics: CoefficientDynamics) -> Float[Tensor, "*batch L"]:
    """eta_i itself (overflows where the true value does)."""
    normalizer = dynamics.normalizer
    if isinstance(normalizer, Given):
        return normalizer.eta.expand(*dynamics.batch_shape, dynamics.length)
    ones = torch.ones_like(dynamics.q[..., :1]).expand(*dynamics.batch_shape, -1, -1)
    if isinstance(normalizer, One):
        return ones[..., 0]
    total = replace(dynamics, normalizer=One()).apply(ones)[..., 0]
    if isinstance(normalizer, FlooredRowSum):
        return total.abs().clamp(min=normalizer.floor)
    sink = getattr(normalizer, "sink", None)
    return total if sink is None else total + torch.as_tensor(sink, dtype=total.dtype).exp()


def signed(values: Tensor, sign: Tensor | None) -> Tensor:
    return values if sign is None else values * sign


def erased(evolution: Householder) -> Tensor:
    """s exp(g) (1 - beta |z|^2) along z and s exp(g) in all other directions, (..., L, n)."""
    z = evolution.direction
    along = 1 - evolution.beta * z.square().sum(-1)
    rest = torch.ones_like(z[..., 1:]).expand(*along.shape, z.shape[-1] - 1)
    found = torch.cat([along[..., None], rest], dim=-1)
    g = evolution.log_decay
    factor = evolution.sign if g is None else signed(g.exp(), evolution.sign)
    return found if factor is None else factor[..., None] * found


def of_matrices(matrices: Float[Tensor, "*batch L n n"]) -> Tensor:
    """Eigenvalues of dense matrices by an eigensolver, in at least float32."""
    half = matrices.dtype in (torch.float16, torch.bfloat16)
    return torch.linalg.eigvals(matrices.float() if half else matrices)


#: structure -> eigenvalues of every A_t, given queries for the shape
RULES: dict[type[Evolution], Callable[[Any, Tensor], Tensor]] = {
    Identity: lambda a, like: torch.ones_like(like),
    Scalar: lambda a, like: signed(a.log_decay.exp(), a.sign)[..., None].expand(
        *a.log_decay.shape, like.shape[-1]
    ),
    Diagonal: lambda a, like: signed(a.log_decay.exp(), a.sign),
    Householder: lambda a, like: erased(a),
    Dense: lambda a, like: of_matrices(a.matrix),
}


def eigenvalues(evolution: Evolution, like: Tensor) -> Tensor:
    """Eigenvalues of every A_t, in no particular order; real where the structure guarantees it.

    Args:
        evolution: its structure says them: 1; s exp(g); s_r exp(g_r) per channel; and for a
            Householder-like step s exp(g) (1 - beta |z|^2) once and s exp(g) n - 1 times. Any other
            A_t is written out as a matrix and given to an eigensolver.
        like: queries ``(..., L, n)``, for the shape.
    """
    rule = RULES.get(type(evolution))
    if rule is not None:
        return rule(evolution, like)
    length, n = like.shape[-2:]
    matrices = [evolution.dense(t, n, dtype=like.dtype) for t in range(length)]
    return of_matrices(torch.stack(torch.broadcast_tensors(*matrices), -3))


def ratios(dynamics: CoefficientDynamics) -> Float[Tensor, "*batch L"]:
    """eta_{t-1} / eta_t, also where eta itself leaves the dtype's range; NaN at position 0."""
    scale = eta(dynamics)
    tiny = torch.finfo(scale.dtype).tiny
    if bool((scale.isfinite() & (scale.abs() >= tiny)).all()):
        found = scale[..., :-1] / scale[..., 1:]
    else:
        part, offset = scaled_eta(dynamics)
        found = part[..., :-1] / part[..., 1:] * (offset[..., :-1] - offset[..., 1:]).exp()
    return torch.nn.functional.pad(found, (1, 0), value=float("nan"))


def scaled_eta(
    dynamics: CoefficientDynamics,
) -> tuple[Float[Tensor, "*batch L"], Float[Tensor, "*batch L"]]:
    """(a, m) with eta_i = a_i exp(m_i), row by row."""
    parts, offsets = [], []
    for i, stored in enumerate(evolve(dynamics)):
        row, offset = read_row(dynamics, stored, i)
        total = row.sum(-1, keepdim=True)
        offset = torch.zeros_like(total) if offset is None else offset.expand_as(total)
        normalizer = dynamics.normalizer.narrow(i, 1)
        floored = isinstance(normalizer, FlooredRowSum)
        other: Any = getattr(normalizer, "floor" if floored else "sink", None)
        other = math.log(other) if floored else other
        if other is not None:
            other = torch.as_tensor(other, dtype=total.dtype, device=total.device)
            other = other[..., None] if other.ndim else other
            higher = torch.maximum(offset, other)
            total, other = total * (offset - higher).exp(), (other - higher).exp()
            total = torch.maximum(total.abs(), other) if floored else total + other
            offset = higher
        parts.append(total[..., 0])
        offsets.append(offset[..., 0])
    return torch.cat(parts, -1), torch.cat(offsets, -1)


def steps(dynamics: CoefficientDynamics) -> Tensor:
    """Eigenvalues of every A_t times exp(c_t) of an outer decay, ``(..., L, n)``."""
    found, c = eigenvalues(dynamics.evolution, dynamics.q), dynamics.outer_log_decay
    return found if c is None else found * c.exp()[..., None]


def spectrum(
    dynamics: CoefficientDynamics, *, angles: Float[Tensor, "*#batch #L n"] | None = None
) -> Spectrum:
    """Eigenvalues of every A_t and of every Lambda_t = (eta_{t-1}/eta_t) A_t (DSF, eq. 5).

    For a time-varying product the moduli do not bound the state; see ``stability``. An outer decay
    is a factor exp(c_t) of A_t.

    Args:
        dynamics: any; read in its own dtype, half precision in float32.
        angles: theta by which the basis of each channel turns per token, in radians, ``(..., 1,
            n)`` or ``(..., L, n)``: each eigenvalue is multiplied by e^{i theta}. Time-invariant
            mixers keep r in A_t and theta in the positions of q and k (``mixer.angles()``).

    Raises:
        ValueError: for a batch without sequences.
    """
    check_not_empty("spectrum", dynamics.batch_shape)
    if dynamics.dtype in (torch.float16, torch.bfloat16):
        dynamics = dynamics.to(torch.float32)
    found = steps(dynamics)
    if angles is not None:
        angles = angles.to(dynamics.dtype)
        found = found * torch.polar(torch.ones_like(angles), angles)
    found = found.to(torch.promote_types(found.dtype, torch.complex64))
    found = found.expand(*dynamics.batch_shape, *found.shape[-2:])
    largest = found[..., 1:, :].abs().max().item() if dynamics.length > 1 else float("nan")
    return Spectrum(
        eigenvalues=found,
        transition=found * ratios(dynamics)[..., None],
        largest_modulus=largest,
    )


def transition_moduli(dynamics: CoefficientDynamics) -> Float[Tensor, "*batch M"]:
    """abs of the eigenvalues of Lambda_t, t >= 1: all positions and channels in a row.

    In float64 where the readout allows that. Where A_t is a multiple of the identity its n equal
    eigenvalues are counted once.
    """
    wide = widened(dynamics)
    found = steps(wide).abs()
    if type(wide.evolution) in (Identity, Scalar):
        found = found[..., :1]
    moduli = found[..., 1:, :] * ratios(wide)[..., 1:, None].abs()
    return moduli.expand(*wide.batch_shape, *moduli.shape[-2:]).flatten(-2)


def modulus_histogram(
    moduli: Float[Tensor, "sequences M"], edges: tuple[float, ...] = EDGES
) -> ModulusHistogram:
    """Shares per bin, lower edge included: mean and standard deviation over the sequences.

    A ratio that is not a number (0/0) falls into no bin but is counted, so that shares then sum to
    less than 1.
    """
    bins, rows = len(edges) - 1, len(moduli)
    inner = torch.tensor(edges[1:-1], dtype=moduli.dtype, device=moduli.device)
    place = torch.bucketize(moduli.contiguous(), inner, right=True)
    place = place.masked_fill(moduli.isnan(), bins)  # the bin of NaN, left out below
    row = torch.arange(rows, device=moduli.device)[:, None] * (bins + 1)
    counts = torch.bincount((place + row).flatten(), minlength=rows * (bins + 1))
    share = counts.view(rows, bins + 1)[:, :bins].double() / moduli.shape[-1]
    deviation = share.std(0) if rows > 1 else torch.zeros_like(share[0])
    return ModulusHistogram(
        share=tuple(share.mean(0).tolist()), deviation=tuple(deviation.tolist())
    )
