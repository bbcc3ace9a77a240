"""Rows that one pair holds alone: gradients through exp keep their digits, or are exactly zero.

The gradient of a score is its value's share less that of the row's mean. Where one pair holds all
of every row these are equal, and what is left of a difference rounded in two ways would be all of
the gradient: 1e-7 times a key of any size.
"""

from __future__ import annotations

import random

import pytest
import torch
from tolerances import relative_error, tolerance
from torch.nn.functional import normalize

from coefdyn import CoefficientDynamics, evolution, mask, normalizer, readout
from coefdyn.execution.chunked.rows import starts_concentrated

F32, F64 = torch.float32, torch.float64
Tensors = dict[str, torch.Tensor]
#: length of the keys
SIZE = 1e9
#: what may be left of the rounding that has to cancel: below it a gradient is 0 to any optimizer
LOST = 1e-6
#: tokens of a sequence that is one chunk
SHORT = 64
STRUCTURES = ("identity", "scalar", "diagonal", "householder", "scaled", "rank one")


def inputs(rng: random.Random, size: float, length: int, n: int = 2) -> Tensors:
    """Queries around 1, keys of length ``size`` of which each has scores of its own."""
    generator = torch.Generator().manual_seed(rng.randrange(10**6))

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=F64)

    x = {"q": normal(length, n), "k": size * normal(length, n), "v": normal(length, 2)}
    x |= {"z": normalize(normal(length, n), dim=-1), "beta": 0.5 + normal(length).sigmoid()}
    return x | {"g": -0.02 * normal(length, n).abs(), "c": -0.05 * normal(length).abs()}


def design(x: Tensors, structure: str, beside: str, eta: normalizer.Normalizer):
    g, erased = x["g"][..., 0], {"direction": x["z"], "beta": x["beta"]}
    left = x["beta"][..., None] * x["z"]
    evolutions = {
        "identity": lambda: evolution.Identity(),
        "scalar": lambda: evolution.Scalar(log_decay=g),
        "diagonal": lambda: evolution.Diagonal(log_decay=x["g"]),
        "householder": lambda: evolution.Householder(**erased),
        "scaled": lambda: evolution.Householder(**erased, log_decay=g),
        "rank one": lambda: evolution.DiagonalPlusRankOne(
            log_decay=x["g"], left=left, right=x["z"]
        ),
    }
    return CoefficientDynamics(
        q=x["q"],
        k=x["k"],
        evolution=evolutions[structure](),
        scaling=1.0,
        readout=readout.exp,
        normalizer=eta,
        outer_log_decay=x["c"] if beside == "outer" else None,
        mask=mask.Window(20) if beside == "window" else None,
    )


def moved(x: Tensors, dtype: torch.dtype) -> Tensors:
    """The same numbers, each off by a rounding of ``dtype``: large scores are known to so much."""
    noise, eps = torch.Generator().manual_seed(0), torch.finfo(dtype).eps
    return {
        n: t * (1 + eps * torch.randn(t.shape, generator=noise, dtype=F64)) for n, t in x.items()
    }


def side_by_side(x: Tensors, y: Tensors, *choices) -> tuple[Tensors, Tensors]:
    """The reference's gradients of two inputs, computed as one batch."""
    both = {name: torch.stack([x[name], y[name]]) for name in x}
    found = gradients(both, F64, "reference", *choices)
    return {n: g[0] for n, g in found.items()}, {n: g[1] for n, g in found.items()}


def gradients(x: Tensors, dtype: torch.dtype, method: str, *choices) -> Tensors:
    leaves = {name: value.to(dtype).detach().requires_grad_() for name, value in x.items()}
    y = design(leaves, *choices).apply(leaves["v"], method)
    probe = torch.linspace(-1, 1, y.shape[-2:].numel(), dtype=dtype)
    probe = probe.view(y.shape[-2:]).expand_as(y)
    found = torch.autograd.grad(y, list(leaves.values()), probe, allow_unused=True)
    return {n: g for n, g in zip(leaves, found, strict=True) if g is not None}


@pytest.mark.parametrize("dtype", [F32, F64])
@pytest.mark.parametrize("length", [24, 150])
@pytest.mark.parametrize("structure", STRUCTURES)
def test_gradients_of_concentrated_rows(structure: str, length: int, dtype: torch.dtype) -> None:
    """Every pair of length, structure, what stands beside and eta; a step of the reference costs
    the same for any number of channels, so what is long has one eta of the two."""
    rng = random.Random(f"{structure} {length}")
    etas = (normalizer.RowSum(), normalizer.FlooredRowSum(1e-3))
    for turn, beside in enumerate(("", "outer", "window"), STRUCTURES.index(structure)):
        for eta in etas if length < SHORT else etas[turn % 2 : turn % 2 + 1]:
            x = inputs(rng, SIZE, length)
            x = {name: value.to(dtype).double() for name, value in x.items()}
            want, shaken = side_by_side(x, moved(x, dtype), structure, beside, eta)
            own = want
            if dtype != F64:
                own = gradients(x, dtype, "reference", structure, beside, eta)
            lost = torch.finfo(dtype).eps * SIZE * float(want["v"].norm())
            leaves = {n: t.to(dtype).requires_grad_() for n, t in x.items()}
            assert starts_concentrated(design(leaves, structure, beside, eta), leaves["v"])
            for method in ("auto", "parallel", "chunked"):
                got = gradients(x, dtype, method, structure, beside, eta)
                for name, value in want.items():
                    limit = tolerance("parallel", dtype, "gradient") * float(value.norm())
                    known = (float((y[name] - value).norm()) for y in (own, shaken))
                    limit = max(limit, LOST * lost, *(30 * error for error in known))
                    error = float((got[name].double() - value).norm())
                    assert error <= limit, (method, name, beside, eta, error, limit)


def test_designs_that_are_not_concentrated_stay_on_the_fast_path() -> None:
    """One row of one head is enough; so is a call that records no gradient."""
    x = inputs(random.Random(0), 1.0, 40)
    x = {name: torch.stack([value, value]).float() for name, value in x.items()}
    choices = ("householder", "", normalizer.RowSum())
    along = torch.tensor([1.0, 0.0])  # never erased; 8 nats from score to score
    x |= {
        "q": along.expand(2, 40, 2),
        "k": 8.0 * torch.arange(40)[:, None] * along.expand(2, 40, 2),
    }
    x["z"] = along.flip(0).expand(2, 40, 2)
    x["k"].requires_grad_()
    assert starts_concentrated(design(x, *choices), x["v"])
    with torch.no_grad():
        assert not starts_concentrated(design(x, *choices), x["v"])
        k = x["k"].clone()
        k[1, 5] = k[1, 4]
    x["k"] = k.requires_grad_()
    assert not starts_concentrated(design(x, *choices), x["v"])


def test_zero_is_zero() -> None:
    x = inputs(random.Random(1), 1e9, 200)
    for structure in ("identity", "scalar", "householder"):
        got = gradients(x, F32, "auto", structure, "", normalizer.RowSum())
        want = gradients(x, F64, "reference", structure, "", normalizer.RowSum())
        assert float(want["q"].norm()) == 0
        assert float(got["q"].norm()) == 0 and relative_error(got["v"], want["v"]) < 2e-5
