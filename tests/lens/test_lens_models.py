"""The chapter's small models: their task, kept weights, and the heads kept of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from coefdyn.lab.places import data_folder
from coefdyn.lab.scripts import lens_ablation, lens_models
from coefdyn.lab.tasks.text import text_ids
from coefdyn.lens import load_heads, torch_operations, trace

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


def kept_model(name: str) -> nn.Module:
    weights = KEPT / f"{lens_models.FILES[name]}.safetensors"
    assert weights.stat().st_size < 2_000_000
    model = lens_models.build_model(name).eval()
    model.load_state_dict(load_file(weights))
    return model


def record_of(name: str) -> dict:
    return json.loads((KEPT / f"{lens_models.FILES[name]}.json").read_text())


@pytest.mark.parametrize("name", lens_models.CONFIGS)
def test_the_kept_heads_are_those_of_the_kept_weights(name: str) -> None:
    kept = load_heads(KEPT / f"{lens_models.FILES[name]}_heads.npz")
    seen = trace(kept_model(name), lens_models.to_ids(lens_models.EXAMPLE), use_cache=False)
    assert kept.words == ("<start>", *lens_models.EXAMPLE.split())
    assert len(kept.layers) == len(seen) == 2
    for layer in kept.layers:
        torch.testing.assert_close(
            layer.dynamics.coefficients(),
            seen[layer.name].dynamics.coefficients(),
            rtol=1e-3,
            atol=1e-5,
        )


@pytest.mark.parametrize("name", lens_models.CONFIGS)
def test_the_record_says_what_the_kept_weights_reach(name: str) -> None:
    record, model = record_of(name), kept_model(name)
    config = lens_models.FactsConfig(**record["config"])
    assert config == lens_models.CONFIGS[name]
    assert abs(lens_models.accuracy(model, config) - record["accuracy"]) < 0.01
    assert abs(lens_models.bits_per_byte(model, config) - record["text_bits_per_byte"]) < 0.01
    by_frequency = record["text_bits_per_byte_by_frequency"]
    assert abs(lens_models.bits_by_frequency() - by_frequency) < 0.01
    found, told = lens_models.on_long_stories(model, config), record["long_stories"]
    assert found["asked"] == told["asked"] and found["least_age"] == told["least_age"]
    for mine, theirs in zip(found["right"], told["right"], strict=True):
        assert abs(mine - theirs) <= 2  # close answers may fall otherwise on another machine


def zeroed(name: str, module: str, columns: slice) -> nn.Module:
    """The kept model with a part of an output projection at zero."""
    model = kept_model(name)
    with torch.no_grad():
        model.get_submodule(module).weight[:, columns] = 0
    return model


def test_the_ablation_is_that_of_weights_set_to_zero() -> None:
    record = json.loads((KEPT / "facts_ablation.json").read_text())
    assert record["story"] == lens_models.EXAMPLE
    told = {
        (run["model"], row["case"]): row
        for run in record["runs"]
        if run["seed"] == 0
        for row in run["rows"]
    }
    delta, last = "model.layers.0.linear_attn.out_proj", "model.layers.1.self_attn.o_proj"
    width = kept_model("qwen3_next").get_submodule(delta).in_features // 4
    clock = "backbone.layers.0.mixer.out_proj"
    inner = kept_model("mamba2").get_submodule(clock).in_features // 8
    for name, case, module, columns in (
        ("qwen3_next", "layer 0, head 1 out", delta, slice(width, 2 * width)),
        ("qwen3_next", "layer 1 out", last, slice(None)),
        ("mamba2", "layer 0, head 1 out", clock, slice(inner, 2 * inner)),
        ("mamba2", "layer 0, head 4 out", clock, slice(4 * inner, 5 * inner)),
    ):
        model = zeroed(name, module, columns)
        found = lens_models.accuracy(model, lens_models.CONFIGS[name])
        assert abs(found - told[name, case]["accuracy"]) < 0.01, case
        ids = lens_models.to_ids(lens_models.EXAMPLE)
        asked = ids[0] == lens_models.WORDS.index("?")
        with torch.no_grad(), torch_operations(model):
            said = model(ids, use_cache=False).logits[0, asked].argmax(-1).tolist()
        assert [lens_models.WORDS[i] for i in said] == told[name, case]["answers"], case


def test_every_case_of_the_ablation_is_on_record() -> None:
    record = json.loads((KEPT / "facts_ablation.json").read_text())
    assert [(run["model"], run["seed"]) for run in record["runs"]] == [
        (name, seed) for name in lens_models.CONFIGS for seed in range(3)
    ]
    for run in record["runs"]:
        found = lens_ablation.cases(kept_model(run["model"]))
        assert list(found) == [row["case"] for row in run["rows"]]
    config = lens_models.FactsConfig(batch=2)
    rows = lens_ablation.ablations(kept_model("qwen3_next"), config, rounds=1)
    assert rows[0] == {"case": "as it is", "accuracy": 1.0, "answers": rows[0]["answers"]}
    assert rows[0]["answers"] == ["Lima", "Oslo", "Paris", "Rome"]


def test_the_switches_agree_with_the_ablation_and_with_weights_set_to_zero() -> None:
    single = json.loads((KEPT / "facts_ablation.json").read_text())["runs"]
    record = json.loads((KEPT / "facts_switches.json").read_text())
    assert record["story"] == lens_models.EXAMPLE
    assert [one["right"] for one in record["questions"]] == ["Lima", "Oslo", "Paris", "Rome"]
    for name, one in record["models"].items():
        (run,) = (run for run in single if (run["model"], run["seed"]) == (name, 0))
        rows = {row["case"]: row for row in run["rows"]}
        cases = [f"layer {layer}, head {head} out" for layer, head in one["heads"]]
        for off, case in [(0, "as it is"), *((2**bit, case) for bit, case in enumerate(cases))]:
            assert one["answers"][off] == rows[case]["answers"], case
            assert one["accuracy"][off] == pytest.approx(rows[case]["accuracy"], abs=0.002), case
        assert all(len(one[key]) == 256 for key in ("answers", "shares", "accuracy"))
    clock = "backbone.layers.0.mixer.out_proj"
    model = kept_model("mamba2")
    columns = model.get_submodule(clock).in_features // 8
    with torch.no_grad():
        for head in (0, 2, 4, 5, 6, 7):
            model.get_submodule(clock).weight[:, head * columns : (head + 1) * columns] = 0
    found = lens_models.accuracy(model, lens_models.CONFIGS["mamba2"])
    assert abs(found - record["models"]["mamba2"]["accuracy"][0b11110101]) < 0.01


def test_a_set_of_switched_heads_is_the_bits_of_its_place() -> None:
    model, config = kept_model("qwen3_next"), lens_models.FactsConfig(batch=2)
    found = lens_ablation.switches(model, config, [(0, 1), (1, 0)], rounds=1)
    record = json.loads((KEPT / "facts_switches.json").read_text())["models"]["qwen3_next"]
    assert found["heads"] == [[0, 1], [1, 0]]
    for off, among_all in enumerate((0, 0b10, 0b10000, 0b10010)):
        assert found["answers"][off] == record["answers"][among_all]
        assert found["shares"][off] == pytest.approx(record["shares"][among_all], abs=0.01)


def test_the_text_is_the_task_s_behind_the_words() -> None:
    config = lens_models.FactsConfig(batch=3)
    ids, following = lens_models.windows(config, torch.Generator().manual_seed(0))
    assert ids.shape == following.shape == (3, 1 + 4 * config.sentences)
    assert torch.equal(ids[:, 1:], following[:, :-1])
    text = text_ids("token-text", "train") + len(lens_models.WORDS)
    starts = text.unfold(0, ids.shape[1], 1)
    assert all((starts == row).all(-1).any() for row in ids)
    assert ids.max() < lens_models.VOCABULARY


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
    for name in lens_models.CONFIGS:
        assert not record_of(name)["provenance"]["revision"].startswith("version")


def test_a_model_that_is_not_known_is_told() -> None:
    with pytest.raises(ValueError, match="did you mean 'mamba2'"):
        lens_models.build_model("mamba")
