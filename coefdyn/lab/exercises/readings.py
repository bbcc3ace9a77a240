"""Exercises beside the recurrences: divisors, norms, distances, kinds of weights, measurements."""

from __future__ import annotations

from typing import Any

import torch

from coefdyn.lab.exercises.exercise import Exercise
from coefdyn.lab.exercises.hidden import SIZES, draw
from coefdyn.shapes import Tensor

__all__ = ["READINGS"]

Step = tuple[Tensor, Tensor]


# -- normalized attention: one step, divided by exp(log_eta)


def _divided_inputs(case: int) -> dict[str, Any]:
    _, n, d_v = SIZES[case]
    S, q, k, v, log_eta = draw(case, (n, d_v), (n,), (n,), (d_v,), (1,))
    return {"S": S, "q": q, "k": k, "v": v, "log_eta": log_eta[0]}


def _divided_step(S: Tensor, q: Tensor, k: Tensor, v: Tensor, log_eta: Tensor) -> Step:
    S = S + torch.outer(k, v)
    return S, q @ S / log_eta.exp()


def _divides_the_state(S: Tensor, q: Tensor, k: Tensor, v: Tensor, log_eta: Tensor) -> Step:
    S = (S + torch.outer(k, v)) / log_eta.exp()
    return S, q @ S


def _multiplies(S: Tensor, q: Tensor, k: Tensor, v: Tensor, log_eta: Tensor) -> Step:
    return _divided_step(S, q, k, v, -log_eta)


def _divides_by_log(S: Tensor, q: Tensor, k: Tensor, v: Tensor, log_eta: Tensor) -> Step:
    S = S + torch.outer(k, v)
    return S, q @ S / log_eta


# -- the output norm


def _norm_inputs(case: int) -> dict[str, Any]:
    L, _, d_v = SIZES[case]
    y, epsilon = draw(case, (L, d_v + 1), (1,))
    return {"y": y, "epsilon": epsilon[0].abs()}


def _rms(y: Tensor, epsilon: Tensor) -> Tensor:
    return y / (y.square().mean(-1, keepdim=True) + epsilon).sqrt()


def _rms_of_the_sum(y: Tensor, epsilon: Tensor) -> Tensor:
    return y / (y.square().sum(-1, keepdim=True) + epsilon).sqrt()


def _epsilon_outside(y: Tensor, epsilon: Tensor) -> Tensor:
    return y / (y.square().mean(-1, keepdim=True).sqrt() + epsilon)


def _layer_norm(y: Tensor, epsilon: Tensor) -> Tensor:
    return _rms(y - y.mean(-1, keepdim=True), epsilon)


def _across_tokens(y: Tensor, epsilon: Tensor) -> Tensor:
    return y / (y.square().mean() + epsilon).sqrt()


# -- a constant decay


def _retention_inputs(case: int) -> dict[str, Any]:
    L, n, _ = SIZES[case]
    q, k, g = draw(case, (L, n), (L, n), (1,))
    return {"q": q, "k": k, "gamma": g[0].sigmoid()}


def _retention(q: Tensor, k: Tensor, gamma: Tensor, *, least: int = 0) -> Tensor:
    steps = torch.arange(len(q), dtype=q.dtype)
    distance = (steps[:, None] - steps).clamp(min=0) + least
    return (gamma**distance * (q @ k.T)).tril()


def _decays_the_diagonal(q: Tensor, k: Tensor, gamma: Tensor) -> Tensor:
    return _retention(q, k, gamma, least=1)


def _reads_the_future(q: Tensor, k: Tensor, gamma: Tensor) -> Tensor:
    steps = torch.arange(len(q), dtype=q.dtype)
    return gamma ** (steps[:, None] - steps).abs() * (q @ k.T)


def _one_decay_for_all(q: Tensor, k: Tensor, gamma: Tensor) -> Tensor:
    return gamma * (q @ k.T).tril()


# -- kinds of weights


def _weights_inputs(case: int) -> dict[str, Any]:
    """Rows of each kind: convex, affine with negative entries, conic, with a zero, and neither.

    Their numbers are multiples of 2^-20, so that sums are exact.
    """
    L = SIZES[case][0] + 1
    (w,) = draw(case, (5, L))
    w[0] = w[0].softmax(-1)
    w[1] = torch.cat([1 - w[1, 1:].sum(-1, keepdim=True), w[1, 1:]])
    w[1, 0], w[1, 1] = w[1, 0] + 3, w[1, 1] - 3
    w[2] = w[2].abs() + 1
    w[3] = w[3].softmax(-1)
    w[3, -1] = w[3, -1] + w[3, 0]
    w[3, 0] = 0.0
    w[4, 0] = -1.0
    w, whole = (w * 2**20).round() / 2**20, [0, 1, 3]
    w[whole, -1] += 1 - w[whole].sum(-1)
    return {"w": w}


def _kinds(w: Tensor) -> Tensor:
    return torch.stack([(w >= 0).all(-1), (w.sum(-1) - 1).abs() < 1e-9], -1).double()


def _strictly_positive(w: Tensor) -> Tensor:
    return torch.stack([(w > 0).all(-1), (w.sum(-1) - 1).abs() < 1e-9], -1).double()


def _any_positive(w: Tensor) -> Tensor:
    return torch.stack([(w >= 0).any(-1), (w.sum(-1) - 1).abs() < 1e-9], -1).double()


def _sum_of_sizes(w: Tensor) -> Tensor:
    return torch.stack([(w >= 0).all(-1), (w.abs().sum(-1) - 1).abs() < 1e-9], -1).double()


# -- a share that is near zero


def _share_inputs(case: int) -> dict[str, Any]:
    L = SIZES[case][0] + 3
    (alpha,) = draw(case, (L, L))
    return {"alpha": alpha.tril(), "epsilon": torch.tensor(0.6, dtype=torch.float64)}


def _near_zero_share(alpha: Tensor, epsilon: Tensor) -> Tensor:
    past = torch.ones_like(alpha).tril().bool()
    return (alpha[past].abs() <= epsilon).double().mean()


def _counts_the_future(alpha: Tensor, epsilon: Tensor) -> Tensor:
    return (alpha.abs() <= epsilon).double().mean()


def _forgets_the_sign(alpha: Tensor, epsilon: Tensor) -> Tensor:
    past = torch.ones_like(alpha).tril().bool()
    return (alpha[past] <= epsilon).double().mean()


def _leaves_the_diagonal(alpha: Tensor, epsilon: Tensor) -> Tensor:
    past = torch.ones_like(alpha).tril(-1).bool()
    return (alpha[past].abs() <= epsilon).double().mean()


READINGS = (
    Exercise(
        name="divided step",
        inputs=_divided_inputs,
        solution=_divided_step,
        returns="(S, y): the new state (n, d_v), and the output (d_v,)",
        mistakes={
            "the divisor belongs to the token that reads; the state goes on undivided.": (
                _divides_the_state
            ),
            "eta stands below the line: divide, do not multiply.": _multiplies,
            "log_eta is a logarithm; the divisor is its exponential.": _divides_by_log,
        },
    ),
    Exercise(
        name="output norm",
        inputs=_norm_inputs,
        solution=_rms,
        returns="a tensor of the shape of y, (L, d)",
        mistakes={
            "it is the root of the *mean* square, not of the sum.": _rms_of_the_sum,
            "epsilon stands under the root.": _epsilon_outside,
            "no mean is subtracted; that would be a layer norm.": _layer_norm,
            "each token has a norm of its own.": _across_tokens,
        },
    ),
    Exercise(
        name="retention",
        inputs=_retention_inputs,
        solution=_retention,
        returns="a tensor alpha of shape (L, L), zero above the diagonal",
        mistakes={
            "a token is not decayed in its own step: the diagonal has no gamma.": (
                _decays_the_diagonal
            ),
            "entries above the diagonal are the future; they are 0.": _reads_the_future,
            "gamma acts once per step: its power is the distance.": _one_decay_for_all,
        },
    ),
    Exercise(
        name="kinds of weights",
        inputs=_weights_inputs,
        solution=_kinds,
        returns="a tensor of shape (rows, 2) of 0.0 and 1.0: no negative weight, and a sum of 1",
        mistakes={
            "a weight of exactly 0 is not negative.": _strictly_positive,
            "every weight of the row has to be at least 0, not one of them.": _any_positive,
            "the weights add up with their signs.": _sum_of_sizes,
        },
    ),
    Exercise(
        name="near-zero share",
        inputs=_share_inputs,
        solution=_near_zero_share,
        returns="a number, as a tensor without axes",
        mistakes={
            "entries above the diagonal are zero by causality and tell nothing; leave them out.": (
                _counts_the_future
            ),
            "a coefficient of -3 is not near zero.": _forgets_the_sign,
            "the token itself is part of its past; the diagonal counts.": _leaves_the_diagonal,
        },
    ),
)
