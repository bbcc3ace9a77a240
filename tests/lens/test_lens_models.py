"""The chapter's small model: its task, its kept weights, and the heads kept of it."""

from __future__ import annotations

import json
from pathlib import Path

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


def test_two_steps_write_everything(tmp_path: Path) -> None:
    lens_models.write(tmp_path, lens_models.FactsConfig(steps=2, batch=2))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "facts.json",
        "facts.safetensors",
        "facts_heads.npz",
    ]
