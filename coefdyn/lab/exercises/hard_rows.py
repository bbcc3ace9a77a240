"""Hard cases of the exercises on rows of coefficients and on single numbers."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from coefdyn.lab.exercises.exercise import Twist
from coefdyn.lab.exercises.hard import Arguments, numbers, put
from coefdyn.shapes import Tensor

__all__ = ["HARD_ROWS"]


def _with(tensor: Tensor, place: int, value: float | Tensor) -> Tensor:
    """Copy of a tensor with one row, or one number, replaced."""
    tensor = tensor.clone()
    tensor[place] = value
    return tensor


def _low_scores(x: Arguments) -> Arguments:
    """Queries and keys whose scores are all near -800."""
    q, k = x["q"].clone(), x["k"].clone()
    q[:, 0], k[:, 0] = -800.0, 1.0
    return {**x, "q": q, "k": k}


def _nearly_whole(x: Arguments) -> Tensor:
    """Rows that sum to 1 up to rounding, to 1.001 and to 0."""
    rng = torch.Generator().manual_seed(0)
    whole = torch.randn(40, 23, generator=rng, dtype=torch.float64).softmax(-1)
    near = _with(whole[:1], 0, whole[0] + 0.001 / 23)
    return torch.cat([whole, near, torch.zeros_like(near)])


def _ties(x: Arguments) -> Tensor:
    """Coefficients of exactly plus and minus epsilon among the drawn ones."""
    alpha = x["alpha"].clone()
    alpha[2, 0], alpha[4, 1], alpha[5, 5] = x["epsilon"], -x["epsilon"], x["epsilon"]
    return alpha


def _three_times(x: Arguments) -> Tensor:
    """Words of which one occurs three times, numbered as in a large vocabulary."""
    tokens = 50_000 + x["tokens"]
    tokens[-2] = tokens[1]
    return tokens


HARD_ROWS: Mapping[str, Mapping[str, Twist]] = {
    "coefficients": {
        "an evolution of 0 and a negative scaling": Twist(
            change=put(A=lambda x: _with(x["A"], 4, 0.0), b=lambda x: _with(x["b"], 2, -1.5)),
            hint="after A = 0 nothing older is left; no inverse undoes it, and b keeps its sign.",
        ),
    },
    "one pass": {
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
    "linear attention": {
        "features of size 1e-9": Twist(
            change=put(q=lambda x: x["q"] * 1e-9, k=lambda x: x["k"] * 1e-9),
            hint="the row sum may be tiny; divide by it as it is, without an epsilon.",
        ),
    },
    "forgetting attention": {
        "log_f = -90 at every token": Twist(
            change=put(log_f=lambda x: torch.full_like(x["log_f"], -90.0)),
            hint="add the logarithms before exp; a quotient of products is 0/0 or overflows.",
            case=3,
        ),
        "scores of several hundred": Twist(
            change=put(q=lambda x: 400 * x["q"]),
            hint="exp of a raw score overflows; subtract the largest of the row, as softmax does.",
        ),
        "scores near -800": Twist(
            change=_low_scores,
            hint="exp(-800) is 0 in float64; subtract the largest of the row, as softmax does.",
        ),
    },
    "many heads": {
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
    "output norm": {
        "a token whose channels are all 0": Twist(
            change=put(y=lambda x: _with(x["y"], 1, 0.0)),
            hint="epsilon keeps 0 at 0: divide by the root of (mean square + epsilon).",
        ),
        "epsilon = 0": Twist(
            change=put(epsilon=numbers(0.0)),
            hint="epsilon is an argument; nothing else is added to the mean square.",
        ),
    },
    "retention": {
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
    "kinds of weights": {
        "sums of 1 up to rounding, of 1.001 and of 0": Twist(
            change=put(w=_nearly_whole),
            hint="a sum is 1 up to rounding, about 1e-15, not to the last bit nor to a thousandth.",
        ),
    },
    "near-zero share": {
        "coefficients of ReLU": Twist(
            change=put(alpha=lambda x: x["alpha"].relu()),
            hint="a coefficient of exactly 0 is near zero; only the future is left out.",
        ),
        "coefficients of exactly epsilon": Twist(
            change=put(alpha=_ties), hint="epsilon itself counts: |alpha| <= epsilon."
        ),
    },
    "worst drift": {
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
    "zeros of features": {
        "p = 0 and r = 0": Twist(
            change=put(p=numbers(0.0), r=numbers(0.0)),
            hint="features that are never zero give a probability of 0.",
        ),
        "p = 1": Twist(
            change=put(p=numbers(1.0)), hint="a query without features has the score 0, surely."
        ),
    },
    "silencing query": {
        "a key of 0": Twist(
            change=put(k=lambda x: _with(x["k"], 1, 0.0)),
            hint="a key of 0 is silent already; do not divide by its length.",
        ),
        "keys that leave no direction": Twist(
            change=put(k=lambda x: torch.cat([x["k"], torch.eye(4, dtype=torch.float64)])),
            hint="where the keys span everything, only the query 0 silences them all.",
        ),
    },
    "two copies": {
        "an evolution of 0 before the older copy": Twist(
            change=put(A=lambda x: _with(x["A"], 1, 0.0)),
            hint="steps up to j do not matter; form none of them, and no inverse to undo them.",
        ),
        "evolutions of I": Twist(
            change=put(A=lambda x: torch.eye(4, dtype=torch.float64).expand(9, 4, 4).clone()),
            hint="where nothing moves, the copies are the same and the difference is 0.",
        ),
    },
    "mirror": {
        "b = -a": Twist(
            change=put(b=lambda x: -x["a"]),
            hint="a + b is 0 here; the mirror stands at a right angle to a - b.",
        ),
        "keys of length 1e-8": Twist(
            change=put(a=lambda x: 1e-8 * x["a"], b=lambda x: 1e-8 * x["b"]),
            hint="the mirror does not depend on the length of the keys; no epsilon.",
        ),
    },
    "unit variance": {
        "small projections of rank one": Twist(
            change=put(
                T_q=lambda x: 1e-4 * torch.outer(x["T_q"][:, 0], x["T_q"][0]),
                T_k=lambda x: 1e-4 * torch.outer(x["T_k"][:, 0], x["T_k"][0]),
            ),
            hint="covariances may be singular and small; neither an inverse nor an epsilon.",
        ),
    },
    "growing keys": {
        "scores near -800": Twist(
            change=put(s=lambda x: x["s"] - 800),
            hint="exp(-800) is 0 in float64; subtract the largest score of each row first.",
        ),
        "a first score far below the others": Twist(
            change=put(s=lambda x: _with(x["s"], 0, -900.0)),
            hint="each row has a largest score of its own; the first row reads the first key only.",
        ),
    },
    "induction score": {
        "a token that occurs three times, large token numbers": Twist(
            change=put(tokens=_three_times),
            hint="add the weights behind all earlier copies; token numbers are only compared.",
        ),
    },
    "a window and a sink": {
        "a window of 3 and no sink": Twist(
            change=put(window=lambda x: 3, sink=lambda x: 0),
            hint="the sizes of the window and of the sink are arguments; either may be another.",
        ),
    },
    "reading off": {
        "values of size 1e-7": Twist(
            change=put(v=lambda x: 1e-7 * x["v"]),
            hint="the rest is relative, whatever the size of the output; no epsilon.",
        ),
    },
}
