"""Random draws on the generator's device, and the bookkeeping of repeated keys."""

from __future__ import annotations

import torch
from torch import Tensor

from coefdyn.shapes import Bool, Int


def integers(low: int, high: int, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Uniform int64 in [low, high)."""
    return torch.randint(low, high, shape, generator=generator, device=generator.device)


def uniform(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Uniform float32 in [0, 1)."""
    return torch.rand(shape, generator=generator, device=generator.device, dtype=torch.float32)


def integers_below(
    high: Int[Tensor, "*batch"], generator: torch.Generator
) -> Int[Tensor, "*batch"]:
    """Uniform int64 in [0, high), elementwise; high is int64 and >= 1.

    Drawn as floor(u * high) with u in float64, so the bias is below high * 2^-53.
    """
    u = torch.rand(high.shape, generator=generator, device=generator.device, dtype=torch.float64)
    return (u * high).long().minimum(high - 1)


def first_occurrence(ids: Int[Tensor, "*batch S"]) -> Int[Tensor, "*batch S"]:
    """Index along the last axis at which each element's value first appears.

    first[..., s] = min {r : ids[..., r] = ids[..., s]}; shape (..., S) int64. Cost S log S,
    whatever the number of different ids.
    """
    ordered, order = torch.sort(ids, dim=-1, stable=True)
    place = torch.arange(ids.shape[-1], device=ids.device).expand_as(ids)
    opens = torch.ones_like(ids, dtype=torch.bool)
    opens[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    group_start = torch.where(opens, place, 0).cummax(dim=-1).values
    return torch.empty_like(ids).scatter_(-1, order, order.gather(-1, group_start))


def one_of(mask: Bool[Tensor, "*batch S"], generator: torch.Generator) -> Int[Tensor, "*batch"]:
    """A uniformly chosen index of the true entries of each row: (..., S) bool to (...) int64."""
    score = uniform(tuple(mask.shape), generator)
    return torch.where(mask, score, -1.0).argmax(dim=-1)


def ordered_distinct(
    low: int, count: int, size: int, shape: tuple[int, ...], generator: torch.Generator
) -> Tensor:
    """Ordered tuples of distinct ids from [low, low + count), uniform: (*shape, size) int64.

    The i-th id is a rank among those not taken yet, raised past each smaller taken one.
    """
    assert size <= count, f"cannot draw {size} distinct ids from {count}"
    drawn: list[Tensor] = []
    ascending: list[Tensor] = []
    for i in range(size):
        rank = integers(0, count - i, shape, generator)
        for earlier in ascending:
            rank += rank >= earlier
        drawn.append(rank)
        _insert(ascending, rank)
    return torch.stack(drawn, dim=-1) + low


def _insert(ascending: list[Tensor], value: Tensor) -> None:
    """Insert elementwise into a list that is elementwise sorted."""
    for place, held in enumerate(ascending):
        ascending[place], value = torch.minimum(held, value), torch.maximum(held, value)
    ascending.append(value)


def subset(count: int, n: int, generator: torch.Generator, what: str) -> Int[Tensor, " {n}"]:
    """Draw n different indices of [0, count) in random order; ``ValueError`` if there are fewer."""
    if n > count:
        raise ValueError(
            f"asked for {n} of {what}, which holds {count}. Set train_examples or test_examples "
            f"to at most {count}."
        )
    return torch.randperm(count, generator=generator, device=generator.device)[:n]
