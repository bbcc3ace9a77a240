"""Helpers of every chunked kernel: tiles of batch and sequence, and decays inside a chunk.

Kernels see tensors with all leading axes flattened into one, ``(B, L, n)``. They walk over groups
of batch entries small enough for the processor's cache and, inside a group, over chunks of C
tokens.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch

from coefdyn.execution.growth import householder_nats, most_householder_nats, rise
from coefdyn.execution.stabilize import RESET
from coefdyn.shapes import Float, Tensor

__all__ = [
    "WIDE",
    "ChunkDecay",
    "Decay",
    "batch_groups",
    "chunk_bounds",
    "cut",
    "scaled",
    "steady_chunk",
    "suffix_sums",
]

#: bytes of one (group, C, n) tile; a handful of them then stay in a 2 MB cache
TILE_BYTES = 256 * 1024
#: most growth inside one chunk that a triangular system of it may see, in nats
STEADY = 2.0
#: float32 differences of in-chunk sums up to this many nats are good to 2e-6
WIDE = 32.0


def batch_groups(batch: int, row_bytes: int) -> Iterator[slice]:
    """Slices of the batch axis whose tiles of ``row_bytes`` per entry fit TILE_BYTES together."""
    step = max(1, min(batch, TILE_BYTES // max(row_bytes, 1)))
    for start in range(0, batch, step):
        yield slice(start, min(start + step, batch))


def chunk_bounds(length: int, chunk: int) -> list[tuple[int, int]]:
    """(start, stop) of each chunk; the last one may be shorter."""
    return [(start, min(start + chunk, length)) for start in range(0, length, chunk)]


def cut(tensor: Tensor | None, group: slice) -> Tensor | None:
    """The batch entries of one group."""
    return None if tensor is None else tensor[group]


def scaled(x: Tensor, factor: Tensor | float | None) -> Tensor:
    """x * factor, where None means 1."""
    return x if factor is None else x * factor


def steady_chunk(
    log_decay: Float[Tensor, "B L"] | None,
    direction: Float[Tensor, "B L n"],
    beta: Float[Tensor, "B L"],
    chunk: int,
) -> int:
    """The chunk, halved until no pair of tokens in one grows by more than STEADY nats.

    For triangular systems: see ``growth.py``. From chunk to chunk nothing is lost.
    """
    if beta.numel() == 0:
        return chunk
    most = 0.0 if log_decay is None else float(log_decay.amax())
    if (most + most_householder_nats(direction, beta)) * chunk <= STEADY:
        return chunk
    nats = householder_nats(direction, beta)
    nats = nats if log_decay is None else log_decay.clamp(min=RESET) + nats
    while chunk > 1:
        padded = torch.nn.functional.pad(nats.double(), (0, -nats.shape[1] % chunk))
        if float(rise(padded.unflatten(-1, (-1, chunk))).amax()) <= STEADY:
            return chunk
        chunk = -(-chunk // 2)
    return chunk


class Decay(NamedTuple):
    """Scalar decay inside one chunk; c is the inclusive sum of g, C the chunk length.

    Attributes:
        pairs: exp(c_i - c_j) for j <= i, 0 above the diagonal, ``(B, C, C)``.
        reach: exp(c_i), what the state at the chunk's start is multiplied by, ``(B, C, 1)``.
        fade: exp(c_C - c_j), from token j to the chunk's end, ``(B, C, 1)``.
        whole: exp(c_C), ``(B, 1, 1)``.
    """

    pairs: Float[Tensor, "B C C"] | None
    reach: Float[Tensor, "B C 1"]
    fade: Float[Tensor, "B C 1"]
    whole: Float[Tensor, "B 1 1"]


class ChunkDecay:
    """Decays of all chunks of one group: ``ChunkDecay(g, chunk, dtype)(start, stop) -> Decay``.

    Sums are float64. Their differences are formed in float64 too where they span more than WIDE
    nats, since a float32 difference of two large sums has lost its last digits.
    """

    def __init__(self, log_decay: Float[Tensor, "B L"], chunk: int, dtype: torch.dtype) -> None:
        length = log_decay.shape[1]
        g = log_decay.double().clamp(min=RESET)
        g = torch.nn.functional.pad(g, (0, -length % chunk)).unflatten(-1, (-1, chunk))
        sums = g.cumsum(-1)
        total = sums[..., -1:]
        self.reach = sums.exp().to(dtype).flatten(1)[:, :length, None]
        self.fade = (total - sums).exp().to(dtype).flatten(1)[:, :length, None]
        self.whole = total.exp().to(dtype)[..., None]
        wide = bool(sums.abs().amax() > WIDE)
        self.sums = (sums if wide else sums.to(dtype)).flatten(1)
        self.chunk, self.dtype = chunk, dtype

    def __call__(self, start: int, stop: int) -> Decay:
        c = self.sums[:, start:stop]
        gaps = (c[:, :, None] - c[:, None, :]).to(self.dtype)
        return self.edges(start, stop)._replace(pairs=exp_lower(gaps))

    def edges(self, start: int, stop: int) -> Decay:
        """The decay of one chunk without its pairs, for passes that only carry the state."""
        here = (slice(None), slice(start, stop))
        whole = self.whole[:, start // self.chunk]
        return Decay(None, self.reach[here], self.fade[here], whole)


def exp_lower(gaps: Float[Tensor, "B C C"]) -> Float[Tensor, "B C C"]:
    """exp on and below the diagonal, 0 above, in place.

    Infinite results, and those without all their digits, take exp ten to forty times as long: what
    lies above the diagonal is not taken, and what is less than the smallest normal number is 0.
    """
    least = math.ceil(math.log(torch.finfo(gaps.dtype).tiny))
    gaps.tril_().clamp_(min=least).exp_().tril_()
    return torch.nn.functional.threshold_(gaps, math.exp(least) * (1 + 1e-5), 0.0)


def suffix_sums(terms: Float[Tensor, "B C"], carry: Float[Tensor, B]) -> Float[Tensor, "B C"]:
    """carry + sum_{i >= t} terms_i: the gradient of g_t from that of the in-chunk sums c_i."""
    return terms.flip(-1).cumsum(-1).flip(-1) + carry[:, None]
