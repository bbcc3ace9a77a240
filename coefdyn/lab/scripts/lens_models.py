"""The small trained models of the chapter "A trained model under the lens", and their kept heads.

They are transformers' own classes, Qwen3-Next (Gated DeltaNet, then attention) and Mamba-2. Half of
what they read is text, the topics of the Python documentation. The other half is facts that change:
"Anna in Rome . Omar in Lima . Anna in Oslo . Anna in ? Oslo". Trained on a CPU by
``python -m coefdyn.lab lens-models``; weights and heads go into ``data/lens``, with how they came
about.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from coefdyn.lab.places import data_folder
from coefdyn.lab.tasks.base import IGNORE
from coefdyn.lab.tasks.bytepair import token_bytes
from coefdyn.lab.tasks.embedded import python_topics_merges
from coefdyn.lab.tasks.text import TokenTextConfig, draw_windows, text_ids, text_windows
from coefdyn.lab.training.provenance import provenance
from coefdyn.lens import keep_heads, torch_operations, trace
from coefdyn.options import check_choice
from coefdyn.shapes import Int, Tensor

__all__ = [
    "EXAMPLE",
    "FILES",
    "NAMES",
    "PLACES",
    "FactsConfig",
    "build_model",
    "facts",
    "main",
    "to_ids",
    "train",
]

NAMES = ("Anna", "Omar", "Mia", "Juan")
PLACES = ("Rome", "Oslo", "Lima", "Cairo", "Delhi", "Paris")
WORDS = ("<start>", "in", "?", ".", *NAMES, *PLACES)
#: ids of the words, then of the text's tokens
VOCABULARY = len(WORDS) + TokenTextConfig().vocab_size

#: the chapter's example: Anna moves twice, the others once or not at all
EXAMPLE = (
    "Anna in Rome . Omar in Lima . Mia in Cairo . Anna in Oslo . Juan in Delhi . Omar in ? Lima "
    "Anna in ? Oslo Mia in Rome . Anna in Paris . Juan in Lima . Anna in ? Paris Mia in ? Rome"
)
#: ages of a fact, in sentences since it was set, from which on answers are counted together
AGES = (0, 6, 12, 18)


@dataclass(frozen=True, kw_only=True)
class FactsConfig:
    """Training settings of a small model.

    Attributes:
        model: "qwen3_next" or "mamba2".
        steps, batch: gradient steps, and stories per step; as many windows of text as long beside.
        sentences: of four tokens each, per sequence.
        asked: share of questions among them.
        rate: peak learning rate of AdamW; warms up for a twentieth, then falls along a cosine.
        seed: of weights and sequences.
    """

    model: str = "qwen3_next"
    steps: int = 600
    batch: int = 16
    sentences: int = 15
    asked: float = 0.5
    rate: float = 6e-3
    seed: int = 0


#: a model -> its training, as kept
CONFIGS = {
    "qwen3_next": FactsConfig(),
    "mamba2": FactsConfig(model="mamba2"),
}
#: a model -> prefix of its files
FILES = {"qwen3_next": "facts", "mamba2": "facts_mamba2"}


def build_model(name: str = "qwen3_next", seed: int = 0) -> nn.Module:
    """Build a model of two layers of width 64, with random weights.

    Raises:
        ValueError: for a name that is not in ``CONFIGS``.
    """
    builders = {"qwen3_next": _qwen3_next, "mamba2": _mamba2}
    check_choice("model", name, builders)
    torch.manual_seed(seed)
    return builders[name]()


def _mamba2() -> nn.Module:
    """Mamba2ForCausalLM: two layers of eight heads with states of 32 x 16."""
    from transformers import Mamba2Config, Mamba2ForCausalLM

    config = Mamba2Config(
        vocab_size=VOCABULARY,
        hidden_size=64,
        expand=2,
        num_heads=8,
        head_dim=16,
        state_size=32,
        n_groups=1,
        chunk_size=32,
        num_hidden_layers=2,
        tie_word_embeddings=False,
    )
    return Mamba2ForCausalLM(config)


def _qwen3_next() -> nn.Module:
    """Qwen3NextForCausalLM: Gated DeltaNet, then attention, each with four heads."""
    from transformers import Qwen3NextConfig, Qwen3NextForCausalLM

    config = Qwen3NextConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        layer_types=["linear_attention", "full_attention"],
        mlp_only_layers=[0, 1],
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        linear_num_value_heads=4,
        linear_num_key_heads=4,
        linear_key_head_dim=16,
        linear_value_head_dim=16,
        num_experts=2,
        num_experts_per_tok=1,
        max_position_embeddings=256,
        tie_word_embeddings=False,
        initializer_range=0.1,
    )
    model = Qwen3NextForCausalLM(config)
    _remember(model)
    return model


@torch.no_grad()
def _remember(model: nn.Module) -> None:
    """Initialise the step sizes as Gated DeltaNet's authors do, 0.001 to 0.1.

    The class starts all ``dt_bias`` at 1, so that with A up to 16 a state is gone within a token;
    trained from there for so short a time, its heads stayed without memory.
    """
    for module in model.modules():
        if hasattr(module, "dt_bias"):
            size = torch.logspace(-3, -1, module.dt_bias.numel())
            module.dt_bias.copy_(size + torch.log(-torch.expm1(-size)))


def facts(
    config: FactsConfig, generator: torch.Generator
) -> tuple[Int[Tensor, "B L"], Int[Tensor, "B L"]]:
    """Draw token ids, and the answers at the positions of question marks (elsewhere -100).

    A sentence sets where a name is, or asks for one that has been set.
    """
    lines = [_story(config, generator) for _ in range(config.batch)]
    ids = torch.tensor([line for line, _ in lines])
    return ids, torch.tensor([answers for _, answers in lines])


def _story(config: FactsConfig, generator: torch.Generator) -> tuple[list[int], list[int]]:
    first_name, first_place = WORDS.index(NAMES[0]), WORDS.index(PLACES[0])
    ids, answers = [0], [-100]
    known: dict[int, int] = {}
    for draw in torch.rand(config.sentences, 3, generator=generator).tolist():
        if known and draw[0] < config.asked:
            name = list(known)[int(draw[1] * len(known))]
            ids += [name, WORDS.index("in"), WORDS.index("?"), known[name]]
            answers += [-100, -100, known[name], -100]
        else:
            name = first_name + int(draw[1] * len(NAMES))
            known[name] = first_place + int(draw[2] * len(PLACES))
            ids += [name, WORDS.index("in"), known[name], WORDS.index(".")]
            answers += [-100] * 4
    return ids, answers


def windows(
    config: FactsConfig, generator: torch.Generator
) -> tuple[Int[Tensor, "B L"], Int[Tensor, "B L"]]:
    """Windows of the training text, as long as a story: token ids and the ids one later."""
    ids = text_ids(TokenTextConfig.task_name, "train") + len(WORDS)
    return draw_windows(ids, 1 + 4 * config.sentences, config.batch, generator)


def to_ids(text: str) -> Int[Tensor, "1 L"]:
    """Words to ids, the start token first."""
    return torch.tensor([[0, *(WORDS.index(word) for word in text.split())]])


def train(config: FactsConfig) -> tuple[nn.Module, dict[str, Any]]:
    """Train a model on ``facts`` and ``windows``; returns it with a record of the training."""
    model = build_model(config.model, config.seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, config.rate, total_steps=config.steps, pct_start=0.05
    )
    generator = torch.Generator().manual_seed(config.seed)
    began = time.perf_counter()
    losses: list[tuple[float, float]] = []
    with torch_operations(model):
        for ids, answers in _batches(config, generator):
            logits = model(ids, use_cache=False).logits
            parts = [
                functional.cross_entropy(told.flatten(0, 1), wanted.flatten())
                for told, wanted in zip(logits.chunk(2), answers.chunk(2), strict=True)
            ]
            optimizer.zero_grad()
            (parts[0] + parts[1]).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            losses.append((parts[0].item(), parts[1].item()))
            if len(losses) % 50 == 0:
                story, text = _means(losses)
                print(f"step {len(losses):5d}  stories {story:.4f}  text {text:.4f}", flush=True)
    model.eval()
    record = {
        "config": asdict(config),
        "seconds": round(time.perf_counter() - began, 1),
        "final_loss": round(_means(losses)[0], 4),
        "accuracy": round(accuracy(model, config), 4),
        "long_stories": on_long_stories(model, config),
        "text_bits_per_byte": round(bits_per_byte(model, config), 3),
        "text_bits_per_byte_by_frequency": round(bits_by_frequency(), 3),
        "provenance": provenance("cpu"),
    }
    return model, record


def _means(losses: list[tuple[float, float]]) -> tuple[float, float]:
    """Mean losses of the last fifty steps: stories, text."""
    last = losses[-50:]
    return sum(one for one, _ in last) / len(last), sum(two for _, two in last) / len(last)


def _batches(
    config: FactsConfig, generator: torch.Generator
) -> Iterator[tuple[Int[Tensor, "B L"], Int[Tensor, "B L"]]]:
    """Batches of stories, each followed by as many windows of text."""
    for _ in range(config.steps):
        pairs = facts(config, generator), windows(config, generator)
        yield torch.cat([ids for ids, _ in pairs]), torch.cat([wanted for _, wanted in pairs])


@torch.no_grad()
def accuracy(model: nn.Module, config: FactsConfig, rounds: int = 10) -> float:
    """Share of questions answered correctly on sequences outside the training set."""
    generator = torch.Generator().manual_seed(config.seed + 10_000)
    right = asked = 0
    with torch_operations(model):
        for _ in range(rounds):
            ids, answers = facts(config, generator)
            told = model(ids, use_cache=False).logits.argmax(-1)
            right += int((told == answers).sum())
            asked += int((answers != -100).sum())
    return right / asked


@torch.no_grad()
def on_long_stories(model: nn.Module, config: FactsConfig) -> dict[str, Any]:
    """Accuracy on stories four times as long as in training, by the age of the fact.

    Returns:
        For each entry of ``AGES`` how many were asked and how many answered right; of the wrong
        answers, how many name a place where that person was before.
    """
    long = replace(config, sentences=4 * config.sentences, batch=64)
    ids, answers = facts(long, torch.Generator().manual_seed(config.seed + 20_000))
    with torch_operations(model):
        told = model(ids, use_cache=False).logits.argmax(-1)
    asked, right, earlier = [0] * len(AGES), [0] * len(AGES), 0
    for row, wanted, said in zip(ids.tolist(), answers.tolist(), told.tolist(), strict=True):
        places: dict[int, list[int]] = {}
        written: dict[int, int] = {}
        for start in range(1, len(row), 4):
            name, place, end = row[start], row[start + 2], start + 2
            if wanted[end] == IGNORE:
                places.setdefault(name, []).append(place)
                written[name] = start
                continue
            age = (start - written[name]) // 4
            bin_ = max(i for i, least in enumerate(AGES) if age >= least)
            asked[bin_] += 1
            right[bin_] += said[end] == wanted[end]
            earlier += said[end] != wanted[end] and said[end] in places[name]
    return {
        "sentences": long.sentences,
        "least_age": list(AGES),
        "asked": asked,
        "right": right,
        "wrong_with_an_earlier_place": earlier,
    }


@torch.no_grad()
def bits_per_byte(model: nn.Module, config: FactsConfig) -> float:
    """Bits per byte on the text's test topics, in windows as long as those of training."""
    batch = text_windows(TokenTextConfig(seq_len=1 + 4 * config.sentences))
    nats = 0.0
    with torch_operations(model):
        for ids, wanted in zip(batch.inputs.split(64), batch.targets.split(64), strict=True):
            logits = model(ids + len(WORDS), use_cache=False).logits.flatten(0, 1)
            shifted = torch.where(wanted == IGNORE, IGNORE, wanted + len(WORDS)).flatten()
            nats += functional.cross_entropy(logits, shifted, reduction="sum").item()
    return nats / math.log(2) / _bytes(batch.targets[batch.targets != IGNORE])


def bits_by_frequency() -> float:
    """Bits per byte of a guess from the token frequencies of the training text."""
    train, test = (text_ids(TokenTextConfig.task_name, split) for split in ("train", "test"))
    counts = torch.bincount(train, minlength=TokenTextConfig().vocab_size).double() + 1
    log_share = (counts / counts.sum()).log()
    return -log_share[test[1:]].sum().item() / math.log(2) / _bytes(test[1:])


def _bytes(tokens: Int[Tensor, " T"]) -> int:
    """Number of bytes of the text that these tokens stand for."""
    sizes = torch.tensor([len(piece) for piece in token_bytes(python_topics_merges())])
    return int(sizes[tokens].sum())


def write(folder: Path | None = None, config: FactsConfig | None = None) -> Path:
    """Train, and write weights, record and the example's heads; returns the folder.

    Raises:
        ImportError: naming the extra, where transformers or safetensors is not installed.
    """
    try:
        import transformers  # noqa: F401
        from safetensors.torch import save_file
    except ModuleNotFoundError as missing:
        raise ImportError(
            f"lens-models trains classes of transformers and keeps their weights; the package "
            f"{missing.name} is not installed. Install it with `pip install "
            "'coefdyn[lens-models]'`."
        ) from missing

    folder = folder or data_folder() / "lens"
    folder.mkdir(parents=True, exist_ok=True)
    config = config or FactsConfig()
    model, record = train(config)
    save_file(model.state_dict(), folder / f"{FILES[config.model]}.safetensors")
    write_heads(model, record, folder)
    return folder


def write_heads(model: nn.Module, record: dict[str, Any], folder: Path) -> None:
    """Write every head of the lens on the example sentence, with the words."""
    seen = trace(model, to_ids(EXAMPLE), use_cache=False, probe=True)
    words = ["<start>", *EXAMPLE.split()]
    about = {**record, "model": type(model).__name__, "text": EXAMPLE}
    stem = FILES[record["config"]["model"]]
    keep_heads(folder / f"{stem}_heads.npz", seen, words=words, about=about)
    (folder / f"{stem}.json").write_text(json.dumps(about, indent=1) + "\n")


def main(arguments: Sequence[str]) -> int:
    """Train and write the models that are named; returns 0."""
    parser = argparse.ArgumentParser(prog="python -m coefdyn.lab lens-models")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(CONFIGS)}; or both")
    parser.add_argument(
        "--steps", type=int, help="gradient steps; default: those of the kept model"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="default: data/lens")
    asked = parser.parse_args(arguments)
    for name in asked.names or CONFIGS:
        check_choice("model", name, CONFIGS)
        config = CONFIGS[name] if asked.steps is None else replace(CONFIGS[name], steps=asked.steps)
        print(f"wrote {name} into {write(asked.out, config)}")
    return 0
