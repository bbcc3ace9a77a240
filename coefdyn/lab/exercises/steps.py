"""Exercises on one step of a recurrence: fading, time, the delta rule."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import normalize

from coefdyn.lab.exercises.exercise import Exercise, Twist, register
from coefdyn.lab.exercises.hidden import SIZES, Arguments, draw, numbers, put
from coefdyn.shapes import Tensor

LONG_KEY = "a key of length 3"
UNIT = "k is taken as it is; nothing says that it has length 1."
ENDS = "gates of exactly 0 and exactly 1"
ZERO = "a gate of 0 empties its channel and a gate of 1 keeps it; take no logarithm or quotient."
TURN = "beta = 2"
OVER = "beta is not limited to 1: with 2 the key's value is turned over."


# -- recurrences: one step (S, q, k, v, gates) -> (S, y) -------------------------------------------


Step = tuple[Tensor, Tensor]


def _memory(case: int, gates: int) -> tuple[dict[str, Any], Tensor]:
    """S, q, a unit key, v, and ``gates`` numbers in (0, 1)."""
    _, n, d_v = SIZES[case]
    S, q, k, v, g = draw(case, (n, d_v), (n,), (n,), (d_v,), (gates,))
    return {"S": S, "q": q, "k": normalize(k, dim=-1), "v": v}, g.sigmoid()


def _gla_inputs(case: int) -> dict[str, Any]:
    tensors, _ = _memory(case, 1)
    return {**tensors, "a": draw(50 + case, tuple(tensors["q"].shape))[0].sigmoid()}


def _gla_step(S: Tensor, q: Tensor, k: Tensor, v: Tensor, a: Tensor) -> Step:
    S = a[:, None] * S + torch.outer(k, v)
    return S, q @ S


def _gla_decays_the_new(S: Tensor, q: Tensor, k: Tensor, v: Tensor, a: Tensor) -> Step:
    S = a[:, None] * (S + torch.outer(k, v))
    return S, q @ S


def _gla_reads_before(S: Tensor, q: Tensor, k: Tensor, v: Tensor, a: Tensor) -> Step:
    return a[:, None] * S + torch.outer(k, v), q @ S


def _mamba_inputs(case: int) -> dict[str, Any]:
    tensors, g = _memory(case, 2)
    return {**tensors, "delta": g[0], "a": 1 + 3 * g[1]}


def _mamba_step(S: Tensor, q: Tensor, k: Tensor, v: Tensor, delta: Tensor, a: Tensor) -> Step:
    S = (-delta * a).exp() * S + delta * torch.outer(k, v)
    return S, q @ S


def _mamba_grows(S: Tensor, q: Tensor, k: Tensor, v: Tensor, delta: Tensor, a: Tensor) -> Step:
    S = (delta * a).exp() * S + delta * torch.outer(k, v)
    return S, q @ S


def _mamba_untied(S: Tensor, q: Tensor, k: Tensor, v: Tensor, delta: Tensor, a: Tensor) -> Step:
    S = (-delta * a).exp() * S + torch.outer(k, v)
    return S, q @ S


def _delta_inputs(case: int) -> dict[str, Any]:
    tensors, g = _memory(case, 1)
    return {**tensors, "beta": g[0]}


def _delta_step(S: Tensor, q: Tensor, k: Tensor, v: Tensor, beta: Tensor) -> Step:
    S = S + beta * torch.outer(k, v - k @ S)
    return S, q @ S


def _delta_adds(S: Tensor, q: Tensor, k: Tensor, v: Tensor, beta: Tensor) -> Step:
    S = S + beta * torch.outer(k, v)
    return S, q @ S


def _delta_erases_all(S: Tensor, q: Tensor, k: Tensor, v: Tensor, beta: Tensor) -> Step:
    S = S - torch.outer(k, k @ S) + beta * torch.outer(k, v)
    return S, q @ S


def _delta_writes_all(S: Tensor, q: Tensor, k: Tensor, v: Tensor, beta: Tensor) -> Step:
    S = S - beta * torch.outer(k, k @ S) + torch.outer(k, v)
    return S, q @ S


def _gated_inputs(case: int) -> dict[str, Any]:
    tensors, g = _memory(case, 2)
    return {**tensors, "beta": g[0], "a": g[1]}


def _gated_step(S: Tensor, q: Tensor, k: Tensor, v: Tensor, beta: Tensor, a: Tensor) -> Step:
    return _delta_step(a * S, q, k, v, beta)


def _gated_decays_after(
    S: Tensor, q: Tensor, k: Tensor, v: Tensor, beta: Tensor, a: Tensor
) -> Step:
    S = a * _delta_step(S, q, k, v, beta)[0]
    return S, q @ S


def _gated_looks_up_undecayed(
    S: Tensor, q: Tensor, k: Tensor, v: Tensor, beta: Tensor, a: Tensor
) -> Step:
    S = a * S + beta * torch.outer(k, v - k @ S)
    return S, q @ S


_PAIR = "(S, y): the new state (n, d_v), and the output (d_v,)"


# -- hard cases


def _long(x: Arguments) -> Tensor:
    return 3 * x["k"] / x["k"].norm()


register(
    Exercise(
        name="fading step",
        inputs=_gla_inputs,
        solution=_gla_step,
        returns=_PAIR,
        mistakes={
            "the decay of step t acts on what was stored before; the new token is whole.": (
                _gla_decays_the_new
            ),
            "token t reads the state that already holds it.": _gla_reads_before,
        },
        hard={
            LONG_KEY: Twist(change=put(k=_long), hint=UNIT),
            ENDS: Twist(change=put(a=numbers(0, 1, 0.5, 0)), hint=ZERO),
        },
    ),
    Exercise(
        name="discretized step",
        inputs=_mamba_inputs,
        solution=_mamba_step,
        returns=_PAIR,
        mistakes={
            "the state grows; the exponent is -delta a.": _mamba_grows,
            "a long step also writes more: the key is scaled by delta.": _mamba_untied,
        },
        hard={
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
    ),
    Exercise(
        name="delta rule",
        inputs=_delta_inputs,
        solution=_delta_step,
        returns=_PAIR,
        mistakes={
            "that adds; look up what is stored under k and write the difference.": _delta_adds,
            "the old value is removed whole; beta scales the removal too.": _delta_erases_all,
            "beta scales the writing as well as the removal.": _delta_writes_all,
        },
        hard={
            TURN: Twist(change=put(beta=numbers(2.0)), hint=OVER),
        },
    ),
    Exercise(
        name="gated delta rule",
        inputs=_gated_inputs,
        solution=_gated_step,
        returns=_PAIR,
        mistakes={
            "the decay comes first; the new token is not decayed in its own step.": (
                _gated_decays_after
            ),
            "the look-up reads the memory after it has decayed.": _gated_looks_up_undecayed,
            "the decay is missing.": lambda S, q, k, v, beta, a: _delta_step(S, q, k, v, beta),
        },
        hard={
            TURN: Twist(change=put(beta=numbers(2.0)), hint=OVER),
            "a = 0": Twist(
                change=put(a=numbers(0.0)),
                hint="with a = 0 nothing old is left to look up; do not divide by a.",
            ),
        },
    ),
)
