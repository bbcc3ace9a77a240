"""Exercises in which the reader writes a function and a cell grades it.

    from coefdyn.lab.exercises import grade

    def step(S, q, k, v, beta):
        ...

    grade("delta rule", step)

The answer says whether the function is right on hidden cases: drawn numbers, then zeros, ties,
strong decay, and what the text asks of the way of computing. If not, it names the case, the first
number that differs and the right one, and a hint: a known mistake is recognised by its result.

``python -m coefdyn.lab exercises export --out DIR`` writes them as an assignment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coefdyn.first_use import load_on_first_use

if TYPE_CHECKING:
    from coefdyn.lab.exercises.exercise import EXERCISES, Exercise
    from coefdyn.lab.exercises.grading import Grade, grade

#: name of an exercise in ``EXERCISES`` -> the module that registers it
HOMES = {
    "coefficients": "attention",
    "one pass": "attention",
    "linear attention": "attention",
    "forgetting attention": "attention",
    "many heads": "attention",
    "stabilizer": "recurrences",
    "one chunk": "recurrences",
    "delta product": "recurrences",
    "bilinear rule": "recurrences",
    "leaky average": "recurrences",
    "fading step": "steps",
    "discretized step": "steps",
    "delta rule": "steps",
    "gated delta rule": "steps",
    "divided step": "readings",
    "output norm": "readings",
    "retention": "readings",
    "kinds of weights": "readings",
    "near-zero share": "readings",
    "affine readout": "principles",
    "worst drift": "principles",
    "zeros of features": "principles",
    "silencing query": "principles",
    "two copies": "principles",
    "mirror": "principles_4_to_6",
    "unit variance": "principles_4_to_6",
    "growing keys": "principles_4_to_6",
    "system step": "views",
    "eigenvalues of a step": "views",
    "row backwards": "views",
    "reading off": "views",
    "what is left of a key": "trained",
    "induction score": "trained",
    "a window and a sink": "trained",
    "optimizer step": "optimizing",
    "parity by hand": "by_hand",
    "count by hand": "by_hand",
}

load_on_first_use(__name__)
