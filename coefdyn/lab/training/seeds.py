"""Seeds derived from a seed and labels, so that no two uses share a stream."""

from __future__ import annotations

import hashlib

import torch

__all__ = ["derive_seed", "generator"]


def derive_seed(seed: int, *labels: str | int) -> int:
    """A 63-bit seed, a fixed function of ``seed`` and the labels (split, epoch, ...)."""
    text = "/".join(str(part) for part in (seed, *labels))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(seed: int, *labels: str | int) -> torch.Generator:
    """A CPU generator started at ``derive_seed(seed, *labels)``."""
    return torch.Generator().manual_seed(derive_seed(seed, *labels))
