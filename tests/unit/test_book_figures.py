"""The figures of one idea, counted; what a reader of ideas keeps of the code; what is said once."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coefdyn.widgets import SmallFigure

BOOK = Path(__file__).resolve().parents[2] / "book"
CELL = re.compile(r"^```\{code-cell\} ipython3\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: Of one idea: at most so many things to move.
MOST_CONTROLS = 2
LEAST_FIGURES = 25


def _figures() -> Iterator[tuple[str, SmallFigure]]:
    """Every small figure of the chapters, as its cell makes it."""
    for path in sorted(BOOK.rglob("*.md")):
        for cell in CELL.findall(path.read_text(encoding="utf-8")):
            code = "\n".join(line for line in cell.splitlines() if not line.startswith(":"))
            if "coefdyn.widgets import" not in code or "Explorer" in code:
                continue
            *before, last = ast.parse(code).body
            assert isinstance(last, ast.Expr), path.name
            assert all(isinstance(line, ast.ImportFrom) for line in before), path.name
            names: dict[str, Any] = {}
            exec(compile(ast.Module(before, []), path.name, "exec"), names)
            yield path.stem, eval(compile(ast.Expression(last.value), path.name, "eval"), names)


def test_many_small_figures_stand_beside_their_sentences() -> None:
    figures = list(_figures())
    assert len(figures) >= LEAST_FIGURES
    kinds = {figure.figure for _, figure in figures}
    assert len(kinds) >= 12
    assert len({chapter for chapter, _ in figures}) >= 20


def test_a_small_figure_has_one_or_two_controls() -> None:
    for chapter, figure in _figures():
        known = (*figure._limits, *figure._choices)
        shown = figure.controls or [name for name in known if name != "seed"]
        shown = {*shown, *([figure.predict["control"]] if figure.predict else [])}
        assert 1 <= len(shown) <= MOST_CONTROLS, (chapter, type(figure).__name__, shown)


def test_every_small_figure_says_its_numbers_in_words() -> None:
    for _, figure in _figures():
        assert re.search(r"\d", figure.words())
        again = type(figure).from_state(_state(figure))
        assert (again.settings, again.predict) == (figure.settings, figure.predict)


def _state(figure: SmallFigure) -> dict[str, object]:
    return {name: getattr(figure, name) for name in figure.trait_names(sync=True)}


def test_keys_of_derivations_stay_open_for_a_reader_of_ideas() -> None:
    keyed = {
        path.stem
        for path in BOOK.rglob("*.md")
        for cell in CELL.findall(path.read_text(encoding="utf-8"))
        if cell.startswith(":tags: [key]")
    }
    assert {"coefficient_dynamics", "softmax_attention", "deltanet", "gated_deltanet"} <= keyed


@pytest.mark.parametrize("path", sorted((BOOK / "principles").glob("*.md")), ids=lambda p: p.stem)
def test_a_run_that_is_missing_is_not_named_after_every_figure(path: Path) -> None:
    """The page of evidence lists missing runs once."""
    assert not re.search(r'show\(.*\["paper"\]\)', path.read_text(encoding="utf-8"))
