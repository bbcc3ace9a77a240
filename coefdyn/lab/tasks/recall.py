"""In-context recall and its noisy variant (MAD).

A sequence is a list of slots of two tokens. A slot shows a key and its value, or two noise
tokens. The value of a key is drawn at its first appearance and stays fixed within the sequence.
The last pair repeats a key that was shown, so its value can be recalled.

Token ids are contiguous: keys, values, noise, and the copy prefix V-1 if there is one.
Source: MAD (Poli et al. 2024), mad-lab `in_context_recall`; the coefficient-dynamics paper,
Appendix E, fixes the noisy task's values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from coefdyn.lab.tasks._draw import first_occurrence, integers, one_of, uniform
from coefdyn.lab.tasks.base import IGNORE, Batch, Split, TaskConfig, at_least, register
from coefdyn.shapes import Bool, Int


@register
@dataclass(frozen=True, kw_only=True)
class RecallConfig(TaskConfig):
    """In-context recall; the defaults are MAD's.

    vocab_size:  all ids: keys, values, noise, and the copy prefix unless multi_query.
    seq_len:     even number of tokens before the shift by one.
    noise_vocab: number of noise ids.
    frac_noise:  probability in [0, 1) that a slot (not a token) is noise.
    multi_query: score every repeated key, not only the last; then the input has length
                 seq_len - 1, else a copy prefix is added and it has seq_len.
    """

    task_name: ClassVar[str] = "recall"
    about: ClassVar[str] = "at a key that appeared before, recall its value."

    vocab_size: int = 16
    seq_len: int = 128
    noise_vocab: int = 0
    frac_noise: float = 0.0
    multi_query: bool = True

    @classmethod
    def paper(cls) -> RecallConfig:
        """MAD's defaults: 8 keys, 8 values, length 128, 12 800 sequences."""
        return cls()

    @classmethod
    def quick(cls) -> RecallConfig:
        """Six keys, six values and length 32: for two CPU cores."""
        return cls(vocab_size=12, seq_len=32, test_examples=640)

    def check(self) -> None:
        at_least(self, "noise_vocab", 0)
        if self.seq_len % 2 or self.seq_len < 4:
            raise ValueError(f"seq_len must be even and at least 4; got {self.seq_len}.")
        if not 0 <= self.frac_noise < 1:
            raise ValueError(f"frac_noise must lie in [0, 1); got {self.frac_noise}.")
        if self.frac_noise > 0 and self.noise_vocab == 0:
            raise ValueError(
                f"frac_noise={self.frac_noise} needs noise tokens; set noise_vocab >= 1."
            )
        if self.content < 2:
            raise ValueError(
                f"vocab_size={self.vocab_size} leaves {self.content} ids for keys and values "
                f"after {self.noise_vocab} noise ids; at least 2 are needed."
            )

    @property
    def content(self) -> int:
        """Number of ids that are keys or values."""
        return self.vocab_size - self.noise_vocab - (0 if self.multi_query else 1)

    @property
    def num_keys(self) -> int:
        """Number of key ids; keys are [0, num_keys), values [num_keys, content)."""
        return self.content // 2

    @property
    def input_length(self) -> int:
        return self.seq_len - 1 if self.multi_query else self.seq_len

    def draw(self, n: int, generator: torch.Generator, split: Split) -> Batch:
        """Draw n sequences; ``inputs`` and ``targets`` are (n, input_length).

        Train targets are the input shifted by one, nothing masked. Test targets are the values of
        keys that appeared earlier, at the key's position.
        """
        slots = self.seq_len // 2 - 1
        noise = _noise_slots(self, n, slots, generator)
        keys = integers(0, self.num_keys, (n, slots), generator).masked_fill(noise, -1)
        first = first_occurrence(keys)
        drawn = integers(self.num_keys, self.content, (n, slots), generator)
        values = drawn.gather(1, first)
        opens = (first == torch.arange(slots, device=first.device)) & ~noise
        chosen = one_of(opens, generator)[:, None]
        noise_top = self.content + max(self.noise_vocab, 1)
        noise_tokens = integers(self.content, noise_top, (n, slots, 2), generator)
        pairs = torch.stack([keys, values], dim=-1)
        pairs = torch.where(noise[..., None], noise_tokens, pairs)
        asked = ~opens & ~noise if self.multi_query else torch.zeros_like(noise)
        final = torch.stack([keys.gather(1, chosen), values.gather(1, chosen)], dim=-1)
        copy = None if self.multi_query else self.vocab_size - 1
        return shift(*lay_out(pairs, asked, final, copy), split)

    def token_name(self, token: int) -> str:
        """k0.. for keys, v0.. for values, n0.. for noise, 'copy' for the prefix."""
        if token < self.num_keys:
            return f"k{token}"
        if token < self.content:
            return f"v{token - self.num_keys}"
        if token < self.content + self.noise_vocab:
            return f"n{token - self.content}"
        return "copy"


@register
@dataclass(frozen=True, kw_only=True)
class NoisyRecallConfig(RecallConfig):
    """In-context recall with noise slots between the pairs; see ``RecallConfig``."""

    task_name: ClassVar[str] = "noisy-recall"
    about: ClassVar[str] = "at a key that appeared before, recall its value, past slots of noise."

    vocab_size: int = 32
    noise_vocab: int = 16
    frac_noise: float = 0.2

    @classmethod
    def paper(cls) -> NoisyRecallConfig:
        """Coefficient-dynamics paper, Appendix E: 8 keys, 8 values, 3 200 sequences."""
        return cls(train_examples=3_200)

    @classmethod
    def quick(cls) -> NoisyRecallConfig:
        """Six keys, six values, six noise ids, length 32: for two CPU cores."""
        return cls(vocab_size=18, seq_len=32, noise_vocab=6, test_examples=640)


def _noise_slots(
    config: RecallConfig, n: int, slots: int, generator: torch.Generator
) -> Bool[Tensor, "n slots"]:
    """Mask of the slots that are noise: (n, slots) bool, never all of a row.

    One protected index is drawn over the slots and the final pair, as in the reference; when it
    falls on the final pair and all slots came out as noise, the first slot shows a pair.
    """
    noise = uniform((n, slots), generator) < config.frac_noise
    protected = integers(0, slots + 1, (n, 1), generator)
    noise &= torch.arange(slots, device=noise.device) != protected
    noise[:, 0] &= ~noise.all(dim=1)
    return noise


def lay_out(
    pairs: Int[Tensor, "n S 2"],
    asked: Bool[Tensor, "n S"],
    final: Int[Tensor, "n 1 2"],
    copy: int | None,
) -> tuple[Int[Tensor, "n length"], Int[Tensor, "n length"]]:
    """Write slots one after another, then the final pair.

    pairs: (n, S, 2) ids; asked: (n, S) bool, whether the slot's second token is scored;
    final: (n, 1, 2) ids, its second token is always scored; copy: prefix of the final pair.
    Returns the sequence and its answers, both (n, 2S + 2), or one longer with a prefix.
    """
    answers = torch.full_like(pairs, IGNORE)
    answers[..., 1] = torch.where(asked, pairs[..., 1], IGNORE)
    final_answers = torch.full_like(final, IGNORE)
    final_answers[..., 1] = final[..., 1]
    sequence, masked = [pairs.flatten(1)], [answers.flatten(1)]
    if copy is not None:
        sequence.append(torch.full_like(final[:, 0, :1], copy))
        masked.append(torch.full_like(final[:, 0, :1], IGNORE))
    sequence.append(final.flatten(1))
    masked.append(final_answers.flatten(1))
    return torch.cat(sequence, dim=1), torch.cat(masked, dim=1)


def shift(
    sequence: Int[Tensor, "n length"], answers: Int[Tensor, "n length"], split: Split
) -> Batch:
    """Next-token form: all next tokens in training, only the answers in test."""
    targets = sequence if split == "train" else answers
    return Batch(sequence[:, :-1].contiguous(), targets[:, 1:].contiguous())
