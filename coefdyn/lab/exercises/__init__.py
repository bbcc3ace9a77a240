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

from coefdyn.lab.exercises.catalogue import EXERCISES
from coefdyn.lab.exercises.exercise import Exercise
from coefdyn.lab.exercises.grading import Grade, grade

__all__ = ["EXERCISES", "Exercise", "Grade", "grade"]
