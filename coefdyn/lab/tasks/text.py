"""Language modelling on the embedded text: every next byte, or every next token, is the target.

The text is the topics of the Python documentation, 0.47 MB. It stands in for WikiText-103 and
is far smaller; its loss says nothing about a model's rank on natural language. Every eighth
topic is for test; with ``validation_topics`` the one before it is for validation.

Bytes are their own ids. Tokens are those of a byte-pair encoding with 768 merges, learned from
the training topics (``bytepair``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from coefdyn.lab.tasks._draw import integers
from coefdyn.lab.tasks.base import IGNORE, Batch, Split, Task, TaskConfig, check_split, register
from coefdyn.lab.tasks.bytepair import encode, token_bytes
from coefdyn.lab.tasks.embedded import python_topics, python_topics_merges
from coefdyn.shapes import Int

TOPICS_MERGES = 768


@dataclass(frozen=True, kw_only=True)
class ByteTextConfig(TaskConfig):
    """Bytes of the Python documentation topics; vocab_size is 256.

    validation_topics: keep every eighth topic out of the training text, for the validation split.
    """

    task_name: ClassVar[str] = "byte-text"

    vocab_size: int = 256
    seq_len: int = 1_024
    train_examples: int = 1_600
    test_examples: int = 256
    validation_topics: bool = False

    @classmethod
    def paper(cls) -> ByteTextConfig:
        """Context 1 024, as the papers use for WikiText-103; no paper uses this text."""
        return cls()

    @classmethod
    def quick(cls) -> ByteTextConfig:
        """Context 128: for two CPU cores."""
        return cls(seq_len=128, train_examples=3_200, test_examples=256)

    @property
    def vocabulary(self) -> int:
        """Number of ids of the text."""
        return 256

    def check(self) -> None:
        if self.vocab_size != self.vocabulary:
            raise ValueError(
                f"{self.task_name} has {self.vocabulary} ids; got vocab_size={self.vocab_size}."
            )


@dataclass(frozen=True, kw_only=True)
class TokenTextConfig(ByteTextConfig):
    """Byte-pair tokens of the same text; vocab_size is 1024, about 2.9 bytes a token."""

    task_name: ClassVar[str] = "token-text"

    vocab_size: int = 256 + TOPICS_MERGES

    @property
    def vocabulary(self) -> int:
        return 256 + TOPICS_MERGES


def split_topics(topics: tuple[bytes, ...]) -> tuple[bytes, bytes]:
    """Training and test text: every eighth topic is for test."""
    train = b"".join(topic for i, topic in enumerate(topics) if i % 8 != 7)
    return train, b"".join(topics[7::8])


def topics_of(topics: tuple[bytes, ...], split: Split) -> bytes:
    """The text of a split where every eighth topic, the one before a test topic, is validated on.

    The byte-pair merges were learned from these topics, too: they are vocabulary, not weights.
    """
    held_out = {6: "validation", 7: "test"}
    return b"".join(t for i, t in enumerate(topics) if held_out.get(i % 8, "train") == split)


@lru_cache(maxsize=6)
def text_ids(task_name: str, split: Split, validation_topics: bool = False) -> Int[Tensor, " T"]:
    """All ids of a split in order, (T,) int64.

    Raises:
        ValueError: for the validation split of a text that keeps none.
    """
    check_split(split)
    if validation_topics:
        text = topics_of(python_topics(), split)
    elif split == "validation":
        raise ValueError(
            f"{task_name} keeps no validation text; set validation_topics=True, which takes it "
            "out of the training text."
        )
    else:
        text = split_topics(python_topics())[split == "test"]
    ids = list(text) if task_name == "byte-text" else encode(text, python_topics_merges())
    return torch.tensor(ids)


def sample_text(config: ByteTextConfig, n: int, generator: torch.Generator, split: Split) -> Batch:
    """Draw n windows, (n, seq_len), at uniform places of the split's text."""
    ids = text_ids(config.task_name, split, config.validation_topics)
    return draw_windows(ids, config.seq_len, n, generator)


def draw_windows(ids: Int[Tensor, " T"], length: int, n: int, generator: torch.Generator) -> Batch:
    """n windows of a text (T,) at uniform places; the targets are the ids one later."""
    if len(ids) <= length:
        raise ValueError(
            f"a window of {length} tokens and its targets need a text of at least "
            f"{length + 1}; this split has {len(ids)}. Lower seq_len."
        )
    start = integers(0, len(ids) - length, (n, 1), generator).cpu()
    window = ids[start + torch.arange(length + 1)].to(generator.device)
    return Batch(window[:, :-1].contiguous(), window[:, 1:].contiguous())


def text_windows(config: ByteTextConfig, split: Split = "test") -> Batch:
    """The whole split once, cut into windows that do not overlap, (N, seq_len).

    Every id but the first is a target exactly once; the last window is filled with id 0, not
    scored. For perplexities that do not depend on a draw.
    """
    ids = text_ids(config.task_name, split, config.validation_topics)
    return cut_windows(ids, config.seq_len)


def cut_windows(ids: Int[Tensor, " T"], length: int) -> Batch:
    """Cut a text (T,) into ceil((T - 1) / length) windows and their next ids."""
    missing = -(len(ids) - 1) % length
    inputs = F.pad(ids[:-1], (0, missing), value=0).view(-1, length)
    targets = F.pad(ids[1:], (0, missing), value=IGNORE).view(-1, length)
    return Batch(inputs, targets)


def byte_name(config: TaskConfig, token: int) -> str:
    """The character, with signs for space, line end and page end; other bytes in hex."""
    signs = {32: "␣", 10: "⏎", 12: "⇟"}
    if token in signs:
        return signs[token]
    return chr(token) if 32 < token < 127 else f"x{token:02x}"


@lru_cache(maxsize=1)
def _pieces() -> list[bytes]:
    return token_bytes(python_topics_merges())


def token_name(config: TokenTextConfig, token: int) -> str:
    """The characters of a token."""
    return "".join(byte_name(config, byte) for byte in _pieces()[token])


register(
    Task(
        name="byte-text",
        config=ByteTextConfig,
        sampler=sample_text,
        token_name=byte_name,
        about="predict every next byte of the Python documentation's topics.",
    )
)
register(
    Task(
        name="token-text",
        config=TokenTextConfig,
        sampler=sample_text,
        token_name=token_name,
        about="predict every next token of the Python documentation's topics.",
    )
)
