"""Where heads look: numbers per head, read off the coefficients of one layer.

Coefficients can be negative, so a share is one of magnitudes:

    w_{i,j} = |alpha_{i,j} / eta_i| / sum_{l <= i} |alpha_{i,l} / eta_i|
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from coefdyn.analysis.selectivity import EPSILON
from coefdyn.analysis.spectra import eigenvalues
from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.lens.layer import LayerTrace
from coefdyn.shapes import Float, Int, Tensor

__all__ = [
    "DEAD",
    "SCORES",
    "HeadReading",
    "Induction",
    "head_scores",
    "induction",
    "looks",
    "output_sizes",
    "shares",
]

#: a head whose outputs stay below this share of its layer's largest is dead
DEAD = 1e-6
#: how much of |alpha| may be older than the memory length
REST = 0.1
#: the columns of ``head_scores``, as ``HeadReading`` names them
SCORES = ("entropy", "first", "previous", "own", "memory_tokens", "near_zero")


@dataclass(frozen=True, kw_only=True, eq=False)
class HeadReading:
    """Where each head looks on one input; means over the queries i >= 1.

    Attributes:
        profile: share at distance d = i - j, mean over the queries that reach so far, (..., H, L).
        entropy: of w_i divided by log(i + 1): 0 looks at one token, 1 at all alike, (..., H).
        first: share on the first token (a sink), (..., H).
        previous: share on the token before, (..., H).
        own: share on the token itself, (..., H).
        older: share that is older than d tokens, (..., H, L).
        memory_tokens: smallest d with ``older`` at most a tenth, (..., H).
        near_zero: share of pairs with abs(alpha / eta) <= 1e-3, (..., H).
        closed: share of eigenvalues of A_t, t >= 1, below 0.001: the past is dropped, (..., H).
        open: share of them within 0.001 of 1: nothing is forgotten, (..., H).
    """

    profile: Float[Tensor, "*batch L"]
    entropy: Float[Tensor, "*batch"]
    first: Float[Tensor, "*batch"]
    previous: Float[Tensor, "*batch"]
    own: Float[Tensor, "*batch"]
    older: Float[Tensor, "*batch L"]
    memory_tokens: Int[Tensor, "*batch"]
    near_zero: Float[Tensor, "*batch"]
    closed: Float[Tensor, "*batch"]
    open: Float[Tensor, "*batch"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Induction:
    """How far heads look behind earlier occurrences of the token that they read.

    Attributes:
        score: share on tokens whose predecessor is the present token, (B, H).
        chance: what equal shares would give.
        queries: number of queries with such a token.
    """

    score: Float[Tensor, "B H"]
    chance: float
    queries: int


def shares(dynamics: CoefficientDynamics) -> Float[Tensor, "*batch L L"]:
    """w; rows without any coefficient are zero."""
    size = dynamics.coefficients(normalized=True).abs()
    total = size.sum(-1, keepdim=True)
    return torch.where(total > 0, size / total.clamp(min=1e-30), torch.zeros_like(size))


def looks(dynamics: CoefficientDynamics) -> HeadReading:
    """Distance profile, entropy, sink, memory length and gates of every head.

    Raises:
        ValueError: for a single token, which has nothing to look back at.
    """
    length = dynamics.length
    if length < 2:
        raise ValueError("looks needs at least two tokens, got L = 1.")
    w = shares(dynamics)
    profile = torch.stack([w.diagonal(-d, -2, -1).mean(-1) for d in range(length)], -1)
    surprise = -(w * w.clamp(min=1e-30).log()).sum(-1)[..., 1:]
    most = torch.arange(2, length + 1, device=w.device).to(w.dtype).log()
    older = _older(w)
    alpha = dynamics.coefficients(normalized=True)
    causal = torch.ones_like(alpha, dtype=torch.bool).tril()
    near = ((alpha.abs() <= EPSILON) & causal).sum((-2, -1)) / (length * (length + 1) / 2)
    sizes = _moduli(dynamics)
    return HeadReading(
        profile=profile,
        entropy=(surprise / most).mean(-1),
        first=w[..., 1:, 0].mean(-1),
        previous=w.diagonal(-1, -2, -1).mean(-1),
        own=w.diagonal(0, -2, -1)[..., 1:].mean(-1),
        older=older,
        memory_tokens=(older > REST).sum(-1),
        near_zero=near,
        closed=(sizes < 1e-3).to(w.dtype).mean((-2, -1)),
        open=((sizes - 1).abs() <= 1e-3).to(w.dtype).mean((-2, -1)),
    )


def head_scores(layers: Sequence[LayerTrace]) -> Float[Tensor, "layers H scores"]:
    """``SCORES`` of every head of some layers, means over the batch: one table for small multiples.

    Args:
        layers: a trace, or some layers of it, with equally many heads.

    Raises:
        ValueError: for no layer, layers with different numbers of heads, or a single token.
    """
    heads = sorted({layer.heads for layer in layers})
    if len(heads) != 1:
        raise ValueError(f"head_scores needs layers with equally many heads, got {heads}.")
    rows = []
    for layer in layers:
        read = looks(layer.dynamics)
        values = [getattr(read, name).to(read.first.dtype) for name in SCORES]
        rows.append(torch.stack(values, -1).mean(0))
    return torch.stack(rows)


def induction(dynamics: CoefficientDynamics, tokens: Int[Tensor, "B L"]) -> Induction:
    """Share on the tokens that followed earlier occurrences of the present one.

    Args:
        dynamics: batch shape (B, H).
        tokens: the ids that went into the model.

    Raises:
        ValueError: if the tokens do not fit, or none of them occurs twice.
    """
    batch = dynamics.batch_shape
    if tokens.shape != (batch[0], dynamics.length):
        raise ValueError(
            f"tokens must have shape (B, L) = {(batch[0], dynamics.length)}, "
            f"got {tuple(tokens.shape)}."
        )
    before = torch.nn.functional.pad(tokens[:, :-1], (1, 0), value=-1)
    target = (tokens[:, :, None] == before[:, None, :]).tril()
    asks = target.any(-1)
    if not bool(asks.any()):
        raise ValueError("no token occurs twice, so there is nothing to induce from.")
    w = shares(dynamics)
    found = (w * target[:, None]).sum(-1)
    length = dynamics.length
    equal = target.sum(-1) / torch.arange(1, length + 1, device=tokens.device)
    weight = asks[:, None].to(w.dtype)
    return Induction(
        score=(found * weight).sum(-1) / weight.sum(-1).clamp(min=1),
        chance=equal[asks].mean().item(),
        queries=int(asks.sum()),
    )


def output_sizes(layer: LayerTrace) -> Float[Tensor, "B H"]:
    """Largest abs(y) of each head relative to the layer's; below ``DEAD`` a head does nothing."""
    size = layer.output.abs().amax((-2, -1))
    return size / size.amax().clamp(min=1e-30)


def _older(w: Float[Tensor, "*batch L L"]) -> Float[Tensor, "*batch L"]:
    """Share older than d, mean over the queries i >= 1, for d = 0 .. L-1."""
    length = w.shape[-1]
    total = torch.stack([w.diagonal(-d, -2, -1)[..., d == 0 :].sum(-1) for d in range(length)], -1)
    return (total.sum(-1, keepdim=True) - total.cumsum(-1)).clamp(min=0) / (length - 1)


def _moduli(dynamics: CoefficientDynamics) -> Float[Tensor, "*batch steps n"]:
    """abs of the eigenvalues of A_t, t >= 1."""
    found = eigenvalues(dynamics.evolution, dynamics.q).abs()
    return found.expand(*dynamics.batch_shape, *found.shape[-2:])[..., 1:, :]
