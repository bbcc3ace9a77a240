"""Assignments: graded exercises as a notebook to hand out, in one of three formats.

``plain`` has an autograder in one file beside it; the other two belong to nbgrader and Otter, and
are graded by the same program (``schools.py``).
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from coefdyn.lab.commands import arguments as given
from coefdyn.lab.exercises import autograder, schools
from coefdyn.lab.exercises.exercise import EXERCISES
from coefdyn.lab.exercises.schools import cell
from coefdyn.lab.places import checkout
from coefdyn.options import check_choice, did_you_mean

__all__ = ["FORMATS", "Question", "add_parser", "command", "export", "questions"]

#: an exercise that asks for a function, and the cell below it
ASKED = re.compile(
    r"^(:{3,})\{admonition\} Exercise \d+ · (★+) · (\d+) min · "
    r"(?:write it|construct it by hand)[^\n]*\n:class: exercise\n"
    r"(.*?)^\1\n+```\{code-cell\} ipython3\n(.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
GRADED = re.compile(r'^print\(grade\("([^"]+)", (\w+)\)\)$', re.MULTILINE)
IMPORT = "from coefdyn.lab.exercises import grade\n"
#: line of the autograder that an export fills in
EMPTY = "QUESTIONS: tuple[tuple[str, str, int, float], ...] = ()\n"
SECONDS = 10.0
FORMATS = ("plain", "nbgrader", "otter")

HEAD = """\
# {title}

Replace the body of each function below, and keep its name and its arguments. You may add cells
with helpers. Tensors are float64. The functions will be called with inputs that are not shown here,
zeros, ties and strong decay among them; each of these cases may take {seconds:g} s, and all cases
of a question count the same. A question has as many points as the minutes it is expected to take,
{points} in all.
"""
SETUP = "import torch\n\ntorch.set_default_dtype(torch.float64)"


@dataclass(frozen=True, kw_only=True)
class Question:
    """One graded exercise as an assignment asks it.

    Args:
        chapter: name of its chapter, such as ``architectures/gla``.
        title: title of the chapter.
        exercise: name in ``EXERCISES``.
        function: name of the function to write.
        stars: difficulty, 1 to 3.
        points: minutes that the chapter names.
        text: Markdown with plain TeX.
        stub: code of the unwritten function.
    """

    chapter: str
    title: str
    exercise: str
    function: str
    stars: int
    points: int
    text: str
    stub: str


def questions(chapters: Sequence[str] = ()) -> list[Question]:
    """Graded exercises of chapters, in the order of the book.

    Args:
        chapters: names such as ``gla`` or ``architectures/gla``; none: all chapters.

    Raises:
        ValueError: for a name that no chapter with a graded exercise has, or without the
            repository of the book, whose chapters contain the questions.
    """
    root = checkout()
    if root is None:
        raise ValueError(
            "the questions are in the chapters, and coefdyn is installed without the repository of "
            "the book; run this from a checkout. The assignment itself needs no repository."
        )
    names = re.findall(r"file: (\S+)\.ipynb", (root / "book" / "_toc.yml").read_text("utf-8"))
    found = [one for name in names for one in _of_chapter(root / "book", name)]
    known = {one.chapter for one in found}
    for name in chapters:
        if not any(_is(name, one) for one in known):
            hint = did_you_mean(name, [*known, *(one.rpartition("/")[2] for one in known)])
            raise ValueError(f"no chapter with a graded exercise is called {name!r}{hint}")
    return [one for one in found if not chapters or any(_is(n, one.chapter) for n in chapters)]


def _is(name: str, chapter: str) -> bool:
    return name in (chapter, chapter.rpartition("/")[2])


def _of_chapter(book: Path, name: str) -> Iterable[Question]:
    text = (book / f"{name}.md").read_text(encoding="utf-8")
    title = re.search(r"^# (.+)$", text, re.MULTILINE)
    for _, stars, minutes, asked, code in ASKED.findall(text):
        graded = GRADED.search(code)
        if title is None or graded is None:
            raise ValueError(
                f"book/{name}.md: a graded exercise needs a title and print(grade(...))"
            )
        yield Question(
            chapter=name,
            title=title[1],
            exercise=graded[1],
            function=graded[2],
            stars=len(stars),
            points=int(minutes),
            text=_plain(asked.strip(), text),
            stub=code[: graded.start()].replace(IMPORT, "").strip(),
        )


def _plain(asked: str, chapter: str) -> str:
    """Markdown that every notebook shows: no roles, links or macros of the book."""
    shown = re.findall(r"\{eq\}`([^`]+)`", asked)
    asked = re.sub(r"\s*\{cite(?::\w)?\}`[^`]*`", "", asked)
    asked = re.sub(r"\{eq\}`[^`]+`", "(shown below)", asked)
    asked = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", asked)
    for label in shown:
        block = rf"^```\{{math\}}\n:label: {re.escape(label)}\n(.*?)^```$"
        formula = re.search(block, chapter, re.DOTALL | re.MULTILINE)
        if formula is None:
            raise ValueError(f"the equation {label} is not in the chapter that cites it")
        asked += f"\n\n$$\n{formula[1]}$$"
    return re.sub(r"\\(?:Evo|Sca|Rea|Nor)(?=\{)", "", asked)


def export(
    folder: Path, chapters: Sequence[str] = (), *, seconds: float = SECONDS, format: str = "plain"
) -> tuple[Path, ...]:
    """Write an assignment into a folder; return the paths of its files, the notebook first.

    Args:
        folder: made if it does not exist; files of the same names in it are replaced.
        chapters: as for ``questions``.
        seconds: time limit of each case, above 0.
        format: "plain", a notebook and its autograder; "nbgrader", a folder of a course with
            the notebook in ``source/assignment`` and a configuration; or "otter", a master
            notebook for ``otter assign``.

    Raises:
        ValueError: as ``questions``, for a time limit of 0, or for another format.
    """
    check_choice("format", format, FORMATS)
    if not seconds > 0:
        raise ValueError(f"seconds is the time limit of a case and must be above 0, got {seconds}.")
    asked = questions(chapters)
    inside = folder / "source" / "assignment" if format == "nbgrader" else folder
    inside.mkdir(parents=True, exist_ok=True)
    notebook = inside / "assignment.ipynb"
    content = json.dumps(_notebook(asked, seconds, format), indent=1, ensure_ascii=False)
    notebook.write_text(content + "\n", encoding="utf-8")
    if format == "nbgrader":
        return notebook, schools.write_config(folder)
    return (notebook, _write_grader(folder, asked, seconds)) if format == "plain" else (notebook,)


def _write_grader(folder: Path, asked: Sequence[Question], seconds: float) -> Path:
    """The autograder with the questions of one assignment in it."""
    source = Path(autograder.__file__).read_text(encoding="utf-8")
    lines = [f"    {(one.exercise, one.function, one.points, seconds)!r}," for one in asked]
    filled = "\n".join([EMPTY.removesuffix("()\n") + "(", *lines, ")\n"])
    assert source.count(EMPTY) == 1
    grader = folder / "autograder.py"
    grader.write_text(source.replace(EMPTY, filled), encoding="utf-8")
    return grader


def _notebook(asked: Sequence[Question], seconds: float, format: str) -> dict:
    """Notebook of the format 4.5: what each format makes of a question, below a head."""
    points = sum(one.points for one in asked)
    make = {"plain": _plain_cells, "nbgrader": schools.nbgrader_cells, "otter": schools.otter_cells}
    cells = [schools.otter_head(asked, seconds)] if format == "otter" else []
    cells += [
        cell("markdown", HEAD.format(title="Assignment", points=points, seconds=seconds).strip()),
        cell("code", SETUP),
    ]
    for number, one in enumerate(asked, 1):
        head = f"## {number}. {one.exercise.capitalize()} · {'★' * one.stars} · {one.points} points"
        about = f"From the chapter *{one.title}*. Return {EXERCISES[one.exercise].returns}."
        cells += make[format](number, one, f"{head}\n\n{one.text}\n\n{about}", seconds)
    for number, each in enumerate(cells):
        each["id"] = f"cell-{number}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {
        "cells": cells,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def _plain_cells(_: int, one: Question, text: str, __: float) -> list[dict]:
    return [cell("markdown", text), cell("code", one.stub)]


def add_parser(commands: argparse._SubParsersAction) -> None:
    """Add ``exercises export`` to the command line of the lab."""
    parser = commands.add_parser("exercises", help="an assignment from the graded exercises")
    actions = parser.add_subparsers(dest="action", required=True)
    export_ = actions.add_parser("export", help="write a notebook of questions and an autograder")
    export_.add_argument(
        "--chapter", nargs="+", default=[], metavar="NAME", help="such as gla; default: all"
    )
    export_.add_argument("--out", type=Path, required=True, metavar="DIR")
    export_.add_argument(
        "--seconds", type=given.seconds, default=SECONDS, help="time limit per case; default: 10"
    )
    export_.add_argument("--format", choices=FORMATS, default="plain", help="default: plain")


def command(parsed: argparse.Namespace) -> int:
    """Write an assignment and print what it contains."""
    given.writable(parsed.out)
    written = export(parsed.out, parsed.chapter, seconds=parsed.seconds, format=parsed.format)
    for one in questions(parsed.chapter):
        cases = len(EXERCISES[one.exercise].cases)
        print(f"{one.exercise:<24} {one.points:>3} points  {cases} cases  {one.chapter}")
    told = {
        "plain": f"python {written[-1]} SUBMISSION.ipynb",
        "nbgrader": "nbgrader generate_assignment assignment",
        "otter": f"otter assign {written[0]} DIR",
    }
    print("\n".join([*(str(path) for path in written), f"then: {told[parsed.format]}"]))
    return 0
