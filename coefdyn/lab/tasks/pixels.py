"""Images read pixel by pixel: handwritten digits (embedded) and CIFAR-10 (downloaded).

The pixels of an image in row order are the tokens, their grey levels the ids; the label is the
target at the last pixel. The digits are a stand-in for CIFAR-10 that works offline: 64 pixels
of 17 levels instead of 1 024 of 256.

Source: Long Range Arena (Tay et al. 2021), "Image"; the eigenvalue paper, Appendix B.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from coefdyn.lab.tasks._draw import subset
from coefdyn.lab.tasks.base import IGNORE, Batch, Split, TaskConfig, register
from coefdyn.lab.tasks.downloads import load_rows, optional_module
from coefdyn.lab.tasks.embedded import digits


@dataclass(frozen=True, kw_only=True)
class PixelConfig(TaskConfig):
    """Ten classes; vocabulary and length are those of the images and cannot be changed."""

    @property
    def num_classes(self) -> int:
        return 10

    def check(self) -> None:
        fixed = type(self).vocab_size, type(self).seq_len
        if (self.vocab_size, self.seq_len) != fixed:
            raise ValueError(
                f"{self.task_name} has {fixed[0]} grey levels and {fixed[1]} pixels; got "
                f"vocab_size={self.vocab_size}, seq_len={self.seq_len}."
            )


@register
@dataclass(frozen=True, kw_only=True)
class DigitsConfig(PixelConfig):
    """Handwritten digits, 8 x 8 pixels; every fifth image is for test (1 438 and 359).

    Always all images, since the set is small. No paper uses them; they stand in for CIFAR-10.

    validation_images: keep another fifth out of the training images, for the validation split.
    """

    task_name: ClassVar[str] = "digits"
    about: ClassVar[str] = "after the last of 8 x 8 pixels, name the handwritten digit."

    vocab_size: int = 17
    seq_len: int = 64
    train_examples: int = 1_438
    test_examples: int = 359
    validation_images: bool = False

    def draw(self, n: int, generator: torch.Generator, split: Split) -> Batch:
        """Draw n different images of a split, (n, 64)."""
        images, labels = digits()
        part = _digits_part(len(labels), split, self.validation_images)
        return _draw(images[part], labels[part], n, generator, f"the digits' {split} images")


@register
@dataclass(frozen=True, kw_only=True)
class Cifar10Config(PixelConfig):
    """CIFAR-10 in grey levels, 32 x 32 pixels, through Hugging Face ``datasets``."""

    task_name: ClassVar[str] = "cifar10"
    about: ClassVar[str] = "after the last of 32 x 32 grey pixels, name the class of the picture."

    vocab_size: int = 256
    seq_len: int = 1_024
    train_examples: int = 50_000
    test_examples: int = 10_000

    @classmethod
    def paper(cls) -> Cifar10Config:
        """All images, as in Long Range Arena and the eigenvalue paper."""
        return cls()

    @classmethod
    def quick(cls) -> Cifar10Config:
        """A twenty-fifth of the images."""
        return cls(train_examples=2_000, test_examples=400)

    def draw(self, n: int, generator: torch.Generator, split: Split) -> Batch:
        """Draw n different images of a split, (n, 1024)."""
        images, labels = _cifar10(split)
        return _draw(images, labels, n, generator, f"CIFAR-10's {split} images")


def _digits_part(count: int, split: Split, validation_images: bool) -> Tensor:
    """Mask of the images that belong to a split, (count,) bool: every fifth is for test."""
    place = torch.arange(count) % 5
    if validation_images:
        return {"train": place < 3, "validation": place == 3, "test": place == 4}[split]
    if split == "validation":
        raise ValueError(
            "digits keeps no validation images; set validation_images=True, which takes every "
            "fifth out of the training images."
        )
    return place == 4 if split == "test" else place < 4


def _draw(images: Tensor, labels: Tensor, n: int, generator: torch.Generator, what: str) -> Batch:
    chosen = subset(len(labels), n, generator, what).to(labels.device)
    inputs = images[chosen].long().to(generator.device)
    targets = torch.full_like(inputs, IGNORE)
    targets[:, -1] = labels[chosen].to(generator.device)
    return Batch(inputs, targets)


@lru_cache(maxsize=2)
def _cifar10(split: Split) -> tuple[Tensor, Tensor]:
    """Grey images (N, 1024) uint8 and labels (N,) int64."""
    optional_module("PIL", "CIFAR-10", "digits")  # datasets decodes the pictures with it
    rows = load_rows("uoft-cs/cifar10", None, split, "CIFAR-10", "digits")
    images = np.stack([np.asarray(image.convert("L"), dtype=np.uint8) for image in rows["img"]])
    labels = torch.tensor(list(rows["label"]))
    return torch.from_numpy(images.reshape(len(labels), -1)), labels
