"""Records of sentences about figures: how they are read, and which sentence has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from book.tools import promises as tool
from book.tools.promises import Promise, Seen, Step
from book.tools.prose import parse

FIGURE = """
```{code-cell} ipython3
from coefdyn.widgets import Explorer

Explorer("deltanet")
```
"""
LINK = '<a href="#cd?preset=deltanet&amp;beta=2">Reflect</a>'


def written(folder: Path, *blocks: str) -> tuple[Path, list[str]]:
    """A book of one page, and what is wrong with it."""
    (folder / "page.md").write_text("\n\n".join(blocks) + "\n", encoding="utf-8")
    return folder, tool.problems(folder)


def only(folder: Path, *blocks: str) -> Promise:
    written(folder, *blocks)
    (block,) = [b for b in parse((folder / "page.md").read_text(), "page").blocks if b.record]
    return tool.promise_of(block, "page")


def test_every_sentence_of_the_book_about_a_figure_has_its_record() -> None:
    assert tool.problems() == []


def test_a_record_is_read_line_by_line(tmp_path: Path) -> None:
    promise = only(
        tmp_path,
        f"- {LINK}: nothing is lost.\n  % see: shortest = 1.00; answer(white) > 0.9\n"
        "  % do: beta = 1; press view-raw\n  % see: shortest falls",
        FIGURE,
    )
    assert promise.words == f"- {LINK}: nothing is lost."
    assert promise.links[0].address == "#cd?preset=deltanet&beta=2"
    assert promise.steps == (
        Step(
            kind="open",
            what="#cd?preset=deltanet&beta=2",
            seen=(
                Seen(quantity="shortest", relation="=", value="1.00"),
                Seen(quantity="answer(white)", relation=">", value="0.9"),
            ),
        ),
        Step(kind="set", what="beta", value="1"),
        Step(
            kind="press",
            what="view-raw",
            seen=(Seen(quantity="shortest", relation="falls", value=""),),
        ),
    )


@pytest.mark.parametrize(
    ("block", "told"),
    [
        (f"{LINK}: nothing is lost.", "a link to a figure's state without a record"),
        ("[Reflect](#cd?beta=2), they say.\n% see: beta = 2", "is not of the form"),
        ("Move the strength to 2.", "“Move” beside a figure without a record"),
        ("Look at it, then drag the key.", "“then drag” beside a figure without a record"),
        ("Move it.\n% see: beta is 2", "'beta is 2' is not QUANTITY RELATION NUMBER"),
        ("Move it.\n% see: beta rises 2", "'beta rises 2' is not"),
        ("Move it.\n% do: beta\n% see: beta = 2", "do: 'beta' is none of"),
        ("Move it.\n% saw: beta = 2", "begins with none of open, do, see, at and exempt"),
        ("Move it.\n% at: left\n% see: beta = 2", "left is neither above nor below"),
        ("Move it.\n% exempt: why\n% see: beta = 2", "exempt and has a record, too"),
        (f"{LINK}, they say.\n% open: Turn\n% see: beta = 2", "'Turn' is none of ['Reflect']"),
        (
            f'{LINK}, or <a href="#cd?beta=1">project</a>.\n% see: beta = 2',
            "its record opens no link 'project'",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_line(block: str, told: str, tmp_path: Path) -> None:
    _, (problem,) = written(tmp_path, "# A page", block, FIGURE)
    assert problem.startswith("page.md:3: ")
    assert told in problem


@pytest.mark.parametrize(
    "block",
    [
        "Move it.\n% exempt: it is done in a cell",
        "Move it.\n% see: beta = 2",
        "Keys move, and a set of them is a switch.",
        "```python\nprint('Move it')\n```",
        "## Watch it\n\nNothing here.",
    ],
)
def test_nothing_is_wrong_with_what_has_a_record_or_needs_none(block: str, tmp_path: Path) -> None:
    assert written(tmp_path, "# A page", block, FIGURE)[1] == []


def test_a_verb_in_a_section_without_a_figure_needs_no_record(tmp_path: Path) -> None:
    assert written(tmp_path, "# A page", FIGURE, "## Elsewhere", "Move it.")[1] == []


def test_the_pages_are_not_built_with_a_sentence_that_has_no_record(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from book.tools import html

    monkeypatch.setattr(html, "problems", lambda: ["page.md:3: “Move” beside a figure"])
    monkeypatch.setattr(html.subprocess, "run", lambda *_, **__: pytest.fail("built"))
    assert html.build(tmp_path) == 1
    assert "page.md:3" in capsys.readouterr().err
