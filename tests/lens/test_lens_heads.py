"""Heads of SmolLM2 for the book: the kept files, and the script on a small model of that class."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import zoo

from coefdyn.lab.places import data_folder
from coefdyn.lab.scripts import lens_heads
from coefdyn.lens import SCORES, head_scores, induction, load_heads, looks, trace
from coefdyn.widgets import Explorer

KEPT = data_folder() / "lens"


class Tokenizer:
    """Words of the zoo's vocabulary by their length."""

    def __call__(self, text: str, return_tensors: str):
        from transformers import BatchEncoding

        ids = [3 + len(word) for word in text.split()]
        return BatchEncoding({"input_ids": torch.tensor([ids])})

    def decode(self, token: torch.Tensor) -> str:
        return f" w{int(token)}"

    def __len__(self) -> int:
        return 2000 + zoo.VOCAB


@pytest.fixture(autouse=True)
def small_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random tokens of the repeated sequence within the zoo's vocabulary."""
    draw = torch.randint
    monkeypatch.setattr(torch, "randint", lambda low, high, *a, **k: draw(3, zoo.VOCAB, *a, **k))


def test_a_row_of_scores_for_every_head() -> None:
    model = zoo.build("LlamaForCausalLM")
    half = zoo.ids(length=8, batch=1)
    tokens = torch.cat([half, half], -1)
    seen, twice = trace(model, zoo.ids(batch=1)), trace(model, tokens)
    table = lens_heads.scores(seen, twice, tokens)
    assert table.shape == (2 * 4, len(lens_heads.COLUMNS))
    read, found = looks(seen[1].dynamics), induction(twice[1].dynamics, tokens)
    row = dict(zip(lens_heads.COLUMNS, table[4 + 2], strict=True))
    assert row["first"] == read.first[0, 2] and row["induction"] == found.score[0, 2]
    assert torch.equal(head_scores(seen)[1, 2], table[4 + 2, : len(SCORES)])
    with pytest.raises(ValueError, match="equally many heads"):
        head_scores([])


def test_the_script_writes_a_table_and_whole_heads(tmp_path: Path) -> None:
    model = zoo.build("LlamaForCausalLM")
    source = {"model": "small", "licence": "none"}
    lens_heads.write_heads(model, Tokenizer(), source, tmp_path, "a bb a ccc bb a")
    record = json.loads((tmp_path / "smollm2_scores.json").read_text())
    kept = load_heads(tmp_path / "smollm2_heads.npz")
    assert len(record["table"]) == 8 and record["columns"] == list(lens_heads.COLUMNS)
    assert record["words"] == list(kept.words) == ["w4", "w5", "w4", "w6", "w5", "w4"]
    together, places = kept.together("softmax attention")
    assert sorted({tuple(x) for several in record["kept"].values() for x in several}) == places
    seen = trace(model, torch.tensor([[4, 5, 4, 6, 5, 4]]))
    for alpha, (layer, head) in zip(together.coefficients(True), places, strict=True):
        want = seen[layer].dynamics.coefficients(normalized=True)[0, head]
        torch.testing.assert_close(alpha, want)
    with pytest.raises(ValueError, match="no layer is 'mamba-2'; there are softmax attention"):
        kept.together("mamba-2")


def test_labels_name_the_heads_to_choose_from() -> None:
    dynamics = trace(zoo.build("LlamaForCausalLM"), zoo.ids(length=5))[0].dynamics
    explorer = Explorer.from_dynamics(dynamics, (0,), labels=["a", "b", "c", "d"])
    assert explorer.data["labels"] == ["a", "b", "c", "d"]
    with pytest.raises(ValueError, match="one text per head, got 1 for 4 heads"):
        Explorer.from_dynamics(dynamics, (0,), labels=["a"])


def test_missing_weights_are_told_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lens_heads, "PACKAGE", "no_such_package")
    with pytest.raises(FileNotFoundError, match="make lens"):
        lens_heads.weights_file()


def test_the_kept_files_say_where_they_come_from() -> None:
    record = json.loads((KEPT / "smollm2_scores.json").read_text())
    kept = load_heads(KEPT / "smollm2_heads.npz")
    assert (KEPT / "smollm2_heads.npz").stat().st_size < 2_000_000
    assert record["licence"] == "Apache-2.0" and len(record["sha256"]) == 64
    assert "version" not in record["provenance"]["revision"]
    assert record["next"] == "Rome" and record["error"] <= 1e-5
    assert len(record["table"]) == 270
    for layer in kept.layers:
        torch.testing.assert_close(layer.dynamics.apply(layer.values), layer.output)
        alpha = layer.dynamics.coefficients(normalized=True)[0]
        number = int(layer.name.split(".")[2])
        for head, matrix in zip(kept.numbers[layer.name], alpha, strict=True):
            row = record["table"][number * record["heads_per_layer"] + head]
            first = row[record["columns"].index("first")]
            assert matrix[1:, 0].mean().item() == pytest.approx(first, abs=1e-3)
