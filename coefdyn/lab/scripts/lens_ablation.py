"""The chapter's small models without a head, a layer or an ingredient, and their answers.

A map shows where a head looks; only taking it out shows whether the answer rests on it. Seed 0 of
each model is the kept one, others are trained here as it was. ``python -m coefdyn.lab
lens-ablation`` writes ``data/lens/facts_ablation.json``, and ``facts_switches.json`` with every set
of heads out of the kept models, for the figure whose buttons switch heads off.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from coefdyn.lab.places import data_folder
from coefdyn.lab.scripts.lens_heads import one_row_a_line
from coefdyn.lab.scripts.lens_models import (
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
from coefdyn.lab.training.provenance import provenance
from coefdyn.lens import replaced, torch_operations, trace
from coefdyn.lens.change.replace import Changes

__all__ = ["ablations", "cases", "kept_or_trained", "main", "switches", "write", "write_switches"]

#: the heads that the figure switches, by model: its label there, then layer and head
SWITCHED = {
    "qwen3_next": (
        "Gated DeltaNet (layer 0), attention (layer 1)",
        [(layer, head) for layer in (0, 1) for head in range(4)],
    ),
    "mamba2": ("Mamba-2, its first layer", [(0, head) for head in range(8)]),
}


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
    ids, asked = to_ids(EXAMPLE), _asked()
    rows = []
    for name, changes in cases(model).items():
        with torch.no_grad(), torch_operations(model), replaced(model, changes):
            told = model(ids, use_cache=False).logits[0, asked].argmax(-1).tolist()
            right = accuracy(model, config, rounds)
        rows.append({"case": name, "accuracy": round(right, 4), "answers": _words(told)})
    return rows


def _asked() -> list[int]:
    """Positions of the example's question marks."""
    return [place for place, word in enumerate(["<start>", *EXAMPLE.split()]) if word == "?"]


def _words(ids: Sequence[int]) -> list[str]:
    return [WORDS[i] if i < len(WORDS) else "a token of text" for i in ids]


def switches(
    model: nn.Module,
    config: FactsConfig,
    heads: Sequence[tuple[int, int]],
    rounds: int = 10,
) -> dict[str, Any]:
    """Answers with every set of some heads out; entry m of a list is without the heads in m's bits.

    Returns:
        ``heads`` by layer and number; per set ``answers`` to the example's questions, ``shares`` of
        probability on the right ones, and ``accuracy`` on new stories.
    """
    ids, asked = to_ids(EXAMPLE), _asked()
    right = ids[0, [place + 1 for place in asked]]
    found: dict[str, Any] = {"heads": [list(x) for x in heads]}
    found |= {"answers": [], "shares": [], "accuracy": []}
    for off in range(2 ** len(heads)):
        changes: Changes = {x: "ablate" for place, x in enumerate(heads) if off >> place & 1}
        with torch.no_grad(), torch_operations(model), replaced(model, changes):
            told = model(ids, use_cache=False).logits[0, asked].softmax(-1)
            accurate = accuracy(model, config, rounds)
        shares = told.gather(-1, right[:, None])[:, 0]
        found["answers"].append(_words(told.argmax(-1).tolist()))
        found["shares"].append([round(share, 3) for share in shares.tolist()])
        found["accuracy"].append(round(accurate, 4))
    return found


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


def write_switches(folder: Path | None = None) -> Path:
    """Write ``facts_switches.json``: the kept models with any of their heads off; returns it."""
    models = {}
    for name, (label, heads) in SWITCHED.items():
        model, config = kept_or_trained(name, 0)
        models[name] = {"label": label, **switches(model, config, heads)}
    words = ["<start>", *EXAMPLE.split()]
    record = {
        "story": EXAMPLE,
        "questions": [{"who": words[x - 2], "right": words[x + 1]} for x in _asked()],
        "models": models,
        "provenance": provenance("cpu"),
    }
    path = (folder or data_folder() / "lens") / "facts_switches.json"
    path.write_text(one_row_a_line(json.dumps(record, indent=1)) + "\n")
    return path


def main(arguments: Sequence[str]) -> int:
    """Write both files; returns 0."""
    parser = argparse.ArgumentParser(prog="python -m coefdyn.lab lens-ablation")
    parser.add_argument(
        "--seeds", type=int, nargs="+", default=[0], help="0 is the kept model, others are trained"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="default: data/lens")
    asked = parser.parse_args(arguments)
    print(f"wrote {write(asked.out, asked.seeds)} and {write_switches(asked.out)}")
    return 0
