"""The definition of an exercise, and of the cases that a function is graded on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from coefdyn.first_use import Registry
from coefdyn.lab.exercises.hidden import Arguments

__all__ = ["EXERCISES", "Case", "Demand", "Exercise", "Function", "Twist", "register"]

Function = Callable[..., Any]
#: function to what its way of computing lacks, in words; None where it does as asked
Demand = Callable[[Function], str | None]

#: drawn cases of each exercise, numbered as ``inputs`` takes them; the first is the smallest
DRAWN = 4


@dataclass(frozen=True, kw_only=True)
class Case:
    """One hidden case: inputs on which results are compared.

    Args:
        words: what is special about it.
        inputs: new arguments by name, float64.
        hint: for a wrong result; "" where the known mistakes are asked.
        demand: what is asked of the way of computing a right result.
    """

    words: str
    inputs: Callable[[], Arguments]
    hint: str = ""
    demand: Demand | None = None


@dataclass(frozen=True, kw_only=True)
class Twist:
    """A drawn case with some arguments replaced, on which a function may fail that is right so far.

    Args:
        change: arguments of the drawn case to those of this one.
        hint: for a function that fails here.
        case: number of the drawn case.
    """

    change: Callable[[Arguments], Arguments]
    hint: str
    case: int = 2


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """One function for the reader to write.

    Args:
        name: as ``grade`` is asked for it.
        inputs: case number, 0 to 3, to arguments by name, float64; every call makes new tensors.
        solution: arguments to a tensor or a tuple of tensors.
        returns: what the function is to return, in words with shapes.
        mistakes: hint to the function that makes this mistake; a reader's function with the same
            results gets the hint. The first that fits is given.
        hard: cases with zeros, ties, strong decay and the like, by what is special about them.
        demands: what the text asks of the way of computing, in words, to its check.
        run: for an exercise that asks for a construction, of which many are right: the tensors
            that the function returned, and the arguments by name, to the tensor that is compared.
    """

    name: str
    inputs: Callable[[int], Arguments]
    solution: Function
    returns: str
    mistakes: Mapping[str, Function]
    hard: Mapping[str, Twist] = field(default_factory=dict)
    demands: Mapping[str, Demand] = field(default_factory=dict)
    run: Function | None = None

    @property
    def cases(self) -> tuple[Case, ...]:
        """All hidden cases, in the order in which they are tried."""
        drawn = [
            Case(words="random numbers", inputs=partial(self.inputs, number))
            for number in range(DRAWN)
        ]
        hard = [
            Case(words=words, inputs=partial(self._twisted, twist), hint=twist.hint)
            for words, twist in self.hard.items()
        ]
        demands = [
            Case(words=words, inputs=partial(self.inputs, DRAWN - 1), demand=one)
            for words, one in self.demands.items()
        ]
        return (*drawn, *hard, *demands)

    def _twisted(self, twist: Twist) -> dict[str, Any]:
        return twist.change(self.inputs(twist.case))


#: name -> exercise; the package says in which module each is
EXERCISES: Registry[Exercise] = Registry(__package__)


def register(*exercises: Exercise) -> None:
    """Add exercises to the table under the names that it knows."""
    for one in exercises:
        assert one.name in EXERCISES.waiting, f"{one.name!r} has no module in the package's HOMES"
        EXERCISES[one.name] = one
