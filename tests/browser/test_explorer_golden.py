"""The page's arithmetic agrees with the library's float64 reference to 1e-9, number by number."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from coefdyn import CoefficientDynamics, evolution, mask, normalizer, readout
from coefdyn.widgets import Explorer
from coefdyn.widgets.settings import schema, validate
from coefdyn.widgets.source import arithmetic_source
from coefdyn.widgets.tokens import DrawnTokens

pytestmark = pytest.mark.browser
GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "explorer.json"
TABLE: list[dict[str, Any]] = json.loads(GOLDEN.read_text(encoding="utf-8"))
TOLERANCE = 1e-9

SOLVE = """(cases) => cases.map((raw) => {
  const { settings, notes } = normaliseSettings(raw);
  const m = buildModel(settings, {});
  const { L } = m.g;
  const lower = (a) => [...a].filter((_, at) => at % L <= Math.floor(at / L));
  const above = (at) => at % L > Math.floor((at % (L * L)) / L);
  const upper = [...m.alpha, ...m.weights].filter((_, at) => above(at));
  return { settings, notes, alpha: lower(m.alpha), weights: lower(m.weights), path: [...m.path],
    eigenvalues: [...m.eigenvalues].sort((a, b) => a - b), near_zero: m.nearZero,
    row_sum: m.sums[m.row], labels: m.g.words, said: m.answer.map(([word]) => word),
    answer: m.answer.map(([, y]) => y), upper, q: [...m.g.q], k: [...m.g.k] };
})"""


@pytest.fixture(scope="module")
def answers(browser: Any) -> Iterator[list[dict[str, Any]]]:
    page = browser.new_page()
    page.add_script_tag(content=arithmetic_source())
    yield page.evaluate(SOLVE, [row["settings"] for row in TABLE])
    page.close()


def _worst(got: Any, want: Any) -> float:
    if isinstance(want, list):
        assert len(got) == len(want)
        return max(map(_worst, got, want), default=0.0)
    assert math.isfinite(got)
    return abs(got - want) / max(1.0, abs(want))


@pytest.mark.parametrize(
    "name", ["alpha", "weights", "path", "eigenvalues", "near_zero", "row_sum", "answer"]
)
def test_javascript_agrees_with_reference(name: str, answers: list[dict[str, Any]]) -> None:
    pairs = [(a[name], row[name]) for a, row in zip(answers, TABLE, strict=True) if name in row]
    worst = max(_worst(got, want) for got, want in pairs)
    assert worst <= TOLERANCE, f"{name}: {worst:.2e} over {len(pairs)} cases"


def test_words_are_the_same(answers: list[dict[str, Any]]) -> None:
    told = [(a, row) for a, row in zip(answers, TABLE, strict=True) if "labels" in row]
    assert len(told) >= 20
    for answer, row in told:
        assert (answer["labels"], answer["said"]) == (row["labels"], row["said"]), row["settings"]


def test_nothing_above_the_diagonal(answers: list[dict[str, Any]]) -> None:
    assert all(value == 0 for answer in answers for value in answer["upper"])


def test_tokens_are_the_same_numbers(answers: list[dict[str, Any]]) -> None:
    """Not nearly: bit for bit."""
    for answer, row in zip(answers, TABLE, strict=True):
        q, k = DrawnTokens(validate(row["settings"])).queries_keys()
        assert answer["q"] == q.flatten().tolist()
        assert answer["k"] == k.flatten().tolist()


def test_settings_are_understood_alike(answers: list[dict[str, Any]]) -> None:
    for answer, row in zip(answers, TABLE, strict=True):
        assert answer["settings"] == validate(row["settings"])
        cut = row["settings"].get("text", "").count(" ") > 64
        assert answer["notes"] == cut * ["That is a long text; its first 64 words are used"]


EXTREMES = """() => {
  const names = (key) => Object.keys(SCHEMA.choices[key].options);
  const rows = Object.keys(SCHEMA.rows);
  const ends = [
    { decay: 1.25, scale: 6, beta: 2, length: 64, width: 16 },
    { decay: 0.3, scale: 0.1, beta: 0, variation: 1, length: 64, width: 16 },
    { decay: 1.25, scale: 6, beta: 2, length: 2, width: 2 },
  ];
  const cases = ends.flatMap((end) => names("structure").flatMap((structure) =>
    names("readout").flatMap((readout) => names("normalizer").map((normalizer) =>
      ({ scaling: "one", flip: true, structure, readout, normalizer, ...end })))));
  const between = ends.flatMap((end) => rows.flatMap((preset) => rows.flatMap((morph_to) =>
    [0.01, 0.5, 0.99, 1].map((morph) => ({ preset, ...end, flip: true, morph_to, morph })))));
  return [...cases, ...between].filter((raw) => {
    const m = buildModel(normaliseSettings(raw).settings, {});
    const values = [[m.nearZero, m.rate, m.horizon], m.weights, m.alpha, m.sums];
    return values.some((list) => list.some(Number.isNaN));
  });
}"""


def test_extreme_settings_overflow_but_never_lose_a_number(browser: Any) -> None:
    """Growth may reach infinity; nothing becomes NaN."""
    page = browser.new_page()
    page.add_script_tag(content=arithmetic_source())
    assert page.evaluate(EXTREMES) == []
    page.close()


GIVEN_EXTREMES = """(data) => {
  const names = (key) => Object.keys(SCHEMA.choices[key].options);
  const heads = data.heads.map((_, m) => m + 1).concat(16);
  const cases = heads.flatMap((head) => names("readout").flatMap((readout) => names("normalizer")
    .map((normalizer) => ({ head, readout, normalizer, row: 64, column: 1, morph_to: "gla",
      morph: 0.5, length: 64, width: 16 }))));
  return cases.filter((raw) => {
    const m = buildModel(normaliseSettings(raw).settings, data);
    const values = [[m.nearZero, m.rate, m.horizon], m.weights, m.alpha, m.sums, m.eigenvalues];
    return m.g.blend || values.some((list) => list.some(Number.isNaN));
  });
}"""


def test_given_dynamics_of_any_size_never_lose_a_number(browser: Any) -> None:
    """Silent, huge and tiny keys; growing, vanishing and turning A_t."""
    generator = torch.Generator().manual_seed(0)
    size = (5, 12, 3)
    q, k = torch.randn(2, *size, generator=generator, dtype=torch.float64)
    factors = torch.tensor([0.0, 1e-3, 1.0, 30.0, 1.0], dtype=torch.float64)
    matrix = factors[:, None, None, None] * torch.randn(
        5, 12, 3, 3, generator=generator, dtype=torch.float64
    )
    loudness = torch.tensor([1.0, 1e-8, 0.0, 1.0, 1e8], dtype=torch.float64)
    dynamics = CoefficientDynamics(
        q=q,
        k=loudness[:, None, None] * k,
        evolution=evolution.Dense(matrix=matrix),
        scaling=1.0,
        readout=readout.identity,
        normalizer=normalizer.One(),
    )
    page = browser.new_page()
    page.add_script_tag(content=arithmetic_source())
    assert page.evaluate(GIVEN_EXTREMES, Explorer.from_dynamics(dynamics).data) == []
    page.close()


BESIDE = """([data, cases]) => cases.map((raw) => {
  const m = buildModel(normaliseSettings(raw).settings, data);
  return { alpha: [...m.alpha], weights: [...m.weights], labels: m.g.words, kind: m.className };
})"""

#: each alone and all together: the first row may read nothing but a sink
BESIDES: dict[str, tuple[str, ...]] = {
    "own": ("own",),
    "outer decay": ("outer_log_decay",),
    "mask": ("mask",),
    "sink": ("sink",),
    "all": ("own", "outer_log_decay", "mask", "sink"),
}


@pytest.mark.parametrize("chosen", BESIDES)
def test_what_stands_beside_the_four_agrees_too(chosen: str, browser: Any) -> None:
    """An own term, a decay outside phi, a mask and a sink, for every readout and normalizer."""
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    length = 6
    allowed = draw(length, length) > -0.5
    allowed[0, 0] = False
    beside: dict[str, Any] = {
        "own": draw(length),
        "outer_log_decay": -draw(length).abs(),
        "mask": mask.Given(allowed),
    }
    dynamics = CoefficientDynamics(
        q=draw(length, 3),
        k=draw(length, 3),
        evolution=evolution.Scalar(log_decay=-draw(length).abs()),
        scaling=draw(length).abs(),
        readout=readout.exp,
        normalizer=normalizer.RowSum(draw(length) if "sink" in BESIDES[chosen] else None),
        **{name: beside[name] for name in BESIDES[chosen] if name in beside},
    )
    explorer = Explorer.from_dynamics(dynamics, words=list("abcdef"))
    options = schema()["choices"]
    cases = [
        {**explorer.settings, "readout": phi, "normalizer": eta}
        for phi in options["readout"]["options"]
        for eta in options["normalizer"]["options"]
    ]
    page = browser.new_page()
    page.add_script_tag(content=arithmetic_source())
    answers = page.evaluate(BESIDE, [explorer.data, cases])
    page.close()
    for case, answer in zip(cases, answers, strict=True):
        explorer.settings = case
        for name, normalized in (("alpha", False), ("weights", True)):
            want = explorer.coefficients(normalized).flatten().tolist()
            assert _worst(answer[name], want) <= TOLERANCE, (case["readout"], case["normalizer"])
        assert answer["labels"] == list("abcdef")
        if case["normalizer"] != "gate" and case["normalizer"] != "geometric":
            assert answer["kind"] == explorer.shown().combination, (case["readout"], case)
