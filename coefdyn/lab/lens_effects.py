"""Loss of SmolLM2-135M without each of its heads, beside the scores of the head on the same text.

A score says where a head looks; whether the model needs it shows only when it is gone. ``python -m
coefdyn.lab lens-heads --effects`` writes ``data/lens/smollm2_effects.json``: the first tokens of a
document, and random tokens that are read twice, of which the second reading counts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from coefdyn.lab.lens_heads import COLUMNS as SCORED
from coefdyn.lab.lens_heads import (
    REPEATED,
    about_file,
    load,
    one_row_a_line,
    read_twice,
    scores,
    weights_file,
)
from coefdyn.lab.places import data_folder
from coefdyn.lab.training.provenance import provenance
from coefdyn.lens import trace
from coefdyn.lens.effects import effects, token_losses
from coefdyn.lens.plan_trial import TrialConfig, split_texts
from coefdyn.shapes import Float, Int, Tensor

__all__ = ["COLUMNS", "LENGTH", "loss_changes", "write_effects"]

#: tokens of the document
LENGTH = 256
#: of the table: the scores, and what the loss rises by without the head, in nats per token
COLUMNS = (*SCORED, "loss_change", "twice_loss_change")


def loss_changes(
    model: nn.Module, ids: Int[Tensor, "1 L"], *, start: int = 0, progress: bool | None = None
) -> tuple[float, Float[Tensor, " heads"]]:
    """The loss of a text from token ``start`` on, and its rise without each head of the model."""

    def loss(output: Any) -> float:
        return token_losses(output.logits, ids)[start:].double().mean().item()

    rows = effects(model, ids, metric=loss, progress=progress, use_cache=False)
    changes = torch.tensor([row["metric_change"] for row in rows], dtype=torch.float64)
    return rows[0]["metric"] - rows[0]["metric_change"], changes


def measure(
    model: nn.Module, ids: Int[Tensor, "1 L"], twice: Int[Tensor, "1 two_R"]
) -> dict[str, Any]:
    """The table of ``COLUMNS``, a row per head, and both losses."""
    loss, changes = loss_changes(model, ids)
    twice_loss, twice_changes = loss_changes(model, twice, start=twice.shape[1] // 2)
    seen = trace(model, ids, use_cache=False)
    table = scores(seen, trace(model, twice, use_cache=False), twice).double()
    table = torch.cat([table, changes[:, None], twice_changes[:, None]], -1)
    return {
        "loss": round(loss, 5),
        "twice_loss": round(twice_loss, 5),
        "heads_per_layer": seen.layers[0].heads,
        "columns": list(COLUMNS),
        "table": [[round(x, 5) for x in row] for row in table.tolist()],
    }


def record(
    model: nn.Module,
    tokenize: Callable[[str], list[int]],
    vocabulary: int,
    text: Path,
    source: Mapping[str, str],
    length: int = LENGTH,
) -> dict[str, Any]:
    """Record with the source of the weights, the text and the table of ``measure``."""
    config = TrialConfig(length=length, planned=1, held_out=2)
    ids, _ = split_texts([text], tokenize, config)
    twice = read_twice(vocabulary)
    return {
        **source,
        "text": text.name,
        "tokens": ids.shape[1],
        "twice_tokens": REPEATED,
        **measure(model, ids, twice),
        "provenance": provenance("cpu"),
    }


def write_effects(folder: Path | None = None) -> Path:
    """Write ``smollm2_effects.json``; returns the file."""
    path = weights_file()
    model, tokenizer = load(path)
    text = data_folder() / "text" / "public_prose.txt.xz"
    found = record(
        model, lambda words: tokenizer(words).input_ids, len(tokenizer), text, about_file(path)
    )
    file = (folder or data_folder() / "lens") / "smollm2_effects.json"
    file.write_text(one_row_a_line(json.dumps(found, indent=1)) + "\n")
    return file
