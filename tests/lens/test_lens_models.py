"""The chapter's small model: its task, its kept weights, and the heads kept of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from coefdyn.lab import lens_models
from coefdyn.lab.places import data_folder
from coefdyn.lens import load_heads, trace

KEPT = data_folder() / "lens"


def last_known(words: list[str]) -> list[tuple[str, str]]:
    """(answer given, place last set) at every question, read from the words alone."""
    known, asked = {}, []
    for place, word in enumerate(words):
        if word == "?":
            asked.append((words[place + 1], known[words[place - 2]]))
        elif word == "in" and words[place + 1] != "?":
            known[words[place - 1]] = words[place + 1]
    return asked


def test_the_answers_are_the_places_last_set() -> None:
    config = lens_models.FactsConfig(batch=20)
    ids, answers = lens_models.facts(config, torch.Generator().manual_seed(0))
    assert ids.shape == answers.shape == (20, 1 + 4 * config.sentences)
    for row, wanted in zip(ids, answers, strict=True):
        words = [lens_models.WORDS[i] for i in row]
        asked = last_known(words)
        assert asked and all(given == true for given, true in asked)
        told = [lens_models.WORDS[i] for i in wanted[wanted >= 0]]
        assert told == [true for _, true in asked]
        assert [words[i] for i in (wanted >= 0).nonzero().flatten()] == ["?"] * len(asked)


def test_the_example_is_a_story_of_the_task_and_fits_the_explorer() -> None:
    words = lens_models.EXAMPLE.split()
    assert all(given == true for given, true in last_known(words)) and len(words) < 64
    assert lens_models.to_ids(lens_models.EXAMPLE).shape == (1, len(words) + 1)


def test_the_kept_heads_are_those_of_the_kept_weights() -> None:
    weights = KEPT / "facts.safetensors"
    assert weights.stat().st_size < 2_000_000
    model = lens_models.build_model().eval()
    model.load_state_dict(load_file(weights))
    kept = load_heads(KEPT / "facts_heads.npz")
    seen = trace(model, lens_models.to_ids(lens_models.EXAMPLE), use_cache=False)
    assert kept.words == ("<start>", *lens_models.EXAMPLE.split())
    for layer in kept.layers:
        torch.testing.assert_close(
            layer.dynamics.coefficients(),
            seen[layer.name].dynamics.coefficients(),
            rtol=1e-3,
            atol=1e-5,
        )


def test_the_record_says_the_accuracy_of_the_kept_weights() -> None:
    record = json.loads((KEPT / "facts.json").read_text())
    model = lens_models.build_model().eval()
    model.load_state_dict(load_file(KEPT / "facts.safetensors"))
    config = lens_models.FactsConfig(**record["config"])
    assert abs(lens_models.accuracy(model, config) - record["accuracy"]) < 0.01


@pytest.mark.parametrize("name", lens_models.CONFIGS)
def test_two_steps_write_everything(name: str, tmp_path: Path) -> None:
    config = replace(lens_models.CONFIGS[name], steps=2, batch=2)
    lens_models.write(tmp_path, config)
    stem = lens_models.FILES[name]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"{stem}.json",
        f"{stem}.safetensors",
        f"{stem}_heads.npz",
    ]
    kept = load_heads(tmp_path / f"{stem}_heads.npz")
    assert all(layer.error <= 1e-5 and layer.probe_error <= 1e-5 for layer in kept.layers)
    assert (tmp_path / f"{stem}.safetensors").stat().st_size < 2_000_000


def test_the_record_names_a_commit() -> None:
    record = json.loads((KEPT / "facts.json").read_text())
    assert not record["provenance"]["revision"].startswith("version")


def test_a_model_that_is_not_known_is_told() -> None:
    with pytest.raises(ValueError, match="did you mean 'mamba2'"):
        lens_models.build_model("mamba")
