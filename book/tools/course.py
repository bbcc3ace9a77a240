"""The course of the page "Teach this", from its table; and the places that tables fill in pages.

A page says ``{{ course }}``, ``{{ walked }}``, ``{{ concept_test }}`` or ``{{ field }}`` where the
table of that name stands when the book is built. A chapter, an exercise or a demonstration that was
renamed stops the build, and so does a session whose minutes do not add up.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import yaml

from book.tools import deck, field, questions
from book.tools.chapters import BOOK
from book.tools.quotes import source, title_of

__all__ = ["WALKED", "exercise_minutes", "minutes", "page", "sessions", "setup", "walked"]

TABLE = BOOK / "teaching" / "course.yml"
#: what each session takes a machine, written by `tests/browser/walk.py`
WALKED = BOOK / "teaching" / "walked.json"
READING = re.compile(r"Reading\s+time\.\*\*\s+(\d+)")
#: anchor and title of a demonstration on its page
DEMONSTRATION = r"^\(demo-{}\)=\n## \d+ · (.+)$"
PLACE = re.compile(r"^\{\{ (\w+) \}\}$", re.MULTILINE)

Session = Mapping[str, Any]


def sessions() -> list[Session]:
    """The rows of the table.

    Raises:
        ValueError: for a session whose parts and exercises are not its minutes.
    """
    rows = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    for row in rows:
        if (sum_ := sum(n for n, _ in minutes(row))) != row["minutes"]:
            raise ValueError(f"{row['name']}: its parts take {sum_} of {row['minutes']} minutes")
    return rows


def minutes(row: Session) -> Iterator[tuple[int, str]]:
    """The parts of a session: minutes, and what is done, in Markdown."""
    yield from ((n, words) for n, words in row["parts"])
    for name, n in row["demonstrations"].items():
        yield n, f"Demonstration: {{ref}}`{_demonstration(name)} <demo-{name}>`"
    if row["exercises"]:
        yield exercise_minutes(row["exercises"]), f"Exercises: {_exercises(row['exercises'])}"
    if "together" in row:
        yield row["together"], "Answers of the exercises, together"


def exercise_minutes(listed: Mapping[str, list[int]]) -> int:
    """Minutes that the chapters name for exercises.

    Raises:
        ValueError: for an exercise that its chapter lacks.
    """
    return sum(_minutes_of(chapter, number) for chapter, ns in listed.items() for number in ns)


def _minutes_of(chapter: str, number: int) -> int:
    found = re.search(rf"\}} Exercise {number} · ★+ · (\d+) min", source(chapter))
    if found is None:
        raise ValueError(f"{chapter} has no exercise {number}")
    return int(found[1])


def _exercises(listed: Mapping[str, list[int]]) -> str:
    return "; ".join(
        f"{_link(chapter)}, "
        + ", ".join(f"{number} ({_minutes_of(chapter, number)})" for number in numbers)
        for chapter, numbers in listed.items()
    )


def _link(chapter: str) -> str:
    return f"[{title_of(chapter)}]({chapter}.ipynb)"


def _demonstration(name: str) -> str:
    found = re.search(DEMONSTRATION.format(name), source("demonstrations"), re.MULTILINE)
    if found is None:
        raise ValueError(f"demonstrations.md has no (demo-{name})=")
    return found[1]


def _reading(chapter: str) -> str:
    """A chapter to read, its minutes, and its slides, opened at the first."""
    found = READING.search(source(chapter))
    if found is None:
        raise ValueError(f"{chapter} names no reading time")
    slides = f', <a href="{chapter}.html#deck=1">slides</a>' if deck.slides(chapter) else ""
    return f"{_link(chapter)} ({found[1]}{slides})"


def _wrong(chapter: str) -> str:
    """What usually goes wrong in a chapter: the first wrong answer of its question."""
    (item,) = (one for one in questions.items() if one.chapter == chapter)
    question = f'<a href="concept_test.html#question-{item.number}">question {item.number}</a>'
    return f"“{item.answers[1].says}”, which {question} uncovers"


def page() -> str:
    """All sessions, in Markdown."""
    return "\n".join(_session(row) for row in sessions())


def walked() -> str:
    """What each session took a machine, in Markdown.

    Raises:
        ValueError: if that was measured on other sessions.
    """
    told = json.loads(WALKED.read_text(encoding="utf-8"))
    if list(told["sessions"]) != [row["name"] for row in sessions()]:
        raise ValueError(f"{WALKED.name} is of another course; run tests/browser/walk.py")
    rows = "\n".join(
        "| {} | {pages} | {load_s:.0f} | {moves} | {moves_s:.0f} | {cells_s} |".format(name, **one)
        for name, one in told["sessions"].items()
    )
    machine = told["machine"]
    where = f"{machine['cores']} cores, {machine['processor']}, {machine['system']}"
    return f"""Measured on a machine of {where}, which had other work to do, on {told["date"]}:

| session | pages | opening, s | moves | all moves, s | all cells, s |
|---|---:|---:|---:|---:|---:|
{rows}
"""


def _session(row: Session) -> str:
    goals = "\n".join(f"- {goal};" for goal in row["goals"])
    parts = "\n".join(f"| {n} | {words} |" for n, words in minutes(row))
    wrong = "\n".join(f"- {_wrong(chapter)};" for chapter in row["wrong"])
    home = f"{_exercises(row['home'])}: {exercise_minutes(row['home'])} minutes."
    return f"""## {row["name"]}

{row["minutes"]} minutes. **Before:** {row["before"]}. **Reading, with minutes and slides:** {
        ", ".join(map(_reading, row["reading"]))
    }.

Afterwards a student can

{goals[:-1]}.

| minutes | what is done |
|---:|---|
{parts}

**What usually goes wrong** (our guess):

{wrong[:-1]}.

**When time runs short**, leave out {row["leave_out"]}. **At home:** {home}
"""


TABLES: dict[str, Callable[[], str]] = {
    "course": page,
    "walked": walked,
    "concept_test": questions.page,
    "field": field.page,
    "field_held": field.tally,
}


def _fill(_: Any, __: str, text: list[str]) -> None:
    text[0] = PLACE.sub(lambda found: TABLES[found[1]](), text[0])


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx, which asks before it reads a page."""
    app.connect("source-read", _fill)
    return {"parallel_read_safe": True}
