"""Exercises of the chapters on the Principles 4 to 6."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from coefdyn.lab.exercises.exercise import Exercise, Twist, register
from coefdyn.lab.exercises.hidden import SIZES, draw, put, replaced_at
from coefdyn.shapes import Tensor

# -- principle 4: the mirror between two keys


def _mirror_inputs(case: int) -> dict[str, Any]:
    _, n, _ = SIZES[case]
    a, b = draw(case, (n,), (n,))
    return {"a": a, "b": b * (a.norm() / b.norm())}


def _mirror_of(z: Tensor, beta: float = 2.0) -> Tensor:
    return torch.eye(len(z), dtype=z.dtype) - beta * torch.outer(z, z) / (z @ z)


def _mirror(a: Tensor, b: Tensor) -> Tensor:
    return _mirror_of(a - b)


def _mirror_of_sum(a: Tensor, b: Tensor) -> Tensor:
    return _mirror_of(a + b)


def _mirror_unnormalized(a: Tensor, b: Tensor) -> Tensor:
    return torch.eye(len(a), dtype=a.dtype) - 2 * torch.outer(a - b, a - b)


def _projects(a: Tensor, b: Tensor) -> Tensor:
    return _mirror_of(a - b, 1.0)


# -- principle 5: the scaling that gives variance 1


def _variance_inputs(case: int) -> dict[str, Any]:
    _, n, d_v = SIZES[case]
    T_q, T_k = draw(case, (n, n + d_v), (n, n + d_v))
    return {"T_q": T_q, "T_k": T_k}


def _unit_variance(T_q: Tensor, T_k: Tensor) -> Tensor:
    return (T_q @ T_q.T @ T_k @ T_k.T).trace() ** -0.5


def _unit_covariance(T_q: Tensor, T_k: Tensor) -> Tensor:
    return torch.tensor(len(T_q), dtype=T_q.dtype) ** -0.5


def _without_root(T_q: Tensor, T_k: Tensor) -> Tensor:
    return 1 / (T_q @ T_q.T @ T_k @ T_k.T).trace()


def _product_of_traces(T_q: Tensor, T_k: Tensor) -> Tensor:
    return 1 / (T_q.norm() * T_k.norm())


def _same_input(T_q: Tensor, T_k: Tensor) -> Tensor:
    return 1 / (T_q * T_k).sum().abs()


# -- principle 6: keys that grow, exp, and the row sum


def _growing_inputs(case: int) -> dict[str, Any]:
    """Inputs whose last case has a score beyond 709, where exp overflows in float64."""
    L, _, _ = SIZES[case]
    (s,) = draw(case, (L,))
    return {"s": s, "growth": torch.tensor((1.1, 1.2, 1.3, 1.6)[case], dtype=s.dtype)}


def _grown(s: Tensor, growth: Tensor, *, first: int = 0) -> Tensor:
    steps = torch.arange(len(s), dtype=s.dtype)
    return growth ** (steps[:, None] - steps + first) * s


def _growing(s: Tensor, growth: Tensor, *, first: int = 0) -> Tensor:
    above = torch.ones(len(s), len(s)).triu(1).bool()
    return _grown(s, growth, first=first).masked_fill(above, -torch.inf).softmax(-1)


def _growing_overflows(s: Tensor, growth: Tensor) -> Tensor:
    alpha = _grown(s, growth).exp().tril()
    return alpha / alpha.sum(-1, keepdim=True)


def _growing_sees_ahead(s: Tensor, growth: Tensor) -> Tensor:
    return _grown(s, growth).softmax(-1).tril()


def _grows_outside(s: Tensor, growth: Tensor) -> Tensor:
    steps = torch.arange(len(s), dtype=s.dtype)
    alpha = (growth ** (steps[:, None] - steps) * s.exp()).tril()
    return alpha / alpha.sum(-1, keepdim=True)


register(
    Exercise(
        name="mirror",
        inputs=_mirror_inputs,
        solution=_mirror,
        returns="the step, a tensor of shape (n, n)",
        mistakes={
            "this sends a to -b: the mirror stands at a right angle to a - b.": _mirror_of_sum,
            "z has to have length 1, or divide by its square.": _mirror_unnormalized,
            "beta = 1 projects both keys onto the mirror; a reflection has beta = 2.": _projects,
        },
        hard={
            "b = -a": Twist(
                change=put(b=lambda x: -x["a"]),
                hint="a + b is 0 here; the mirror stands at a right angle to a - b.",
            ),
            "keys of length 1e-8": Twist(
                change=put(a=lambda x: 1e-8 * x["a"], b=lambda x: 1e-8 * x["b"]),
                hint="the mirror does not depend on the length of the keys; no epsilon.",
            ),
        },
    ),
    Exercise(
        name="unit variance",
        inputs=_variance_inputs,
        solution=_unit_variance,
        returns="the scaling b, as a tensor without axes",
        mistakes={
            "1/sqrt(n) is right where both covariances are I; these are not.": _unit_covariance,
            "the variance grows with b squared, so a root is missing.": _without_root,
            "the trace of a product is not the product of the traces.": _product_of_traces,
            "the two tokens are different and independent; that is a token that reads itself.": (
                _same_input
            ),
        },
        hard={
            "small projections of rank one": Twist(
                change=put(
                    T_q=lambda x: 1e-4 * torch.outer(x["T_q"][:, 0], x["T_q"][0]),
                    T_k=lambda x: 1e-4 * torch.outer(x["T_k"][:, 0], x["T_k"][0]),
                ),
                hint="covariances may be singular and small; neither an inverse nor an epsilon.",
            ),
        },
    ),
    Exercise(
        name="growing keys",
        inputs=_growing_inputs,
        solution=_growing,
        returns="the normalized coefficients, a tensor of shape (L, L), zero above the diagonal",
        mistakes={
            "a key does not grow in its own step: the diagonal has the scores s.": partial(
                _growing, first=1
            ),
            "exp overflows before the division; subtract the largest score of each row first.": (
                _growing_overflows
            ),
            "the row sum holds tokens of the future; mask before you normalize.": (
                _growing_sees_ahead
            ),
            "the keys grow, so the growth is inside of exp.": _grows_outside,
        },
        hard={
            "scores near -800": Twist(
                change=put(s=lambda x: x["s"] - 800),
                hint="exp(-800) is 0 in float64; subtract the largest score of each row first.",
            ),
            "a first score far below the others": Twist(
                change=put(s=lambda x: replaced_at(x["s"], 0, -900.0)),
                hint="each row has a largest score of its own; the first row reads the first key "
                "only.",
            ),
        },
    ),
)
