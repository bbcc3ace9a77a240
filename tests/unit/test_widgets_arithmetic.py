"""What the page's arithmetic shows is what the library makes of its ingredients."""

from __future__ import annotations

import itertools
import math
import random
import sys
from typing import Any

import pytest
import torch

from coefdyn import CoefficientDynamics, evolution, mask, normalizer, readout
from coefdyn.analysis import combination_class, selectivity
from coefdyn.widgets import Explorer, MemoryView, interpreter
from coefdyn.widgets import settings as rules
from coefdyn.widgets.ingredients import dynamics_from
from coefdyn.widgets.interpreter import ask, evaluate
from coefdyn.widgets.settings import ROWS, schema

#: of differences of numbers up to 1, and of shares of larger ones
EXACT = 1e-12
#: beyond 20 torch's softplus of x is x, for q and for h
SOFTPLUS = 2 * math.exp(-20) / 20
CHOICES = {key: list(spec["options"]) for key, spec in schema()["choices"].items()}
KINDS = list(itertools.product(*(CHOICES[k] for k in ("structure", "readout", "normalizer"))))


def _draw(rng: random.Random) -> dict[str, Any]:
    """Every setting at random, the ends of its range more often than chance."""
    raw: dict[str, Any] = {key: rng.choice(options) for key, options in CHOICES.items()}
    for key, spec in schema()["ranges"].items():
        inside = round(rng.uniform(spec["min"], spec["max"]), 3)
        raw[key] = rng.choice([spec["min"], spec["max"], spec["default"], inside, inside, inside])
        raw[key] = min(max(raw[key], spec["min"]), spec["max"])
    raw |= {"length": rng.choice([2, 3, 6, 9]), "width": rng.choice([2, 2, 3, 5])}
    raw |= {key: rng.randint(1, raw["length"]) for key in ("column", "row", "duplicate")}
    raw |= {"window": rng.randint(1, 10), "seed": rng.randint(0, 999), "flip": rng.random() < 0.3}
    place = f"{rng.choice('qk')}{rng.randint(1, raw['length'])}"
    raw["points"] = {place: [rng.choice([0.0, 1.0, -2.5]) for _ in range(2)]}
    return {**raw, "morph": 0}


def _worst(got: Any, want: Any) -> float:
    """The largest difference, as a share of numbers above 1; equal infinities do not differ."""
    got, want = (torch.as_tensor(x, dtype=torch.float64).flatten() for x in (got, want))
    assert got.shape == want.shape
    gap = torch.where(got == want, 0.0, (got - want).abs() / want.abs().clamp(min=1))
    return gap.max().item() if len(gap) else 0.0


def _growth(dynamics: CoefficientDynamics) -> float:
    """The largest mean slope of log |h_{i,j}| over i, of the keys of the first half."""
    best = -math.inf
    for j in range(dynamics.length // 2):
        sizes = dynamics.states(j).norm(dim=-1)
        if sizes[0] > 0 and sizes[-1] > 0:
            slope = (sizes[-1].log() - sizes[0].log()).item() / (dynamics.length - 1 - j)
            best = max(best, slope)
    return best


def _agrees(explorer: Explorer) -> None:
    """Everything on show against the float64 reference on the ingredients."""
    shown, dynamics, s = explorer.shown(), explorer.dynamics(), explorer.settings
    assert not shown.alpha.triu(1).any() and not shown.weights.triu(1).any()
    labels = shown.model["g"]["values"]
    words = list(dict.fromkeys(word for word in labels if word is not None))
    v = torch.tensor([[float(word == one) for one in words] for word in labels]).double()
    outputs = dynamics.apply(v, method="reference")[shown.row] if words else torch.zeros(0)
    matrix = dynamics.evolution.dense(shown.row, dynamics.key_dim).double()
    found = selectivity(dynamics, s["epsilon"], normalized=shown.normalized)
    alpha = dynamics.coefficients(method="reference")
    pairs = {
        "alpha": (shown.alpha, alpha),
        "weights": (shown.weights, dynamics.coefficients(normalized=True, method="reference")),
        "states": (shown.path, dynamics.states(shown.column)),
        "outputs": ([shown.answer.get(word, 0.0) for word in words], outputs),
        "eigenvalues": (
            sorted(x.real for x in shown.eigenvalues),
            torch.linalg.eigvals(matrix).real.sort().values,
        ),
        "row sum": (shown.row_sum, alpha[shown.row].sum()),
        "near zero": (shown.near_zero_fraction, found.near_zero_fraction),
        "growth": (shown.growth_nats, _growth(dynamics)),
    }
    gaps = {name: _worst(*pair) for name, pair in pairs.items()}
    most = SOFTPLUS if "softplus" in s["readout"] else EXACT
    assert max(gaps.values()) <= most, (gaps, rules.changes(s))


@pytest.mark.parametrize(("structure", "phi", "eta"), KINDS)
def test_the_library_agrees_at_random_settings_of_every_design(
    structure: str, phi: str, eta: str
) -> None:
    """Every structure, readout and normalizer, the rest at random."""
    named = {"structure": structure, "readout": phi, "normalizer": eta}
    explorer = Explorer(**{**_draw(random.Random(f"{structure} {phi} {eta}")), **named})
    _agrees(explorer)
    if explorer.settings["normalizer"] != "gate":
        want = combination_class(explorer.dynamics()).value
        assert explorer.shown().combination == want


def test_the_library_agrees_on_texts_and_on_the_rows_of_table_1() -> None:
    for row in ROWS:
        explorer = Explorer(row, epsilon=0.05)
        _agrees(explorer)
        shown, last = explorer.shown(), explorer.shown().readout_range[1]
        if explorer.settings["readout"] == "identity":  # drawn around the scores
            assert last <= 2.8 * max(shown.alpha.abs().max().item(), 2e-3), row
    for text in TOLD:
        _agrees(Explorer(text=text, width=3))


#: a text -> word, the word it is stored under, and the word it asks for
TOLD: dict[str, list[tuple[str, str | None, str | None]]] = {
    "the cat is black; ask: cat": [
        ("the", None, None),
        ("cat", None, "cat"),
        ("is", None, "cat"),
        ("black", "cat", "cat"),
        ("cat?", None, "cat"),
    ],
    "  \u201cTea\u201d = Green!! What of tea ?": [
        ("tea", None, "tea"),
        ("=", None, "tea"),
        ("green", "tea", "tea"),
        ("tea?", None, "tea"),
    ],
    "hen red, owl grey": [
        ("hen", None, "hen"),
        ("red", "hen", "hen"),
        ("owl", None, "owl"),
        ("grey", "owl", "owl"),
        ("owl?", None, "owl"),
    ],
    "one two three": [("one", None, "one"), ("two", "one", "two"), ("three", "two", "three")],
    "cat": [("cat", None, "cat"), ("cat?", None, "cat")],
    "\u202e\u05d4\u05d7\u05ea\u05d5\u05dc\u202c = x\u2028\ud800": [
        ("\u05d4\u05d7\u05ea\u05d5\u05dc", None, "\u05d4\u05d7\u05ea\u05d5\u05dc"),
        ("=", None, "\u05d4\u05d7\u05ea\u05d5\u05dc"),
        ("x", "\u05d4\u05d7\u05ea\u05d5\u05dc", "\u05d4\u05d7\u05ea\u05d5\u05dc"),
        ("\u05d4\u05d7\u05ea\u05d5\u05dc?", None, "\u05d4\u05d7\u05ea\u05d5\u05dc"),
    ],
}


@pytest.mark.parametrize("text", TOLD)
def test_a_text_is_stored_and_asked_for_by_its_rules(text: str) -> None:
    read = evaluate("(text) => parseFacts(cleanText(text)).tokens", text)
    assert [(token["word"], token["key"], token["query"]) for token in read] == TOLD[text]
    settings = Explorer(text=text).settings
    assert settings["length"] == settings["row"] == len(read)
    under = [token["key"] for token in read]
    asked = read[-1]["query"]
    assert settings["column"] == (under.index(asked) + 1 if asked in under else 1)


def test_the_example_is_read_where_no_interpreter_is() -> None:
    """Its places stand in the schema, so that a figure on it opens at once."""
    example = schema()["texts"]["text"]
    assert ask("told", example["default"]) == {"text": example["default"], **example["places"]}


def test_long_texts_and_long_words_are_cut() -> None:
    shown = Explorer(text="aVeryLongWordThatNobodyWouldRead " + "word " * 300).shown()
    assert len(shown.settings["text"]) <= 600
    assert (shown.settings["length"], len(shown.labels)) == (64, 64)
    assert shown.labels[0] == "averylongwordthatno\u2026"


def test_a_seed_draws_what_it_has_always_drawn() -> None:
    """Links and stills of the book hold seeds."""
    drawn = [evaluate("drawNormal", seed, stream, 3, 1) for seed in (0, 7) for stream in (1, 2)]
    assert drawn == [-1.315, 1.044, -0.098, 1.076]
    assert [evaluate("drawUniform", 7, stream, 3, 1) for stream in (4, 5)] == [-0.588, -0.991]


def _gates(settings: dict[str, Any], stream: str, channels: int) -> torch.Tensor:
    """u of every token and channel, ``(L, channels)``, where all tokens differ."""
    draw = (
        "(seed, stream, L, n) => Array.from({ length: L }, (_, t) =>"
        " Array.from({ length: n }, (__, c) => drawUniform(seed, STREAM[stream], t, c)))"
    )
    given = (settings["seed"], stream, settings["length"], channels)
    return torch.tensor(evaluate(draw, *given), dtype=torch.float64)


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("structure", CHOICES["structure"])
def test_every_structure_is_its_formula(structure: str, flip: bool) -> None:
    """s a (I - beta z z^T), with gates that vary by token, and those of channels."""
    explorer = Explorer(
        structure=structure, tokens="random", length=5, width=3, decay=0.8, spread=0.7, beta=1.3,
        variation=0.6, angle=30, flip=flip,
    )  # fmt: skip
    s, dynamics = explorer.settings, explorer.dynamics()
    rate, eye = math.log(s["decay"]), torch.eye(3, dtype=torch.float64)
    step = rate * (1 + s["variation"] * _gates(s, "decay", 1)[:, 0])
    channels = 1 + s["spread"] * ((2 * torch.arange(3).double() + 1) / 3 - 1)
    a = torch.diag_embed((rate * channels * (1 + s["variation"] * _gates(s, "decay", 3))).exp())
    least = min(s["beta"], 2 - s["beta"])
    beta = s["beta"] + s["variation"] * _gates(s, "beta", 1) * least
    r = s["beta"] + s["variation"] * _gates(s, "beta", 3) * least
    z = dynamics.k / dynamics.k.norm(dim=-1, keepdim=True)
    turn = math.radians(s["angle"])
    x, y = z[:, 0].clone(), z[:, 1].clone()
    z[:, 0] = math.cos(turn) * x - math.sin(turn) * y
    z[:, 1] = math.sin(turn) * x + math.cos(turn) * y
    along, across = z[:, :, None], z[:, None, :]
    reflection = eye - beta[:, :, None] * along * across
    sign = -1 if flip else 1
    want = {
        "identity": eye.expand(5, 3, 3),
        "scalar": sign * step.exp()[:, None, None] * eye,
        "diagonal": sign * a,
        "householder": reflection,
        "scaled_householder": sign * step.exp()[:, None, None] * reflection,
        "erased_diagonal": sign * reflection @ a,
        "erased_channels": sign * (eye - along @ (across * r[:, None, :])) @ a,
        "diagonal_rank_one": sign * (a - (along * r[:, :, None]) @ across),
    }[structure]
    for t in range(5):
        gap = (dynamics.evolution.dense(t, 3) - want[t]).abs().max().item()
        assert gap <= EXACT, (structure, t)


def test_what_is_written_and_divided_by_is_its_formula() -> None:
    named = {"tokens": "random", "length": 5, "width": 4, "scale": 1.5, "variation": 0.5}
    steps = Explorer(structure="scalar", scaling="one", **named).dynamics().evolution.log_decay
    s = Explorer(**named).settings
    beta = s["beta"] + 0.5 * _gates(s, "beta", 1)[:, 0] * min(s["beta"], 2 - s["beta"])
    want = {
        "one": 1.5 * torch.ones(5),
        "inverse_sqrt_n": 0.75 * torch.ones(5),
        "beta": 0.75 * beta,
        "step": 1.5 * steps.abs(),
        "exponential": 0.75 * (2 * _gates(s, "input", 1)[:, 0]).exp(),
    }
    for scaling, b in want.items():
        assert _worst(Explorer(scaling=scaling, **named).dynamics().scaling, b) <= EXACT, scaling
    powers = Explorer(normalizer="geometric", base=1.1, **named).dynamics().normalizer.eta
    assert _worst(powers, [1.1**i for i in range(1, 6)]) <= EXACT
    gate = Explorer(normalizer="gate", **named).dynamics().normalizer.eta
    assert _worst(gate, (2 * _gates(s, "output", 1)[:, 0]).exp()) <= EXACT
    fade = Explorer(beside="fade", fade=0.8, **named).dynamics().outer_log_decay
    want_fade = math.log(0.8) * (1 + 0.5 * _gates(s, "decay", 1)[:, 0])
    assert _worst(fade, want_fade) <= EXACT


def test_between_two_designs_each_part_moves_by_its_rule() -> None:
    """Logarithms of decay and b and beta linearly, a flipped sign through zero, z to length one."""
    named = {"tokens": "random", "length": 4, "width": 3, "morph": 0.3}
    made = {row: Explorer(row, **{**named, "morph": 0}).dynamics() for row in ("gla", "deltanet")}
    explorer = Explorer("gla", morph_to="deltanet", **named)
    d = explorer.dynamics()
    b = (0.7 * made["gla"].scaling.log() + 0.3 * made["deltanet"].scaling.log()).exp()
    assert _worst(d.scaling, b) <= EXACT
    start, end = made["gla"].evolution, made["deltanet"].evolution
    z = end.direction[:, :, None] * end.direction[:, None, :]
    reflection = torch.eye(3).double() - 0.3 * end.beta[:, None, None] * z
    want = (0.7 * start.log_decay).exp()[:, :, None] * reflection
    assert _worst(d.evolution.matrix, want) <= EXACT
    for share, kept in ((0.25, -0.5), (0.75, 0.5)):
        turned = {"structure": "scalar", "flip": True, "decay": 1.0, "morph": share}
        moved = Explorer(morph_to="linear_attention", **{**named, **turned}).dynamics()
        assert _worst(moved.evolution.dense(1, 3), kept * torch.eye(3)) <= EXACT
    window = Explorer("sliding_window", window=2, morph_to="alibi", length=10, morph=0.5)
    assert window.dynamics().mask.size == 6
    assert _worst(window.dynamics().outer_log_decay, [0.5 * math.log(0.8)] * 10) <= EXACT


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
  const between = ends.flatMap((end) => rows.flatMap((preset, a) => rows.map((morph_to, b) =>
    ({ preset, ...end, flip: true, morph_to, morph: [0.01, 0.5, 0.99, 1][(a + b) % 4] }))));
  return [...cases, ...between].filter((raw) => {
    const m = buildModel(normaliseSettings(raw).settings, {});
    const values = [[m.nearZero, m.rate, m.horizon], m.weights, m.alpha, m.sums];
    return values.some((list) => list.some(Number.isNaN));
  });
}"""


def test_extreme_settings_overflow_but_never_lose_a_number() -> None:
    """Growth may reach infinity; nothing becomes NaN."""
    assert evaluate(EXTREMES) == []


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


def test_given_dynamics_of_any_size_never_lose_a_number() -> None:
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
    assert evaluate(GIVEN_EXTREMES, Explorer.from_dynamics(dynamics).data) == []


#: each alone and all together: the first row may read nothing but a sink
BESIDES: dict[str, tuple[str, ...]] = {
    "own": ("own",),
    "outer decay": ("outer_log_decay",),
    "mask": ("mask",),
    "sink": ("sink",),
    "all": ("own", "outer_log_decay", "mask", "sink"),
}


@pytest.mark.parametrize("chosen", BESIDES)
def test_what_stands_beside_the_four_agrees_too(chosen: str) -> None:
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
    for phi, eta in itertools.product(CHOICES["readout"], CHOICES["normalizer"]):
        explorer.settings = {"readout": phi, "normalizer": eta}
        shown = explorer.shown()
        assert _worst(shown.alpha, explorer.coefficients()) <= EXACT, (phi, eta)
        assert _worst(shown.weights, explorer.coefficients(normalized=True)) <= EXACT, (phi, eta)
        assert shown.labels == list("abcdef")
        if eta not in ("gate", "geometric"):
            want = combination_class(explorer.dynamics()).value
            assert shown.combination == want, (phi, eta)


@pytest.fixture
def no_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where mini-racer is not installed."""
    monkeypatch.setitem(sys.modules, "py_mini_racer", None)
    for cached in (interpreter._interpreter, rules._told):
        monkeypatch.setattr(sys.modules[cached.__module__], cached.__name__, cached.__wrapped__)


@pytest.mark.usefixtures("no_interpreter")
def test_without_the_interpreter_a_figure_opens_and_only_its_numbers_are_missing() -> None:
    explorer = Explorer("gla", decay=0.9)
    assert explorer.settings["length"] == 13
    command = r"pip install 'coefdyn\[widgets\]'"
    for ask_numbers in (
        explorer.shown,
        explorer.coefficients,
        explorer.dynamics,
        MemoryView().words,
    ):
        with pytest.raises(ImportError, match=command):
            ask_numbers()
    own = Explorer(text="the hen is red")
    assert not {"length", "row", "column"} & own.settings.keys(), "the page adds what it reads"
    assert own.link().startswith("#cd?preset=gated_deltanet&text=the%20hen%20is%20red")
    own.settings = {**own.settings, "length": 5, "row": 5, "column": 4}
    assert own.settings["row"] == 5, "and it is kept"
    own.settings = {"text": "the owl is grey"}
    assert not {"length", "row", "column"} & own.settings.keys()
    with pytest.raises(ValueError, match="at least one word"):
        Explorer(text=" ")
    own.settings = {"tokens": "repeating"}
    assert own.settings["length"] == 12


@pytest.mark.usefixtures("no_interpreter")
def test_dynamics_that_were_handed_in_need_no_interpreter() -> None:
    made = {"L": 3, "n": 2, "q": [[1, 0]] * 3, "k": [[0.5, 2]] * 3, "structure": "identity"}
    made |= {"beta": None, "b": [1.0] * 3, "readout": "relu", "normalizer": "one"}
    given = dynamics_from(made)
    explorer = Explorer.from_dynamics(given)
    assert torch.equal(explorer.coefficients(), given.coefficients())
    assert torch.equal(explorer.dynamics().q, given.q)
