"""Assignments in the formats of nbgrader and Otter, graded outside the kernel of either.

Both run a submission and its checks in one kernel, where code of the submission can replace a
check, switch tracebacks off or end the kernel. Here neither runs it: the code cells go to
``grade_cells``, which gives each submission a process of its own, and only points come back, as the
output of a locked cell (``graded``, for a preprocessor of nbgrader) or as the variable that Otter's
tests look at (``Outside``, a plugin of Otter). So no notebook, released or graded, has a hidden
input, an answer or a seed in it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from coefdyn.lab.exercises.autograder import Asked, grade_cells, sources
from coefdyn.lab.exercises.exercise import EXERCISES

__all__ = [
    "Outside",
    "cell",
    "graded",
    "nbgrader_cells",
    "otter_cells",
    "otter_head",
    "write_config",
]

NAME = "assignment"
STUB = re.compile(r"^( *)(return None  # your code)$", re.MULTILINE)
#: the locked cell of a question, which nbgrader restores before it grades
LOCKED = (
    "# Graded outside of this notebook: {exercise}, by {function}, {seconds:g} s for each case."
)
GRADED = re.compile(r"^# Graded outside of this notebook: (.+), by (\w+), ([\d.]+) s for each case")
CONFIG = '''\
"""Configuration of nbgrader: submissions are graded outside of the kernel (coefdyn)."""

from nbgrader.preprocessors import AssignLatePenalties, CheckCellMetadata, SaveAutoGrades
from nbgrader.preprocessors import NbGraderPreprocessor

from coefdyn.lab.exercises.schools import graded


class Outside(NbGraderPreprocessor):
    """Grade the functions of a notebook in a process of its own; write points below each."""

    def preprocess(self, nb, resources):
        return graded(nb), resources


c = get_config()  # noqa: F821
c.ClearSolutions.code_stub = {"python": "return None  # your code"}
c.Autograde.autograde_preprocessors = [
    Outside, SaveAutoGrades, AssignLatePenalties, CheckCellMetadata
]
'''


def cell(kind: str, source: str, **metadata: Any) -> dict[str, Any]:
    """A cell of a notebook, of the kind "code", "markdown" or "raw"."""
    made = {"cell_type": kind, "metadata": metadata, "source": source.splitlines(keepends=True)}
    return {**made, "execution_count": None, "outputs": []} if kind == "code" else made


def nbgrader_cells(number: int, one: Any, text: str, seconds: float) -> list[dict[str, Any]]:
    """Cells of a question: its text, the function to write, and a locked cell with the points."""
    shared = {"schema_version": 3, "task": False}
    name = re.sub(r"\W+", "-", one.exercise)
    stub = STUB.sub(r"\1### BEGIN SOLUTION\n\1\2\n\1### END SOLUTION", one.stub)
    told = LOCKED.format(exercise=one.exercise, function=one.function, seconds=seconds)
    given = {"grade": False, "solution": False, "locked": True, "grade_id": f"asked-{name}"}
    written = {"grade": False, "solution": True, "locked": False, "grade_id": f"written-{name}"}
    points = {"grade": True, "solution": False, "locked": True, "grade_id": f"graded-{name}"}
    return [
        cell("markdown", text, nbgrader={**given, **shared}),
        cell("code", stub, nbgrader={**written, **shared}),
        cell("code", told, nbgrader={**points, **shared, "points": one.points}),
    ]


def otter_cells(number: int, one: Any, text: str, seconds: float) -> list[dict[str, Any]]:
    """Cells of a question between the marks of Otter, with one hidden test for each case."""
    cases = len(EXERCISES[one.exercise].cases)
    asked = f"# BEGIN QUESTION\nname: q{number}\npoints: {one.points}\ncheck_cell: false\n"
    tests = [
        cell("code", f"# HIDDEN\nassert right[{one.exercise!r}][{case}]") for case in range(cases)
    ]
    return [
        cell("raw", asked),
        cell("markdown", text),
        cell("raw", "# BEGIN SOLUTION"),
        cell("code", one.stub),
        cell("raw", "# END SOLUTION"),
        cell("raw", "# BEGIN TESTS"),
        *tests,
        cell("raw", "# END TESTS"),
        cell("raw", "# END QUESTION"),
    ]


def otter_head(asked: Sequence[Any], seconds: float) -> dict[str, Any]:
    """The first cell of a master notebook for ``otter assign``."""
    questions = [[one.exercise, one.function, one.points, seconds] for one in asked]
    plugin = {f"{__name__}.{Outside.__name__}": {"questions": questions}}
    settings = {
        "init_cell": False,
        "export_cell": False,
        "run_tests": False,
        "plugins": [plugin],
        "generate": {"show_hidden": False, "show_stdout": False},
    }
    lines = [f"{key}: {json.dumps(value)}" for key, value in settings.items()]
    return cell("raw", "\n".join(["# ASSIGNMENT CONFIG", *lines]))


def write_config(folder: Path) -> Path:
    """Write the configuration of a course of nbgrader."""
    path = folder / "nbgrader_config.py"
    path.write_text(CONFIG, encoding="utf-8")
    return path


def graded(notebook: Any) -> Any:
    """A submission as nbgrader saves it: below a locked cell how many cases are right, and points.

    Args:
        notebook: of nbformat, with the master's own locked cells.
    """
    from nbformat.v4 import new_output

    locked = [
        (one, found)
        for one in notebook.cells
        if one.metadata.get("nbgrader", {}).get("grade") and (found := GRADED.match(one.source))
    ]
    asked: list[Asked] = [
        (found[1], found[2], float(one.metadata["nbgrader"]["points"]), float(found[3]))
        for one, found in locked
    ]
    done = grade_cells(NAME, sources(notebook.cells), asked)
    for (one, _), question in zip(locked, done.questions, strict=True):
        right = sum(case.right for case in question.cases)
        said = f"{right} of {len(question.cases)} hidden cases are right.\n"
        points = {"text/plain": str(float(question.points))}
        one["outputs"] = [
            new_output("stream", name="stdout", text=said),
            new_output("execute_result", execution_count=1, data=points),
        ]
    return notebook


class Outside:
    """Plugin of Otter: grades a submission before it is run, and hands on what is right alone.

    Args:
        submission_path, submission_metadata: as Otter gives them; not used.
        plugin_config: ``questions``, as of the autograder.
    """

    def __init__(self, submission_path: str, submission_metadata: dict, plugin_config: dict):
        self.questions: list[Asked] = [tuple(one) for one in plugin_config["questions"]]

    def before_execution(self, submission: Any) -> Any:
        """The notebook that Otter runs in place of the submission."""
        done = grade_cells(NAME, sources(submission.cells), self.questions)
        right = {one.exercise: [case.right for case in one.cases] for one in done.questions}
        (first, *_) = submission.cells
        first.update(cell_type="code", source=f"right = {right!r}", metadata={}, outputs=[])
        submission["cells"] = [first]
        return submission
