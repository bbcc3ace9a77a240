"""Language modelling on the embedded texts: every next byte, or every next token, is the target.

``byte-prose`` and ``token-prose`` read the public prose: books and manuals in the public domain,
without repeats, split by document. Training sequences do not overlap, so that a run whose sequences
are at most ``train_examples`` reads no place twice.

``byte-text`` and ``token-text`` read the topics of the Python documentation, 0.47 MB, and are kept
for the runs that were trained on them. Topics repeat one another: 49 % of the validation and 16 %
of the test text stand verbatim in the training text (``overlap``), so a loss on them measures
memory as well. Every eighth topic is for test; with ``validation_topics`` the one before it is for
validation.

Both stand in for WikiText-103 and are far smaller. Bytes are their own ids. Tokens are those of a
byte-pair encoding with 768 merges, learned from the training text (``bytepair``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from coefdyn.lab.tasks._draw import integers, subset
from coefdyn.lab.tasks.base import IGNORE, Batch, Split, TaskConfig, check_split, register
from coefdyn.lab.tasks.bytepair import encode, token_bytes
from coefdyn.lab.tasks.embedded import (
    public_prose,
    public_prose_merges,
    python_topics,
    python_topics_merges,
)
from coefdyn.shapes import Int

MERGES = 768
#: of every 20 documents of the public prose, the tenth is for validation and the last for test
HELD_OUT: dict[int, Split] = {9: "validation", 19: "test"}


@dataclass(frozen=True, kw_only=True)
class TextConfig(TaskConfig):
    """Windows of an embedded text; ``vocabulary`` is the number of its ids, the only vocab_size."""

    vocabulary: ClassVar[int] = 256

    vocab_size: int = 256
    seq_len: int = 1_024
    test_examples: int = 256

    @classmethod
    def paper(cls) -> Self:
        """Context 1 024, as the papers use for WikiText-103; no paper uses these texts."""
        return cls()

    @classmethod
    def quick(cls) -> Self:
        """Context 128: for two CPU cores."""
        return cls(seq_len=128, train_examples=3_200)

    def check(self) -> None:
        if self.vocab_size != self.vocabulary:
            raise ValueError(
                f"{self.task_name} has {self.vocabulary} ids; got vocab_size={self.vocab_size}."
            )

    def token_name(self, token: int) -> str:
        """The characters of a token."""
        pieces = _pieces(isinstance(self, ByteProseConfig))
        return "".join(byte_name(byte) for byte in pieces[token])


@register
@dataclass(frozen=True, kw_only=True)
class ByteTextConfig(TextConfig):
    """Bytes of the Python documentation topics; vocab_size is 256.

    validation_topics: keep every eighth topic out of the training text, for the validation split.
    """

    task_name: ClassVar[str] = "byte-text"
    about: ClassVar[str] = "predict every next byte of the Python documentation's topics."

    train_examples: int = 1_600
    validation_topics: bool = False

    def draw(self, n: int, generator: torch.Generator, split: Split) -> Batch:
        """Draw n windows, (n, seq_len), at uniform places of the split's text."""
        return draw_windows(_ids(self, split), self.seq_len, n, generator)


@register
@dataclass(frozen=True, kw_only=True)
class TokenTextConfig(ByteTextConfig):
    """Byte-pair tokens of the same text; vocab_size is 1024, about 2.9 bytes a token."""

    task_name: ClassVar[str] = "token-text"
    about: ClassVar[str] = "predict every next token of the Python documentation's topics."
    vocabulary: ClassVar[int] = 256 + MERGES

    vocab_size: int = 256 + MERGES


@register
@dataclass(frozen=True, kw_only=True)
class ByteProseConfig(TextConfig):
    """Bytes of the public prose; vocab_size is 256. Training sequences do not overlap."""

    task_name: ClassVar[str] = "byte-prose"
    about: ClassVar[str] = "predict every next byte of prose in the public domain."

    train_examples: int = 4_000

    def draw(self, n: int, generator: torch.Generator, split: Split) -> Batch:
        """Draw n windows, (n, seq_len): disjoint in training, at uniform places otherwise."""
        if split == "train":
            return draw_apart(_ids(self, split), self.seq_len, n, generator)
        return draw_windows(_ids(self, split), self.seq_len, n, generator)


@register
@dataclass(frozen=True, kw_only=True)
class TokenProseConfig(ByteProseConfig):
    """Byte-pair tokens of the same text; vocab_size is 1024."""

    task_name: ClassVar[str] = "token-prose"
    about: ClassVar[str] = "predict every next token of prose in the public domain."
    vocabulary: ClassVar[int] = 256 + MERGES

    vocab_size: int = 256 + MERGES
    train_examples: int = 1_600


def split_of_document(number: int) -> Split:
    """The split of a document of the public prose, by its number: 18, 1 and 1 of every 20."""
    return HELD_OUT.get(number % 20, "train")


def split_topics(topics: tuple[bytes, ...]) -> tuple[bytes, bytes]:
    """Training and test text: every eighth topic is for test."""
    train = b"".join(topic for i, topic in enumerate(topics) if i % 8 != 7)
    return train, b"".join(topics[7::8])


def topics_of(topics: tuple[bytes, ...], split: Split) -> bytes:
    """Text of a split in which each topic before a test topic is for validation.

    The byte-pair merges were learned from these topics, too: they are vocabulary, not weights.
    """
    held_out = {6: "validation", 7: "test"}
    return b"".join(t for i, t in enumerate(topics) if held_out.get(i % 8, "train") == split)


def prose_of(documents: tuple[bytes, ...], split: Split) -> bytes:
    """The documents of a split, joined."""
    return b"".join(x for i, x in enumerate(documents) if split_of_document(i) == split)


@lru_cache(maxsize=6)
def text_ids(task_name: str, split: Split, validation_topics: bool = False) -> Int[Tensor, " T"]:
    """All ids of a split in order, (T,) int64.

    Args:
        task_name: "byte-prose", "token-prose", "byte-text" or "token-text".
        split: which.
        validation_topics: of Python's topics, see ``ByteTextConfig``.

    Raises:
        ValueError: for the validation split of a text that keeps none.
    """
    check_split(split)
    prose = task_name.endswith("-prose")
    if prose:
        text = prose_of(public_prose(), split)
    elif validation_topics:
        text = topics_of(python_topics(), split)
    elif split == "validation":
        raise ValueError(
            f"{task_name} keeps no validation text; set validation_topics=True, which takes it "
            "out of the training text."
        )
    else:
        text = split_topics(python_topics())[split == "test"]
    if task_name.startswith("byte-"):
        return torch.tensor(list(text))
    return torch.tensor(encode(text, public_prose_merges() if prose else python_topics_merges()))


def _ids(config: TextConfig, split: Split) -> Int[Tensor, " T"]:
    topics = isinstance(config, ByteTextConfig) and config.validation_topics
    return text_ids(config.task_name, split, topics)


def draw_apart(ids: Int[Tensor, " T"], length: int, n: int, generator: torch.Generator) -> Batch:
    """Draw n disjoint windows of a text (T,), in random order; targets are the ids one later.

    The text is cut into windows from a random place among the first ``length``, so that every seed
    has other ones.

    Raises:
        ValueError: for more windows than fit.
    """
    if len(ids) < 2 * length:
        raise ValueError(
            f"windows of {length} tokens need a text of at least {2 * length}; this split has "
            f"{len(ids)}. Lower seq_len."
        )
    first = int(integers(0, length, (1,), generator))
    fits = (len(ids) - 1 - first) // length
    chosen = subset(fits, n, generator, f"the training text's windows of {length} tokens").cpu()
    places = first + length * chosen[:, None] + torch.arange(length + 1)
    window = ids[places].to(generator.device)
    return Batch(window[:, :-1].contiguous(), window[:, 1:].contiguous())


def draw_windows(ids: Int[Tensor, " T"], length: int, n: int, generator: torch.Generator) -> Batch:
    """Draw n windows of a text (T,) at uniform places; the targets are the ids one later."""
    if len(ids) <= length:
        raise ValueError(
            f"a window of {length} tokens and its targets need a text of at least "
            f"{length + 1}; this split has {len(ids)}. Lower seq_len."
        )
    start = integers(0, len(ids) - length, (n, 1), generator).cpu()
    window = ids[start + torch.arange(length + 1)].to(generator.device)
    return Batch(window[:, :-1].contiguous(), window[:, 1:].contiguous())


def text_windows(config: TextConfig, split: Split = "test") -> Batch:
    """Windows of a whole split that do not overlap, (N, seq_len).

    Every id but the first is a target exactly once; the last window is filled with id 0, not
    scored. For perplexities that do not depend on a draw.
    """
    return cut_windows(_ids(config, split), config.seq_len)


def cut_windows(ids: Int[Tensor, " T"], length: int) -> Batch:
    """Cut a text (T,) into ceil((T - 1) / length) windows and their next ids."""
    missing = -(len(ids) - 1) % length
    inputs = F.pad(ids[:-1], (0, missing), value=0).view(-1, length)
    targets = F.pad(ids[1:], (0, missing), value=IGNORE).view(-1, length)
    return Batch(inputs, targets)


def byte_name(token: int) -> str:
    """The character, with signs for space, line end and page end; other bytes in hex."""
    signs = {32: "␣", 10: "⏎", 12: "⇟"}
    if token in signs:
        return signs[token]
    return chr(token) if 32 < token < 127 else f"x{token:02x}"


@lru_cache(maxsize=2)
def _pieces(prose: bool) -> list[bytes]:
    return token_bytes(public_prose_merges() if prose else python_topics_merges())
