"""Wrong answers to the graded exercises on rows of coefficients, as readers may write them."""

from __future__ import annotations

import torch

from coefdyn.shapes import Tensor

__all__ = ["WRONG_ROWS"]


def _causal(scores: Tensor) -> Tensor:
    return scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf)


# -- coefficients


def _strike_and_move(q, k, A, b):
    alpha = torch.zeros(len(q), len(q), dtype=q.dtype)
    for j in range(len(q)):
        h = abs(b[j]) * k[j]
        for i in range(j, len(q)):
            h = A[i] @ h if i > j else h
            alpha[i, j] = q[i] @ h
    return alpha


# -- one pass


def _maximum_from_zero(scores, v):
    largest, total, summed = torch.zeros(()).double(), 0.0, torch.zeros(v.shape[1]).double()
    for s, value in zip(scores, v, strict=True):
        higher = torch.maximum(largest, s)
        shrink, weight = (largest - higher).exp(), (s - higher).exp()
        total, summed = shrink * total + weight, shrink * summed + weight * value
        largest = higher
    return summed / total


def _first_as_reference(scores, v):
    total, summed = 0.0, torch.zeros(v.shape[1]).double()
    for s, value in zip(scores, v, strict=True):
        weight = (s - scores[0]).clamp(max=700).exp()
        total, summed = total + weight, summed + weight * value
    return summed / total


def _two_loops(scores, v):
    largest = scores[0]
    for s in scores:
        largest = torch.maximum(largest, s)
    total, summed = 0.0, torch.zeros(v.shape[1]).double()
    for s, value in zip(scores, v, strict=True):
        weight = (s - largest).exp()
        total, summed = total + weight, summed + weight * value
    return summed / total


def _equal_scores_are_lost(scores, v):
    largest, total, summed = scores[0], torch.ones(()).double(), v[0]
    for s, value in zip(scores[1:], v[1:], strict=True):
        if s > largest:
            shrink = (largest - s).exp()
            total, summed, largest = shrink * total + 1, shrink * summed + value, s
        elif s < largest:
            weight = (s - largest).exp()
            total, summed = total + weight, summed + weight * value
    return summed / total


# -- linear attention, forgetting attention, heads


def _bare_exp(q, k, v, log_f):
    total = log_f.cumsum(0)
    weights = ((q @ k.T).exp() * (total[:, None] - total).tril().exp()).tril()
    return weights @ v / weights.sum(-1, keepdim=True)


def _quotient_of_decays(q, k, v, log_f):
    kept = log_f.cumsum(0).exp()
    scores = _causal(q @ k.T)
    weights = (scores - scores.amax(-1, keepdim=True)).exp() * (kept[:, None] / kept)
    return weights @ v / weights.sum(-1, keepdim=True)


# -- retention


def _double_loop(q, k, gamma):
    alpha = torch.zeros(len(q), len(q), dtype=q.dtype)
    for i in range(len(q)):
        for j in range(i + 1):
            alpha[i, j] = gamma ** (i - j) * (q[i] @ k[j])
    return alpha


def _power_of_places(q, k, gamma):
    power = gamma ** torch.arange(len(q), dtype=q.dtype)
    return (power[:, None] / power * (q @ k.T)).tril()


# -- growing keys


def _only_where_above_zero(s, growth):
    at = torch.arange(len(s))
    scores = _causal(growth ** (at[:, None] - at) * s)
    weights = (scores - scores.amax(-1, keepdim=True).clamp(min=0)).exp()
    return weights / weights.sum(-1, keepdim=True)


#: exercise -> what is wrong -> the answer, and part of what is said of it
WRONG_ROWS = {
    "coefficients": {
        "takes the size of b": _strike_and_move,
    },
    "one pass": {
        "starts the maximum at 0": _maximum_from_zero,
        "measures from the first score": _first_as_reference,
        "looks for the maximum first": _two_loops,
        "loses equal scores": _equal_scores_are_lost,
    },
    "linear attention": {
        "adds an epsilon": lambda q, k, v: (
            ((q @ k.T).tril() @ v) / ((q @ k.T).tril().sum(-1, keepdim=True) + 1e-12)
        ),
    },
    "forgetting attention": {
        "takes exp of raw scores": _bare_exp,
        "divides decays": _quotient_of_decays,
    },
    "many heads": {
        "drops axes of length 1": lambda alpha, v, W: (
            (alpha.squeeze(0) @ v.squeeze(0)).transpose(0, 1).flatten(1) @ W
        ),
    },
    "retention": {
        "loops over pairs": _double_loop,
        "divides powers of places": _power_of_places,
    },
    "growing keys": {
        "subtracts where the largest score is above 0": _only_where_above_zero,
    },
    "near-zero share": {
        "leaves every zero out": lambda alpha, epsilon: (
            (alpha[alpha != 0].abs() <= epsilon).double().mean()
        ),
        "asks for less than epsilon": lambda alpha, epsilon: (
            (alpha[torch.ones_like(alpha).tril().bool()].abs() < epsilon).double().mean()
        ),
    },
    "kinds of weights": {
        "asks for a sum of exactly 1": lambda w: torch.stack(
            [(w >= 0).all(-1), w.sum(-1) == 1], -1
        ).double(),
    },
    "output norm": {
        "adds an epsilon of its own": lambda y, epsilon: (
            y * (y.square().mean(-1, keepdim=True) + epsilon.clamp(min=1e-5)).rsqrt()
        ),
        "goes over 0/0": lambda y, epsilon: (
            y
            / y.norm(dim=-1, keepdim=True)
            * (y.square().sum(-1) / (y.square().mean(-1) + epsilon)).sqrt()[:, None]
        ),
    },
}
