"""Grading: a reader's function on hidden cases, compared with the solution and known mistakes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from coefdyn.lab.exercises.exercise import EXERCISES, Case, Exercise, Function
from coefdyn.options import check_choice
from coefdyn.shapes import Tensor

__all__ = ["Grade", "grade"]

TOLERANCE = 1e-9
#: relative difference of a number that comes from the right formula
NEARLY = 1e-4
#: tensors of at most so many numbers are shown to the reader
SHOWN = 4


@dataclass(frozen=True)
class Grade:
    """Result of ``grade``: ``right``, and a few sentences for the reader."""

    right: bool
    words: str

    def __repr__(self) -> str:
        return f"{'right' if self.right else 'not yet'}: {self.words}"


def grade(name: str, function: Function, *, case: int | None = None) -> Grade:
    """Grade a function for an exercise; a wrong one is told the case, the numbers and a hint.

    Args:
        name: of ``EXERCISES``.
        function: the reader's, with the arguments that the chapter names. Its tensors may be
            changed in place; each case gets new ones.
        case: the only case to try, from 1 to ``len(EXERCISES[name].cases)``; default: all, up to
            the first that is wrong.

    Raises:
        ValueError: for an unknown name, naming the nearest, a case that does not exist, or
            something that cannot be called.
    """
    check_choice("exercise", name, EXERCISES)
    if not callable(function):
        raise ValueError(
            f"grade takes a function, got {type(function).__name__}. Write its name without "
            "parentheses: grade('...', my_function)."
        )
    exercise = EXERCISES[name]
    count = len(exercise.cases)
    if case is not None and case not in range(1, count + 1):
        raise ValueError(f"{name!r} has the cases 1 to {count}, got case={case!r}.")
    for number, one in enumerate(exercise.cases, 1):
        if case in (None, number) and (wrong := _look(exercise, function, one)) is not None:
            return Grade(False, f"case {number} of {count}, {one.words}: {wrong}")
    agree = f"case {case} of {count} agrees" if case else f"{count} of {count} hidden cases agree"
    return Grade(True, f"{agree} to {TOLERANCE:.0e}.")


def _look(exercise: Exercise, function: Function, case: Case) -> str | None:
    """Return None where the case is right, else the sentences for the reader."""
    arguments = case.inputs()
    given = f"given {_given(arguments)}, "
    try:
        found = function(**arguments)
        wrong = _compare(exercise, found, case, given)
        return wrong or (case.demand(function) if case.demand else None)
    except Exception as error:  # a reader's code may raise anything; they are told what it raised
        said = f"the function raised {type(error).__name__}: {error}".rstrip(".")
        hint = f" Hint: {case.hint}" if case.hint else ""
        return f"{given}{said}. It should return {exercise.returns}.{hint}"


def _compare(exercise: Exercise, answer: Any, case: Case, given: str) -> str | None:
    """Return what is wrong with an answer; None where it agrees with the solution."""
    wanted = _parts(exercise.solution(**case.inputs()))
    found = _parts(answer)
    should = f"it should return {exercise.returns}."
    if answer is None:
        return f"the function returned None; {should}"
    if len(found) != len(wanted) or not all(isinstance(part, Tensor) for part in found):
        return f"{given}the function returned {_kind(answer)}; {should}"
    for part in found:
        if (odd := _odd(part)) is not None:
            return f"{given}{odd} {should}"
    found = tuple(part.detach().cpu() for part in found)
    for part, goal in zip(found, wanted, strict=True):
        if part.shape != goal.shape:
            return f"{given}it returned a shape of {tuple(part.shape)}; {should}"
    found, wanted = _run(exercise, found, case), _run(exercise, wanted, case)
    if _same(found, wanted):
        return None
    differs, near = _difference(exercise, found, wanted)
    return f"{given}{differs}. Hint: {_hint(exercise, found, case, near)}"


def _run(exercise: Exercise, parts: tuple[Tensor, ...], case: Case) -> tuple[Tensor, ...]:
    """What is compared: the returned tensors, or what a construction made of them does."""
    return parts if exercise.run is None else (exercise.run(*parts, **case.inputs()),)


def _kind(answer: Any) -> str:
    if isinstance(answer, (tuple, list)):
        return f"{len(answer)} values ({', '.join(type(part).__name__ for part in answer)})"
    return f"a {type(answer).__name__}"


def _given(arguments: Mapping[str, Any]) -> str:
    """Arguments as a reader is shown them: few numbers by value, many by shape."""
    return ", ".join(_shown(name, value) for name, value in arguments.items())


def _shown(name: str, value: Any) -> str:
    if not isinstance(value, Tensor):
        return f"{name} (a function)" if callable(value) else f"{name} = {value}"
    if value.numel() > SHOWN:
        return f"{name} {tuple(value.shape)}"
    return f"{name} = {_numbers(value.tolist())}"


def _numbers(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_numbers, value))}]"
    return f"{value:.4g}"


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


def _difference(
    exercise: Exercise, found: tuple[Tensor, ...], wanted: tuple[Tensor, ...]
) -> tuple[str, bool]:
    """First number that differs, with its place, and whether it nearly agrees."""
    labels = re.match(r"\((\w+(?:, \w+)+)\)", exercise.returns)
    names = labels[1].split(", ") if labels else ["the result"] * len(wanted)
    if exercise.run is not None:
        names = ["the answer of your construction"]
    for name, one, two in zip(names, found, wanted, strict=True):
        differs = ~torch.isclose(one.double(), two.double(), rtol=TOLERANCE, atol=TOLERANCE)
        if bool(differs.any()):
            place = tuple(int(axis) for axis in differs.nonzero()[0])
            where = f"[{', '.join(map(str, place))}]" if place else ""
            answer, right = float(one[place]), float(two[place])
            digits = 6 if f"{answer:.6g}" != f"{right:.6g}" else 15
            words = f"{name}{where} is {answer:.{digits}g} and should be {right:.{digits}g}"
            return words, abs(answer - right) <= NEARLY * abs(right)
    raise AssertionError("called for results that agree")


def _hint(exercise: Exercise, found: tuple[Tensor, ...], case: Case, near: bool) -> str:
    if case.hint:
        return case.hint
    for hint, mistake in exercise.mistakes.items():
        wrong = _run(exercise, _parts(mistake(**case.inputs())), case)
        if _same(found, wrong, nan=True):
            return hint
    if not all(bool(part.isfinite().all()) for part in found):
        return "the result holds a number that is not finite."
    if near:
        return "that is nearly right; look for an epsilon, for float32 numbers, or for an inverse."
    return "go through the formula with these numbers, one after another."


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
