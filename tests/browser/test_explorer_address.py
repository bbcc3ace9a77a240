"""The address: nothing a reader types there breaks the figure; Back undoes what was done."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from browser.explorer_pages import (  # noqa: F401
    Open,
    ask,
    number,
    open_page,
    press,
    slide,
    text,
    until_drawn,
)

from coefdyn.widgets import Explorer
from coefdyn.widgets.settings import ROWS, schema, validate
from coefdyn.widgets.source import arithmetic_source

pytestmark = pytest.mark.browser

NAMES = [key for part in ("choices", "ranges", "integers", "flags") for key in schema()[part]]
NAMES += ["preset", "morph_to", "points", "q3", "k12", "q0", "k099", "", "colour", "length "]
NAMES += ["toString", "constructor", "__proto__", "hasOwnProperty"]
VALUES = ["", "0", "1", "-1", "NaN", "1e999", "12.7", "0.9x", "64", "65", "null", "true", " 3 "]
VALUES += ["toString", "constructor", "__proto__", "own", *ROWS, "exp", "identity", "%", "%E0%A4"]
VALUES += ["1,2", "1,,2", ",", "9,9", "1e308,1", "1=2", "#", "?", "<b>", ",".join("1" * 17)]

READ = """(queries) => queries.map((query) => {
  const { settings, notes } = decodeSettings(query);
  const again = decodeSettings(encodeSettings(settings));
  const model = buildModel(settings, {});
  return { settings, notes, again: again.settings, silent: again.notes.length === 0,
    finite: [model.nearZero, ...model.path].every(Number.isFinite) };
})"""


@pytest.fixture
def arithmetic(browser: Any) -> Iterator[Any]:
    """A page with the explorer's arithmetic, strict as a module is."""
    page = browser.new_page()
    page.add_script_tag(content='"use strict";' + arithmetic_source())
    yield page
    page.close()


def _query(rng: random.Random) -> str:
    parts = [f"{rng.choice(NAMES)}={rng.choice(VALUES)}" for _ in range(rng.randint(0, 5))]
    return "&".join([*parts, rng.choice(["", "toString", "&", "=", "view"])])


def test_any_address_gives_settings_that_python_accepts(arithmetic: Any) -> None:
    rng = random.Random(4)
    queries = [_query(rng) for _ in range(1000)]
    for query, read in zip(queries, ask(arithmetic, READ, queries), strict=True):
        assert read["finite"], query
        assert read["again"] == read["settings"] == validate(read["settings"]), query
        assert read["silent"], query


@pytest.mark.parametrize(
    ("query", "note"),
    [
        ("toString", "setting “toString” is not known"),
        ("preset=constructor", "preset “constructor” is not known"),
        ("morph_to=toString", "morph_to “toString” is not known"),
        ("structure=constructor", "structure “constructor” is not known"),
        ("points=a&q3=1,2", "point “points” cannot be read"),
        ("q3=", "point “q3” cannot be read"),
        ("q3=1,,2", "point “q3” cannot be read"),
        ("decay=0.9x", "decay “0.9x” is not a number"),
        ("length=12.7", "length 12.7 is not whole; rounded"),
        ("morph_to=deltanet&morph=7", "morph 7 is outside 0 to 1"),
        ("flip=banana", "flip “banana” is neither true nor false"),
        ("length=10&column=60", "column 60 is beyond the length 10; moved to the end"),
        ("length=10&duplicate=60", "duplicate 60 is beyond the length 10; left out"),
    ],
)
def test_what_cannot_be_used_is_said(query: str, note: str, arithmetic: Any) -> None:
    (read,) = arithmetic.evaluate(READ, [query])
    assert note in "; ".join(read["notes"])
    assert len(read["notes"]) == 1


def test_a_name_of_javascript_s_own_leaves_no_blank_box(open_page: Open) -> None:
    page = open_page(Explorer("gla"), fragment="#cd?toString&preset=constructor&points=1&q3=1,2")
    assert "setting “toString” is not known" in text(page, "note")
    assert number(page, "row-sum") == pytest.approx(
        Explorer(points={"q3": [1.0, 2.0]}).shown().row_sum, rel=1e-9
    )


SUMS = """() => [...document.querySelectorAll("[data-cd=row-sum]")].map((n) => n.dataset.value)"""


def _go(page: Any, step: str) -> list[float]:
    """One step through the browser's history, and the row sums then on show."""
    page.evaluate(
        """(step) => new Promise((done) => {
          addEventListener("hashchange", () => requestAnimationFrame(() => setTimeout(done)));
          history[step]();
        })""",
        step,
    )
    return [float(value) for value in page.evaluate(SUMS)]


def _slide(page: Any, place: int, decay: float) -> list[float]:
    page.evaluate(
        """([place, decay]) => {
          const input = document.querySelectorAll("[data-cd=control-decay]")[place];
          input.value = decay;
          for (const kind of ["input", "change"]) input.dispatchEvent(new Event(kind));
          return new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
        }""",
        [place, decay],
    )
    return [float(value) for value in page.evaluate(SUMS)]


@pytest.mark.parametrize("names", [("", ""), ("left", "right")])
def test_back_undoes_the_change_of_either_explorer(names: tuple[str, str], open_page: Open) -> None:
    page = open_page(*(Explorer("gla", name=name) for name in names))
    until_drawn(page, 2)
    seen = [[float(value) for value in page.evaluate(SUMS)]]
    for place, decay in ((0, 0.8), (1, 0.7), (0, 0.6)):
        page.evaluate("new Promise((done) => setTimeout(done, 700))")  # a step of its own
        seen.append(_slide(page, place, decay))
    assert len({tuple(sums) for sums in seen}) == 4
    assert page.evaluate("location.hash").startswith(f"#cd-{names[0]}?" if names[0] else "#cd?")
    assert [_go(page, "back") for _ in range(3)] == seen[2::-1]
    assert [_go(page, "forward") for _ in range(3)] == seen[1:]
    page.reload()
    until_drawn(page, 2)
    assert [float(value) for value in page.evaluate(SUMS)] == seen[-1]


def test_a_link_to_a_section_leaves_the_figure_as_it_is(open_page: Open) -> None:
    page = open_page(Explorer("gla"))
    slide(page, "decay", 0.6)
    shown = number(page, "row-sum")
    page.evaluate("""() => new Promise((done) => {
      addEventListener("hashchange", () => requestAnimationFrame(() => setTimeout(done)));
      location.hash = "#a-section";
    })""")
    assert number(page, "row-sum") == shown


def test_the_second_of_two_nameless_explorers_has_an_address(open_page: Open) -> None:
    pair = Explorer("gla"), Explorer("gla")
    page = open_page(*pair, fragment="#cd-2?preset=mlstm")
    until_drawn(page, 2)
    pressed = page.eval_on_selector_all(
        "[data-cd=explorer]", "n => n.map(x => x.querySelector('[aria-pressed=true]').dataset.cd)"
    )
    assert pressed == ["preset-gla", "preset-mlstm"]
    page = open_page(*pair, fragment="#cd?preset=mlstm")
    until_drawn(page, 2)
    pressed = page.eval_on_selector_all(
        "[data-cd=explorer]", "n => n.map(x => x.querySelector('[aria-pressed=true]').dataset.cd)"
    )
    assert pressed == ["preset-mlstm", "preset-gla"]
