"""Wrong answers to the graded exercises on rows of coefficients, as readers may write them."""

from __future__ import annotations

import torch
from torch.nn.functional import normalize

from coefdyn.shapes import Tensor

__all__ = ["WRONG_ROWS"]


def _causal(scores: Tensor) -> Tensor:
    return scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf)


# -- coefficients


def _through_inverses(q, k, A, b):
    products = [torch.eye(q.shape[1], dtype=q.dtype)]
    for matrix in A:
        products.append(matrix @ products[-1])
    alpha = torch.zeros(len(q), len(q), dtype=q.dtype)
    for i in range(len(q)):
        for j in range(i + 1):
            alpha[i, j] = q[i] @ products[i + 1] @ products[j + 1].inverse() @ k[j] * b[j]
    return alpha


def _own_evolution(q, k, A, b):
    alpha = torch.zeros(len(q), len(q), dtype=q.dtype)
    for j in range(len(q)):
        h = b[j] * k[j]
        for i in range(j, len(q)):
            h = A[i] @ h
            alpha[i, j] = q[i] @ h
    return alpha


def _strike_and_move(q, k, A, b):
    alpha = torch.zeros(len(q), len(q), dtype=q.dtype)
    for j in range(len(q)):
        h = abs(b[j]) * k[j]
        for i in range(j, len(q)):
            h = A[i] @ h if i > j else h
            alpha[i, j] = q[i] @ h
    return alpha


def _key_meets_last_step_first(q, k, A, b):
    alpha = torch.zeros(len(q), len(q), dtype=q.dtype)
    for i in range(len(q)):
        for j in range(i + 1):
            h = b[j] * k[j]
            for t in range(i, j, -1):
                h = A[t] @ h
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


def _reads_before_writing(q, k, v):
    S, z, outputs = torch.zeros(k.shape[1], v.shape[1]).double(), torch.zeros(k.shape[1]), []
    for t in range(len(q)):
        outputs.append(q[t] @ S / (q[t] @ z.double()).clamp(min=1e-30))
        S, z = S + torch.outer(k[t], v[t]), z + k[t]
    return torch.stack(outputs)


def _bare_exp(q, k, v, log_f):
    total = log_f.cumsum(0)
    weights = ((q @ k.T).exp() * (total[:, None] - total).tril().exp()).tril()
    return weights @ v / weights.sum(-1, keepdim=True)


def _quotient_of_decays(q, k, v, log_f):
    kept = log_f.cumsum(0).exp()
    scores = _causal(q @ k.T)
    weights = (scores - scores.amax(-1, keepdim=True)).exp() * (kept[:, None] / kept)
    return weights @ v / weights.sum(-1, keepdim=True)


def _minus_largest_of_all(q, k, v, log_f):
    total = log_f.cumsum(0)
    scores = _causal(q @ k.T + total[:, None] - total)
    weights = (scores - scores.max()).exp()
    return weights @ v / weights.sum(-1, keepdim=True)


# -- retention


def _double_loop(q, k, gamma):
    alpha = torch.zeros(len(q), len(q), dtype=q.dtype)
    for i in range(len(q)):
        for j in range(i + 1):
            alpha[i, j] = gamma ** (i - j) * (q[i] @ k[j])
    return alpha


def _rows_in_a_loop(q, k, gamma):
    rows, row = [], torch.zeros(len(q), dtype=q.dtype)
    for i in range(len(q)):
        row = gamma * row
        row[i] = 1.0
        rows.append(row * (k @ q[i]))
    return torch.stack(rows)


def _power_of_places(q, k, gamma):
    power = gamma ** torch.arange(len(q), dtype=q.dtype)
    return (power[:, None] / power * (q @ k.T)).tril()


# -- growing keys


def _from_largest_of_all(s, growth):
    at = torch.arange(len(s))
    scores = _causal(growth ** (at[:, None] - at) * s)
    weights = (scores - scores.max()).exp()
    return weights / weights.sum(-1, keepdim=True)


def _only_where_above_zero(s, growth):
    at = torch.arange(len(s))
    scores = _causal(growth ** (at[:, None] - at) * s)
    weights = (scores - scores.amax(-1, keepdim=True).clamp(min=0)).exp()
    return weights / weights.sum(-1, keepdim=True)


def _grown(s, growth):
    at = torch.arange(len(s))
    return growth ** (at[:, None] - at) * s


#: exercise -> what is wrong -> the answer, and part of what is said of it
WRONG_ROWS = {
    "coefficients": {
        "undoes steps by inverses": _through_inverses,
        "moves a key in its own step": _own_evolution,
        "takes the size of b": _strike_and_move,
        "reverses the order of the steps": _key_meets_last_step_first,
        "writes unscaled keys": lambda q, k, A, b: _strike_and_move(q, k, A, b * 0 + 1),
    },
    "one pass": {
        "starts the maximum at 0": _maximum_from_zero,
        "measures from the first score": _first_as_reference,
        "looks for the maximum first": _two_loops,
        "calls softmax": lambda scores, v: scores.softmax(-1) @ v,
        "loses equal scores": _equal_scores_are_lost,
        "cuts scores off": lambda scores, v: scores.clamp(-500, 500).softmax(-1) @ v,
    },
    "linear attention": {
        "adds an epsilon": lambda q, k, v: (
            ((q @ k.T).tril() @ v) / ((q @ k.T).tril().sum(-1, keepdim=True) + 1e-12)
        ),
        "reads before it writes": _reads_before_writing,
        "divides by the sum of all keys": lambda q, k, v: (
            ((q @ k.T).tril() @ v) / (q @ k.sum(0))[:, None]
        ),
        "forgets the mask": lambda q, k, v: q @ (k.T @ v) / (q @ k.sum(0))[:, None],
        "is softmax attention": lambda q, k, v: _causal(q @ k.T).softmax(-1) @ v,
    },
    "forgetting attention": {
        "takes exp of raw scores": _bare_exp,
        "divides decays": _quotient_of_decays,
        "subtracts the largest score of all rows": _minus_largest_of_all,
        "counts a token's own gate": lambda q, k, v, log_f: (
            _causal(q @ k.T + log_f.cumsum(0)[:, None] - log_f.cumsum(0) + log_f).softmax(-1) @ v
        ),
        "fades the output": lambda q, k, v, log_f: (
            (
                _causal(q @ k.T).softmax(-1)
                * (log_f.cumsum(0)[:, None] - log_f.cumsum(0)).tril().exp()
            )
            @ v
        ),
    },
    "many heads": {
        "reshapes without moving the heads": lambda alpha, v, W: (
            (alpha @ v).reshape(v.shape[1], -1) @ W
        ),
        "puts channels before heads": lambda alpha, v, W: (
            (alpha @ v).permute(1, 2, 0).flatten(1) @ W
        ),
        "averages the heads": lambda alpha, v, W: (
            (alpha.mean(0) @ v).transpose(0, 1).flatten(1) @ W
        ),
        "drops axes of length 1": lambda alpha, v, W: (
            (alpha.squeeze(0) @ v.squeeze(0)).transpose(0, 1).flatten(1) @ W
        ),
        "divides rows by their sums": lambda alpha, v, W: (
            (alpha / alpha.sum(-1, keepdim=True) @ v).transpose(0, 1).flatten(1) @ W
        ),
    },
    "retention": {
        "loops over pairs": _double_loop,
        "loops over rows": _rows_in_a_loop,
        "divides powers of places": _power_of_places,
        "decays the diagonal": lambda q, k, gamma: (
            gamma ** (torch.arange(len(q))[:, None] - torch.arange(len(q)) + 1) * (q @ k.T)
        ).tril(),
        "reads the future": lambda q, k, gamma: (
            gamma ** (torch.arange(len(q))[:, None] - torch.arange(len(q))).abs() * (q @ k.T)
        ),
    },
    "growing keys": {
        "takes exp of raw scores": lambda s, growth: (
            _grown(s, growth).exp().tril() / _grown(s, growth).exp().tril().sum(-1, keepdim=True)
        ),
        "subtracts the largest score of all rows": _from_largest_of_all,
        "subtracts where the largest score is above 0": _only_where_above_zero,
        "cuts scores off": lambda s, growth: _causal(_grown(s, growth).clamp(-700, 700)).softmax(
            -1
        ),
        "grows in the own step": lambda s, growth: _causal(_grown(growth * s, growth)).softmax(-1),
        "masks after the division": lambda s, growth: _grown(s, growth).softmax(-1).tril(),
    },
    "near-zero share": {
        "leaves every zero out": lambda alpha, epsilon: (
            (alpha[alpha != 0].abs() <= epsilon).double().mean()
        ),
        "asks for less than epsilon": lambda alpha, epsilon: (
            (alpha[torch.ones_like(alpha).tril().bool()].abs() < epsilon).double().mean()
        ),
        "counts the future": lambda alpha, epsilon: (alpha.abs() <= epsilon).double().mean(),
        "takes negative ones for small": lambda alpha, epsilon: (
            (alpha[torch.ones_like(alpha).tril().bool()] <= epsilon).double().mean()
        ),
        "leaves the diagonal out": lambda alpha, epsilon: (
            (alpha[torch.ones_like(alpha).tril(-1).bool()].abs() <= epsilon).double().mean()
        ),
    },
    "kinds of weights": {
        "asks for a sum of exactly 1": lambda w: torch.stack(
            [(w >= 0).all(-1), w.sum(-1) == 1], -1
        ).double(),
        "rounds the sum": lambda w: torch.stack(
            [(w >= 0).all(-1), w.sum(-1).round(decimals=2) == 1], -1
        ).double(),
        "asks for positive weights": lambda w: torch.stack(
            [(w > 0).all(-1), (w.sum(-1) - 1).abs() < 1e-9], -1
        ).double(),
        "asks for one weight": lambda w: torch.stack(
            [(w >= 0).any(-1), (w.sum(-1) - 1).abs() < 1e-9], -1
        ).double(),
        "answers with truth values of one column": lambda w: (w >= 0).all(-1).double(),
    },
    "output norm": {
        "normalizes to length 1": lambda y, epsilon: normalize(y, dim=-1) * y.shape[-1] ** 0.5,
        "divides by the root of the sum": lambda y, epsilon: (
            y / (y.square().sum(-1, keepdim=True) + epsilon).sqrt()
        ),
        "adds epsilon to the root": lambda y, epsilon: (
            y / (y.square().mean(-1, keepdim=True).sqrt() + epsilon)
        ),
        "adds an epsilon of its own": lambda y, epsilon: (
            y * (y.square().mean(-1, keepdim=True) + epsilon.clamp(min=1e-5)).rsqrt()
        ),
        "scales an average": lambda y, epsilon: (
            y * y.square().mean(-1, keepdim=True) / (y.square().mean(-1, keepdim=True) ** 1.5)
        ),
        "goes over 0/0": lambda y, epsilon: (
            y
            / y.norm(dim=-1, keepdim=True)
            * (y.square().sum(-1) / (y.square().mean(-1) + epsilon)).sqrt()[:, None]
        ),
    },
}
