"""Promises of the book's pages about their figures: every record is performed.

A record (`book/tools/promises.py`) is performed on a page with its figure alone, so that no page of
the book has to be built. What it sees is read off the page: numbers on show, the sentences that say
what a picture shows, and for what needs many cells or states, the reading line, cell by cell.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
import torch
from browser.explorer_pages import settle, write_page
from passed import of_page

from book.tools.promises import Promise, Seen, Step, figure_of, promise_of, promises
from book.tools.prose import parse, widget
from coefdyn.lab.places import data_folder
from coefdyn.lab.train import PageTraining
from coefdyn.lab.train.kept_runs import DECIDES, KeptRun
from coefdyn.widgets import Explorer

pytestmark = pytest.mark.browser

ROOTS = "[data-cd=explorer], [data-cd=small], [data-cd=trainer]"
#: by their page, so that the sample has one of each
PERFORMED: dict[str, list[Promise]] = {}
for _one in promises():
    if not _one.exempt:
        PERFORMED.setdefault(_one.page, []).append(_one)
PLACES = [(page, number) for page, those in PERFORMED.items() for number in range(len(those))]
#: half of the reach of the plane in which a key and a query are dragged
REACH = 3

#: Sets a control as a hand would; the reason why that cannot be done, or "".
SET = """([key, text]) => {
  const input = document.querySelector(`[data-cd=control-${key}]`);
  if (!input) return `there is no control ${key}`;
  if (input.closest(".cdx-control[hidden], .cdx-card[hidden]")) return `${key} is not offered here`;
  if (input.type === "checkbox") input.checked = text === "true";
  else {
    const value = key === "epsilon" ? String(Math.log10(Number(text))) : text;
    input.value = value;
    const far = Math.abs(Number(input.value) - Number(value));
    const kept = input.type === "range" ? far < 1e-9 : input.value === value;
    if (!kept) return `the control ${key} cannot be set to ${text}`;
  }
  for (const type of ["input", "change"]) input.dispatchEvent(new Event(type, { bubbles: true }));
  return "";
}"""
#: What a sentence of the page says at each place in turn; the sliders go back at the end.
SWEEP = """async ([hook, attribute, places]) => {
  const node = document.querySelector(`[data-cd=${hook}]`);
  const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  const set = (key, value) => {
    const input = document.querySelector(`[data-cd=control-${key}]`);
    if (input.value === String(value)) return;
    input.value = value;
    for (const type of ["input", "change"]) input.dispatchEvent(new Event(type, { bubbles: true }));
  };
  const valueOf = (key) => document.querySelector(`[data-cd=control-${key}]`).value;
  const before = Object.keys(places[0]).map((key) => [key, valueOf(key)]);
  const said = [];
  for (const place of places) {
    for (const [key, value] of Object.entries(place)) set(key, value);
    await frame();
    said.push(attribute ? node.getAttribute(attribute) : node.textContent);
  }
  for (const [key, value] of before) set(key, value);
  await frame();
  return said;
}"""
RAISED = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-", strict=True))


def to_number(text: str) -> float:
    """A number as the page writes it: "−0.5", "2.3·10⁻⁵", "∞", "12 %"."""
    plain = text.strip().replace("−", "-").replace(",", "").removesuffix(".")
    if plain.endswith("%"):
        return float(plain[:-1]) / 100
    if plain.lstrip("-") == "∞":
        return -math.inf if plain[0] == "-" else math.inf
    head, _, power = plain.partition("·10")
    return float(head) * 10.0 ** int("".join(RAISED[sign] for sign in power) or 0)


def control(page: Any, key: str) -> int:
    """A setting that is a place; as the figure was made where the reader has no control of it."""
    node = page.query_selector(f"[data-cd=control-{key}]")
    return int(node.input_value() if node else page.shown.settings[key])


def sweep(page: Any, hook: str, attribute: str, places: list[dict[str, int]]) -> list[str]:
    return list(page.evaluate(SWEEP, [hook, attribute, places]))


def readings(page: Any, cells: list[tuple[int, int]]) -> list[list[float]]:
    """Score, alpha and alpha / eta of cells (i, j), as the reading line says them."""
    places = [{"row": i, "column": j} for i, j in cells]
    found = []
    for said in sweep(page, "reading", "", places):
        parts = re.search(r"score (.*), α = (.*), α/η = (.*)\.$", said)
        assert parts, said
        found.append([to_number(part) for part in parts.groups()])
    return found


def path(page: Any) -> list[complex]:
    """States of the chosen token in the plane, from its own output on; kept until the next step."""
    if page.path:
        return list(page.path)
    last = int(page.get_attribute("[data-cd=control-row]", "max"))
    places = [{"row": i} for i in range(control(page, "column"), last + 1)]
    found = []
    for said in sweep(page, "plane", "aria-label", places):
        x, y = said.rsplit(": ", 1)[1].removesuffix(".").split(", ")[:2]
        found.append(complex(to_number(x), to_number(y)))
    page.path = found
    return found


def lengths(page: Any) -> list[float]:
    states = path(page)
    return [abs(h) / abs(states[0]) for h in states]


def bend(page: Any) -> float:
    """The largest angle in degrees between the line of the first state and a later one's."""
    states = path(page)
    seen = [h / states[0] for h in states if abs(h) > 0.02 * abs(states[0])]
    return max(math.degrees(math.atan2(abs(h.imag), abs(h.real))) for h in seen)


def answer(page: Any, word: str) -> float:
    """Share of a word in the answer."""
    rows = "n => n.filter(x => !x.hidden).map(x => [x.firstChild.textContent, x.dataset.value])"
    return float(dict(page.eval_on_selector_all(".cdx-answer", rows)).get(word, 0))


def marked(page: Any, row: str) -> float:
    """Number of cells of a row that are marked as near zero."""
    epsilon = 10 ** float(page.input_value("[data-cd=control-epsilon]"))
    told = readings(page, [(int(row), j) for j in range(1, int(row) + 1)])
    place = 2 if page.get_attribute("[data-cd=view-normalized]", "aria-pressed") == "true" else 1
    return sum(abs(cell[place]) <= epsilon for cell in told)


def largest(page: Any) -> float:
    """The largest number of the matrix, as its legend says it."""
    return to_number(page.locator(".cdx-scale span").last.inner_text())


def longest_eigenvalue(page: Any) -> float:
    """Size of the largest eigenvalue over all steps, as the stability panel says it."""
    said = page.get_attribute("[data-cd=eigenvalue-plane]", "aria-label")
    return to_number(said.rsplit("is ", 1)[1])


def eigenvalue(page: Any, place: str) -> float:
    """One eigenvalue of A at the chosen step, counted from 1."""
    return float(page.get_attribute("[data-cd=eigenvalues]", "data-value").split()[int(place) - 1])


def strongest(page: Any, rows: list[int]) -> list[int]:
    """From which token each of these rows of a film reads most."""
    said = sweep(page, "film", "aria-label", [{"row": i} for i in rows])
    found = [re.search(r"reads most from (?:\S+ at |token )(\d+),", one) for one in said]
    return [int(one[1]) for one in found if one]


def reads_back(page: Any) -> float:
    """In how many rows of a film the strongest coefficient is that of the token before."""
    rows = list(range(2, int(page.get_attribute("[data-cd=control-row]", "max")) + 1))
    return sum(i - j == 1 for i, j in zip(rows, strongest(page, rows), strict=True))


def row_of(page: Any, which: int) -> list[float]:
    """The chosen row, cell by cell."""
    row = control(page, "row")
    return [cell[which] for cell in readings(page, [(row, j) for j in range(1, row + 1)])]


def rank(page: Any) -> float:
    """Independent rows of the largest square of the matrix that lies below its diagonal."""
    length = int(page.get_attribute("[data-cd=control-row]", "max"))
    half = length // 2
    cells = [(i, j) for i in range(length - half + 1, length + 1) for j in range(1, half + 1)]
    square = torch.tensor([cell[1] for cell in readings(page, cells)]).reshape(half, half)
    return float(torch.linalg.matrix_rank(square, rtol=0.01))  # what is read has three digits


def kept(page: Any) -> KeptRun:
    """The run that was recorded in a browser at the settings of the figure or of its link."""

    def decided(address: str) -> dict[str, str]:
        return {key: text for key, text in parse_qsl(address.partition("?")[2]) if key in DECIDES}

    wanted = {**decided(page.shown.link()), **decided(page.evaluate("location.hash"))}
    for file in sorted((data_folder() / "trained").glob("*.json")):
        run = json.loads(file.read_text(encoding="utf-8"))
        figure = PageTraining.from_state({"settings": run["settings"], "name": "train"})
        if decided(figure.link()) == wanted:
            return KeptRun(**run)
    raise AssertionError("no kept run has these settings; see tests/browser/record_train.py")


def accuracy(page: Any, side: str, step: str) -> float:
    run = kept(page).runs[["left", "right"].index(side)]
    return float(run["accuracy"][run["steps"].index(int(step))])


def step_of(page: Any, side: str) -> float:
    """The step at which a run stopped because a number left the range of float32."""
    return float(kept(page).runs[["left", "right"].index(side)]["stopped"])


def _cell(which: int) -> Callable[[Any, str, str], float]:
    return lambda page, i, j: readings(page, [(int(i), int(j))])[0][which]


#: what is read off the page beside the numbers on show
QUANTITIES: dict[str, Callable[..., float | str]] = {
    "score": _cell(0),
    "alpha": _cell(1),
    "weight": _cell(2),
    "answer": answer,
    "places": lambda page: len({(round(h.real, 2) + 0, round(h.imag, 2) + 0) for h in path(page)}),
    "shortest": lambda page: min(lengths(page)),
    "longest": lambda page: max(lengths(page)),
    "length": lambda page, i: lengths(page)[int(i) - control(page, "column")],
    "bend": bend,
    "marked": marked,
    "largest": largest,
    "largest-eigenvalue": longest_eigenvalue,
    "eigenvalue": eigenvalue,
    "reads": lambda page, i: strongest(page, [int(i)])[0],
    "reads-back": reads_back,
    "rank": rank,
    "row-largest": lambda page: max(map(abs, row_of(page, 2))),
    "weight-sum": lambda page: sum(row_of(page, 2)),
    "design": lambda page: page.inner_text("[data-cd=design-words]").partition(":")[0],
    "chance": lambda page: kept(page).base,
    "accuracy": accuracy,
    "stopped": step_of,
}


def read(page: Any, quantity: str) -> float | str:
    """A number on show, a quantity of the table, the value of a control, or the text of a hook."""
    name, _, arguments = quantity.removesuffix(")").partition("(")
    node = page.query_selector(f"[data-cd={name}]")
    on_show = node.get_attribute("data-value") if node and not arguments else None
    if on_show is not None:
        return value_of(on_show)
    if name in QUANTITIES:
        given = [one.strip() for one in arguments.split(",")] if arguments else []
        return QUANTITIES[name](page, *given)
    if node is not None:
        return value_of(node.inner_text())
    return value_of(page.input_value(f"[data-cd=control-{name}]"))


def value_of(text: str) -> float | str:
    try:
        return to_number(text)
    except (ValueError, KeyError):
        return text.strip()


def tolerance(text: str) -> float:
    """Half of the last digit written; what is whole, or another quantity, is exact."""
    digits = text.partition(".")[2] if re.fullmatch(r"-?[\d.]+", text) else ""
    return 0.5 * 10.0 ** -len(digits) + 1e-9 if digits else 1e-9


def holds(page: Any, seen: Seen, before: float | str | None) -> tuple[bool, str]:
    """Return whether the reading is as the record says, and the reading in words."""
    now = read(page, seen.quantity)
    told = f"{seen.quantity} is {now}"
    if seen.relation in ("rises", "falls", "stays"):
        assert isinstance(now, float | int) and isinstance(before, float | int), told
        same = now == before or abs(now - before) <= 1e-9 * max(1, abs(now))
        way = "stays" if same else "rises" if now > before else "falls"
        return way == seen.relation, f"{told} after {before}"
    wanted = value_of(seen.value)
    if isinstance(wanted, str) and (
        wanted.partition("(")[0] in QUANTITIES or page.query_selector(f"[data-cd='{wanted}']")
    ):
        wanted = read(page, wanted)
        told += f", {seen.value} is {wanted}"
    if isinstance(wanted, str) or isinstance(now, str):
        return (now == wanted) == (seen.relation == "="), told
    equal = abs(now - wanted) <= tolerance(seen.value) if now != wanted else True
    compare = {">": now > wanted, "<": now < wanted, ">=": now >= wanted, "<=": now <= wanted}
    return {"=": equal, "!=": not equal, **compare}[seen.relation], told


def drag(page: Any, handle: str, place: str) -> None:
    """Takes the key or the query of the geometry panel to a point of the plane."""
    x, y = (float(part) for part in place.split(","))
    page.locator("[data-cd=geometry]").scroll_into_view_if_needed()
    box = page.locator("[data-cd=geometry]").bounding_box()
    scale = min(box["width"], box["height"]) / 2 / REACH
    page.locator(f"[data-cd=handle-{handle}]").hover()
    page.mouse.down()
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(middle[0] + x * scale, middle[1] - y * scale)
    page.mouse.up()


def do(page: Any, step: Step) -> None:
    page.path = []
    if step.kind == "open":
        page.evaluate("(hash) => { location.hash = hash; }", step.what)
        page.wait_for_function(
            "(hash) => decodeURIComponent(location.hash) === decodeURIComponent(hash)",
            arg=step.what,
        )
        settle(page)
        note = page.query_selector("[data-cd=note]")
        assert note is None or not note.is_visible(), note.inner_text()
    elif step.kind == "set":
        refused = page.evaluate(SET, [step.what, step.value])
        assert not refused, refused
    elif step.kind == "press":
        page.evaluate("(hook) => document.querySelector(`[data-cd=${hook}]`).click()", step.what)
    elif step.kind == "drag":
        drag(page, step.what, step.value)
    settle(page)


@pytest.fixture(scope="module")
def stage(browser: Any) -> Iterator[Any]:
    """One page for all records, with what went wrong in it."""
    context = browser.new_context(viewport={"width": 1100, "height": 900}, reduced_motion="reduce")
    page = context.new_page()
    page.set_default_timeout(10_000)
    page.wrong = []
    page.on("pageerror", lambda error: page.wrong.append(str(error)))
    page.on("console", lambda m: page.wrong.append(m.text) if m.type == "error" else None)
    yield page
    context.close()


def perform(promise: Promise, shown: Any, stage: Any, folder: Path) -> list[str]:
    """Perform a record on a page with its figure; return what is otherwise than it says."""
    if shown.has_trait("predict"):
        shown.predict = {}  # the question before it is no part of the promise
    stage.shown, stage.path = shown, []
    stage.wrong.clear()
    stage.goto(write_page(folder, shown))
    stage.wait_for_selector(ROOTS)
    broken: list[str] = []
    for step in promise.steps:
        turns = {s.quantity for s in step.seen if s.relation in ("rises", "falls", "stays")}
        before = {quantity: read(stage, quantity) for quantity in turns}
        try:
            do(stage, step)
        except AssertionError as error:
            return [*broken, str(error)]
        for seen in step.seen:
            kept, told = holds(stage, seen, before.get(seen.quantity))
            if not kept:
                broken.append(f"{seen.quantity} {seen.relation} {seen.value}: {told}")
    return [*broken, *stage.wrong]


@pytest.mark.parametrize(
    ("page", "number"),
    [pytest.param(*place, marks=pytest.mark.reads(of_page(place[0]))) for place in PLACES],
    ids=[PERFORMED[page][number].name for page, number in PLACES],
)
def test_what_is_promised_happens(page: str, number: int, stage: Any, tmp_path: Path) -> None:
    promise = PERFORMED[page][number]
    broken = perform(promise, widget(figure_of(promise)), stage, tmp_path)
    assert broken == [], f"{promise.name}\n{promise.words}"


@pytest.mark.parametrize(
    ("link", "record", "told"),
    [
        ("preset=mamba2", "do: decay = 1;see: near-zero-fraction = 0", "fraction is 1.0"),
        ("preset=deltanet&amp;beta=2", "see: places >= 5", "places is 2"),
        ("preset=deltanet&amp;beta=1", "do: beta = 0.5;see: answer(black) = 0.50", "is 0.25"),
        ("preset=softmax_attention", "do: scale = 9;see: row-sum = 1.00", "cannot be set to 9"),
        ("preset=deltanet", "do: decay = 0.9;see: row-sum = 1.00", "decay is not offered here"),
        ("preset=nobody", "see: row-sum = 1.00", "preset “nobody” is not known"),
    ],
)
def test_what_does_not_happen_is_told(
    link: str, record: str, told: str, stage: Any, tmp_path: Path
) -> None:
    lines = [f'<a href="#cd?{link}">Look</a>.', *(f"% {line}" for line in record.split(";"))]
    (block,) = parse("\n".join(lines), "page").blocks
    (broken,) = perform(promise_of(block, "page"), Explorer(), stage, tmp_path)
    assert told in broken
