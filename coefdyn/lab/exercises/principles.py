"""Exercises of the chapters on the Principles 1 to 3."""

from __future__ import annotations

from typing import Any

import torch

from coefdyn.lab.exercises.exercise import Exercise, Twist, register
from coefdyn.lab.exercises.hidden import SIZES, draw, numbers, on, put, replaced_at
from coefdyn.shapes import Tensor

ENDS = "gates of exactly 0 and exactly 1"
ZERO = "a gate of 0 empties its channel and a gate of 1 keeps it; take no logarithm or quotient."


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


def _apart_backwards(A: Tensor, h: Tensor, j: int, later: int) -> Tensor:
    old = h
    for t in range(later, j, -1):
        old = A[t] @ old
    return old - h


def _only_moved(A: Tensor, h: Tensor, j: int, later: int) -> Tensor:
    return _apart(A, h, j, later) + h


register(
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
        hard={
            ENDS: Twist(change=put(a=numbers(0, 1, 0.5, 0)), hint=ZERO),
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
        hard={
            "a key of 0 and a key at a right angle to q": Twist(
                change=put(
                    q=numbers(2, 0, 0, 0), k=lambda x: torch.diag(x["q"].new_tensor([1, 0, -3, 1]))
                ),
                hint="a score of 0 can still be raised, a key of 0 cannot; divide by neither.",
            ),
            "a query of 0": Twist(
                change=put(q=lambda x: 0 * x["q"]),
                hint="a query of 0 has the score 0 on every key, without a division.",
            ),
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
        hard={
            "p = 0 and r = 0": Twist(
                change=put(p=numbers(0.0), r=numbers(0.0)),
                hint="features that are never zero give a probability of 0.",
            ),
            "p = 1": Twist(
                change=put(p=numbers(1.0)), hint="a query without features has the score 0, surely."
            ),
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
        hard={
            "a key of 0": Twist(
                change=put(k=lambda x: replaced_at(x["k"], 1, 0.0)),
                hint="a key of 0 is silent already; do not divide by its length.",
            ),
            "keys that leave no direction": Twist(
                change=put(k=lambda x: torch.cat([x["k"], torch.eye(4, dtype=torch.float64)])),
                hint="where the keys span everything, only the query 0 silences them all.",
            ),
        },
    ),
    Exercise(
        name="two copies",
        inputs=_copies_inputs,
        solution=_apart,
        returns="the difference of the two stored keys at step `later`, a tensor of shape (n,)",
        mistakes={
            "a key is not moved in its own step; the product begins at j + 1.": on(
                _apart, j=lambda x: x["j"] - 1
            ),
            "the step in which the later copy arrives moves the older one too.": on(
                _apart, later=lambda x: x["later"] - 1
            ),
            "the step j + 1 acts first, so it stands rightmost in the product.": _apart_backwards,
            "that is the older copy alone; subtract the newer one.": _only_moved,
        },
        hard={
            "an evolution of 0 before the older copy": Twist(
                change=put(A=lambda x: replaced_at(x["A"], 1, 0.0)),
                hint="steps up to j do not matter; form none of them, and no inverse to undo them.",
            ),
            "evolutions of I": Twist(
                change=put(A=lambda x: torch.eye(4, dtype=torch.float64).expand(9, 4, 4).clone()),
                hint="where nothing moves, the copies are the same and the difference is 0.",
            ),
        },
    ),
)
