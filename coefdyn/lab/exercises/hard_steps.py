"""Hard cases of the exercises on single steps, chunks and recurrences."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from coefdyn.lab.exercises.exercise import Twist
from coefdyn.lab.exercises.hard import Arguments, numbers, put
from coefdyn.shapes import Tensor

__all__ = ["HARD_STEPS"]

LONG_KEY = "a key of length 3"
UNIT = "k is taken as it is; nothing says that it has length 1."
ENDS = "gates of exactly 0 and exactly 1"
ZERO = "a gate of 0 empties its channel and a gate of 1 keeps it; take no logarithm or quotient."
TURN = "beta = 2"
OVER = "beta is not limited to 1: with 2 the key's value is turned over."


def _long(x: Arguments) -> Tensor:
    return 3 * x["k"] / x["k"].norm()


def _repeated(x: Arguments) -> Arguments:
    """A word that is written twice, the second time with beta = 1."""
    k, beta, j = x["k"].clone(), x["beta"].clone(), x["j"]
    k[j] = k[j + 1] = torch.eye(4, dtype=k.dtype)[0]
    beta[j + 1] = 1.0
    return {**x, "k": k, "beta": beta}


def _same_keys(x: Arguments) -> Tensor:
    keys = x["keys"].clone()
    keys[1] = keys[0]
    return keys


def _tiny_slopes(x: Arguments) -> Arguments:
    """A first step with slopes of 1e-9 and of exactly 0."""
    zero = torch.zeros_like(x["g"])
    return {**x, "g": x["g"].new_tensor([1e-9, 0.0, -1e-9, 1.0]), "m": zero, "v": +zero, "t": 1}


HARD_STEPS: Mapping[str, Mapping[str, Twist]] = {
    "fading step": {
        LONG_KEY: Twist(change=put(k=_long), hint=UNIT),
        ENDS: Twist(change=put(a=numbers(0, 1, 0.5, 0)), hint=ZERO),
    },
    "discretized step": {
        LONG_KEY: Twist(change=put(k=_long), hint=UNIT),
        "delta = 1e-6": Twist(
            change=put(delta=numbers(1e-6)),
            hint="a short step fades and writes little; delta has no lower limit.",
        ),
        "delta = 900": Twist(
            change=put(delta=numbers(900.0)),
            hint="after a long step nothing old is left; exp(delta a) itself overflows.",
        ),
    },
    "delta rule": {
        TURN: Twist(change=put(beta=numbers(2.0)), hint=OVER),
    },
    "gated delta rule": {
        TURN: Twist(change=put(beta=numbers(2.0)), hint=OVER),
        "a = 0": Twist(
            change=put(a=numbers(0.0)),
            hint="with a = 0 nothing old is left to look up; do not divide by a.",
        ),
    },
    "stabilizer": {
        "a forget gate of exactly 0, whose logarithm is -inf": Twist(
            change=put(f=lambda x: x["f"].index_fill(0, torch.tensor([4]), -math.inf)),
            hint="-inf - (-inf) is no number; go from token to token instead of through a sum.",
        ),
        "inputs near -200 and strong forgetting": Twist(
            change=put(f=lambda x: x["f"] - 40, i=lambda x: x["i"] - 200),
            hint="m has no floor: it falls with the forget gates, below 0.",
        ),
        "forget gates of exactly 1": Twist(
            change=put(f=lambda x: 0 * x["f"]),
            hint="log f = 0 fades nothing: m is the running maximum of 0 and the inputs.",
        ),
    },
    "one chunk": {
        "g = -60 at every token": Twist(
            change=put(g=lambda x: torch.full_like(x["g"], -60.0)),
            hint="an exponent above 0 overflows: subtract inside exp, so that none is above 0.",
            case=3,
        ),
        "g = 0": Twist(
            change=put(g=lambda x: 0 * x["g"]),
            hint="with g = 0 nothing fades; divide by no logarithm.",
        ),
    },
    "delta product": {
        "the same key twice, beta = 2": Twist(
            change=put(keys=_same_keys, beta=lambda x: torch.full_like(x["beta"], 2.0)),
            hint="each step looks up what the one before left; beta is not limited to 1.",
        ),
        "one beta of 0": Twist(
            change=put(beta=lambda x: x["beta"].index_fill(0, torch.tensor([3]), 0.0)),
            hint="a step with beta = 0 leaves the state as it is; divide by no beta.",
        ),
    },
    "bilinear rule": {
        "an A that has one eigenvector, to the eigenvalue 0": Twist(
            change=put(A=lambda x: torch.ones_like(x["A"][0, :-1]).diag(1)),
            hint="A may have no inverse and too few eigenvectors; solve with I - delta/2 A.",
        ),
        "A = 0": Twist(
            change=put(A=lambda x: 0 * x["A"]),
            hint="with A = 0 the state is kept and delta B is added.",
        ),
    },
    "leaky average": {
        "a of exactly 0, exactly 1 and 1e-40": Twist(
            change=put(a=numbers(0, 1, 0.5, 1e-40)),
            hint="a power of a is 0 soon; go from state to state and divide by none.",
        ),
    },
    "divided step": {
        "log_eta = -5": Twist(
            change=put(log_eta=numbers(-5.0)),
            hint="the divisor may be below 1; it is exp(log_eta) whatever its size.",
        ),
        "nothing stored and nothing written": Twist(
            change=put(S=lambda x: 0 * x["S"], k=lambda x: 0 * x["k"]),
            hint="an empty state reads 0; divide by exp(log_eta) alone.",
        ),
    },
    "affine readout": {
        ENDS: Twist(change=put(a=numbers(0, 1, 0.5, 0)), hint=ZERO),
    },
    "system step": {
        "a negative eta_before": Twist(
            change=put(eta_before=lambda x: -x["eta_before"]),
            hint="a row sum may be negative; no logarithm, no absolute value.",
        ),
        "A = 0": Twist(
            change=put(A=lambda x: 0 * x["A"]),
            hint="after A = 0 the state is the new token alone, divided by eta.",
        ),
    },
    "eigenvalues of a step": {
        "z = 0": Twist(
            change=put(z=lambda x: 0 * x["z"]),
            hint="with z = 0 nothing is erased: every eigenvalue is ratio a.",
        ),
        "beta z^T z = 2": Twist(
            change=put(z=numbers(1, -1, 1, -1), beta=numbers(0.5)),
            hint="the eigenvalue along z comes first, with its sign, whatever its size.",
        ),
    },
    "row backwards": {
        "a decay of 0 and beta = 2": Twist(
            change=put(
                a=lambda x: x["a"].index_fill(0, torch.tensor([5]), 0.0),
                beta=lambda x: torch.full_like(x["beta"], 2.0),
            ),
            hint="keys before a = 0 have the score 0; undo no step, and do not limit beta.",
        ),
    },
    "what is left of a key": {
        "the same key again, with beta = 1": Twist(
            change=_repeated, hint="nothing may be left: lengths of exactly 0, and no division."
        ),
        "the last token": Twist(
            change=put(j=lambda x: len(x["k"]) - 1),
            hint="nothing comes after the last token, so lengths has one entry, 1.",
        ),
    },
    "optimizer step": {
        "a first step with slopes of 1e-9 and exactly 0": Twist(
            change=_tiny_slopes,
            hint="1e-8 is added to the root, neither below it nor left out.",
        ),
    },
}
