"""The exercise on training: one step of the optimizer."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from coefdyn.lab.exercises.exercise import Exercise, Twist, register
from coefdyn.lab.exercises.hidden import SIZES, Arguments, draw
from coefdyn.shapes import Tensor

Moments = tuple[Tensor, Tensor, Tensor]


SLOW, SLOWER, LEAST = 0.9, 0.98, 1e-8


def _adam_inputs(case: int) -> dict[str, Any]:
    _, n, _ = SIZES[case]
    p, g, m, v = draw(case, (n,), (n,), (n,), (n,))
    return {"p": p, "g": g, "m": m, "v": v.square(), "t": (1, 2, 7, 40)[case], "rate": 0.01}


def _adam(
    p: Tensor,
    g: Tensor,
    m: Tensor,
    v: Tensor,
    t: int,
    rate: float,
    *,
    corrected: bool = True,
    rooted: bool = True,
    uphill: bool = False,
) -> Moments:
    """Values p, m, v after step t of Adam, with three choices that can be made wrong."""
    m = SLOW * m + (1 - SLOW) * g
    v = SLOWER * v + (1 - SLOWER) * g.square()
    mean = m / (1 - SLOW**t) if corrected else m
    square = v / (1 - SLOWER**t) if corrected else v
    step = rate * mean / ((square.sqrt() if rooted else square) + LEAST)
    return (p + step if uphill else p - step), m, v


def _adam_keeps_corrected(
    p: Tensor, g: Tensor, m: Tensor, v: Tensor, t: int, rate: float
) -> Moments:
    p, m, v = _adam(p, g, m, v, t, rate)
    return p, m / (1 - SLOW**t), v / (1 - SLOWER**t)


def _plain_descent(p: Tensor, g: Tensor, m: Tensor, v: Tensor, t: int, rate: float) -> Moments:
    """Gradient descent that keeps the moments and does not use them."""
    return (p - rate * g, *_adam(p, g, m, v, t, rate)[1:])


# -- hard cases


def _tiny_slopes(x: Arguments) -> Arguments:
    """A first step with slopes of 1e-9 and of exactly 0."""
    zero = torch.zeros_like(x["g"])
    return {**x, "g": x["g"].new_tensor([1e-9, 0.0, -1e-9, 1.0]), "m": zero, "v": +zero, "t": 1}


register(
    Exercise(
        name="optimizer step",
        inputs=_adam_inputs,
        solution=_adam,
        returns="(p, m, v): the new parameters and the two new means, each of shape (n,)",
        mistakes={
            "both means start at 0, so early ones are too small: divide by 1 - beta^t.": partial(
                _adam, corrected=False
            ),
            "divide by the root of the mean square, which has the unit of the slope.": partial(
                _adam, rooted=False
            ),
            "the slope points uphill; the loss is to fall.": partial(_adam, uphill=True),
            "hand on the means as they are; the correction is for this step only.": (
                _adam_keeps_corrected
            ),
            "the step follows the mean of the slopes, not the slope itself.": _plain_descent,
        },
        hard={
            "a first step with slopes of 1e-9 and exactly 0": Twist(
                change=_tiny_slopes,
                hint="1e-8 is added to the root, neither below it nor left out.",
            ),
        },
    ),
)
