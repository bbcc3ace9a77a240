"""Which pairs attention may read, and how such a mask enters phi(q^T k) exactly.

A hidden pair gets a score of HIDDEN: exp of it is exactly 0 beside any pair that may be read, and
other readouts are wrapped to give 0 there. Padding takes one more channel of q and k; any other
mask or additive bias takes one channel per token: q_i gets row i of it and k_j the unit vector j.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from coefdyn.lens.adapters.base import Unsupported
from coefdyn.shapes import Bool, Float, Tensor

__all__ = ["HIDDEN", "NOT_CAUSAL", "Pairs", "extend", "read_mask"]

#: the score of a pair that may not be read
HIDDEN = -1e4

NOT_CAUSAL = "token i reads tokens after it (an encoder)"


@dataclass(frozen=True, kw_only=True, eq=False)
class Pairs:
    """What a mask says about (i, j).

    Attributes:
        allowed: True where i may read j, within j <= i; None for all of these.
        bias: added to the scores, None for nothing.
        empty: True for queries that may read nothing; None where there are none.
    """

    allowed: Bool[Tensor, "B heads L L"] | None = None
    bias: Float[Tensor, "B heads L L"] | None = None
    empty: Bool[Tensor, "B heads L"] | None = None


def read_mask(mask: Tensor | None, length: int, causal: bool) -> Pairs:
    """A mask of transformers: None, bool (True may be read) or float (added to the scores).

    Args:
        mask: ``(B, 1 or H, L, L)`` or None.
        length: L.
        causal: whether None means causal rather than everything.

    Raises:
        Unsupported: for a mask of another shape, or one that shows the future.
    """
    if mask is None:
        if not causal and length > 1:
            raise Unsupported(NOT_CAUSAL)
        return Pairs()
    if mask.ndim != 4 or mask.shape[-2:] != (length, length):
        raise Unsupported(f"the mask has shape {tuple(mask.shape)}, expected (B, H, L, L)")
    allowed = mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2
    past = torch.ones(length, length, dtype=torch.bool, device=mask.device).tril()
    empty = ~(allowed & past).any(-1)
    full = allowed.all(-1) & empty.logical_not() & ~past[-1]
    if bool((allowed & ~past & ~(empty | full)[..., None]).any()):
        raise Unsupported(NOT_CAUSAL)
    allowed = allowed & past
    bias = None
    if mask.dtype != torch.bool:
        added = torch.where(allowed, mask, torch.zeros_like(mask))
        bias = added if bool((added != 0).any()) else None
    return Pairs(
        allowed=None if bool((allowed == past).all()) else allowed,
        bias=bias,
        empty=empty if bool(empty.any()) else None,
    )


def extend(
    q: Float[Tensor, "B H L n"], k: Float[Tensor, "B H L n"], pairs: Pairs
) -> tuple[Float[Tensor, "B H L m"], Float[Tensor, "B H L m"]]:
    """q and k with further channels, so that q^T k is the score with mask and bias."""
    if pairs.allowed is None and pairs.bias is None:
        return q, k
    batch, heads, length, _ = q.shape
    keys = None if pairs.allowed is None else _padding(pairs.allowed)
    if pairs.bias is None and keys is not None:
        hidden = torch.where(keys, 0.0, HIDDEN).to(q.dtype)[..., None]
        more_q, more_k = torch.ones_like(q[..., :1]), hidden.expand(batch, heads, length, 1)
    else:
        rows = torch.zeros((), dtype=q.dtype, device=q.device)
        if pairs.bias is not None:
            rows = rows + pairs.bias.to(q.dtype)
        if pairs.allowed is not None:
            rows = rows + torch.where(pairs.allowed, 0.0, HIDDEN).to(q.dtype)
        more_q = rows.expand(batch, heads, length, length)
        eye = torch.eye(length, dtype=q.dtype, device=q.device)
        more_k = eye.expand(batch, heads, length, length)
    return torch.cat([q, more_q], -1), torch.cat([k, more_k], -1)


def _padding(allowed: Tensor) -> Tensor | None:
    """Keys that may be read, ``(B, H, L)``, if the mask depends on the key alone; else None."""
    keys = allowed.diagonal(dim1=-2, dim2=-1)
    past = torch.ones_like(allowed[0, 0]).tril()
    return keys if bool((allowed == (keys[..., None, :] & past)).all()) else None
