"""S3 in two layers that only add up: A = I, phi the identity, eta = 1, and pointwise maps between.

An element is a rotation by ``TURNS`` thirds of a turn after ``SWAPPED`` swaps of the last two cups.
A swap turns the sense of every rotation before it. So the first layer counts the swaps, and the
second adds the rotations, each with the sign of the number of swaps up to it; the sign of all swaps
so far then gives the sense of the sum. That solutions of two layers exist is proved for DeltaNet
with beta up to 2, at any length, by Siems et al. (2025); here two counts are enough.
"""

from __future__ import annotations

import math

import torch

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.shapes import Float, Int, Tensor

__all__ = ["SWAPPED", "TURNS", "add_up", "follow"]

#: thirds of a turn, and swaps, of the elements of S3 as the task numbers them
TURNS, SWAPPED = torch.tensor([0, 0, 1, 1, 2, 2]), torch.tensor([0, 1, 1, 0, 0, 1])


def add_up(values: Float[Tensor, "*batch L"]) -> Float[Tensor, "*batch L"]:
    """A layer with A_t = I, phi = identity, eta = 1 and b = 1 whose keys and queries are 1."""
    ones = torch.ones(*values.shape, 1, dtype=values.dtype)
    layer = CoefficientDynamics(
        q=ones,
        k=ones,
        evolution=evolution.Identity(),
        scaling=1.0,
        readout=readout.identity,
        normalizer=normalizer.One(),
    )
    return layer.apply(values[..., None])[..., 0]


def follow(
    elements: Int[Tensor, "*batch L"], *, count_swaps: bool = True
) -> Int[Tensor, "*batch L"]:
    """The product of all elements so far, by two layers.

    Args:
        elements: numbers 0 to 5, as in ``PermutationConfig``.
        count_swaps: False leaves the first layer out; the rotations are then added without a sense.
    """
    swaps = SWAPPED[elements].double()
    counted = add_up(swaps) if count_swaps else torch.zeros_like(swaps)
    sign = torch.cos(math.pi * counted)
    thirds = (sign * add_up(sign * TURNS[elements])).round().long() % 3
    swapped = (sign < 0).long()
    return ((thirds[..., None] == TURNS) & (swapped[..., None] == SWAPPED)).long().argmax(-1)
