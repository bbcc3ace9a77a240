"""Trial of plans for a cache: orders of heads against each other on texts not planned on.

Also a needle: a sentence with a number, far outside every window, is asked for at the end. A mean
loss hides what one answer shows. ``python -m coefdyn.lab lens-plan MODEL --text FILE --out FILE``.

Nothing else imports this command, so texts, orders, needles and the written file stand in one file,
though it is a long one.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import inspect
import json
import lzma
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import cycle
from pathlib import Path
from typing import Any

import torch
from torch import nn

from coefdyn.lens.adapters.base import Refused
from coefdyn.lens.cache.cache_plan import CachePlan
from coefdyn.lens.cache.plan import plan
from coefdyn.lens.change.changes import window
from coefdyn.lens.change.effects import logits_of
from coefdyn.lens.change.replace import replaced
from coefdyn.progress import Progress
from coefdyn.shapes import Int, Tensor

__all__ = [
    "ORDERS",
    "TrialConfig",
    "correlations",
    "hide",
    "interval",
    "load",
    "main",
    "needles",
    "run",
    "split_texts",
    "table",
]

#: resamples of an interval, and its confidence
RESAMPLES, CONFIDENCE = 4000, 0.95
#: where the needle lies, as a share of the text before the question
DEEPEST, SHALLOWEST = 0.1, 0.6
NAMES = ("Anna", "Omar", "Ruth", "Igor", "Lena", "Hugo", "Mara", "Paul")


@dataclass(frozen=True, kw_only=True)
class TrialConfig:
    """Settings of a trial.

    Attributes:
        length: tokens of each text.
        sink, window: tokens that a cut head keeps.
        planned, held_out: texts to plan on, and to measure on.
        shares: of the heads that are cut, each above 0 and at most 1; measured in this order.
        orders: of ``ORDERS``.
        needles: texts with a needle; 0 for none.
        seed: of the random orders, one for each text held out, and of the needles.
        singles: also cut each head alone on the first text planned on, beside what its own costs
            predict.
    """

    length: int = 512
    sink: int = 4
    window: int = 64
    planned: int = 4
    held_out: int = 16
    shares: tuple[float, ...] = (0.5, 0.8, 1.0, 0.3, 0.7)
    orders: tuple[str, ...] = (
        "predicted",
        "random",
        "first order",
        "change",
        "start share",
        "layers",
    )
    needles: int = 16
    seed: int = 0
    singles: bool = False


def _by(number: Callable[[Any], float]) -> Callable[[CachePlan, int], list[int]]:
    def order(found: CachePlan, seed: int) -> list[int]:
        return sorted(range(len(found.heads)), key=lambda place: number(found.heads[place]))

    return order


def _layers(found: CachePlan, seed: int) -> list[int]:
    """Whole layers, those with the least predicted cost first."""
    cost: dict[str, float] = {}
    for one in found.heads:
        cost[one.layer] = cost.get(one.layer, 0.0) + one.predicted
    return _by(lambda one: (cost[one.layer], one.layer))(found, seed)  # type: ignore[arg-type, return-value]


def _random(found: CachePlan, seed: int) -> list[int]:
    return random.Random(seed).sample(range(len(found.heads)), len(found.heads))


#: places of a plan's heads in the order in which they are cut
ORDERS: dict[str, Callable[[CachePlan, int], list[int]]] = {
    "predicted": lambda found, seed: list(range(len(found.heads))),
    "first order": _by(lambda one: one.first_order),
    "change": _by(lambda one: one.change),
    "start share": _by(lambda one: -one.start_share),
    "layers": _layers,
    "random": _random,
}


def split_texts(
    files: Sequence[Path],
    tokenize: Callable[[str], list[int]],
    config: TrialConfig,
    seen: Sequence[list[int]] = (),
) -> tuple[Int[Tensor, "planned L"], Int[Tensor, "held_out L"]]:
    """The first tokens of documents, drawn evenly from all that are long enough.

    Documents end with a form feed. No document is in both parts, and none that begins as one of
    ``seen`` does.

    Raises:
        ValueError: for too few documents of that length.
    """
    pieces = [piece for path in files for piece in _read(path).split("\f") if piece.strip()]
    ids = [
        found[: config.length]
        for piece in pieces
        if len(found := tokenize(piece)) >= config.length
        and not any(found[: len(known)] == known for known in seen)
    ]
    wanted = config.planned + config.held_out
    if len(ids) < wanted:
        raise ValueError(
            f"{wanted} documents of at least {config.length} tokens are needed, "
            f"{', '.join(map(str, files))} hold {len(ids)}. Give more text (documents end with a "
            "form feed), or ask for fewer or shorter ones."
        )
    drawn = [ids[int(place * len(ids) / wanted)] for place in range(wanted)]
    to_plan = {int((place + 0.5) * wanted / config.planned) for place in range(config.planned)}
    parts = [[x for i, x in enumerate(drawn) if (i in to_plan) == mine] for mine in (True, False)]
    return torch.tensor(parts[0]), torch.tensor(parts[1])


def _read(path: Path) -> str:
    unpack = {".xz": lzma.decompress, ".gz": gzip.decompress}.get(path.suffix, bytes)
    return unpack(path.read_bytes()).decode("utf-8")


def needles(
    texts: Int[Tensor, "n L"], tokenize: Callable[[str], list[int]], count: int, seed: int
) -> list[tuple[Int[Tensor, "1 L"], int]]:
    """Texts of the same length with a needle and a question, and how long the answer is.

    Raises:
        ValueError: for texts too short to hold both.
    """
    draw = random.Random(seed)
    found = []
    for number in range(count):
        text = texts[number % len(texts)].tolist()
        hidden, asked, answer = hide(text, tokenize, NAMES[number % len(NAMES)], draw)
        ids = [*hidden[: len(text) - len(asked)], *asked]
        found.append((torch.tensor([ids]), answer))
    return found


def hide(
    text: list[int],
    tokenize: Callable[[str], list[int]],
    name: str,
    draw: random.Random,
    before: int | None = None,
) -> tuple[list[int], list[int], int]:
    """A text with a needle in it, the question with its answer, and how long the answer is.

    Args:
        text: tokens around the needle.
        tokenize: of the words that are hidden and asked.
        name: whose number it is.
        draw: of the number and its place.
        before: tokens up to the question, the needle among them; None for as many as leave text
            and question as long as the text is now.

    Raises:
        ValueError: for a text too short to hold both.
    """
    key = draw.randrange(10_000, 100_000)
    fact = tokenize(f"\nThe secret number of {name} is {key}.\n")
    asked = tokenize(f"\nThe secret number of {name} is")
    whole = tokenize(f"\nThe secret number of {name} is {key}")
    if len(text) <= len(fact) + len(whole):
        raise ValueError(
            f"a needle and its question take {len(fact) + len(whole)} tokens, the texts have "
            f"{len(text)}; ask for longer ones, or for no needles."
        )
    around = (len(text) - len(whole) if before is None else before) - len(fact)
    at = int(draw.uniform(DEEPEST, SHALLOWEST) * around)
    return [*text[:at], *fact, *text[at:]], whole, len(whole) - len(asked)


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Percentile bootstrap of the mean over texts."""
    table = torch.tensor(values, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randint(len(table), (RESAMPLES, len(table)), generator=generator)
    means = table[drawn].mean(-1)
    rest = (1 - CONFIDENCE) / 2
    low, high = torch.quantile(means, torch.tensor([rest, 1 - rest], dtype=torch.float64)).tolist()
    return low, high


def _asked(
    model: nn.Module, plans: Sequence[CachePlan], asked: Sequence[tuple[Tensor, int]]
) -> dict[str, Any]:
    """Needles whose whole answer is the likeliest, and the mean loss of the answers."""
    right, losses = 0, []
    takes = inspect.signature(model.forward).parameters
    for (ids, size), one in zip(asked, cycle(plans)):
        end = {"logits_to_keep": size + 1} if "logits_to_keep" in takes else {}
        with torch.no_grad(), replaced(model, one.changes):
            logits = logits_of(model(ids, **end))[0, -size - 1 : -1]
        wanted = ids[0, -size:]
        right += bool((logits.argmax(-1) == wanted).all())
        losses.append(torch.nn.functional.cross_entropy(logits.float(), wanted).item())
    return {"needles_right": right, "needle_loss": round(_mean(losses), 4)}


def run(
    model: nn.Module,
    tokenize: Callable[[str], list[int]],
    files: Sequence[Path],
    out: Path,
    config: TrialConfig,
    about: dict[str, Any],
    progress: bool | None = None,
) -> dict[str, Any]:
    """Plan, cut in every order at every share, measure; written to ``out`` after each row.

    Rows that ``out`` holds of the same settings are kept, so that a run can be interrupted.

    Raises:
        ValueError: for texts that are too few, or settings that are not those of ``out``.
    """
    settings = json.loads(json.dumps({**about, **vars(config)}))
    to_plan, others = split_texts(files, tokenize, config)
    asked = needles(others, tokenize, config.needles, config.seed)
    record: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {}
    if record and record["settings"] != settings:
        raise ValueError(
            f"{out} holds other settings, {record['settings']}; remove it, or choose --out."
        )
    found = plan(model, to_plan, keep=window(config.window, sink=config.sink), progress=progress)
    if not record:
        plain = found.measure(model, others, progress=progress)
        record = {
            "settings": settings,
            "loss_planned": round(found.loss, 5),
            "loss": [round(x, 5) for x in plain.loss],
            "bytes": {"full": found.bytes_full, "per_head": found.heads[0].bytes_full},
            "unsupported": dict(found.unsupported),
            "uncut": _asked(model, [found], asked) if asked else {},
            "rows": [],
            "heads": found.rows(),
        }
        out.write_text(json.dumps(record, indent=1) + "\n")
    known = {(row["order"], row["share"]) for row in record["rows"]}
    wanted = [(share, order) for share in config.shares for order in config.orders]
    with Progress(len(wanted), "plans", progress) as bar:
        for done, (share, order) in enumerate(wanted, start=1):
            if share == 1.0 and order != config.orders[0]:
                continue  # all heads, whatever the order
            if (order, share) not in known:
                record["rows"].append(
                    _row(model, found, others, asked, share, order, record["loss"], config)
                )
                out.write_text(json.dumps(record, indent=1) + "\n")
            bar.update(done, f"{order} {share:g}")
    if config.singles and "singles" not in record:
        record["singles"] = _singles(model, to_plan[:1], config, progress)
        out.write_text(json.dumps(record, indent=1) + "\n")
    return record


def _singles(
    model: nn.Module, text: Tensor, config: TrialConfig, progress: bool | None
) -> list[dict[str, Any]]:
    """Each head cut alone on one text: the rise of its loss, and what the costs on it predict."""
    found = plan(model, text, keep=window(config.window, sink=config.sink), progress=progress)
    rows, places = [], range(len(found.heads))
    with Progress(len(found.heads), "single heads", progress) as bar:
        for place, one in enumerate(found.heads):
            alone = found.in_order([place, *(other for other in places if other != place)])
            measured = replace(alone, cut=1).measure(
                model, text, before=[found.loss], progress=False
            )
            rows.append(
                {
                    "layer": one.layer,
                    "head": one.head,
                    "first_order": one.first_order,
                    "predicted_here": one.predicted_here,
                    "change": one.change,
                    "rise": measured.mean,
                }
            )
            bar.update(place + 1)
    return rows


def correlations(rows: Sequence[dict[str, Any]], name: str) -> tuple[float, float]:
    """Pearson's and Spearman's correlation of a predictor with the measured rise.

    Args:
        rows: of ``make lens-plan``'s file, key "singles": one per head that was cut alone.
        name: of the predictor: "predicted_here", "first_order" or "change".
    """
    pair = torch.tensor([[row[name] for row in rows], [row["rise"] for row in rows]])
    ranks = pair.argsort(-1).argsort(-1).double()
    return tuple(torch.corrcoef(x)[0, 1].item() for x in (pair.double(), ranks))  # type: ignore[return-value]


def _row(
    model: nn.Module,
    found: CachePlan,
    others: Tensor,
    asked: Sequence[tuple[Tensor, int]],
    share: float,
    order: str,
    before: Sequence[float],
    config: TrialConfig,
) -> dict[str, Any]:
    plans = [
        _cut(found, order, share, config.seed + number)
        for number in range(len(others) if order == "random" else 1)
    ]
    rises = [
        one.measure(model, text[None], before=[loss], progress=False).mean
        for text, loss, one in zip(others, before, cycle(plans))
    ]
    low, high = interval(rises)
    try:
        in_cache: list[int] | None = list(plans[0].measure_bytes(model, others[:1]))
    except Refused:  # the model has no cache to measure
        in_cache = None
    return {
        "order": order,
        "share": share,
        "cut": plans[0].cut,
        "bytes": plans[0].bytes,
        "bytes_measured": in_cache,
        "predicted": round(_mean([one.predicted for one in plans]), 5),
        "rise": round(_mean(rises), 5),
        "low": round(low, 5),
        "high": round(high, 5),
        "rises": [round(x, 5) for x in rises],
        **(_asked(model, plans, asked) if asked else {}),
    }


def _cut(found: CachePlan, order: str, share: float, seed: int) -> CachePlan:
    """A share of the heads, the first in an order."""
    placed = found.in_order(ORDERS[order](found, seed))
    cut = round(share * len(found.heads))
    freed = sum(one.bytes_full - one.bytes_cut for one in placed.heads[:cut])
    return placed.within(placed.bytes_full - freed)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def loaded(name: str) -> tuple[nn.Module, Any]:
    """A model of transformers in float32, and its tokenizer; takes a minute for a .gguf file."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    path, named = Path(name), {}
    if path.suffix == ".gguf":
        path, named = path.parent, {"gguf_file": path.name}
    tokenizer: Any = AutoTokenizer.from_pretrained(str(path), **named)
    model = AutoModelForCausalLM.from_pretrained(str(path), dtype=torch.float32, **named)
    return model.eval(), tokenizer


def load(name: str) -> tuple[nn.Module, Callable[[str], list[int]]]:
    """The same with the tokenizer as a function."""
    model, tokenizer = loaded(name)
    return model, lambda text: tokenizer(text).input_ids


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


def main(arguments: Sequence[str]) -> int:
    """Run a trial, keep it and print its rows; returns 0."""
    base = TrialConfig()
    parser = argparse.ArgumentParser(prog="python -m coefdyn.lab lens-plan")
    parser.add_argument(
        "model", help="a folder or name that transformers loads, or a .gguf file (needs gguf)"
    )
    parser.add_argument(
        "--text",
        type=Path,
        nargs="+",
        required=True,
        help=".txt, .txt.gz or .txt.xz files; their documents end with a form feed",
    )
    parser.add_argument("--out", type=Path, required=True, help="a .json file; rows in it are kept")
    parser.add_argument("--length", type=int, default=base.length, help="tokens of each text")
    parser.add_argument("--sink", type=int, default=base.sink, help="first tokens that are kept")
    parser.add_argument("--window", type=int, default=base.window, help="last tokens that are kept")
    parser.add_argument("--planned", type=int, default=base.planned, help="texts to plan on")
    parser.add_argument("--held-out", type=int, default=base.held_out, help="texts to measure on")
    parser.add_argument("--shares", type=float, nargs="+", default=base.shares, help="of heads cut")
    parser.add_argument("--orders", nargs="+", choices=list(ORDERS), default=base.orders)
    parser.add_argument("--needles", type=int, default=base.needles, help="texts with a needle")
    parser.add_argument("--seed", type=int, default=base.seed)
    parser.add_argument(
        "--singles", action="store_true", help="also cut each head alone, on a text planned on"
    )
    given = vars(parser.parse_args(arguments))
    name, files, out = given.pop("model"), given.pop("text"), given.pop("out")
    given["shares"], given["orders"] = tuple(given["shares"]), tuple(given["orders"])
    about = {"model": Path(name).name, "text": [path.name for path in files], **versions(name)}
    model, tokenize = load(name)
    record = run(model, tokenize, files, out, TrialConfig(**given), about)
    print(f"loss as it is: {sum(record['loss']) / len(record['loss']):.3f} nats per token")
    print(table(record))
    for predictor in ("predicted_here", "first_order", "change") if "singles" in record else ():
        pearson, spearman = correlations(record["singles"], predictor)
        print(f"single heads, {predictor}: Pearson {pearson:.2f}, Spearman {spearman:.2f}")
    return 0
