"""Exercises beside the recurrences: divisors, norms, distances, kinds of weights, measurements."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from coefdyn.lab.exercises.demands import no_loop
from coefdyn.lab.exercises.exercise import Exercise, Twist, register
from coefdyn.lab.exercises.hidden import (
    SIZES,
    Arguments,
    draw,
    numbers,
    on,
    put,
    replaced_at,
    tokens_of,
)
from coefdyn.shapes import Tensor

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


# -- hard cases


def _nearly_whole(x: Arguments) -> Tensor:
    """Rows that sum to 1 up to rounding, to 1.001 and to 0."""
    rng = torch.Generator().manual_seed(0)
    whole = torch.randn(40, 23, generator=rng, dtype=torch.float64).softmax(-1)
    near = replaced_at(whole[:1], 0, whole[0] + 0.001 / 23)
    return torch.cat([whole, near, torch.zeros_like(near)])


def _ties(x: Arguments) -> Tensor:
    """Coefficients of exactly plus and minus epsilon among the drawn ones."""
    alpha = x["alpha"].clone()
    alpha[2, 0], alpha[4, 1], alpha[5, 5] = x["epsilon"], -x["epsilon"], x["epsilon"]
    return alpha


def _long_retention(length: int) -> Arguments:
    return {**tokens_of(length, 3, q=2, k=2), "gamma": torch.tensor(0.9, dtype=torch.float64)}


register(
    Exercise(
        name="divided step",
        inputs=_divided_inputs,
        solution=_divided_step,
        returns="(S, y): the new state (n, d_v), and the output (d_v,)",
        mistakes={
            "the divisor belongs to the token that reads; the state goes on undivided.": (
                _divides_the_state
            ),
            "eta stands below the line: divide, do not multiply.": on(
                _divided_step, log_eta=lambda x: -x["log_eta"]
            ),
            "log_eta is a logarithm; the divisor is its exponential.": _divides_by_log,
        },
        hard={
            "log_eta = -5": Twist(
                change=put(log_eta=numbers(-5.0)),
                hint="the divisor may be below 1; it is exp(log_eta) whatever its size.",
            ),
            "nothing stored and nothing written": Twist(
                change=put(S=lambda x: 0 * x["S"], k=lambda x: 0 * x["k"]),
                hint="an empty state reads 0; divide by exp(log_eta) alone.",
            ),
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
            "no mean is subtracted; that would be a layer norm.": on(
                _rms, y=lambda x: x["y"] - x["y"].mean(-1, keepdim=True)
            ),
            "each token has a norm of its own.": _across_tokens,
        },
        hard={
            "a token whose channels are all 0": Twist(
                change=put(y=lambda x: replaced_at(x["y"], 1, 0.0)),
                hint="epsilon keeps 0 at 0: divide by the root of (mean square + epsilon).",
            ),
            "epsilon = 0": Twist(
                change=put(epsilon=numbers(0.0)),
                hint="epsilon is an argument; nothing else is added to the mean square.",
            ),
        },
    ),
    Exercise(
        name="retention",
        inputs=_retention_inputs,
        solution=_retention,
        returns="a tensor alpha of shape (L, L), zero above the diagonal",
        mistakes={
            "a token is not decayed in its own step: the diagonal has no gamma.": partial(
                _retention, least=1
            ),
            "entries above the diagonal are the future; they are 0.": _reads_the_future,
            "gamma acts once per step: its power is the distance.": _one_decay_for_all,
        },
        hard={
            "gamma = 1e-20 with 24 tokens": Twist(
                change=put(gamma=numbers(1e-20)),
                hint="gamma^i / gamma^j is 0/0 here; take the power of the distance i - j.",
                case=3,
            ),
            "gamma = 1": Twist(
                change=put(gamma=numbers(1.0)),
                hint="with gamma = 1 nothing fades, and the future is still 0.",
            ),
        },
        demands={"the number of operations": no_loop(_long_retention)},
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
        hard={
            "sums of 1 up to rounding, of 1.001 and of 0": Twist(
                change=put(w=_nearly_whole),
                hint="a sum is 1 up to rounding, about 1e-15, not to the last bit nor to a "
                "thousandth.",
            ),
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
        hard={
            "coefficients of ReLU": Twist(
                change=put(alpha=lambda x: x["alpha"].relu()),
                hint="a coefficient of exactly 0 is near zero; only the future is left out.",
            ),
            "coefficients of exactly epsilon": Twist(
                change=put(alpha=_ties), hint="epsilon itself counts: |alpha| <= epsilon."
            ),
        },
    ),
)
