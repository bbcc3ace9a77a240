"""One ingredient replaced by its neighbour's: with that the construction has to fail."""

from __future__ import annotations

from dataclasses import replace

import torch

from coefdyn import CoefficientDynamics, evolution, normalizer, readout

__all__ = ["NEIGHBOURS", "carried_by"]


def same_keys(dynamics: CoefficientDynamics) -> CoefficientDynamics:
    """Keys that read no token, as the LRU has them."""
    return replace(dynamics, k=torch.ones_like(dynamics.k))


def no_evolution(dynamics: CoefficientDynamics) -> CoefficientDynamics:
    """A_t = I, as linear attention has it."""
    return replace(dynamics, evolution=evolution.Identity())


def no_decay(dynamics: CoefficientDynamics) -> CoefficientDynamics:
    """DeltaNet's A_t: Gated DeltaNet's without a_t."""
    gated = dynamics.evolution
    assert isinstance(gated, evolution.Householder)
    return replace(dynamics, evolution=replace(gated, log_decay=None))


def fading(dynamics: CoefficientDynamics) -> CoefficientDynamics:
    """A_t = 0.9 I, a decay as RetNet has it."""
    log_decay = torch.full_like(dynamics.k[..., 0], -0.105)
    return replace(dynamics, evolution=evolution.Scalar(log_decay=log_decay))


def beta_to_one(dynamics: CoefficientDynamics) -> CoefficientDynamics:
    """Beta up to 1, as DeltaNet has it: nothing is mirrored."""
    held = dynamics.evolution
    assert isinstance(held, evolution.Householder)
    return replace(dynamics, evolution=replace(held, beta=held.beta.clamp_max(1.0)))


def no_divisor(dynamics: CoefficientDynamics) -> CoefficientDynamics:
    """eta = 1, as GLA has it."""
    return replace(dynamics, normalizer=normalizer.One())


def linear_readout(dynamics: CoefficientDynamics) -> CoefficientDynamics:
    """phi = identity, as normalized attention has it."""
    return replace(dynamics, readout=readout.identity)


#: the ingredient and the neighbour in words, and the replacement
NEIGHBOURS = {
    "keys": ("k_j reads the token; the LRU's does not", same_keys),
    "erasing": ("A_t; linear attention's is I", no_evolution),
    "decay": ("a_t; DeltaNet has none", no_decay),
    "keeping": ("A_t = I; RetNet's fades", fading),
    "mirror": ("beta up to 2; DeltaNet's ends at 1", beta_to_one),
    "divisor": ("eta, a sum with a floor; GLA's is 1", no_divisor),
    "positive weights": ("phi > 0 of no score; the identity gives 0", linear_readout),
}
ATTENTIONS = ("softmax attention", "linear attention")


def carried_by(task: str, row: str) -> str:
    """The name in ``NEIGHBOURS`` of what carries the construction of a cell."""
    if task in ("parity", "S3", "copy"):
        return "mirror"
    if row in ATTENTIONS and task in ("count", "long memory", "position"):
        return "positive weights"
    if (task, row) == ("long memory", "LRU"):
        return "keeping"
    if task == "count":
        return "divisor" if row == "mLSTM" else "keeping"
    if task == "position":
        return "keys" if row == "LRU" else "erasing"
    if "attention" in row or task in ("recall", "long memory"):
        return "keys"
    return "decay" if task == "forget" and row == "Gated DeltaNet" else "erasing"
