"""Exercises in which the reader writes a function and a cell grades it.

    from coefdyn.lab.exercises import grade

    def step(S, q, k, v, beta):
        ...

    grade("delta rule", step)

The answer says whether the function is right on inputs that the reader does not see, and if not,
what to look at: a known mistake is recognised by its result. It never shows the expected numbers.
"""

from coefdyn.lab.exercises.catalogue import EXERCISES
from coefdyn.lab.exercises.exercise import Exercise
from coefdyn.lab.exercises.grading import Grade, grade

__all__ = ["EXERCISES", "Exercise", "Grade", "grade"]
