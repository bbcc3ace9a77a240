"""Contents of each chapter in numbers, from the sources: `python -m book.tools.survey`.

Per chapter: its question, where the first picture is, the share of code lines that are open,
figures that a reader can move, self-checks and exercises by kind, and the sentences that more than
two chapters have. A chapter that lacks what it should have is named at the end; then it exits 1.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from book.tools.chapters import BOOK, Chapter, find_chapters, read

__all__ = [
    "MOST_CHAPTERS",
    "PARTS",
    "Survey",
    "repeated_sentences",
    "sentences",
    "survey",
    "teaches",
]

#: largest number of chapters that may contain a sentence
MOST_CHAPTERS = 2
#: shorter ones are no sentences that a reader recognises ("Solution 1 in code", "By hand:")
FEWEST_WORDS = 8
#: a screen of a laptop shows about so many lines of text of about so many characters
SCREEN_LINES, LINE_CHARACTERS = 34, 92

CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
HEAD = re.compile(r"\A(?:---\n.*?^---\n|(?::[^\n]*\n)+)", re.DOTALL | re.MULTILINE)
FOLDED = re.compile(r"\b(?:hide|remove)-(?:cell|input)\b")
PICTURE = re.compile(
    r"\balt: >-|plt\.subplots|^\w*Explorer(?:\.\w+)?\(|^\w+View\(|^ScoreVariance\(|^SampledSwing\("
    r"|TrainingFilm|PageTraining"
    r"|\.figure\(|\.matrices\(|<svg",
    re.MULTILINE,
)
WIDGET = re.compile(
    r"^(?:\w+ = )?(?:Explorer(?:\.\w+)?|\w+View|ScoreVariance|SampledSwing|TrainingFilm(?:\.load)?"
    r"|PageTraining(?:\.contest)?)\(",
    re.MULTILINE,
)
EXERCISE = re.compile(r"^:{3,}\{admonition\} Exercise ([^\n]*)", re.MULTILINE)
QUESTION = re.compile(r"\*\*Question\.\*\*\s+(.*?)(?=\s\*\*|\n:::)", re.DOTALL)
#: parts of every chapter that teaches
KINDS = ("write it", "find the bug", "open")
#: beginnings of the names of chapters that teach
PARTS = (
    "architectures/",
    "foundations/",
    "principles/",
    "second_view/",
    "since/",
    "design/",
    "lens/",
)
#: pages among them that only collect what the chapters derive
COLLECTIONS = ("architectures/checks",)
#: end of the title of an exercise that a course keeps when it drops the others
CORE = " · core"
CORE_EXERCISES = 2


@dataclass(frozen=True, kw_only=True)
class Survey:
    """One chapter in numbers.

    Args:
        name: as in ``find_chapters``.
        question: from the box at its top, else the first heading that is one.
        first_picture: screens above the first picture, an estimate; None without one.
        open_code: share of its code lines that stand open in the "Code" reading, 0 to 1.
        movable: figures that a reader can move.
        checks: self-checks.
        exercises: how many of each kind; "other" are shown, computed or proved.
        core: exercises that are marked so.
    """

    name: str
    question: str
    first_picture: float | None
    open_code: float
    movable: int
    checks: int
    exercises: dict[str, int]
    core: int


def teaches(name: str) -> bool:
    """Return whether a chapter of this name needs a question, a self-check and exercises."""
    return name.startswith(PARTS) and name not in COLLECTIONS


def survey(chapter: Chapter) -> Survey:
    """The numbers of one chapter."""
    text = HEAD.sub("", read(chapter.source), count=1)
    asked = QUESTION.search(text)
    return Survey(
        name=chapter.name,
        question=" ".join(asked[1].split()) if asked else _first_question(text),
        first_picture=_first_picture(text),
        open_code=_open_code(text),
        movable=sum(len(WIDGET.findall(cell)) for cell in CELL.findall(text)),
        checks=len(re.findall(r"^:class: selfcheck$", text, re.MULTILINE)),
        exercises=_exercises(text),
        core=sum(title.endswith(CORE) for title in EXERCISE.findall(text)),
    )


def _first_question(text: str) -> str:
    """First heading that is a question."""
    found = re.search(r"^## ([^\n]*\?)$", text, re.MULTILINE)
    return found[1] if found else ""


def _first_picture(text: str) -> float | None:
    """Screens from the title to the first picture: lines of text as set, and of open code."""
    title = text.find("\n# ")
    for cell in CELL.finditer(text):
        if PICTURE.search(cell[1]):
            return round(_lines(text[title : cell.start()]) / SCREEN_LINES, 1)
    return None


def _lines(text: str) -> float:
    """Lines as a page sets them: paragraphs refilled, folded answers left out, code unchanged."""
    code = sum(
        len(HEAD.sub("", cell).splitlines()) + 2 for cell in CELL.findall(text) if _is_open(cell)
    )
    prose = re.sub(r"^:{3,}\{dropdown\}.*?^:{3,}$", "one\n", CELL.sub("", text), flags=re.S | re.M)
    paragraphs = [one for one in re.split(r"\n\s*\n", prose) if one.strip()]
    return code + sum(1.6 + len(one) / LINE_CHARACTERS for one in paragraphs)


def _is_open(cell: str) -> bool:
    head = HEAD.match(cell)
    return not (head and FOLDED.search(head[0]))


def _open_code(text: str) -> float:
    counts = {True: 0, False: 0}
    for cell in CELL.findall(text):
        counts[_is_open(cell)] += len([line for line in HEAD.sub("", cell).splitlines() if line])
    return counts[True] / max(1, sum(counts.values()))


def _exercises(text: str) -> dict[str, int]:
    found = dict.fromkeys((*KINDS, "other"), 0)
    for title in EXERCISE.findall(text):
        kind = title.removesuffix(CORE)
        found[next((one for one in KINDS if kind.endswith(one)), "other")] += 1
    return found


def sentences(text: str) -> list[str]:
    """Sentences of a chapter's prose: no code, formulas, tables, headings or directives."""
    text = re.sub(r"^(`{3,}|~{3,}).*?^\1", "\n", HEAD.sub("", text, count=1), flags=re.S | re.M)
    text = re.sub(r"\$\$.*?\$\$", "\n", text, flags=re.S)
    text = re.sub(r"^\s*(?:[|#:+(]|- \[).*$", "\n", text, flags=re.MULTILINE)
    found = []
    for paragraph in re.split(r"\n\s*\n", text):
        plain = re.sub(r"\]\([^)]*\)|[*_\[\]]", "", " ".join(paragraph.split()))
        found += re.split(r"(?<=[.?!:])\s+(?=[A-Z*$])", plain)
    return [one for one in found if len(one.split()) >= FEWEST_WORDS]


def repeated_sentences(chapters: list[Chapter], most: int = MOST_CHAPTERS) -> dict[str, list[str]]:
    """Sentence -> the chapters that contain it, where these are more than ``most``."""
    places: dict[str, list[str]] = defaultdict(list)
    for chapter in chapters:
        for sentence in dict.fromkeys(sentences(read(chapter.source))):
            places[sentence].append(chapter.name)
    return {sentence: names for sentence, names in places.items() if len(names) > most}


def missing(found: list[Survey]) -> list[str]:
    """Describe what chapters of the teaching parts lack."""
    lacking = []
    for one in found:
        if not teaches(one.name):
            continue
        needs = [kind for kind in KINDS if not one.exercises[kind]]
        needs += [] if one.checks else ["self-check"]
        needs += [] if one.question else ["question"]
        needs += [] if one.core == CORE_EXERCISES else [f"{CORE_EXERCISES} exercises of the core"]
        if needs:
            lacking.append(f"{one.name} has no {', no '.join(needs)}")
    return lacking


def table(found: list[Survey]) -> str:
    """The numbers as a Markdown table."""
    heads = ("chapter", "first picture", "code open", "movable", "checks", *KINDS, "other")
    lines = [heads, ("---",) * len(heads)]
    for one in found:
        screens = "none" if one.first_picture is None else f"{one.first_picture:.1f} screens"
        counts = (one.movable, one.checks, *one.exercises.values())
        lines.append((one.name, screens, f"{one.open_code:.0%}", *map(str, counts)))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def stories(found: list[Survey]) -> str:
    """The question of each chapter that has one, a line each."""
    return "\n".join(f"{one.name}: {one.question}" for one in found if one.question)


def main(arguments: list[str] | None = None) -> int:
    """Print the survey; 1 if a required part is missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--book", type=Path, default=BOOK, help="another book's folder")
    chapters, found, problems = [], [], []
    for chapter in find_chapters(parser.parse_args(arguments).book):
        try:
            found.append(survey(chapter))
            chapters.append(chapter)
        except ValueError as damage:
            problems.append(str(damage))
    print(table(found), stories(found), sep="\n\n")
    problems += missing(found)
    problems += [
        f"in {len(names)} chapters ({', '.join(names)}): {sentence}"
        for sentence, names in sorted(repeated_sentences(chapters).items())
    ]
    print("\n" + ("\n".join(problems) if problems else "nothing is missing, nothing is repeated"))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
