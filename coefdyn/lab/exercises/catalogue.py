"""The exercises of the chapters, by name."""

from __future__ import annotations

from dataclasses import replace

from coefdyn.lab.exercises.attention import ATTENTION
from coefdyn.lab.exercises.exercise import Exercise
from coefdyn.lab.exercises.hard import DEMANDS
from coefdyn.lab.exercises.hard_rows import HARD_ROWS
from coefdyn.lab.exercises.hard_steps import HARD_STEPS
from coefdyn.lab.exercises.optimizing import OPTIMIZING
from coefdyn.lab.exercises.principles import PRINCIPLES
from coefdyn.lab.exercises.readings import READINGS
from coefdyn.lab.exercises.recurrences import RECURRENCES
from coefdyn.lab.exercises.views import VIEWS

__all__ = ["EXERCISES"]

HARD = {**HARD_ROWS, **HARD_STEPS}

#: name -> exercise
EXERCISES: dict[str, Exercise] = {
    one.name: replace(one, hard=HARD.get(one.name, {}), demands=DEMANDS.get(one.name, {}))
    for one in (*ATTENTION, *RECURRENCES, *READINGS, *PRINCIPLES, *VIEWS, *OPTIMIZING)
}
