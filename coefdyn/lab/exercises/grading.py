"""Grading: a reader's function on hidden inputs, compared with the solution and known mistakes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from coefdyn.lab.exercises.catalogue import EXERCISES
from coefdyn.lab.exercises.exercise import Exercise, Function
from coefdyn.options import check_choice
from coefdyn.shapes import Tensor

__all__ = ["Grade", "grade"]

#: seeds of the hidden inputs; the first ones are the easy cases of an exercise
CASES = (0, 1, 2, 3)
TOLERANCE = 1e-9


@dataclass(frozen=True)
class Grade:
    """Result of ``grade``: ``right``, and one sentence for the reader."""

    right: bool
    words: str

    def __repr__(self) -> str:
        return f"{'right' if self.right else 'not yet'}: {self.words}"


def grade(name: str, function: Function) -> Grade:
    """Grade a function for an exercise; a wrong one gets a hint.

    Args:
        name: of ``EXERCISES``.
        function: the reader's, with the arguments that the chapter names. Its tensors may be
            changed in place; each case gets new ones.

    Raises:
        ValueError: for an unknown name, naming the nearest, or something that cannot be called.
    """
    check_choice("exercise", name, EXERCISES)
    if not callable(function):
        raise ValueError(
            f"grade takes a function, got {type(function).__name__}. Write its name without "
            "parentheses: grade('...', my_function)."
        )
    exercise = EXERCISES[name]
    for case in CASES:
        wrong = _look(exercise, function, case)
        if wrong is not None:
            return Grade(False, wrong)
    return Grade(True, f"{len(CASES)} of {len(CASES)} hidden cases agree to {TOLERANCE:.0e}.")


def _look(exercise: Exercise, function: Function, case: int) -> str | None:
    """Return None where the case is right, else the sentence for the reader."""
    arguments = exercise.inputs(case)
    try:
        given = function(**arguments)
    except Exception as error:  # a reader's code may raise anything; they are told what it raised
        return f"the function raised {type(error).__name__}: {error}"
    if given is None:
        return f"the function returned None; it should return {exercise.returns}."
    wanted = _parts(exercise.solution(**exercise.inputs(case)))
    found = _parts(given)
    if len(found) != len(wanted) or not all(isinstance(part, Tensor) for part in found):
        return f"the function should return {exercise.returns}."
    for part in found:
        if (odd := _odd(part)) is not None:
            return f"{odd} it should return {exercise.returns}."
    found = tuple(part.detach().cpu() for part in found)
    for part, goal in zip(found, wanted, strict=True):
        if part.shape != goal.shape:
            return (
                f"it returned a shape of {tuple(part.shape)}; it should return {exercise.returns}."
            )
    if _same(found, wanted):
        return None
    return _hint(exercise, found, case)


def _odd(part: Tensor) -> str | None:
    """Reason why a result cannot be compared with a solution; None for plain numbers."""
    if part.is_complex():
        return "it returned complex numbers (.real takes the real part of real eigenvalues);"
    if part.is_nested or part.layout != torch.strided:
        return f"it returned a tensor of layout {part.layout} (.to_dense() makes it plain);"
    if part.is_quantized:
        return "it returned a quantised tensor (.dequantize() makes it plain);"
    if part.device.type == "meta":
        return "it returned a tensor on the meta device, which holds no numbers;"
    return None


def _hint(exercise: Exercise, found: tuple[Any, ...], case: int) -> str:
    for hint, mistake in exercise.mistakes.items():
        if _same(found, _parts(mistake(**exercise.inputs(case))), nan=True):
            return hint
    if not all(bool(part.isfinite().all()) for part in found):
        return "the result holds a number that is not finite."
    return "the numbers differ from the solution's; try the smallest case by hand, L = 2."


def _parts(result: Any) -> tuple[Any, ...]:
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def _same(found: tuple[Any, ...], wanted: tuple[Any, ...], *, nan: bool = False) -> bool:
    """Return whether shapes and, up to float64 rounding, numbers agree; NaN equals NaN if asked."""
    return all(
        one.shape == two.shape
        and torch.allclose(
            one.double(), two.double(), rtol=TOLERANCE, atol=TOLERANCE, equal_nan=nan
        )
        for one, two in zip(found, wanted, strict=True)
    )
