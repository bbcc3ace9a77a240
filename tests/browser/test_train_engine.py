"""The page trains as the library does: losses, gradients, coefficients, initial weights, files."""

from __future__ import annotations

import base64
import functools
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from browser.explorer_pages import ask
from train_twin import RUN, TRAIN, Case, Twin

from coefdyn.lab.train.offers import offered
from coefdyn.lab.train.source import trainer_source
from coefdyn.lab.training.checkpoint import load_checkpoint, save_checkpoint
from coefdyn.lab.training.seeds import derive_seed
from coefdyn.mixers.design import EVOLUTIONS, NORMALIZERS, READOUTS, SCALINGS
from coefdyn.models.config import POSITIONS

pytestmark = pytest.mark.browser

#: relative errors of the losses of 50 steps, of the first gradient (its norm over that of all
#: parameters together), and of the coefficients of the first sequence
LOSS = {"float32": 1e-4, "float64": 1e-9}
GRADIENT = {"float32": 1e-5, "float64": 1e-11}
COEFFICIENTS = {"float32": 1e-5, "float64": 1e-11}
STEPS = 50


@pytest.fixture(scope="module")
def run(browser: Any) -> Iterator[Callable[..., Any]]:
    """Evaluates a function of one argument in a page that holds the engine."""
    page = browser.new_page()
    page.add_script_tag(content=trainer_source(offered()))
    yield functools.partial(ask, page)
    page.close()


def design(structure: int, phi: int, eta: int) -> Case:
    """One design, whose other choices go round: each structure meets each of them."""
    at = structure + phi + eta
    names: dict[str, Any] = {
        "evolution": EVOLUTIONS[structure],
        "readout": tuple(READOUTS)[phi],
        "normalizer": NORMALIZERS[eta],
        "scaling": SCALINGS[at % len(SCALINGS)],
        "decay": ("mamba2", "gla")[at % 2],
        "beta": ("learned", "fixed")[at % 4 == 3],
        "constant": (0.7, 1.04, -0.9)[at % 3],
        "query_key_norm": phi % 3 == 1,
    }
    return Case(names, POSITIONS[at % 3], seed=at)


def error(got: list[float], want: list[float], scale: float | None = None) -> float:
    """The norm of a difference over that of what it should be; infinite for a NaN."""
    a, b = (torch.tensor(x, dtype=torch.float64) for x in (got, want))
    assert a.shape == b.shape
    found = ((a - b).norm() / (b.norm() if scale is None else scale)).item()
    return found if found == found else float("inf")


def check_first_step(run: Callable[..., Any], case: Case, precision: str) -> None:
    twin = Twin(case, precision, steps=1)
    told = run(RUN, twin.payload())
    loss, gradients = twin.gradients()
    assert told["names"] == list(twin.model.state_dict()), case
    assert told["trouble"] is None, case
    assert error([told["losses"][0]], [loss]) <= LOSS[precision], case
    whole = torch.cat([torch.tensor(one) for one in gradients.values()]).norm().item()
    for name, gradient in gradients.items():
        assert error(told["gradients"][name], gradient, whole) <= GRADIENT[precision], (case, name)
    for got, normalized in zip(told["coefficients"], (True, False), strict=True):
        want = twin.coefficients(normalized).flatten().tolist()
        flat = [x for matrix in got for x in matrix]
        assert error(flat, want) <= COEFFICIENTS[precision], (case, normalized)


CHOICES = list(itertools.product(range(len(EVOLUTIONS)), range(len(READOUTS))))
NAMES = [f"{EVOLUTIONS[a]}-{tuple(READOUTS)[phi]}" for a, phi in CHOICES]


def etas(structure: int, phi: int) -> list[int]:
    """Two normalizers of a choice, so that any two ingredients meet in every pair of kinds."""
    return [(3 * structure + phi + more) % len(NORMALIZERS) for more in (0, 3)]


@pytest.mark.parametrize(("structure", "phi"), CHOICES, ids=NAMES)
def test_gradients(structure: int, phi: int, run: Callable[..., Any]) -> None:
    """Loss, gradient of every parameter, alpha and alpha / eta, for every pair of ingredients.

    A structure gives scores, a readout turns them into alpha, a normalizer divides its rows: each
    hands to the next what is compared here, so pairs are what could go wrong together. Once in
    float32, as the page trains.
    """
    for eta in etas(structure, phi):
        check_first_step(run, design(structure, phi, eta), "float64")
    eta = (structure + phi) % 7
    if (tuple(READOUTS)[phi], NORMALIZERS[eta]) == ("identity", "row_sum"):
        eta += 1  # its sum passes zero, where float32 keeps fewer digits; float64 holds it above
    check_first_step(run, design(structure, phi, eta), "float32")


#: as the page trains, each structure with two readouts, and a row sum that passes zero; in float64
#: each structure and each readout at least once
LOSSES = [(a, phi, "float32") for a, phi in CHOICES if (phi - a) % 4 == 0]
LOSSES += [(EVOLUTIONS.index("householder_learned"), 0, "float32")]
LOSSES += [
    (m % len(EVOLUTIONS), m % len(READOUTS), "float64")
    for m in range(max(len(EVOLUTIONS), len(READOUTS)))
]


def trained(structure: int, phi: int) -> Case:
    """The design of a choice whose losses are compared."""
    return design(structure, phi, etas(structure, phi)[0])


@pytest.mark.parametrize(("structure", "phi", "precision"), LOSSES)
def test_fifty_losses(structure: int, phi: int, precision: str, run: Callable[..., Any]) -> None:
    """Forward, backward, AdamW, schedule and clipping together, for each kind of each ingredient.

    What two kinds do together stands in their gradients, which `test_gradients` compares.
    The row sum of the identity readout passes zero now and then, where the least rounding grows
    beyond all bounds: such a run is compared step by step, each from the library's weights.
    """
    case = trained(structure, phi)
    twin = Twin(case, precision, steps=STEPS)
    payload = twin.payload()
    losses, weights = twin.train()
    assert losses[0] != losses[-1]
    if (case.design["readout"], case.design["normalizer"]) == ("identity", "row_sum"):
        got = [
            run(RUN, {**payload, "weights": twin.by_name(held), "batches": [batch]})["losses"][0]
            for held, batch in zip(weights, payload["batches"], strict=True)
        ]
    else:
        got = run(RUN, payload)["losses"]
    worst = max(error([a], [b]) for a, b in zip(got, losses, strict=True))
    assert worst <= LOSS[precision], (case, worst)


def test_the_compared_designs_are_all_that_there_are(run: Callable[..., Any]) -> None:
    known = run("() => DESIGN_CHOICES")
    assert known["evolution"] == list(EVOLUTIONS) and known["readout"] == list(READOUTS)
    assert known["normalizer"] == list(NORMALIZERS) and known["scaling"] == list(SCALINGS)


@pytest.mark.parametrize("structure", range(len(EVOLUTIONS)), ids=EVOLUTIONS)
def test_initial_weights(structure: int, run: Callable[..., Any]) -> None:
    """A seed gives the weights that a run of the lab starts from."""
    case = design(structure, structure, structure)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(case.seed, "weights"))
        model = case.build()
    told = run(
        "(options) => createModel(options).parameters.map(({ name, data }) => [name, [...data]])",
        case.page_options("float32"),
    )
    for name, got in told:
        want = model.state_dict()[name].flatten()
        got = torch.tensor(got, dtype=torch.float32)
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-7)


SAVE = """({ options, weights, tokens }) => {
  const model = createModel(options);
  for (const { name, data } of model.parameters) data.set(weights[name]);
  const logits = [...model.forward(tokens, 5)];
  const bytes = saveWeights(model, { design: JSON.stringify(options.design) });
  return { bytes: btoa(String.fromCharCode(...bytes)), logits };
}"""
LOAD = """({ options, bytes, tokens }) => {
  const model = createModel(options);
  const notes = loadWeights(model, Uint8Array.from(atob(bytes), (c) => c.charCodeAt(0)));
  return { notes, logits: [...model.forward(tokens, 5)] };
}"""


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_files_pass_between_page_and_library(
    precision: str, run: Callable[..., Any], tmp_path: Path
) -> None:
    case = design(6, 1, 5)
    twin = Twin(case, precision, steps=1)
    tokens = twin.batches[0][0]
    options = case.page_options(precision)
    asked = {"options": options, "tokens": tokens.flatten().tolist()}
    told = run(SAVE, {**asked, "weights": twin.weights})
    path = tmp_path / "page.safetensors"
    path.write_bytes(base64.b64decode(told["bytes"]))
    tensors, notes = load_checkpoint(path)
    assert "scaled_householder" in notes["design"]
    model = case.build().to(torch.float64 if precision == "float64" else torch.float32)
    model.load_state_dict(tensors)
    with torch.no_grad():
        want = twin.loss.logits(tokens)
        torch.testing.assert_close(model(tokens), want)
    assert error(told["logits"], want.flatten().tolist()) <= COEFFICIENTS[precision]

    save_checkpoint(path, {name: 2 * value for name, value in tensors.items()}, {"from": "torch"})
    back = run(LOAD, {**asked, "bytes": base64.b64encode(path.read_bytes()).decode()})
    model.load_state_dict({name: 2 * value for name, value in tensors.items()})
    with torch.no_grad():
        assert error(back["logits"], model(tokens).flatten().tolist()) <= COEFFICIENTS[precision]
    assert back["notes"] == {"from": "torch"}


ATTEMPT = """({ options, bytes }) => {
  const model = createModel(options);
  const before = model.parameters.map(({ data }) => [...data]);
  try {
    loadWeights(model, Uint8Array.from(bytes));
  } catch (error) {
    const kept = ({ data }, at) => data.every((x, k) => x === before[at][k]);
    return { said: error.message, kind: error.name, same: model.parameters.every(kept) };
  }
  return { said: "taken" };
}"""


def _file(header: str, body: bytes = b"") -> bytes:
    return len(header).to_bytes(8, "little") + header.encode() + body


def _tensor(name: str, dtype: str, shape: list[int], end: int) -> str:
    listed = str(shape).replace("'", '"')
    return f'{{"{name}": {{"dtype": "{dtype}", "shape": {listed}, "data_offsets": [0, {end}]}}}}'


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "no safetensors file"),
        (b"\xff" * 64, "no safetensors file"),
        (_file("[1, 2]"), "no safetensors file"),
        (_file("null"), "no safetensors file"),
        (_file("{not json"), "no safetensors file"),
        (_file('{"embedding.weight": null}'), "not made of float32"),
        (_file(_tensor("embedding.weight", "I64", [1], 8), bytes(8)), "not made of float32"),
        (_file(_tensor("embedding.weight", "F32", [9, 16], 576), bytes(8)), "no safetensors file"),
        (_file(_tensor("embedding.weight", "F32", [2, 2], 16), bytes(16)), "the sizes differ"),
        (_file(_tensor("other", "F32", [2, 2], 16), bytes(16)), "of another design"),
        (
            _file(_tensor("embedding.weight", "F32", [9, 16], 576), b"\xff" * 576),
            "not finite",
        ),
    ],
)
def test_a_file_that_does_not_fit_is_refused_in_words(
    content: bytes, words: str, run: Callable[..., Any]
) -> None:
    options = Case({}).page_options("float32")
    told = run(ATTEMPT, {"options": options, "bytes": list(content)})
    assert words in told["said"] and told["kind"] == "Error" and told["same"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"design": {"evolution": "rotation"}}, "“rotation” is not known"),
        ({"design": {"toString": 1}}, "“toString” is not known"),
        ({"design": {"scaling": -1}}, "positive"),
        ({"design": {"constant": 0}}, "not 0"),
        ({"design": {"readout": "constructor"}}, "is not known"),
        ({"width": 10}, "no multiple of heads"),
        ({"width": 1e9}, "a whole number from 1 to 256"),
        ({"width": 12, "positions": "rotary"}, "is odd"),
        ({"vocabulary": None}, "vocabulary must be"),
        ({"dtype": "float16"}, "“float16” is not known"),
    ],
)
def test_options_that_cannot_be_are_refused_in_words(
    options: dict[str, Any], words: str, run: Callable[..., Any]
) -> None:
    whole = {"width": 32, "heads": 4, "vocabulary": 12, "length": 16, **options}
    said = run("(o) => { try { createModel(o); } catch (e) { return e.message; } }", whole)
    assert said is not None and words in said


DIVERGE = """(options) => {
  const model = createModel(options);
  for (const { name, data } of model.parameters) {
    if (/query|key/.test(name)) for (let at = 0; at < data.length; at++) data[at] *= 20;
  }
  const tokens = Int32Array.from({ length: 64 }, (_, at) => at % 9);
  const loss = model.loss({ tokens, targets: tokens }, 1);
  const found = [String(loss), model.lookForTrouble()];
  model.backward();
  const before = [...model.parameters[0].data];
  const { finite } = adamw(model.parameters, {}).step();
  return [...found, finite, model.parameters[0].data.every((x, at) => x === before[at])];
}"""


def test_what_is_not_finite_is_told_with_its_place(run: Callable[..., Any]) -> None:
    """exp with A_t = 1.05 I and eta = 1: alpha itself overflows, and no step is taken on it."""
    grown = {"evolution": "constant", "constant": 1.05, "readout": "exp", "normalizer": "one"}
    options = {"width": 16, "heads": 2, "vocabulary": 9, "length": 64, "design": grown}
    loss, trouble, finite, same = run(DIVERGE, options)
    assert loss == "NaN" and not finite and same
    assert trouble == {"part": "coefficients", "layer": 0, "value": "Infinity"}
    summed = {**options, "design": {**grown, "normalizer": "row_sum"}}
    loss, trouble, finite, _ = run(DIVERGE, summed)
    assert float(loss) < 100 and trouble is None and finite


def test_weights_of_positions_weigh_the_loss(run: Callable[..., Any]) -> None:
    """A weight of 0 leaves a position out, as a target of -100 does; L may be below the longest."""
    script = """(options) => {
      const model = createModel(options);
      const tokens = Int32Array.from({ length: 12 }, (_, at) => at % 5);
      const left = tokens.map((token, at) => (at % 3 ? token : -100));
      const weights = Float32Array.from(tokens, (_, at) => (at % 3 ? 2 : 0));
      return [model.loss({ tokens, targets: left }, 2),
        model.loss({ tokens, targets: tokens, weights }, 2)];
    }"""
    first, second = run(script, Case({}).page_options("float64"))
    assert first == pytest.approx(second, rel=1e-12)


def test_the_schedule_ends_where_it_should(run: Callable[..., Any]) -> None:
    script = """(train) => {
      const optimizer = adamw([], train);
      const rate = () => [optimizer.rate, optimizer.step()][0];
      return Array.from({ length: train.steps + 3 }, rate);
    }"""
    train = {"learningRate": 0.01, "steps": 20, "warmup": 4, "finalLearningRate": 1e-3}
    rates = run(script, train)
    assert rates[3] == pytest.approx(0.01) and rates[0] == pytest.approx(0.0025)
    assert rates[19] == rates[22] and 1e-3 < rates[19] < 1.1e-3
    assert TRAIN["warmup"] > 0 and TRAIN["clip"] is not None


def test_products_are_the_same_with_and_without_simd(run: Callable[..., Any]) -> None:
    """Every form that a linear map needs, also where rows and columns are no multiples of 4."""
    script = """() => {
      const draw = (size, seed) => {
        const generator = new Generator(seed);
        return Float32Array.from({ length: size }, () => generator.uniform() - 0.5);
      };
      const found = [];
      for (const [rows, columns, inner] of [[55, 9, 16], [64, 32, 48], [7, 3, 200], [4, 18, 65]]) {
        const forms = [[inner, 1, 1, inner], [inner, 1, columns, 1], [1, rows, columns, 1]];
        for (const [leftRow, leftStep, rightStep, rightColumn] of forms) {
          for (const add of [false, true]) {
            const [left, right] = [draw(rows * inner, 1), draw(inner * columns, 2)];
            const [plain, fast] = [draw(rows * columns, 3), draw(rows * columns, 3)];
            const sizes = [rows, columns, inner, left, leftRow, leftStep];
            multiplyTiled(plain, ...sizes, right, rightStep, rightColumn, add);
            simd.multiply(fast, ...sizes, right, rightStep, rightColumn, add);
            found.push(Math.max(...plain.map((x, at) => Math.abs(x - fast[at]))));
          }
        }
      }
      return found;
    }"""
    found = run(script)
    assert len(found) == 24 and max(found) < 1e-5
