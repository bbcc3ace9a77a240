"""Verbatim overlap of two texts, checked for every split of a text.

A split whose windows recur in the training text measures memory. The unit is a window of 64 bytes,
about a line: long enough that two authors do not write it by chance.
"""

from __future__ import annotations

import numpy as np

__all__ = ["WINDOW", "overlap", "window_hashes"]

#: bytes of a window; a power of two
WINDOW = 64
_BASE, _SEED = 0x9E3779B97F4A7C15, 0  # of the hash


def window_hashes(text: bytes, window: int = WINDOW) -> np.ndarray:
    """Hashes of every window of a text, (max(len(text) - window + 1, 0),) uint64.

    Equal windows have equal hashes on every machine: h(i) = sum_j r(text[i + j]) B^(window - 1 - j)
    modulo 2^64, with one random number r per byte value, computed by doubling the window.

    Raises:
        ValueError: for a window that is no power of two.
    """
    if window < 1 or window & (window - 1):
        raise ValueError(f"window must be a power of two, such as {WINDOW}; got {window}.")
    letters = np.random.default_rng(_SEED).integers(0, 2**64, 256, dtype=np.uint64)
    hashes = letters[np.frombuffer(text, dtype=np.uint8)]
    length, power = 1, _BASE
    while length < window:
        hashes = hashes[:-length] * np.uint64(power) + hashes[length:]
        length, power = 2 * length, power * power % 2**64
    return hashes


def overlap(text: bytes, training: bytes, window: int = WINDOW) -> float:
    """Share of a text's windows that occur in the training text, in [0, 1].

    Args:
        text: of the validation or test split; at least one window long.
        training: of the training split.
        window: bytes of a window, a power of two.

    Raises:
        ValueError: for a text shorter than a window.
    """
    if len(text) < window:
        raise ValueError(f"the text has {len(text)} bytes, fewer than a window of {window}.")
    return float(np.isin(window_hashes(text, window), window_hashes(training, window)).mean())
