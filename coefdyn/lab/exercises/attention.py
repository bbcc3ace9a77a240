"""Exercises on rows of coefficients: softmax, linear and forgetting attention, several heads."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from coefdyn.lab.exercises.demands import one_pass
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

# -- coefficient dynamics --------------------------------------------------------------------------


def _coefficient_inputs(case: int) -> dict[str, Any]:
    L, n, _ = SIZES[case]
    q, k, A, b = draw(case, (L, n), (L, n), (L, n, n), (L,))
    return {"q": q, "k": k, "A": A / n**0.5, "b": b.abs() + 0.5}


def _scores(
    q: Tensor, k: Tensor, A: Tensor, b: Tensor, *, first: int = 1, left: bool = True
) -> Tensor:
    """q_i^T A_i ... A_{j+first} b_j k_j; left False multiplies later matrices on the right."""
    L, n = q.shape
    alpha = q.new_zeros(L, L)
    for j in range(L):
        product = torch.eye(n, dtype=q.dtype)
        for i in range(j, L):
            if i >= j + first:
                product = A[i] @ product if left else product @ A[i]
            alpha[i, j] = q[i] @ product @ (b[j] * k[j])
    return alpha


def _scaled_by_reader(q: Tensor, k: Tensor, A: Tensor, b: Tensor) -> Tensor:
    return _scores(q, k, A, torch.ones_like(b)) * b[:, None]


def _acausal(q: Tensor, k: Tensor, A: Tensor, b: Tensor) -> Tensor:
    above = torch.ones_like(q @ k.T).triu(1)
    return _scores(q, k, A, b) + above * ((q @ k.T) * b)


# -- rows ------------------------------------------------------------------------------------------


def _row_inputs(case: int) -> dict[str, Any]:
    L, _, d_v = SIZES[case]
    scores, v = draw(case, (L,), (L, d_v))
    return {"scores": scores * (1, 1, 1, 600)[case], "v": v}


def _running_row(scores: Tensor, v: Tensor) -> Tensor:
    """Softmax row in one pass: both sums are kept relative to the largest score so far."""
    largest, total, summed = scores[0], torch.ones_like(scores[0]), v[0]
    for s, value in zip(scores[1:], v[1:], strict=True):
        higher = torch.maximum(largest, s)
        shrink, weight = (largest - higher).exp(), (s - higher).exp()
        total = shrink * total + weight
        summed = shrink * summed + weight * value
        largest = higher
    return summed / total


def _unnormalized_row(scores: Tensor, v: Tensor) -> Tensor:
    return (scores - scores.max()).exp() @ v


def _overflowing_row(scores: Tensor, v: Tensor) -> Tensor:
    weights = scores.exp()
    return weights @ v / weights.sum()


def _stale_row(scores: Tensor, v: Tensor) -> Tensor:
    """Softmax row with a running maximum that forgets to rescale the earlier sum."""
    largest, total, summed = scores[0], torch.zeros_like(scores[0]), torch.zeros_like(v[0])
    for s, value in zip(scores, v, strict=True):
        largest = torch.maximum(largest, s)
        total = total + (s - largest).exp()
        summed = summed + (s - largest).exp() * value
    return summed / total


# -- linear attention ------------------------------------------------------------------------------


def _features(case: int) -> dict[str, Any]:
    L, n, d_v = SIZES[case]
    q, k, v = draw(case, (L, n), (L, n), (L, d_v))
    return {"q": q.exp(), "k": k.exp(), "v": v}


def _linear_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    alpha = (q @ k.T).tril()
    return alpha @ v / alpha.sum(-1, keepdim=True)


def _divides_by_all(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.T).tril() @ v / (q @ k.T).sum(-1, keepdim=True)


def _not_causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    alpha = q @ k.T
    return alpha @ v / alpha.sum(-1, keepdim=True)


def _undivided(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.T).tril() @ v


# -- forgetting attention --------------------------------------------------------------------------


def _forgetting_inputs(case: int) -> dict[str, Any]:
    L, n, d_v = SIZES[case]
    q, k, v, f = draw(case, (L, n), (L, n), (L, d_v), (L,))
    return {"q": q, "k": k, "v": v, "log_f": -f.abs() - 0.1}


def _forgetting(q: Tensor, k: Tensor, v: Tensor, log_f: Tensor) -> Tensor:
    total = log_f.cumsum(0)
    return _causal_softmax(q @ k.T + total[:, None] - total, v)


def _causal_softmax(scores: Tensor, v: Tensor) -> Tensor:
    ahead = torch.ones_like(scores).triu(1).bool()
    return scores.masked_fill(ahead, -torch.inf).softmax(-1) @ v


def _forgets_the_new(q: Tensor, k: Tensor, v: Tensor, log_f: Tensor) -> Tensor:
    total = log_f.cumsum(0)
    return _causal_softmax(q @ k.T + total[:, None] - total + log_f, v)


def _fades_inside(q: Tensor, k: Tensor, v: Tensor, log_f: Tensor) -> Tensor:
    total = log_f.cumsum(0)
    kept = (total[:, None] - total).tril().exp()
    return _causal_softmax(kept * (q @ k.T), v)


def _fades_after_dividing(q: Tensor, k: Tensor, v: Tensor, log_f: Tensor) -> Tensor:
    total = log_f.cumsum(0)
    scores = (q @ k.T).masked_fill(torch.ones_like(q @ k.T).triu(1).bool(), -torch.inf)
    return (scores.softmax(-1) * (total[:, None] - total).tril().exp()) @ v


# -- heads -----------------------------------------------------------------------------------------


def _many_inputs(case: int) -> dict[str, Any]:
    L, H, d_v = SIZES[case]
    alpha, v, W = draw(case, (H, L, L), (H, L, d_v), (H * d_v, 4))
    return {"alpha": alpha.tril(), "v": v, "W": W}


def _many(alpha: Tensor, v: Tensor, W: Tensor) -> Tensor:
    return (alpha @ v).transpose(0, 1).flatten(1) @ W


def _heads_reshaped(alpha: Tensor, v: Tensor, W: Tensor) -> Tensor:
    return (alpha @ v).reshape(alpha.shape[-1], -1) @ W


def _heads_averaged(alpha: Tensor, v: Tensor, W: Tensor) -> Tensor:
    return (alpha.mean(0) @ v).transpose(0, 1).flatten(1) @ W


def _channels_first(alpha: Tensor, v: Tensor, W: Tensor) -> Tensor:
    return (alpha @ v).permute(1, 2, 0).flatten(1) @ W


# -- hard cases


def _low_scores(x: Arguments) -> Arguments:
    """Queries and keys whose scores are all near -800."""
    q, k = x["q"].clone(), x["k"].clone()
    q[:, 0], k[:, 0] = -800.0, 1.0
    return {**x, "q": q, "k": k}


def _long_row(length: int) -> Arguments:
    return tokens_of(length, 2, scores=1, v=2)


register(
    Exercise(
        name="coefficients",
        inputs=_coefficient_inputs,
        solution=_scores,
        returns="a tensor alpha of shape (L, L), zero above the diagonal",
        mistakes={
            "A_j itself acts on the key of token j; the first matrix is A_{j+1}.": (
                partial(_scores, first=0)
            ),
            "a later matrix stands to the left of an earlier one: A_i ... A_{j+1}.": (
                partial(_scores, left=False)
            ),
            "the scaling b is missing.": on(_scores, b=lambda x: torch.ones_like(x["b"])),
            "b belongs to the token that is written, j, and not to the one that reads.": (
                _scaled_by_reader
            ),
            "entries above the diagonal are the future; they are 0.": _acausal,
        },
        hard={
            "an evolution of 0 and a negative scaling": Twist(
                change=put(
                    A=lambda x: replaced_at(x["A"], 4, 0.0),
                    b=lambda x: replaced_at(x["b"], 2, -1.5),
                ),
                hint="after A = 0 nothing older is left; no inverse undoes it, and b keeps its "
                "sign.",
            ),
        },
    ),
    Exercise(
        name="one pass",
        inputs=_row_inputs,
        solution=_running_row,
        returns="the output of one row, a tensor of shape (d_v,)",
        mistakes={
            "the weights do not sum to 1 yet.": _unnormalized_row,
            "when the maximum rises, what was summed before has to be rescaled.": _stale_row,
            "exp of a raw score overflows; subtract the largest score so far.": _overflowing_row,
        },
        hard={
            "scores near -800": Twist(
                change=put(scores=lambda x: x["scores"] - 800),
                hint="the running maximum starts at minus infinity or the first score, not at 0.",
            ),
            "scores that rise from -700 to 900": Twist(
                change=put(scores=lambda x: torch.linspace(-700, 900, 9, dtype=torch.float64)),
                hint="subtract the largest score so far, not the first one or a mean.",
            ),
            "equal scores": Twist(
                change=put(scores=numbers(1, 2, 2, 0, 2, 1, 2, 0, 1)),
                hint="equal scores have equal weights; the largest may come twice.",
            ),
        },
        demands={"the way through the row": one_pass(_long_row, "scores")},
    ),
    Exercise(
        name="linear attention",
        inputs=_features,
        solution=_linear_attention,
        returns="the outputs, a tensor of shape (L, d_v)",
        mistakes={
            "the row sum of row i ends at token i, like the sum above it.": _divides_by_all,
            "row i may not read tokens after i.": _not_causal,
            "the division by the row sum is missing.": _undivided,
        },
        hard={
            "features of size 1e-9": Twist(
                change=put(q=lambda x: x["q"] * 1e-9, k=lambda x: x["k"] * 1e-9),
                hint="the row sum may be tiny; divide by it as it is, without an epsilon.",
            ),
        },
    ),
    Exercise(
        name="forgetting attention",
        inputs=_forgetting_inputs,
        solution=_forgetting,
        returns="the outputs, a tensor of shape (L, d_v)",
        mistakes={
            "a token is not faded by its own gate: the sum runs from j + 1 to i.": _forgets_the_new,
            "the decay is added to the score, or multiplies exp of it; it is not a factor of "
            "the score.": _fades_inside,
            "the row is divided by the sum of the faded coefficients.": _fades_after_dividing,
        },
        hard={
            "log_f = -90 at every token": Twist(
                change=put(log_f=lambda x: torch.full_like(x["log_f"], -90.0)),
                hint="add the logarithms before exp; a quotient of products is 0/0 or overflows.",
                case=3,
            ),
            "scores of several hundred": Twist(
                change=put(q=lambda x: 400 * x["q"]),
                hint="exp of a raw score overflows; subtract the largest of the row, as softmax "
                "does.",
            ),
            "scores near -800": Twist(
                change=_low_scores,
                hint="exp(-800) is 0 in float64; subtract the largest of the row, as softmax does.",
            ),
        },
    ),
    Exercise(
        name="many heads",
        inputs=_many_inputs,
        solution=_many,
        returns="the outputs, a tensor of shape (L, d)",
        mistakes={
            "reshaping (H, L, d_v) mixes tokens; move the heads behind the tokens first.": (
                _heads_reshaped
            ),
            "every head reads with coefficients of its own; they are not averaged.": (
                _heads_averaged
            ),
            "the channels of one head stay together: head by head, then channel by channel.": (
                _channels_first
            ),
        },
        hard={
            "one head": Twist(
                change=put(
                    alpha=lambda x: x["alpha"][:1], v=lambda x: x["v"][:1], W=lambda x: x["W"][:3]
                ),
                hint="axes of length 1 stay axes; with H = 1 there is still a head to go through.",
            ),
            "a row of 0": Twist(
                change=put(alpha=lambda x: x["alpha"].index_fill(1, torch.tensor([3]), 0.0)),
                hint="coefficients are taken as they are; a row of 0 gives an output of 0.",
            ),
        },
    ),
)
