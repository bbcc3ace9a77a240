"""Text from the Hugging Face hub: WikiText-103 in GPT-2 tokens, and IMDb reviews in bytes.

Sources: the coefficient-dynamics paper, Table 3, and the DSF paper, Appendix J.3 (WikiText-103,
context 1 024); Long Range Arena "Text" and the eigenvalue paper, Appendix B (IMDb, byte level,
length up to 4 096).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from coefdyn.lab.tasks._draw import integers, subset
from coefdyn.lab.tasks.base import IGNORE, Batch, Split, TaskConfig, at_least, register
from coefdyn.lab.tasks.downloads import (
    REVISIONS,
    cache_folder,
    load_rows,
    one_process,
    optional_module,
    unreachable,
)
from coefdyn.lab.tasks.text import byte_name, cut_windows

GPT2 = "openai-community/gpt2"
WIKITEXT = "Salesforce/wikitext"
BYTE_PAD, BYTE_END = 256, 257


@register
@dataclass(frozen=True, kw_only=True)
class WikiTextConfig(TaskConfig):
    """WikiText-103 (raw), GPT-2 tokens, in windows at uniform places.

    vocab_size: 50 257, fixed. The task is endless: a trainer draws new windows for each step.
    ``train_examples`` is what ``splits`` draws, and what an epoch of a schedule counts;
    ``wikitext_windows`` gives the whole test text once.
    """

    task_name: ClassVar[str] = "wikitext-103"
    endless: ClassVar[bool] = True
    about: ClassVar[str] = "predict every next GPT-2 token of WikiText-103."

    vocab_size: int = 50_257
    seq_len: int = 1_024
    train_examples: int = 10_000
    test_examples: int = 256

    @classmethod
    def paper(cls) -> WikiTextConfig:
        """Context 1 024; the test windows are about as many tokens as the test text."""
        return cls()

    @classmethod
    def quick(cls) -> WikiTextConfig:
        """Context 128: for two CPU cores."""
        return cls(seq_len=128, train_examples=3_200, test_examples=256)

    def check(self) -> None:
        if self.vocab_size != 50_257:
            raise ValueError(f"GPT-2 has 50257 tokens; got vocab_size={self.vocab_size}.")

    def draw(self, n: int, generator: torch.Generator, split: Split) -> Batch:
        """Draw n windows, (n, seq_len), at uniform places of the split."""
        ids = wikitext_ids(split)
        start = integers(0, len(ids) - self.seq_len, (n, 1), generator).cpu().numpy()
        window = ids[start + np.arange(self.seq_len + 1)].astype(np.int64)
        tokens = torch.from_numpy(window).to(generator.device)
        return Batch(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())


@register
@dataclass(frozen=True, kw_only=True)
class ImdbConfig(TaskConfig):
    """IMDb reviews, byte level, two classes; the label stands at the end token.

    vocab_size: 256 bytes, pad and end, fixed. seq_len: longer reviews are cut to seq_len - 1
    bytes, shorter ones padded on the right.
    """

    task_name: ClassVar[str] = "imdb"
    about: ClassVar[str] = "after the last byte of a review, say whether it is favourable."

    vocab_size: int = 258
    seq_len: int = 4_096
    train_examples: int = 25_000
    test_examples: int = 25_000

    @classmethod
    def paper(cls) -> ImdbConfig:
        """All reviews, up to 4 096 bytes, as in Long Range Arena and the eigenvalue paper."""
        return cls()

    @classmethod
    def quick(cls) -> ImdbConfig:
        """2 000 reviews, cut at 512 bytes."""
        return cls(seq_len=512, train_examples=2_000, test_examples=400)

    @property
    def num_classes(self) -> int:
        return 2

    def check(self) -> None:
        at_least(self, "seq_len", 2)
        if self.vocab_size != 258:
            raise ValueError(f"imdb has 258 ids; got vocab_size={self.vocab_size}.")

    def draw(self, n: int, generator: torch.Generator, split: Split) -> Batch:
        """Draw n different reviews of a split, (n, seq_len), with one target each."""
        texts, labels = _imdb(split)
        chosen = subset(len(texts), n, generator, f"IMDb's {split} reviews").tolist()
        reviews = [texts[i] for i in chosen]
        batch = lay_out_reviews(reviews, [labels[i] for i in chosen], self.seq_len)
        return Batch(*(tensor.to(generator.device) for tensor in batch))

    def token_name(self, token: int) -> str:
        """The character of a byte, 'pad' or 'end'."""
        return {BYTE_PAD: "pad", BYTE_END: "end"}.get(token) or byte_name(token)

    def class_name(self, label: int) -> str:
        """'neg' for 0, 'pos' for 1."""
        return ("neg", "pos")[label]


def wikitext_windows(config: WikiTextConfig, split: Split = "test") -> Batch:
    """Windows of a whole split that do not overlap; see ``text.cut_windows``."""
    return cut_windows(torch.from_numpy(wikitext_ids(split).astype(np.int64)), config.seq_len)


@lru_cache(maxsize=2)
def wikitext_ids(split: Split) -> np.ndarray:
    """All tokens of a split, (T,) uint16; encoded once, then read from the cache on disk."""
    path = cache_folder() / f"wikitext-103-raw-gpt2-{split}.npy"
    with one_process(path.stem):
        if not path.is_file():
            _write(path, _encode_wikitext(split))
    return np.load(path, mmap_mode="r", allow_pickle=False)


def _encode_wikitext(split: Split) -> np.ndarray:
    what, stand_in = "WikiText-103", "token-text"
    tokenizers = optional_module("tokenizers", what, stand_in)
    rows = load_rows(WIKITEXT, "wikitext-103-raw-v1", split, what, stand_in)
    try:
        tokenizer = tokenizers.Tokenizer.from_pretrained(GPT2, revision=REVISIONS[GPT2])
    except Exception as error:
        raise unreachable("the GPT-2 vocabulary", GPT2, stand_in, error) from error
    lines = [line for line in rows["text"] if line]
    parts = [
        np.array(encoding.ids, dtype=np.uint16)
        for start in range(0, len(lines), 4_096)
        for encoding in tokenizer.encode_batch(lines[start : start + 4_096])
    ]
    return np.concatenate(parts)


def _write(path: Path, ids: np.ndarray) -> None:
    """Write beside the target and rename, so that a killed run leaves no half file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}.part")
    with partial.open("wb") as file:
        np.save(file, ids, allow_pickle=False)
    partial.replace(path)


@lru_cache(maxsize=2)
def _imdb(split: Split) -> tuple[list[bytes], list[int]]:
    rows = load_rows("stanfordnlp/imdb", None, split, "IMDb", "byte-text")
    return [text.encode() for text in rows["text"]], list(rows["label"])


def lay_out_reviews(reviews: list[bytes], labels: list[int], seq_len: int) -> Batch:
    """Bytes, the end token with the label as target, padding."""
    inputs = torch.full((len(reviews), seq_len), BYTE_PAD)
    targets = torch.full_like(inputs, IGNORE)
    for row, (review, label) in enumerate(zip(reviews, labels, strict=True)):
        text = review[: seq_len - 1]
        inputs[row, : len(text)] = _bytes(text)
        inputs[row, len(text)] = BYTE_END
        targets[row, len(text)] = label
    return Batch(inputs, targets)


def _bytes(text: bytes) -> Tensor:
    return torch.from_numpy(np.frombuffer(text, dtype=np.uint8).astype(np.int64))
