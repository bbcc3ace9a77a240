"""Growth of erasing evolutions, and the limits within which fast algorithms are accurate.

The triangular systems of the fast algorithms are accurate in absolute terms: a pair that many
erasures have made tiny keeps a rounding error of the size of its two vectors. A growth afterwards,
exp(G) relative to a token just written, makes that error exp(G) times larger. Token by token
nothing of the kind happens, since contraction and growth alternate.

G is asked here and nowhere else, of the whole design: decays of A_t, the outer decay, log scalings
and what an erasure itself adds where it is no contraction, before any gate is stabilised.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.dynamics.evolution import (
    Diagonal,
    DiagonalPlusRankOne,
    Householder,
    Identity,
    Scalar,
)
from coefdyn.execution.inputs import can_read
from coefdyn.execution.problem import per_channel
from coefdyn.execution.stabilize import RESET
from coefdyn.execution.state import has_finite_state
from coefdyn.shapes import Float, Tensor

__all__ = [
    "LIMIT_NATS",
    "erases",
    "grows",
    "growth_message",
    "hidden_growth",
    "horizon_tokens",
    "householder_nats",
    "most_householder_nats",
    "most_rank_one_nats",
    "rank_one_nats",
    "reflects",
    "rise",
]

#: most growth of any pair, in nats, that a triangular system of the whole sequence may see: costs
#: two digits of the dtype
LIMIT_NATS = 5.0
#: a growth that is out of every range, and of which sums stay finite
MOST_NATS = 1e4
#: tokens whose log scalings count as those of what was just written
RECENT = 8
#: tokens that a bound takes at a time, so that what it forms stays in cache
STRETCH = 128


def reflects(dynamics: CoefficientDynamics) -> bool:
    """Return whether the type of A_t is exactly Householder, and no subclass."""
    return type(dynamics.evolution) is Householder


def erases(dynamics: CoefficientDynamics) -> bool:
    """Return whether A_t erases from the state, so that fast algorithms solve a system."""
    return reflects(dynamics) or type(dynamics.evolution) is DiagonalPlusRankOne


def householder_nats(
    direction: Float[Tensor, "*#batch L n"], beta: Float[Tensor, "*#batch L"]
) -> Float[Tensor, "*batch L"]:
    """log ||I - beta z z^T||, 0 for beta |z|^2 in [0, 2]."""
    size = direction.detach().square().sum(-1)
    return (1 - beta.detach() * size).abs().clamp(min=1.0).log().clamp(max=MOST_NATS)


def most_householder_nats(
    direction: Float[Tensor, "*#batch L n"], beta: Float[Tensor, "*#batch L"]
) -> float:
    """The largest of ``householder_nats``, from few passes over its inputs; NaN where one is."""
    size = torch.linalg.vector_norm(direction.detach(), dim=-1)
    low, high = torch.aminmax(size.square_() * beta.detach())
    return math.log(max(abs(1 - float(low)), abs(1 - float(high)), 1.0))  # NaN stays, being first


def most_rank_one_nats(
    left: Float[Tensor, "*#batch L n"],
    right: Float[Tensor, "*#batch L n"],
    log_decay: Float[Tensor, "*#batch L n"],
) -> float:
    """At least the largest of ``rank_one_nats``: the first of its bounds, which decides for KDA."""
    stretches = zip(*(x.detach().split(STRETCH, -2) for x in (left, right, log_decay)), strict=True)
    found = [_products(a, b / g.exp()) for a, b, g in stretches]
    return float(_spread(*(torch.cat(x, -1) for x in zip(*found, strict=True))).amax())


def _products(a: Float[Tensor, "*#b L n"], b: Float[Tensor, "*#b L n"]) -> tuple[Tensor, Tensor]:
    """a . b and |a| |b|."""
    norm = torch.linalg.vector_norm
    return (a * b).sum(-1), norm(a, dim=-1) * norm(b, dim=-1)


def _spread(product: Float[Tensor, "*batch L"], sizes: Float[Tensor, "*batch L"]) -> Tensor:
    """log ||I - a b^T|| from the two ``_products``, where its n is 2 or more."""
    kept, square = 1 - product, sizes.square()
    spread = (square * (square + 4 * kept)).clamp(min=0.0).sqrt()
    return (kept + (square + spread) / 2).clamp(min=1.0).log() / 2


def rank_one_nats(
    left: Float[Tensor, "*#batch L n"],
    right: Float[Tensor, "*#batch L n"],
    log_decay: Float[Tensor, "*#batch L n"],
) -> Float[Tensor, "*batch L"]:
    """Nats that ||diag(d) - left right^T|| exceeds the growth of the channels by, at most.

    The least of three bounds: with d on the right or on the left of I - l w^T, whose norm has a
    closed form, and with both terms apart.
    """
    left, right, g = (x.detach() for x in (left, right, log_decay))
    d = g.exp()
    largest = g.amax(-1)
    both = (left.square().sum(-1) * right.square().sum(-1)).log() / 2
    apart = torch.logaddexp(both, largest) - largest
    for a, b in ((left, right / d), (left / d, right)):
        apart = torch.fmin(apart, _spread(*_products(a, b)))
    return apart.nan_to_num(nan=MOST_NATS).clamp(max=MOST_NATS)


def design_nats(
    dynamics: CoefficientDynamics, erasures: bool = True
) -> Float[Tensor, "*#batch channels L"] | None:
    """Nats of every token and channel in float64 (one channel where all grow alike); None for 0.

    Of a structure that solves no system, only what is kept apart from its vectors, in logarithms.
    """
    evolution: Any = dynamics.evolution
    outer = dynamics.outer_log_decay
    channels = erases(dynamics) and per_channel(evolution)
    g = evolution.log_decay if channels else evolution.common_log_decay
    parts = []
    if g is not None:
        parts.append(g.detach().mT if channels else g.detach()[..., None, :])
    if outer is not None:
        parts.append(outer.detach()[..., None, :])
    if erasures and reflects(dynamics):
        parts.append(householder_nats(evolution.direction, evolution.beta)[..., None, :])
    if erasures and type(evolution) is DiagonalPlusRankOne:
        nats = rank_one_nats(evolution.left, evolution.right, evolution.log_decay)
        parts.append(nats[..., None, :])
    if not parts:
        return None
    return sum((x.double().clamp(min=RESET) for x in parts[1:]), parts[0].double().clamp(min=RESET))


def _most(dynamics: CoefficientDynamics, erasures: bool) -> float:
    """At least the nats of every token and channel, in few passes; NaN where an input is."""
    evolution: Any = dynamics.evolution
    channels = erases(dynamics) and per_channel(evolution)
    g = evolution.log_decay if channels else evolution.common_log_decay
    most = sum(float(x.detach().amax()) for x in (g, dynamics.outer_log_decay) if x is not None)
    if erasures and reflects(dynamics):
        most += most_householder_nats(evolution.direction, evolution.beta)
    if erasures and type(evolution) is DiagonalPlusRankOne:
        most += most_rank_one_nats(evolution.left, evolution.right, evolution.log_decay)
    return most


def rise(nats: Float[Tensor, "*batch L"]) -> Float[Tensor, "*batch L"]:
    """At i: the largest sum of tokens j + 1 .. i, over all j <= i."""
    logs = -nats.cumsum(-1)
    return logs.cummax(-1).values - logs


def _reach(nats: Tensor | None, log_b: Tensor) -> Tensor:
    """At i: the largest log_b_j + nats_{j+1} + ... + nats_i, as ``(..., channels, L)``."""
    total = torch.zeros_like(log_b)[..., None, :] if nats is None else nats.cumsum(-1)
    return total + (log_b[..., None, :] - total).cummax(-1).values


def _rise(dynamics: CoefficientDynamics, erasures: bool = True) -> Tensor | None:
    """Excess of each row's largest pair over those just written, ``(..., L)``; None for 0.

    Just written is the largest of RECENT tokens' log scalings. A readout that is not homogeneous
    knows large scores from small: there the reach counts as it is, if that is more.
    """
    evolution, log_b = dynamics.evolution, dynamics.log_scaling
    nats = design_nats(dynamics, erasures)
    if log_b is None:
        found = None if nats is None or nats.numel() == 0 else rise(nats)
    else:
        log_b = log_b.detach().double()
        found = _reach(nats, log_b)
        if type(evolution) is Diagonal:  # what it keeps is known: the loss is what it does not
            channels = evolution.log_decay.detach().double().clamp(min=RESET).mT
            kept = channels if nats is None else channels + nats
            found = found - _reach(kept, log_b).amax(-2, keepdim=True)
        else:
            earlier = torch.nn.functional.pad(log_b, (RECENT - 1, 0), value=-torch.inf)
            recent = earlier.unfold(-1, RECENT, 1).amax(-1)[..., None, :]
            recent = recent if dynamics.readout.is_homogeneous else recent.clamp(max=0.0)
            found = found - recent
    return None if found is None else found.amax(-2)


def limit_nats(dynamics: CoefficientDynamics) -> float:
    """Largest growth that fast algorithms of this structure bear, in nats.

    LIMIT_NATS where they solve a system, infinite where A_t is a number, else half of the dtype's
    range, since factors are formed apart.
    """
    if erases(dynamics):
        return LIMIT_NATS
    if type(dynamics.evolution) in (Identity, Scalar):
        return math.inf
    return -math.log(torch.finfo(dynamics.dtype).tiny) / 2


def grows(dynamics: CoefficientDynamics, erasures: bool = True) -> bool:
    """Return whether an evolution that erases also grows by more than its limit.

    While a graph is recorded (vmap, torch.compile, CUDA graphs) numbers cannot be read, and the
    answer is False: run such a design once without. Most designs are answered by a bound of the
    largest growth of a single token; pairs are summed where that does not do.
    """
    limit, log_b = limit_nats(dynamics), dynamics.log_scaling
    tensors = (*dynamics.evolution.tensors().values(), dynamics.outer_log_decay, log_b)
    held = [x for x in tensors if x is not None]
    if limit == math.inf or not all(can_read(x) and x.numel() for x in held):
        return False
    if log_b is None and _most(dynamics, erasures) * dynamics.length <= limit:
        return False
    found = _rise(dynamics, erasures)
    return found is not None and bool(found.amax() > limit)


def hidden_growth(dynamics: CoefficientDynamics) -> bool:
    """Return whether a linear readout grows outside the view of a chunk.

    That is in log scalings, or in gates that are stabilised because eta cancels the scale of a row.
    A chunk does see the growth beside erasures.
    """
    log_b = dynamics.log_scaling
    weighted = dynamics.evolution.common_log_decay is not None or log_b is not None
    if not has_finite_state(dynamics) or not dynamics.readout.is_linear:
        return False
    tracked = dynamics.normalizer.cancels_scale and weighted
    return (tracked or log_b is not None) and grows(dynamics, erasures=False)


def horizon_tokens(dynamics: CoefficientDynamics) -> int:
    """Tokens before the first that some pair reaches with more growth than the limit."""
    found = _rise(dynamics, erasures=not hidden_growth(dynamics))
    if found is None:
        return dynamics.length
    over = (found > limit_nats(dynamics)).reshape(-1, dynamics.length).any(0)
    return int(over.to(torch.int8).argmax()) if bool(over.any()) else dynamics.length


def growth_message(dynamics: CoefficientDynamics, method: str) -> str:
    """Message of a method that refuses a growing design, with the number of tokens within reach."""
    return (
        f"method={method!r} is accurate with {type(dynamics.evolution).__name__} while no pair of "
        f"tokens grows by more than {limit_nats(dynamics):.3g} nats relative to the token just "
        f"written; here that holds for the first {horizon_tokens(dynamics)} of {dynamics.length} "
        "tokens. Use method='auto', which chooses one that is right."
    )
