"""The chapter's small models without a head, a layer or an ingredient, and their answers.

A map shows where a head looks; only taking it out shows whether the answer rests on it. Seed 0 of
each model is the kept one, others are trained here as it was. ``python -m coefdyn.lab
lens-ablation`` writes ``data/lens/facts_ablation.json``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from coefdyn.lab.lens_models import (
    CONFIGS,
    EXAMPLE,
    FILES,
    WORDS,
    FactsConfig,
    accuracy,
    build_model,
    on_long_stories,
    to_ids,
    train,
)
from coefdyn.lab.places import data_folder
from coefdyn.lab.training.provenance import provenance
from coefdyn.lens import replaced, torch_operations, trace
from coefdyn.lens.replace import Changes

__all__ = ["ablations", "cases", "kept_or_trained", "write"]


def cases(model: nn.Module) -> dict[str, Changes]:
    """Changes by name: heads and layers out, heads alone, ingredients out."""
    seen = trace(model, to_ids(EXAMPLE), use_cache=False)
    found: dict[str, Changes] = {"as it is": {}}
    for place, layer in enumerate(seen):
        every = range(layer.heads)
        found |= {f"layer {place}, head {h} out": {(place, h): "ablate"} for h in every}
        found |= {
            f"layer {place}, head {h} alone": {(place, tuple(x for x in every if x != h)): "ablate"}
            for h in every
        }
        found[f"layer {place} out"] = {place: "ablate"}
        if layer.mechanism != "softmax attention":
            found[f"layer {place} without erasure"] = {place: "without erasure"}
            found[f"layer {place} without decay"] = {place: "without decay"}
    return found


def ablations(model: nn.Module, config: FactsConfig, rounds: int = 10) -> list[dict[str, Any]]:
    """A row per case: share of right answers on new stories, and the answers of the example."""
    ids = to_ids(EXAMPLE)
    asked = [place for place, word in enumerate(["<start>", *EXAMPLE.split()]) if word == "?"]
    rows = []
    for name, changes in cases(model).items():
        with torch.no_grad(), torch_operations(model), replaced(model, changes):
            told = model(ids, use_cache=False).logits[0, asked].argmax(-1).tolist()
            right = accuracy(model, config, rounds)
        answers = [WORDS[i] if i < len(WORDS) else "a token of text" for i in told]
        rows.append({"case": name, "accuracy": round(right, 4), "answers": answers})
    return rows


def kept_or_trained(name: str, seed: int) -> tuple[nn.Module, FactsConfig]:
    """The kept model for seed 0, else one trained in the same way."""
    from safetensors.torch import load_file

    config = replace(CONFIGS[name], seed=seed)
    if seed:
        return train(config)[0].eval(), config
    model = build_model(name).eval()
    model.load_state_dict(load_file(data_folder() / "lens" / f"{FILES[name]}.safetensors"))
    return model, config


def write(
    folder: Path | None = None, seeds: Sequence[int] = (0,), names: Sequence[str] = tuple(CONFIGS)
) -> Path:
    """Write ``facts_ablation.json``: a run per model and seed; returns the file.

    Attention above Gated DeltaNet is also taken out on stories four times as long.
    """
    runs = []
    for name in names:
        for seed in seeds:
            model, config = kept_or_trained(name, seed)
            run = {"model": name, "seed": seed, "rows": ablations(model, config)}
            if name == "qwen3_next":
                with replaced(model, {1: "ablate"}):
                    run["long_without_layer_1"] = on_long_stories(model, config)
            runs.append(run)
    record = {"story": EXAMPLE, "runs": runs, "provenance": provenance("cpu")}
    folder = folder or data_folder() / "lens"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "facts_ablation.json"
    path.write_text(json.dumps(record, indent=1) + "\n")
    return path
