"""Exercises that ask for a construction: ingredients set by hand, run by the grader on words."""

from __future__ import annotations

from typing import Any

import torch

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.lab.exercises.exercise import Demand, Exercise, Function, Twist, register
from coefdyn.lab.exercises.hidden import SIZES, Arguments
from coefdyn.shapes import Float, Int, Tensor

#: an answer counts from this size of y on
LEAST = 0.01


def _words(case: int) -> Int[Tensor, " L"]:
    """Zeros and ones, 4 to 48 of them."""
    generator = torch.Generator().manual_seed(200 + case)
    return torch.randint(2, (2 * SIZES[case][0],), generator=generator)


# -- parity: mirrors


def _bits(case: int) -> dict[str, Any]:
    return {"bits": _words(case)}


def _mirrors(bits: Tensor, size: float = 2.0, along: int = 0) -> tuple[Tensor, Tensor]:
    """Direction and beta of every token: a mirror at every 1."""
    z = torch.zeros(len(bits), 2, dtype=torch.float64)
    z[:, along] = 1.0
    return z, size * bits.double()


def _sign(z: Float[Tensor, "L 2"], beta: Float[Tensor, " L"], bits: Tensor) -> Float[Tensor, " L"]:
    """The parity that the sign of the state says; 0.5 where it says nothing.

    The state starts as (1, 0) and goes through I - beta z z^T; its first number is read.
    """
    if not bool(((beta >= 0) & (beta <= 2)).all()):
        raise ValueError(
            f"beta must lie between 0 and 2, got {float(beta.min())} to {float(beta.max())}"
        )
    if not torch.allclose(z.double().norm(dim=-1), torch.ones(len(bits), dtype=torch.float64)):
        raise ValueError("every z must have length 1")
    state, found = torch.tensor([1.0, 0.0], dtype=torch.float64), []
    for direction, strength in zip(z.double(), beta.double(), strict=True):
        state = state - strength * direction * (direction @ state)
        found.append(state[0])
    y = torch.stack(found)
    return torch.where(y > LEAST, 0.0, torch.where(y < -LEAST, 1.0, 0.5)).double()


# -- count: a divisor with a floor


def _tokens(case: int) -> dict[str, Any]:
    return {"tokens": _words(case)}


def _signed_keys(tokens: Tensor, size: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    """q, k, v: the keys have the sign of the symbol, and everything else is 1."""
    signed = size * (2.0 * tokens.double() - 1.0)[:, None]
    return torch.ones_like(signed), signed, torch.ones_like(signed)


def _signed_values(tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    q, signed, ones = _signed_keys(tokens)
    return q, ones, signed


def _silent_zeros(tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    q, _, ones = _signed_keys(tokens)
    return q, tokens.double()[:, None], ones


def _more(
    q: Float[Tensor, "L 1"], k: Float[Tensor, "L 1"], v: Float[Tensor, "L 1"], tokens: Tensor
) -> Float[Tensor, " L"]:
    """Which symbol is ahead by y: 1, 0, 2 for a tie, and -1 where y says nothing.

    y is 1 for the ones, -1 for the zeros and 0 for a tie, up to less than a half, with
    eta_i = max(|sum of the scores|, 1), b_j = 1 and A_t = I.
    """
    dynamics = CoefficientDynamics(
        q=q.double(),
        k=k.double(),
        evolution=evolution.Identity(),
        scaling=1.0,
        readout=readout.identity,
        normalizer=normalizer.FlooredRowSum(floor=1.0),
    )
    y = dynamics.apply(v.double())[:, 0]
    nearest = y.round()
    clear = ((y - nearest).abs() < 0.5 - LEAST) & (nearest.abs() <= 1)
    answer = torch.where(nearest == 0, 2.0, (nearest > 0).double())
    return torch.where(clear, answer, -1.0).double()


# -- both: an ingredient reads the last four tokens at most


def _reads_four(name: str) -> Demand:
    """Demand that ingredients of the last token do not change with what is five tokens back."""

    def check(function: Function) -> str | None:
        end = torch.tensor([0, 1, 0, 1])
        starts = (torch.full((44,), symbol) for symbol in (0, 1))
        one, two = (function(**{name: torch.cat([start, end])}) for start in starts)
        if all(torch.equal(a[-1], b[-1]) for a, b in zip(one, two, strict=True)):
            return None
        return "what it gives the last token changes with tokens that are five and more back."

    return check


def _repeated(name: str, *pattern: int, times: int) -> Twist:
    def change(_: Arguments) -> Arguments:
        return {name: torch.tensor(pattern).repeat(times)}

    hints = {
        "bits": "the state has faded; only a step of length 1 keeps it, and that is a mirror.",
        "tokens": "the lead is 1 of many; divide by the lead itself, not by the number of tokens.",
    }
    return Twist(change=change, hint=hints[name])


register(
    Exercise(
        name="parity by hand",
        inputs=_bits,
        solution=_mirrors,
        run=_sign,
        returns="(z, beta): unit vectors (L, 2), and numbers from 0 to 2, (L,)",
        mistakes={
            "beta = 1 erases what is stored, and a 0 has no sign to flip.": lambda bits: _mirrors(
                bits, 1.0
            ),
            "z stands at a right angle to what is stored, so nothing moves.": lambda bits: _mirrors(
                bits, along=1
            ),
            "a 0 must leave the state alone.": lambda bits: _mirrors(torch.ones_like(bits)),
        },
        hard={"seventy ones": _repeated("bits", 1, times=70)},
        demands={"an ingredient reads four tokens": _reads_four("bits")},
    ),
    Exercise(
        name="count by hand",
        inputs=_tokens,
        solution=_signed_keys,
        run=_more,
        returns="(q, k, v): three tensors of shape (L, 1)",
        mistakes={
            "this is an average: the lead is divided by the number of tokens.": _signed_values,
            "a 0 that adds nothing cannot be counted against a 1.": _silent_zeros,
        },
        hard={"a thousand tokens, then a tie": _repeated("tokens", 1, 0, times=500)},
        demands={"an ingredient reads four tokens": _reads_four("tokens")},
    ),
)
