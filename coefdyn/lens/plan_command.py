"""Command ``python -m coefdyn.lens plan MODEL --text FILE``: the cost of a smaller cache."""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import nn

from coefdyn.lens.plan_trial import ORDERS, TrialConfig, correlations, run

__all__ = ["add_arguments", "load", "run_command", "table"]


def add_arguments(plan: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    base = TrialConfig()
    plan.add_argument(
        "model", help="a folder or name that transformers loads, or a .gguf file (needs gguf)"
    )
    plan.add_argument(
        "--text",
        type=Path,
        nargs="+",
        required=True,
        help=".txt, .txt.gz or .txt.xz files; their documents end with a form feed",
    )
    plan.add_argument("--out", type=Path, required=True, help="a .json file; rows in it are kept")
    plan.add_argument("--length", type=int, default=base.length, help="tokens of each text")
    plan.add_argument("--sink", type=int, default=base.sink, help="first tokens that are kept")
    plan.add_argument("--window", type=int, default=base.window, help="last tokens that are kept")
    plan.add_argument("--planned", type=int, default=base.planned, help="texts to plan on")
    plan.add_argument("--held-out", type=int, default=base.held_out, help="texts to measure on")
    plan.add_argument("--shares", type=float, nargs="+", default=base.shares, help="of heads cut")
    plan.add_argument("--orders", nargs="+", choices=list(ORDERS), default=base.orders)
    plan.add_argument("--needles", type=int, default=base.needles, help="texts with a needle")
    plan.add_argument("--seed", type=int, default=base.seed)
    plan.add_argument(
        "--singles", action="store_true", help="also cut each head alone, on a text planned on"
    )


def load(name: str) -> tuple[nn.Module, Callable[[str], list[int]]]:
    """A model of transformers in float32, and its tokenizer as a function."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    path, named = Path(name), {}
    if path.suffix == ".gguf":
        path, named = path.parent, {"gguf_file": path.name}
    tokenizer: Any = AutoTokenizer.from_pretrained(str(path), **named)
    model = AutoModelForCausalLM.from_pretrained(str(path), dtype=torch.float32, **named)
    return model.eval(), lambda text: tokenizer(text).input_ids


def versions(name: str) -> dict[str, str]:
    """Of what computes, and of the weights where they are one file."""
    found = {package: version(package) for package in ("torch", "transformers")}
    if Path(name).is_file():
        found["sha256"] = hashlib.sha256(Path(name).read_bytes()).hexdigest()
    return found


def table(record: dict[str, Any]) -> str:
    """The rows as text: rise of the loss in nats, by order and share of heads cut."""
    shares = sorted({row["share"] for row in record["rows"]})
    lines = [f"{'order':<14}" + "".join(f"{share:>24.0%}" for share in shares)]
    for order in dict.fromkeys(row["order"] for row in record["rows"]):
        cells = {row["share"]: row for row in record["rows"] if row["order"] == order}
        line = f"{order:<14}"
        for share in shares:
            row = cells.get(share)
            shown = f"{row['rise']:.3f} [{row['low']:.3f}, {row['high']:.3f}]" if row else ""
            line += f"{shown:>24}"
        lines.append(line)
    return "\n".join(lines)


def run_command(asked: argparse.Namespace) -> int:
    """Run it; 0 on success, 2 where the model or the texts do not serve."""
    given = dict(vars(asked))
    given.pop("command")
    name, files, out = given.pop("model"), given.pop("text"), given.pop("out")
    given["shares"], given["orders"] = tuple(given["shares"]), tuple(given["orders"])
    config = TrialConfig(**given)
    about = {"model": Path(name).name, "text": [path.name for path in files], **versions(name)}
    try:
        model, tokenize = load(name)
        record = run(model, tokenize, files, out, config, about)
    except (ValueError, OSError, ImportError) as error:
        print(error, file=sys.stderr)
        return 2
    print(f"loss as it is: {sum(record['loss']) / len(record['loss']):.3f} nats per token")
    print(table(record))
    for predictor in ("predicted_here", "first_order", "change") if "singles" in record else ():
        pearson, spearman = correlations(record["singles"], predictor)
        print(f"single heads, {predictor}: Pearson {pearson:.2f}, Spearman {spearman:.2f}")
    return 0
