"""A plan against other caches: cuts, needles behind the cut, and the kept comparison."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import zoo
from torch import nn

from coefdyn.lab.__main__ import main
from coefdyn.lab.experiments.intervals import Interval
from coefdyn.lab.places import checkout, data_folder
from coefdyn.lab.scripts import lens_peers
from coefdyn.lab.scripts.lens_peers_kvpress import (
    METHODS,
    copied,
    forget,
    held_bytes,
    prefilled,
    read_on,
    results,
)
from coefdyn.lens import plan, replaced, window

START, SINK, SIZE = 30, 2, 6


@pytest.fixture
def llama() -> nn.Module:
    """Four heads that read two key-value heads, two layers."""
    return zoo.build("LlamaForCausalLM")


def plain_loss(model: nn.Module, ids: torch.Tensor) -> float:
    with torch.no_grad():
        logits = model(ids).logits[0, START:-1]
    return torch.nn.functional.cross_entropy(logits, ids[0, START + 1 :]).item()


def asked_of(ids: torch.Tensor) -> dict:
    """A text as the program has it, with a question of seven tokens whose last two are judged."""
    return {"ids": ids[0].tolist(), "asked": zoo.ids(7, 1, seed=1)[0].tolist(), "answer": 2}


def test_behind_an_uncut_cache_the_model_is_as_it_is(llama: nn.Module) -> None:
    ids = zoo.ids(45, 1)
    wanted, cache = plain_loss(llama, ids), prefilled(llama, ids[:, :START])
    loss, right = read_on(llama, copied(cache), ids, START, None, START)
    assert loss == pytest.approx(wanted, abs=1e-5) and not right
    last, _ = read_on(llama, copied(cache), ids, START, 1, START)
    assert last != pytest.approx(loss, abs=1e-3)


def test_forgotten_rows_are_as_if_they_were_not_there(llama: nn.Module) -> None:
    ids = zoo.ids(45, 1)
    cache = prefilled(llama, ids[:, :START])
    full = held_bytes(llama, cache)
    forget(llama, {0: [0, 1], 1: [0, 1]}, START, SINK, SIZE)
    marked, held = read_on(llama, copied(cache), ids, START, None, START), held_bytes(llama, cache)
    assert held == full * (SINK + SIZE) // START
    smaller = prefilled(llama, ids[:, :START])
    for layer in smaller.layers:
        for name in ("keys", "values"):
            rows = getattr(layer, name)
            cut = torch.cat([rows[:, :, :SINK], rows[:, :, -SIZE:]], 2)
            setattr(layer, name, cut.clone())
    assert held_bytes(llama, smaller) == held
    assert read_on(llama, smaller, ids, START, None, START)[0] == pytest.approx(marked[0], abs=1e-5)
    assert abs(marked[0] - plain_loss(llama, ids)) > 1e-3


def test_a_plan_is_measured_before_the_text_and_at_the_cut(llama: nn.Module) -> None:
    ids = zoo.ids(45, 1)
    found = plan(llama, zoo.ids(START, 3), keep=window(SIZE, sink=SINK), progress=False)
    told = asked_of(ids)
    measured = lens_peers.measured_here(llama, found, told, (1.0, 0.6))
    both = measured["methods"]
    assert measured["uncut"][0] == pytest.approx(plain_loss(llama, ids), abs=1e-5)
    for name in (lens_peers.PLAN, lens_peers.PLAN_ONCE):
        assert both[name]["1.0"] == pytest.approx(measured["uncut"], abs=1e-5)
        assert both[name]["0.6"][-1] == found.within(0.6 * found.bytes_full).bytes
        assert abs(both[name]["0.6"][0] - measured["uncut"][0]) > 1e-4
    with replaced(llama, found.within(0.6 * found.bytes_full).changes):
        as_the_lens_cuts = plain_loss(llama, ids)
    assert both[lens_peers.PLAN]["0.6"][0] == pytest.approx(as_the_lens_cuts, abs=1e-5)
    assert both[lens_peers.PLAN]["0.6"][0] != both[lens_peers.PLAN_ONCE]["0.6"][0]


class Last:
    """A press that keeps the last rows, in the form of kvpress's."""

    def __init__(self, ratio: float) -> None:
        self.ratio = ratio

    def post_init_from_model(self, model: nn.Module) -> None: ...

    def forward_hook(self, module: nn.Module, given: list, named: dict, output: tuple) -> None:
        layer = named["past_key_values"].layers[module.layer_idx]
        keep = round((1 - self.ratio) * layer.keys.shape[2])
        layer.keys, layer.values = layer.keys[:, :, -keep:], layer.values[:, :, -keep:]


def test_a_press_gets_a_cache_of_its_own_at_each_share(llama: nn.Module) -> None:
    ids, kvpress = zoo.ids(45, 1), SimpleNamespace(KnormPress=Last)
    task = {"length": START, "sink": SINK, "window": SIZE, "shares": [0.5, 1.0]}
    found = results(kvpress, llama, asked_of(ids), {**task, "methods": ["Knorm"]})
    half, whole = (found["methods"]["Knorm"][share] for share in ("0.5", "1.0"))
    assert whole == pytest.approx(found["uncut"], abs=1e-5)
    assert found["uncut"][0] == pytest.approx(plain_loss(llama, ids), abs=1e-5)
    assert 2 * half[-1] == whole[-1] and abs(half[0] - whole[0]) > 1e-3


class Again:
    """A press in the form of kvpress's KVzip: it reads the text once more, then cuts."""

    def __init__(self, ratio: float) -> None:
        self.compression_ratio, self._cache = ratio, None

    @contextmanager
    def __call__(self, model: nn.Module) -> Iterator[None]:
        inner = model.model.forward

        def forward(*args: object, **named: object) -> object:
            self._cache = named["past_key_values"]
            return inner(*args, **named)

        model.model.forward = forward
        yield
        del model.model.forward
        self.compress_post(model)

    def compress_post(self, model: nn.Module) -> None:
        assert not torch.is_grad_enabled(), "a graph of every text would stay"
        for layer in self._cache.layers:
            keep = round((1 - self.compression_ratio) * layer.keys.shape[2])
            layer.keys, layer.values = layer.keys[:, :, -keep:], layer.values[:, :, -keep:]


def test_a_press_that_reads_again_gets_the_same(llama: nn.Module) -> None:
    ids, kvpress = zoo.ids(45, 1), SimpleNamespace(KnormPress=Last, KVzipPress=Again)
    task = {"length": START, "sink": SINK, "window": SIZE, "shares": [0.5, 1.0]}
    found = results(kvpress, llama, asked_of(ids), {**task, "methods": ["Knorm", "KVzip"]})
    for share, row in found["methods"]["Knorm"].items():
        assert found["methods"]["KVzip"][share] == pytest.approx(row, abs=1e-5)


def _letters(text: str) -> list[int]:
    """A tokenizer: one token per character."""
    return [3 + ord(letter) % (zoo.VOCAB - 3) for letter in text]


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    lines = [f"{number} " + "once upon a time " * (20 + number) for number in range(30)]
    path.write_text("\f".join(lines))
    return path


def kept_trial(length: int = 120) -> dict:
    """What ``lens-plan`` keeps of the small model, as far as it is read here."""
    model = zoo.build("LlamaForCausalLM")
    found = plan(model, zoo.ids(length, 2), keep=window(SIZE, sink=SINK), progress=False)
    config = lens_peers.TrialConfig(length=length, sink=SINK, window=SIZE, planned=2, held_out=4)
    return {
        "settings": json.loads(json.dumps(vars(config))),
        "loss_planned": found.loss,
        "unsupported": {},
        "heads": found.rows(),
    }


def test_the_kept_plan_is_the_plan() -> None:
    record = kept_trial()
    model = zoo.build("LlamaForCausalLM")
    found = plan(model, zoo.ids(120, 2), keep=window(SIZE, sink=SINK), progress=False)
    again = lens_peers.kept_plan(record).within(found.bytes_full / 2)
    assert again.heads == found.heads
    assert again.changes.keys() == found.within(found.bytes_full / 2).changes.keys()
    assert 0 < again.cut < len(again.heads)


def test_questions_come_behind_the_cut_of_texts_that_no_trial_has_read(documents: Path) -> None:
    trial = kept_trial()
    texts, planned = lens_peers.texts_of([documents], _letters, [trial], 3, pilot=False)
    pilots, _ = lens_peers.texts_of([documents], _letters, [trial], 3, pilot=True)
    assert len(texts) == 3 and len(pilots) == 4 and len(planned) == 2
    config = lens_peers.TrialConfig(length=120, planned=2, held_out=4)
    read = torch.cat(lens_peers.split_texts([documents], _letters, config)).tolist()
    for text in (*texts, *pilots):
        ids, asked, answer = text["ids"], text["asked"], text["answer"]
        assert len(ids) == 120 + 1 + 128
        question = asked[:-answer]
        at = next(at for at in range(100) if ids[at : at + len(question)] == question)
        assert ids[at : at + len(asked)] == asked and at + len(asked) < 120, "before the cut"
        assert question[1:11] == _letters("The secret")
        after = at + len(asked) + 2
        assert not any((ids[:at] + ids[after:])[:100] == row[:100] for row in read)
    assert len({tuple(text["ids"]) for text in (*texts, *pilots)}) == 7


def test_the_command_joins_both_halves(
    documents: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    asked: list[tuple[list[str], list[float]]] = []

    def other_environment(command: list[str], **_: object) -> SimpleNamespace:
        task = json.loads(Path(command[3]).read_text())
        asked.append((task["methods"], task["shares"]))
        if task["methods"] == ["TOVA"]:
            return SimpleNamespace(returncode=1, stderr="Traceback\nMemoryError: too much\n")
        model, kvpress = zoo.build("LlamaForCausalLM"), SimpleNamespace(KnormPress=Last)
        told = [results(kvpress, model, text, task) for text in task["texts"]]
        record = {"texts": told, "versions": {"kvpress": "0"}}
        Path(command[4]).write_text(json.dumps(record))
        return SimpleNamespace(returncode=0, stderr="")

    monkeypatch.setattr(lens_peers, "load", lambda _: (zoo.build("LlamaForCausalLM"), _letters))
    monkeypatch.setattr(lens_peers.subprocess, "run", other_environment)
    kept, out = tmp_path / "plan.json", tmp_path / "peers.json"
    kept.write_text(json.dumps(kept_trial()))
    given = ["lens-peers", "x.gguf", "--text", str(documents), "--plan", str(kept)]
    options = ["--python", "p", "--documents", "2", "--shares", "0.5", "--methods", "Knorm"]
    assert main([*given, "--out", str(out), *options]) == 0
    record = json.loads(out.read_text())
    assert record["uncut_apart"] < 1e-5
    assert {row["method"] for row in record["rows"]} == {"the plan", "the plan, cut once", "Knorm"}
    assert all(len(row["loss"]) == len(row["needle_loss"]) == 2 for row in record["rows"])
    shown = capsys.readouterr().out
    assert "50% of the bytes" in shown and "Knorm" in shown
    more = ["--python", "p", "--documents", "2", "--shares", "0.5", "0.75", "--methods"]
    assert main([*given, "--out", str(out), *more, "TOVA", "Knorm"]) == 0
    again = json.loads(out.read_text())
    assert again["failed"] == {"TOVA": "MemoryError: too much"}, "and the next one is measured"
    assert asked == [(["Knorm"], [0.5]), (["TOVA"], [0.5, 0.75]), (["Knorm"], [0.75])]
    assert len(record["rows"]) == 3 and len(again["rows"]) == 6, "rows are kept"
    assert all(row in again["rows"] for row in record["rows"])
    with pytest.raises(ValueError, match="2 texts were measured here and 1 with kvpress"):
        lens_peers.record_of([{}, {}], [{}])


@pytest.mark.parametrize(
    ("more", "who"),
    [
        ([0.02, 0.03, 0.04, 0.03], "behind"),
        ([-0.02, -0.03, -0.04, -0.03], "ahead"),
        ([0.001, -0.001, 0.002, -0.001], "no difference that matters"),
        ([0.2, -0.2, 0.1, -0.1], "undecided"),
    ],
)
def test_who_is_ahead(more: list[float], who: str) -> None:
    row, other = {"loss": [3 + x for x in more]}, {"loss": [3.0] * 4}
    found, told = lens_peers.compared(row, other)
    assert isinstance(found, Interval) and found.mean == pytest.approx(sum(more) / 4)
    assert told == who


@pytest.mark.parametrize("length", [512, 2048])
def test_the_kept_comparison_is_whole_and_at_equal_bytes(length: int) -> None:
    record = json.loads((data_folder() / "lens" / f"smollm2_peers_{length}.json").read_text())
    trial = json.loads((data_folder() / "lens" / f"smollm2_plan_{length}.json").read_text())
    settings = record["settings"]
    assert not settings["pilot"] and settings["length"] == length
    assert settings["here"]["sha256"] == trial["settings"]["sha256"]
    assert settings["there"]["kvpress"].startswith("0.5")
    assert record["bytes"] == trial["bytes"]["full"]
    assert record["uncut_apart"] < 1e-4
    cells = {(row["method"], row["share"]) for row in record["rows"]}
    assert len(cells) == len(record["rows"])
    methods = {method for method, share in cells if share == 0.5}
    assert methods == {method for method, _ in cells}
    assert {lens_peers.PLAN, lens_peers.PLAN_ONCE} < methods
    assert methods - {lens_peers.PLAN, lens_peers.PLAN_ONCE} == set(METHODS)
    chapter = (checkout() / "book" / "lens" / "what_may_be_forgotten.md").read_text()
    assert f"tables have the {len(METHODS)} methods of kvpress" in chapter
    for row in record["rows"]:
        assert len(row["loss"]) == len(row["needle_loss"]) == len(record["uncut"]["loss"]) == 20
        assert 0 <= row["needles_right"] <= 20
        assert row["bytes"] / record["bytes"] == pytest.approx(row["share"], abs=0.02), row
