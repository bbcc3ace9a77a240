"""Where evolutions that erase may grow, and by how much a fast algorithm may let them.

The triangular systems of the fast algorithms are accurate in absolute terms: a pair that many
erasures have made tiny keeps a rounding error of the size of its two vectors. A growth afterwards,
exp(G) relative to a token just written, makes that error exp(G) times larger. Token by token
nothing of the kind happens, since contraction and growth alternate.
"""

from __future__ import annotations

import torch

from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.dynamics.evolution import DiagonalPlusRankOne, Householder, ScaledHouseholder
from coefdyn.execution.inputs import can_read
from coefdyn.execution.problem import per_channel
from coefdyn.execution.stabilize import RESET
from coefdyn.shapes import Tensor

__all__ = ["LIMIT_NATS", "erases", "grows", "growth_nats", "reflects"]

#: most growth of any pair, in nats, that a triangular system of the whole sequence may see: costs
#: two digits of the dtype
LIMIT_NATS = 5.0


def growth_nats(log_decay: Tensor | None, log_scaling: Tensor | None) -> float:
    """The largest log weight of any pair (i, j), relative to that of the token (i, i) itself."""
    if log_scaling is not None:
        logs = log_scaling.detach().double()
    elif log_decay is not None:
        logs = torch.zeros_like(log_decay, dtype=torch.float64)
    else:
        return 0.0
    if log_decay is not None:
        logs = logs - log_decay.detach().double().clamp(min=RESET).cumsum(-1)
    rise = logs.cummax(-1).values - logs
    return float(rise.amax()) if rise.numel() else 0.0


def reflects(dynamics: CoefficientDynamics) -> bool:
    """Whether A_t is one of the Householder-like structures."""
    return type(dynamics.evolution) in (Householder, ScaledHouseholder)


def erases(dynamics: CoefficientDynamics) -> bool:
    """Whether A_t takes something out of the state, for which fast algorithms solve a system."""
    return reflects(dynamics) or type(dynamics.evolution) is DiagonalPlusRankOne


def grows(dynamics: CoefficientDynamics) -> bool:
    """Whether an evolution that erases grows by more than LIMIT_NATS, in any channel.

    While a graph is recorded (vmap, torch.compile, CUDA graphs) numbers cannot be read, and the
    answer is False: run such a design once without.
    """
    evolution, log_b = dynamics.evolution, dynamics.log_scaling
    if not erases(dynamics):
        return False
    g = getattr(evolution, "log_decay", None)
    found = [x for x in (g, log_b) if x is not None]
    if not found or not all(can_read(x) for x in found):
        return False
    if g is not None and per_channel(evolution):
        g, log_b = g.mT, None if log_b is None else log_b[..., None, :]
    return growth_nats(g, log_b) > LIMIT_NATS
