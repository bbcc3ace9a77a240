"""Where the most needed heads of the kept models read, against the records of their training."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from coefdyn.lab.headline.needed_heads import REACH, _read, needed_heads

HEADS = Path(__file__).resolve().parents[2] / "data/results/headline/heads"


def test_the_place_is_behind_the_last_copy_of_the_key_and_never_in_the_future():
    inputs = torch.tensor([[1, 10, 2, 11, 1, 12, 1]])  # key 1 has the value 10, then 12
    asked = torch.zeros_like(inputs, dtype=torch.bool)
    asked[0, 6] = True
    share = torch.zeros(1, 2, 7, 7)
    share[0, :, 6] = torch.arange(7.0)
    share[0, 1] *= 2
    read = _read(share, inputs, asked)
    assert read.tolist() == [[5, 6, 0, 0], [10, 12, 0, 0]]


def test_kept_weights_give_the_heads_of_the_records():
    found = needed_heads(HEADS.parents[1])
    lines = (HEADS / "standard.jsonl").read_text("utf-8").splitlines()
    records = {one["seed"]: one for one in map(json.loads, lines)}
    assert [one.seed for one in found] == list(range(200, 212))
    for one in found:
        table = records[one.seed]["diagnostics"]["heads"]
        own = table[one.layer][one.head]
        others = [head for layer in table for head in layer]
        assert own["lost"] == one.lost == max(head["lost"] for head in others)
        assert one.mapped == (own["map"] == max(head["map"] for head in others))
        assert len(one.read) == REACH and 0 < sum(one.read) <= 1
        assert one.read[0] <= own["map"] + 0.01, "the answer's token counts in both"


def test_missing_weights_are_named(tmp_path: Path):
    (tmp_path / "headline/heads").mkdir(parents=True)
    (tmp_path / "headline/heads/standard.jsonl").write_bytes(
        (HEADS / "standard.jsonl").read_bytes()
    )
    with pytest.raises(FileNotFoundError, match="safetensors"):
        needed_heads(tmp_path)
