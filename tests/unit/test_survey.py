"""Chapters have what a reader is promised, and no sentence stands in many of them."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from book.tools.chapters import Chapter, find_chapters
from book.tools.survey import (
    CORE,
    KINDS,
    main,
    missing,
    repeated_sentences,
    survey,
    teaches,
)
from coefdyn.lab.exercises import EXERCISES

TAUGHT = [one for one in find_chapters() if teaches(one.name)]
ROWS = [one for one in TAUGHT if "\n## Checks\n" in one.source.read_text("utf-8")]
BLOCK = re.compile(r"^(:{3,})\{admonition\} Exercise ([^\n]*)\n(.*?)^\1$", re.S | re.M)
BOX = re.compile(r"^::::\{admonition\} Check yourself\n:class: selfcheck\n(.*?)^::::$", re.S | re.M)


def test_the_parts_that_teach_lack_nothing() -> None:
    assert missing([survey(one) for one in TAUGHT]) == []


def test_no_sentence_stands_in_more_than_two_of_their_chapters() -> None:
    assert repeated_sentences(TAUGHT) == {}


@pytest.mark.parametrize("chapter", TAUGHT, ids=lambda one: one.name)
def test_a_self_check_has_three_choices_of_which_one_is_right(chapter: Chapter) -> None:
    boxes = BOX.findall(chapter.source.read_text("utf-8"))
    assert boxes
    for box in boxes:
        assert len(re.findall(r"^:::\{dropdown\}", box, re.MULTILINE)) == 3
        assert box.count(":class-container: cd-right") == box.count("\nRight. ") == 1
        assert box.count("\nNo. ") == 2


def test_the_place_of_a_right_answer_gives_nothing_away() -> None:
    places = Counter(
        ["cd-right" in choice for choice in box.split(":::{dropdown}")[1:]].index(True)
        for chapter in TAUGHT
        for box in BOX.findall(chapter.source.read_text("utf-8"))
    )
    assert all(places[place] >= places.total() / 4 for place in range(3))


@pytest.mark.parametrize("chapter", TAUGHT, ids=lambda one: one.name)
def test_an_exercise_says_its_minutes_and_folds_its_answer(chapter: Chapter) -> None:
    exercises = BLOCK.findall(chapter.source.read_text("utf-8"))
    assert exercises
    for _, title, text in exercises:
        kind = re.fullmatch(
            r"\d+ · ★{1,3} · \d+ min(?: · (write it|find the bug|open))?(?: · core)?", title
        )
        assert kind, title
        if kind[1] != "write it":  # its answer is a folded cell
            answer = "Discussion" if kind[1] == "open" else "Solution"
            assert f":::{{dropdown}} {answer}\n" in text, title


def test_a_section_of_the_critical_chapter_is_cited_by_its_number() -> None:
    critical = next(one for one in TAUGHT if one.name == "foundations/critical_reading")
    parts = re.split(r"^## (\d+)\. ", critical.source.read_text("utf-8"), flags=re.MULTILINE)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    cite = re.compile(r"\(\.\./foundations/critical_reading\.ipynb\),\s+section\s+(\d+)")
    cited = [
        (one.name, number)
        for one in TAUGHT
        if one.name.startswith("principles/")
        for number in cite.findall(one.source.read_text("utf-8"))
    ]
    assert len(cited) == 6
    for name, number in cited:
        statement = sections[number].partition("**The question.**")[0]
        assert f"(../{name}.ipynb)" in statement, (name, number)


def test_the_checks_of_every_row_stand_on_one_page() -> None:
    page = next(one for one in find_chapters() if one.name == "architectures/checks")
    text = page.source.read_text("utf-8")
    table = re.findall(r"^\| \[([^\]]+)\]\((\w+)\.ipynb\) \|(.*)\|$", text, re.MULTILINE)
    assert {f"architectures/{name}" for _, name, _ in table} == {one.name for one in ROWS}
    assert len(table) == len(ROWS) == 8 and text.count("check_row(") == 1
    assert all(entries.count(" | ") == 5 for *_, entries in table)
    for chapter in ROWS:
        source = chapter.source.read_text("utf-8")
        assert source.count("](checks.ipynb)") == 1 and "check_row(" not in source


def test_every_graded_exercise_has_a_place() -> None:
    asked = {
        name
        for chapter in find_chapters()
        for name in re.findall(r'grade\("([^"]+)"', chapter.source.read_text("utf-8"))
    }
    assert asked == set(EXERCISES)


def chapter_of(folder: Path, name: str, text: str) -> Chapter:
    source = folder / f"{name}.md"
    source.parent.mkdir(parents=True, exist_ok=True)
    head = "---\nkernelspec:\n  name: python3\n---\n\n# Title\n\n"
    source.write_text(head + text, encoding="utf-8")
    return Chapter(name=name, source=source)


def test_what_is_counted(tmp_path: Path) -> None:
    text = (
        ":::{admonition} Goal\n:class: goal\n**Goal.** It.\n\n**Question.** Why\nso?\n:::\n\n"
        "```{code-cell} ipython3\na = 1\nb = 2\nc = 3\n```\n\n"
        "```{code-cell} ipython3\n---\ntags: [hide-cell]\n---\nd = 4\n```\n\n"
        '```{code-cell} ipython3\nExplorer(preset="gla")\n```\n\n'
        + "".join(
            f"::::{{admonition}} Exercise 1 · ★ · 3 min · {kind}{core}\n::::\n\n"
            for kind, core in zip(KINDS, ("", CORE, CORE), strict=True)
        )
    )
    found = survey(chapter_of(tmp_path, "architectures/x", text))
    assert found.question == "Why so?"
    assert found.open_code == pytest.approx(4 / 5)
    assert found.movable == 1 and found.first_picture is not None
    assert found.exercises == {**dict.fromkeys(KINDS, 1), "other": 0}
    assert found.core == 2
    assert missing([found]) == ["architectures/x has no self-check"]
    assert missing([replace(found, core=1, checks=1)]) == [
        "architectures/x has no 2 exercises of the core"
    ]


def test_a_sentence_in_three_chapters_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    told = "This sentence has more than eight words and stands in three chapters of a book."
    book = [chapter_of(tmp_path, f"part/{name}", told + "\n") for name in "abc"]
    assert repeated_sentences(book) == {told: ["part/a", "part/b", "part/c"]}
    assert repeated_sentences(book[:2]) == {}
    assert main(["--book", str(tmp_path)]) == 1
    assert told in capsys.readouterr().out
