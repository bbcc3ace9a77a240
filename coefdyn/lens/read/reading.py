"""Reading of heads: numbers per head from the coefficients of one layer.

Coefficients can be negative, so a share is one of magnitudes:

    w_{i,j} = |alpha_{i,j} / eta_i| / sum_{l <= i} |alpha_{i,l} / eta_i|
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch

from coefdyn.analysis.selectivity import EPSILON
from coefdyn.analysis.spectra import steps
from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.lens.documents import refuse_padding
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
    """Positions that each head attends to on one input; means over the queries i >= 1.

    The first axis is the batch; for a layer with padding or packed documents it is that of
    ``LayerTrace.documents``, and L the longest of them.

    Attributes:
        profile: share at distance d = i - j, mean over the queries that reach so far, (..., H, L);
            NaN where none does.
        entropy: of w_i divided by log(i + 1): 0 looks at one token, 1 at all alike, (..., H).
        first: share on the first token (a sink), (..., H).
        previous: share on the token before, (..., H).
        own: share on the token itself, (..., H).
        older: share that is older than d tokens, (..., H, L).
        memory_tokens: smallest d with ``older`` at most a tenth, (..., H).
        near_zero: share of pairs with abs(alpha / eta) <= 1e-3, of those that the mask admits,
            (..., H).
        closed: share of eigenvalues of A_t, t >= 1, below 0.001: the past is dropped, (..., H).
            An outer decay (ALiBi, forgetting attention) is a factor of A_t.
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
    """Weight of heads on the tokens after earlier occurrences of the current token.

    Attributes:
        score: share on tokens whose predecessor is the present token, (B, H), 0 where a sequence
            has no such token; the first axis as that of ``HeadReading``.
        chance: what equal shares would give.
        queries: number of queries with such a token.
        asked: how many of them each sequence has, (B,).
    """

    score: Float[Tensor, "B H"]
    chance: float
    queries: int
    asked: Int[Tensor, " B"]

    @property
    def mean(self) -> Float[Tensor, " H"]:
        """Score of each head, over the queries of all sequences."""
        weight = self.asked.to(self.score.dtype)[:, None]
        return (self.score * weight).sum(0) / weight.sum()


def shares(dynamics: CoefficientDynamics) -> Float[Tensor, "*batch L L"]:
    """w; rows without any coefficient are zero."""
    return _shares(dynamics.coefficients(normalized=True))


def _shares(alpha: Float[Tensor, "*batch L L"]) -> Float[Tensor, "*batch L L"]:
    size = alpha.abs()
    total = size.sum(-1, keepdim=True)
    return torch.where(total > 0, size / total.clamp(min=1e-30), torch.zeros_like(size))


def looks(what: CoefficientDynamics | LayerTrace) -> HeadReading:
    """Distance profile, entropy, sink, memory length and gates of every head.

    Args:
        what: a layer of a trace, whose padding is left out and whose packed documents are read one
            by one; or dynamics without any.

    Raises:
        ValueError: for a single token, which has nothing to look back at, and for dynamics whose
            mask shows padding.
    """
    if isinstance(what, LayerTrace):
        return _together([_looks(dynamics) for dynamics in what.sequences()])
    refuse_padding(what)
    return _looks(what)


def _looks(dynamics: CoefficientDynamics) -> HeadReading:
    length = dynamics.length
    if length < 2:
        raise ValueError("looks needs at least two tokens in each sequence, got L = 1.")
    alpha = dynamics.coefficients(normalized=True)
    w = _shares(alpha)
    profile = torch.stack([w.diagonal(-d, -2, -1).mean(-1) for d in range(length)], -1)
    surprise = -(w * w.clamp(min=1e-30).log()).sum(-1)[..., 1:]
    most = torch.arange(2, length + 1, device=w.device).to(w.dtype).log()
    older = _older(w)
    pairs = torch.ones_like(alpha, dtype=torch.bool).tril()
    if dynamics.mask is not None:
        pairs = pairs & dynamics.mask.rows(0, length, 0, w.device)
    near = ((alpha.abs() <= EPSILON) & pairs).sum((-2, -1)) / pairs.sum((-2, -1))
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


def _together(readings: Sequence[HeadReading]) -> HeadReading:
    """Readings of several sequences as one, the shorter ones filled up."""
    if len(readings) == 1:
        return readings[0]
    longest = max(one.profile.shape[-1] for one in readings)
    fill = {"profile": float("nan"), "older": 0.0}

    def joined(name: str) -> Tensor:
        parts = [getattr(one, name) for one in readings]
        if name in fill:
            missing = [(0, longest - part.shape[-1]) for part in parts]
            pad = torch.nn.functional.pad
            parts = [pad(x, m, value=fill[name]) for x, m in zip(parts, missing, strict=True)]
        return torch.cat(parts)

    return HeadReading(**{one.name: joined(one.name) for one in fields(HeadReading)})


def head_scores(layers: Sequence[LayerTrace]) -> Float[Tensor, "layers H scores"]:
    """``SCORES`` of every head of some layers, means over the sequences: one table of numbers.

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
        read = looks(layer)
        values = [getattr(read, name).to(read.first.dtype) for name in SCORES]
        rows.append(torch.stack(values, -1).mean(0))
    return torch.stack(rows)


def induction(what: CoefficientDynamics | LayerTrace, tokens: Int[Tensor, "B L"]) -> Induction:
    """Share on the tokens that followed earlier occurrences of the present one.

    Args:
        what: a layer of a trace, whose padding is left out; or dynamics without any, (B, H).
        tokens: the ids that went into the model.

    Raises:
        ValueError: if the tokens do not fit, none of them occurs twice, the mask of dynamics shows
            padding, and as ``LayerTrace.documents``.
    """
    dynamics = what.dynamics if isinstance(what, LayerTrace) else what
    expected = (dynamics.batch_shape[0], dynamics.length)
    if tokens.shape != expected:
        raise ValueError(f"tokens must have shape (B, L) = {expected}, got {tuple(tokens.shape)}.")
    if not isinstance(what, LayerTrace):
        refuse_padding(what)
        found = [_induction(what, tokens)]
    elif what.segments is None:
        found = [_induction(one, tokens) for one in what.sequences()]
    else:
        own = [tokens[one.row, one.tokens][None] for one in what.documents]
        found = [_induction(d, ids) for d, ids in zip(what.sequences(), own, strict=True)]
    score, chances, queries = (torch.cat(parts) for parts in zip(*found, strict=True))
    if not bool(queries.any()):
        raise ValueError("no token occurs twice, so there is nothing to induce from.")
    return Induction(
        score=score, chance=chances.mean().item(), queries=int(queries.sum()), asked=queries
    )


def _induction(
    dynamics: CoefficientDynamics, tokens: Int[Tensor, "B L"]
) -> tuple[Tensor, Tensor, Tensor]:
    """Score (B, H), chance of each query that asks, and how many of them ask in each sequence."""
    before = torch.nn.functional.pad(tokens[:, :-1], (1, 0), value=-1)
    target = (tokens[:, :, None] == before[:, None, :]).tril()
    asks = target.any(-1)
    w = shares(dynamics)
    found = (w * target[:, None]).sum(-1)
    equal = target.sum(-1) / torch.arange(1, dynamics.length + 1, device=tokens.device)
    weight = asks[:, None].to(w.dtype)
    score = (found * weight).sum(-1) / weight.sum(-1).clamp(min=1)
    return score, equal[asks], asks.sum(-1)


def output_sizes(layer: LayerTrace) -> Float[Tensor, "B H"]:
    """Largest abs(y) of each head relative to the layer's; below ``DEAD`` a head does nothing.

    Padding does not count; (documents, H) as in ``HeadReading``.
    """
    parts = [layer.output[one.row, :, one.tokens] for one in layer.documents]
    size = torch.stack([part.abs().amax((-2, -1)) for part in parts])
    return size / size.amax().clamp(min=1e-30)


def _older(w: Float[Tensor, "*batch L L"]) -> Float[Tensor, "*batch L"]:
    """Share older than d, mean over the queries i >= 1, for d = 0 .. L-1."""
    length = w.shape[-1]
    total = torch.stack([w.diagonal(-d, -2, -1)[..., d == 0 :].sum(-1) for d in range(length)], -1)
    return (total.sum(-1, keepdim=True) - total.cumsum(-1)).clamp(min=0) / (length - 1)


def _moduli(dynamics: CoefficientDynamics) -> Float[Tensor, "*batch steps n"]:
    """abs of the eigenvalues of A_t, times that of an outer decay, t >= 1."""
    found = steps(dynamics).abs()
    return found.expand(*dynamics.batch_shape, *found.shape[-2:])[..., 1:, :]
