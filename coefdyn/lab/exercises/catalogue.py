"""The exercises of the chapters, by name."""

from __future__ import annotations

from coefdyn.lab.exercises.attention import ATTENTION
from coefdyn.lab.exercises.exercise import Exercise
from coefdyn.lab.exercises.optimizing import OPTIMIZING
from coefdyn.lab.exercises.principles import PRINCIPLES
from coefdyn.lab.exercises.readings import READINGS
from coefdyn.lab.exercises.recurrences import RECURRENCES
from coefdyn.lab.exercises.views import VIEWS

__all__ = ["EXERCISES"]

#: name -> exercise
EXERCISES: dict[str, Exercise] = {
    exercise.name: exercise
    for exercise in (*ATTENTION, *RECURRENCES, *READINGS, *PRINCIPLES, *VIEWS, *OPTIMIZING)
}
