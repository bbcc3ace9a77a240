"""The parts that masked and tiled readouts are made of, against products of whole transitions."""

from __future__ import annotations

import pytest
import torch
from tolerances import assert_agree
from torch import Tensor

from coefdyn.execution.chunked.pointwise_scores import DiagonalScores
from coefdyn.execution.chunked.rank_one_tiles import rank_one_tiles

CHUNKED = {"method": "chunked", "dtype": torch.float64}
#: largest log decay per token, of the even and the odd channels; sums of 200 leave the range of exp
DECAYS = {"none": None, "mild": (0.2, 0.2), "strong": (200.0, 200.0), "mixed": (300.0, 1.0)}


def log_decay(kind: str, *shape: int) -> Tensor | None:
    if DECAYS[kind] is None:
        return None
    g = -torch.rand(shape, dtype=torch.float64)
    g[..., ::2] *= DECAYS[kind][0]
    g[..., 1::2] *= DECAYS[kind][1]
    return g


def products(transitions: Tensor) -> Tensor:
    """A_i ... A_{j+1} at ``[..., i, j]`` with j from 0: before the first token."""
    size, n = transitions.shape[-3], transitions.shape[-1]
    eye = torch.eye(n, dtype=transitions.dtype).expand(*transitions.shape[:-3], n, n)
    rows = []
    for i in range(size + 1):
        row = [eye if j == i else torch.zeros_like(eye) for j in range(i, size + 1)]
        for j in range(i - 1, -1, -1):
            row.insert(0, row[0] @ transitions[..., j, :, :])
        rows.append(torch.stack(row, -3))
    return torch.stack(rows, -4)


def tiles_by_products(q, k, left, right, g) -> tuple[Tensor, ...]:
    """What ``rank_one_tiles`` promises, from A_t itself."""
    decay = torch.ones_like(q) if g is None else g.exp()
    moves = products(torch.diag_embed(decay) - left[..., :, None] * right[..., None, :])
    inner = torch.einsum("btic,btijcd,btjd->btij", q, moves[:, :, 1:, 1:], k).tril()
    pulled = torch.einsum("btic,bticd->btid", q, moves[:, :, 1:, 0])
    carried = torch.einsum("btjcd,btjd->btjc", moves[:, :, -1, 1:], k)
    return pulled, carried, moves[:, :, -1, 0], inner


def assert_all_agree(found: tuple[Tensor, ...], wanted: tuple[Tensor, ...], leaves: list[Tensor]):
    """Outputs, then gradients of every leaf through random weights of all outputs."""
    for one, other in zip(found, wanted, strict=True):
        assert_agree(one, other, **CHUNKED, quantity="output")
    weights = [torch.randn_like(x) for x in wanted]
    one = torch.autograd.grad(found, leaves, weights, retain_graph=True)
    other = torch.autograd.grad(wanted, leaves, weights)
    for x, y in zip(one, other, strict=True):
        assert_agree(x, y, **CHUNKED, quantity="gradient")


@pytest.mark.parametrize("rows", [4, 16])
@pytest.mark.parametrize("kind", DECAYS)
def test_rank_one_tiles_are_products_of_transitions(kind: str, rows: int) -> None:
    shape = (2, 3, rows, 5)
    q, k, left, right = (torch.randn(shape, dtype=torch.float64) * 0.4 for _ in range(4))
    g = log_decay(kind, *shape)
    leaves = [x.requires_grad_() for x in (q, k, left, right, g) if x is not None]
    inner = torch.ones(rows, rows, dtype=torch.float64).tril()
    pulled, carried, whole, scores = rank_one_tiles(q, k, left, right, g)
    wanted = tiles_by_products(q, k, left, right, g)
    assert_all_agree((pulled, carried, whole, scores * inner), wanted, leaves)


@pytest.mark.parametrize("length", [16, 21])
@pytest.mark.parametrize("before", [100, 6])
@pytest.mark.parametrize("kind", [name for name in DECAYS if name != "none"])
def test_diagonal_scores_are_sums_over_channels(kind: str, before: int, length: int) -> None:
    """Tiles read in order as the kernel reads them: all earlier keys, or a window's tiles only."""
    rows, shape = 8, (2, length, 5)
    q, k = (torch.randn(shape, dtype=torch.float64) for _ in range(2))
    g = log_decay(kind, *shape)
    weights = torch.randn(2, length, length, dtype=torch.float64).tril()
    scores = DiagonalScores(q, k, g, rows)
    found = torch.zeros_like(weights)
    read = torch.zeros(length, length, dtype=torch.bool)
    for start in range(0, length, rows):
        stop, first = min(start + rows, length), max(0, (start - before) // rows * rows)
        read[start:stop, first:stop] = True
        found[:, start:stop, first:stop] = scores.raw(start, stop, first)
        scores.back(weights[:, start:stop, first:stop].clone(), start, stop, first)

    leaves = [x.requires_grad_() for x in (q, k, g)]
    moves = products(torch.diag_embed(g.exp()))[:, 1:, 1:]
    wanted = torch.einsum("bic,bijcd,bjd->bij", q, moves, k) * read.tril()
    assert_agree(found * read.tril(), wanted, **CHUNKED, quantity="output")
    gradients = torch.autograd.grad(wanted, leaves, weights)
    for one, other in zip(scores.finish(), gradients, strict=True):
        assert_agree(one, other, **CHUNKED, quantity="gradient")
