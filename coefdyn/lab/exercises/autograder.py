"""Autograder of an assignment: ``python autograder.py SUBMISSION.ipynb [...] [--json FILE]``.

Prints a table of points per submission and writes them, case by case, as JSON. It needs an
installed coefdyn and nothing beside itself. ``python -m coefdyn.lab exercises export`` writes it
with the questions of one assignment; their points and seconds may be edited here.

Each submission runs in a process of its own, which returns numbers and judges nothing: they are
compared in the process of the autograder, so a submission that replaces a checker replaces its own
copy. Only the checks of how a function computes, such as "no loop", have to be made where it runs.
A case that exceeds its time ends this process and gets no points; the next case starts a new one,
on Linux as a copy of a process that has imported torch. A submission runs with your rights: grade
the work of people you do not know in a container.
"""

from __future__ import annotations

import argparse
import io
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

__all__ = ["QUESTIONS", "Asked", "Submission", "grade_cells", "grade_submission", "main", "table"]

#: name of the exercise, of the function, its points, and seconds per case
Asked = tuple[str, str, float, float]

QUESTIONS: tuple[tuple[str, str, int, float], ...] = ()

#: seconds that a cell of a submission may take before it is left out
CELL_SECONDS = 60.0
#: seconds that Python and torch may take to start
START_SECONDS = 300.0
#: how processes start: a library of macOS may fail in a copy, and Windows makes none
START = "forkserver" if sys.platform == "linux" else "spawn"
IMPORTED = ["torch", "coefdyn.lab.exercises"]
#: the longest message that a submission may return, in bytes
LONGEST = 2**26


@dataclass(frozen=True, kw_only=True)
class CaseGrade:
    """One case: whether it is right, what is said of it, and the seconds it took."""

    case: int
    right: bool
    words: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Question:
    """One exercise of a submission: its points, and its cases; every case counts the same."""

    exercise: str
    function: str
    points: float
    of: int
    cases: list[CaseGrade]


@dataclass(frozen=True, kw_only=True)
class Submission:
    """All questions of a submission, and cells that did not run: their number to the reason."""

    file: str
    points: float
    of: int
    questions: list[Question]
    left_out: dict[int, str]


def code_cells(path: Path) -> list[str]:
    """Sources of the code cells of a notebook, as ``sources`` gives them."""
    return sources(json.loads(path.read_text(encoding="utf-8"))["cells"])


def sources(cells: Sequence[Mapping[str, Any]]) -> list[str]:
    """Sources of the code cells among some cells, without magics and shell commands."""
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    return [
        "\n".join(line for line in source.splitlines() if not line.lstrip().startswith(("%", "!")))
        for source in code
    ]


def say(pipe: Connection, *told: Any) -> None:
    """Send words, numbers and tensors to another process, and nothing that could be run there."""
    import torch

    message = io.BytesIO()
    torch.save(told, message)
    pipe.send_bytes(message.getvalue())


def hear(pipe: Connection) -> tuple[Any, ...]:
    """Return what was said.

    Raises:
        EOFError, OSError: if the other process has ended, or says too much.
        Exception: for a message that is no tuple of words, numbers and tensors.
    """
    import torch

    return torch.load(io.BytesIO(pipe.recv_bytes(LONGEST)), weights_only=True)


def work(pipe: Connection, cells: list[str], left_out: list[int]) -> None:
    """Run the cells of a submission, then compute one case per message; in its own process."""
    import torch

    from coefdyn.lab.exercises import EXERCISES

    sys.stdout = sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    torch.set_default_dtype(torch.float64)
    names: dict[str, Any] = {"__name__": "submission"}
    say(pipe, "started", 0, "")
    for number, source in enumerate(cells, 1):
        if number in left_out:
            continue
        say(pipe, "cell", number, "")
        try:
            exec(compile(source, f"cell {number}", "exec"), names)
        except BaseException as error:
            say(pipe, "left out", number, f"{type(error).__name__}: {error}")
    say(pipe, "ready", 0, "")
    while True:
        exercise, function, case = hear(pipe)
        if not callable(names.get(function)):
            say(pipe, "missing", None, f"no function is called {function}")
            continue
        asked = EXERCISES[exercise].cases[case - 1]
        try:
            found = names[function](**asked.inputs())
            lacks = asked.demand(names[function]) if asked.demand else None
            say(pipe, "found", found, lacks)
        except BaseException as error:
            say(pipe, "raised", type(error).__name__, str(error))


@dataclass
class Worker:
    """A process with a submission's functions, started anew after a case that did not end.

    Args:
        cells: sources of the submission.
        left_out: cells that raised or did not end, with the reason.
    """

    cells: list[str]
    left_out: dict[int, str] = field(default_factory=dict)
    process: Any = None
    pipe: Any = None

    def stop(self) -> None:
        """End the process; nothing happens where none runs."""
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.pipe.close()
        self.process = self.pipe = None

    def start(self) -> None:
        """Start a process and run the cells; a cell that does not end is left out from then on."""
        hanging = [number for number, why in self.left_out.items() if why.startswith("time limit")]
        context: Any = multiprocessing.get_context(START)
        if START == "forkserver":
            context.set_forkserver_preload(IMPORTED)
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(theirs, self.cells, hanging), daemon=True)
        program = sys.modules["__main__"]
        sys.modules["__main__"] = sys.modules[__name__]  # what the process imports of its caller
        try:
            self.process.start()
        finally:
            sys.modules["__main__"] = program
        theirs.close()
        limit, cell = START_SECONDS, 0
        while True:
            try:
                kind, number, why = hear(self.pipe) if self.pipe.poll(limit) else ("late", 0, "")
            except Exception:  # it has ended, or says what cannot be read
                kind = "late"
            limit = CELL_SECONDS
            if kind == "ready":
                return
            if kind == "left out":
                self.left_out[number] = why
            elif kind == "cell":
                cell = number
            elif kind == "late":
                self.stop()
                if cell == 0:
                    raise RuntimeError("no process that imports torch and coefdyn could be started")
                self.left_out[cell] = f"time limit of {CELL_SECONDS:g} s, or the process ended"
                return self.start()

    def grade(self, exercise: str, function: str, case: int, seconds: float) -> CaseGrade:
        """Grade one case within its time."""
        if self.process is None:
            self.start()
        begun = time.monotonic()
        right, words, answered = False, f"time limit of {seconds:g} s", False
        try:
            say(self.pipe, exercise, function, case)
            if self.pipe.poll(seconds):
                right, words = judge(exercise, case, *hear(self.pipe))
                answered = True
        except Exception:
            words = "the submission ended the process"
        if not answered:
            self.stop()
        took = round(time.monotonic() - begun, 3)
        return CaseGrade(case=case, right=right, words=words, seconds=took)


def judge(exercise: str, case: int, kind: str, found: Any, lacks: str | None) -> tuple[bool, str]:
    """Return whether what a submission found is right, and what is said of it."""
    from coefdyn.lab.exercises import grade

    if kind == "missing":
        return False, str(lacks)

    def again(**_: Any) -> Any:
        """Return or raise what the submission returned or raised."""
        if kind == "raised":
            raise type(str(found), (Exception,), {})(lacks)
        return found

    judged = grade(exercise, again, case=case)
    if judged.right and lacks is not None:
        return False, str(lacks)
    return judged.right, judged.words


def grade_submission(path: Path) -> Submission:
    """Grade all questions of one submitted notebook."""
    return grade_cells(path.name, code_cells(path), QUESTIONS)


def grade_cells(file: str, cells: list[str], asked: Sequence[Asked]) -> Submission:
    """Grade questions of a submission of which the code cells are given."""
    from coefdyn.lab.exercises import EXERCISES

    worker, questions = Worker(cells), []
    try:
        for exercise, function, points, seconds in asked:
            numbers = range(1, len(EXERCISES[exercise].cases) + 1)
            cases = [worker.grade(exercise, function, number, seconds) for number in numbers]
            share = sum(one.right for one in cases) / len(cases)
            questions.append(
                Question(
                    exercise=exercise,
                    function=function,
                    points=round(points * share, 2),
                    of=points,
                    cases=cases,
                )
            )
    finally:
        worker.stop()
    return Submission(
        file=file,
        points=round(sum(one.points for one in questions), 2),
        of=sum(one.of for one in questions),
        questions=questions,
        left_out=worker.left_out,
    )


def table(one: Submission) -> str:
    """Points of a submission, one exercise a line with what is said of its first fault."""
    width = max(len("exercise"), *(len(question.exercise) for question in one.questions))
    lines = [one.file, f"{'exercise':<{width}}  {'cases':>8}  {'points':>13}"]
    for question in one.questions:
        right = sum(case.right for case in question.cases)
        said = next((f"  {case.words}" for case in question.cases if not case.right), "")
        cases, points = f"{right} of {len(question.cases)}", f"{question.points:g} of {question.of}"
        lines.append(f"{question.exercise:<{width}}  {cases:>8}  {points:>13}{said}")
    lines.append(f"{'total':<{width}}  {'':>8}  {f'{one.points:g} of {one.of}':>13}")
    lines += [f"cell {number} was left out: {why}" for number, why in one.left_out.items()]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Grade submissions; 1 if one of them cannot be read."""
    parser = argparse.ArgumentParser(description="Grade the submissions of an assignment.")
    parser.add_argument("submissions", nargs="+", type=Path, metavar="SUBMISSION.ipynb")
    parser.add_argument("--json", type=Path, default=Path("grades.json"), metavar="FILE")
    parsed = parser.parse_args(arguments)
    import coefdyn

    graded, status = [], 0
    for path in parsed.submissions:
        try:
            graded.append(grade_submission(path))
        except (OSError, ValueError, KeyError, TypeError) as error:
            print(f"{path} is no notebook that can be read: {type(error).__name__}: {error}")
            status = 1
            continue
        print(table(graded[-1]) + "\n", flush=True)
    kept = {"coefdyn": coefdyn.__version__, "submissions": [asdict(one) for one in graded]}
    parsed.json.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    print(f"kept in {parsed.json}")
    return status


if __name__ == "__main__":
    sys.exit(main())
