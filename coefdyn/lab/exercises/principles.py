"""Exercises of the chapters on principles: silencing readouts, steps, divisors."""

from __future__ import annotations

from typing import Any

import torch

from coefdyn.lab.exercises.exercise import Exercise
from coefdyn.lab.exercises.hidden import SIZES, draw
from coefdyn.shapes import Tensor

__all__ = ["PRINCIPLES"]

Step = tuple[Tensor, Tensor, Tensor]


# -- principle 1: phi(s) = 1 + s, keys that decay


def _affine_inputs(case: int) -> dict[str, Any]:
    _, n, d_v = SIZES[case]
    S, z, q, k, v, a = draw(case, (n, d_v), (d_v,), (n,), (n,), (d_v,), (n,))
    return {"S": S, "z": z, "q": q, "k": k, "v": v, "a": a.sigmoid()}


def _affine_step(S: Tensor, z: Tensor, q: Tensor, k: Tensor, v: Tensor, a: Tensor) -> Step:
    S, z = a[:, None] * S + torch.outer(k, v), z + v
    return S, z, z + q @ S


def _constant_decays(S: Tensor, z: Tensor, q: Tensor, k: Tensor, v: Tensor, a: Tensor) -> Step:
    S, z = a[:, None] * S + torch.outer(k, v), a.mean() * z + v
    return S, z, z + q @ S


def _constant_unread(S: Tensor, z: Tensor, q: Tensor, k: Tensor, v: Tensor, a: Tensor) -> Step:
    S, z, _ = _affine_step(S, z, q, k, v, a)
    return S, z, q @ S


def _adds_one(S: Tensor, z: Tensor, q: Tensor, k: Tensor, v: Tensor, a: Tensor) -> Step:
    S, z, _ = _affine_step(S, z, q, k, v, a)
    return S, z, 1 + q @ S


def _affine_reads_before(S: Tensor, z: Tensor, q: Tensor, k: Tensor, v: Tensor, a: Tensor) -> Step:
    new, total, _ = _affine_step(S, z, q, k, v, a)
    return new, total, z + q @ S


# -- principle 2: the worst that a drift of a key can do


def _drift_inputs(case: int) -> dict[str, Any]:
    L, n, _ = SIZES[case]
    q, k, rho = draw(case, (n,), (L, n), (1,))
    return {"q": q, "k": k, "rho": rho[0].sigmoid()}


def _worst_score(q: Tensor, k: Tensor, rho: Tensor) -> Tensor:
    return k @ q + rho * k.norm(dim=-1) * q.norm()


def _worst_of_unit_keys(q: Tensor, k: Tensor, rho: Tensor) -> Tensor:
    return k @ q + rho * q.norm()


def _worst_of_unit_query(q: Tensor, k: Tensor, rho: Tensor) -> Tensor:
    return k @ q + rho * k.norm(dim=-1)


def _along_the_key(q: Tensor, k: Tensor, rho: Tensor) -> Tensor:
    return (1 + rho) * (k @ q)


# -- principle 2.1: how often a sum of products of features is exactly zero


def _zeros_inputs(case: int) -> dict[str, Any]:
    p, r = draw(case, (2,))[0].sigmoid()
    return {"p": p, "r": r, "n": (2, 3, 4, 8)[case]}


def _all_zero(p: Tensor, r: Tensor, n: int) -> Tensor:
    return (1 - (1 - p) * (1 - r)) ** n


def _both_zero(p: Tensor, r: Tensor, n: int) -> Tensor:
    return (p * r) ** n


def _counts_twice(p: Tensor, r: Tensor, n: int) -> Tensor:
    return (p + r) ** n


def _some_zero(p: Tensor, r: Tensor, n: int) -> Tensor:
    return 1 - ((1 - p) * (1 - r)) ** n


def _one_channel(p: Tensor, r: Tensor, n: int) -> Tensor:
    return 1 - (1 - p) * (1 - r)


# -- principle 2.2: the nearest query that silences


def _silencing_inputs(case: int) -> dict[str, Any]:
    """Inputs of n - 1 keys; in the last cases the first key is repeated."""
    _, n, _ = SIZES[case]
    q, k = draw(case, (n,), (n - 1, n))
    return {"q": q, "k": torch.cat([k, k[:1]]) if case > 1 else k}


def _silencing(q: Tensor, k: Tensor) -> Tensor:
    return q - torch.linalg.pinv(k) @ (k @ q)


def _all_at_once(q: Tensor, k: Tensor) -> Tensor:
    return q - k.T @ ((k @ q) / k.square().sum(-1))


def _one_by_one(q: Tensor, k: Tensor) -> Tensor:
    for key in k:
        q = q - (key @ q) / (key @ key) * key
    return q


def _unit_keys(q: Tensor, k: Tensor) -> Tensor:
    return q - k.T @ (k @ q)


def _what_is_removed(q: Tensor, k: Tensor) -> Tensor:
    return q - _silencing(q, k)


# -- principle 3: what lies between two copies of a token


def _copies_inputs(case: int) -> dict[str, Any]:
    L, n, _ = SIZES[case]
    A, h = draw(case, (L, n, n), (n,))
    return {"A": A / n**0.5, "h": h, "j": case, "later": min(L - 1, case + 3)}


def _apart(A: Tensor, h: Tensor, j: int, later: int) -> Tensor:
    old = h
    for t in range(j + 1, later + 1):
        old = A[t] @ old
    return old - h


def _apart_from_own_step(A: Tensor, h: Tensor, j: int, later: int) -> Tensor:
    return _apart(A, h, j - 1, later)


def _apart_too_early(A: Tensor, h: Tensor, j: int, later: int) -> Tensor:
    return _apart(A, h, j, later - 1)


def _apart_backwards(A: Tensor, h: Tensor, j: int, later: int) -> Tensor:
    old = h
    for t in range(later, j, -1):
        old = A[t] @ old
    return old - h


def _only_moved(A: Tensor, h: Tensor, j: int, later: int) -> Tensor:
    return _apart(A, h, j, later) + h


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


def _grows_at_once(s: Tensor, growth: Tensor) -> Tensor:
    return _growing(s, growth, first=1)


def _growing_overflows(s: Tensor, growth: Tensor) -> Tensor:
    alpha = _grown(s, growth).exp().tril()
    return alpha / alpha.sum(-1, keepdim=True)


def _growing_sees_ahead(s: Tensor, growth: Tensor) -> Tensor:
    return _grown(s, growth).softmax(-1).tril()


def _grows_outside(s: Tensor, growth: Tensor) -> Tensor:
    steps = torch.arange(len(s), dtype=s.dtype)
    alpha = (growth ** (steps[:, None] - steps) * s.exp()).tril()
    return alpha / alpha.sum(-1, keepdim=True)


PRINCIPLES = (
    Exercise(
        name="affine readout",
        inputs=_affine_inputs,
        solution=_affine_step,
        returns="(S, z, y): the states (n, d_v) and (d_v,), and the output (d_v,)",
        mistakes={
            "the constant of 1 + s does not see the key, so what it sums does not decay.": (
                _constant_decays
            ),
            "the 1 in 1 + s weighs every value of the past; the output needs z too.": (
                _constant_unread
            ),
            "each value gets the weight 1, the output is not raised by 1: add z.": _adds_one,
            "token t reads the state that already holds it.": _affine_reads_before,
        },
    ),
    Exercise(
        name="worst drift",
        inputs=_drift_inputs,
        solution=_worst_score,
        returns="a tensor of shape (L,), the largest score that each key can be given",
        mistakes={
            "a drift is as long as rho times its own key; keys need not have length 1.": (
                _worst_of_unit_keys
            ),
            "a drift along the query raises the score by its length times the query's.": (
                _worst_of_unit_query
            ),
            "the worst drift points along the query, not along the key.": _along_the_key,
        },
    ),
    Exercise(
        name="zeros of features",
        inputs=_zeros_inputs,
        solution=_all_zero,
        returns="a probability, as a tensor without axes",
        mistakes={
            "a product is zero where one of its factors is; both need not be.": _both_zero,
            "p + r counts the cases in which both factors are zero twice.": _counts_twice,
            "a sum of nonnegative products is zero only if all of them are, not one.": _some_zero,
            "that is one channel; all n have to be zero at the same time.": _one_channel,
        },
    ),
    Exercise(
        name="silencing query",
        inputs=_silencing_inputs,
        solution=_silencing,
        returns="the query, a tensor of shape (n,)",
        mistakes={
            "keys that are not at right angles share a part; it was taken away twice.": (
                _all_at_once
            ),
            "taking away one key's part gives back some of an earlier one's.": _one_by_one,
            "keys need not have length 1 or be at right angles.": _unit_keys,
            "that is the part in the span of the keys; the query keeps the rest.": (
                _what_is_removed
            ),
        },
    ),
    Exercise(
        name="two copies",
        inputs=_copies_inputs,
        solution=_apart,
        returns="the difference of the two stored keys at step `later`, a tensor of shape (n,)",
        mistakes={
            "a key is not moved in its own step; the product begins at j + 1.": (
                _apart_from_own_step
            ),
            "the step in which the later copy arrives moves the older one too.": _apart_too_early,
            "the step j + 1 acts first, so it stands rightmost in the product.": _apart_backwards,
            "that is the older copy alone; subtract the newer one.": _only_moved,
        },
    ),
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
    ),
    Exercise(
        name="growing keys",
        inputs=_growing_inputs,
        solution=_growing,
        returns="the normalized coefficients, a tensor of shape (L, L), zero above the diagonal",
        mistakes={
            "a key does not grow in its own step: the diagonal has the scores s.": _grows_at_once,
            "exp overflows before the division; subtract the largest score of each row first.": (
                _growing_overflows
            ),
            "the row sum holds tokens of the future; mask before you normalize.": (
                _growing_sees_ahead
            ),
            "the keys grow, so the growth is inside of exp.": _grows_outside,
        },
    ),
)
