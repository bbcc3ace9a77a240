"""Attention masks and additions to scores, as a mask of pairs and an outer decay.

A mask of a model comes as a tensor. A sliding window and blocks are recognised by their pairs, so
that they stay two numbers; any other mask, padding among them, is kept as it is. A bias that is a
sum of decays (ALiBi) is an outer decay. Any other bias takes one more channel of q and k per token:
q_i gets row i of it and k_j the unit vector j.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from coefdyn import mask as masks
from coefdyn.lens.adapters.base import Unsupported
from coefdyn.lens.documents import admitted
from coefdyn.shapes import Bool, Float, Tensor

__all__ = ["NOT_CAUSAL", "Pairs", "as_decay", "as_mask", "extend", "read_mask"]

NOT_CAUSAL = "token i reads tokens after it (an encoder)"


@dataclass(frozen=True, kw_only=True, eq=False)
class Pairs:
    """Meaning of a mask for the pairs (i, j).

    Attributes:
        allowed: True where i may read j, within j <= i; None for all of these.
        bias: added to the scores, None for nothing.
        empty: True for queries that may read nothing; None where there are none.
    """

    allowed: Bool[Tensor, "B heads L L"] | None = None
    bias: Float[Tensor, "B heads L L"] | None = None
    empty: Bool[Tensor, "B heads L"] | None = None

    def plus(self, bias: Float[Tensor, "B heads L L"]) -> Pairs:
        """The same pairs with this added to their scores."""
        return replace(self, bias=bias if self.bias is None else self.bias + bias)

    def within(self, allowed: Bool[Tensor, "B heads L L"]) -> Pairs:
        """Those of the pairs that this mask admits, too; its own rows are never empty."""
        past = torch.ones_like(allowed[0, 0]).tril()
        both = allowed & (past if self.allowed is None else self.allowed)
        return replace(self, allowed=None if bool((both == past).all()) else both)


def read_mask(mask: Tensor | None, length: int, causal: bool, kept: int = 0) -> Pairs:
    """A mask of transformers: None, bool (True may be read) or float (added to the scores).

    Args:
        mask: ``(B, 1 or H, L, L)`` or None.
        length: L.
        causal: whether None means causal rather than everything.
        kept: tokens of an earlier pass before these; the mask then has a column for each of them,
            ``(B, 1 or H, L, kept + L)``, and the pairs a row, too, which reads its whole past.

    Raises:
        Unsupported: for a mask of another shape, or one that shows the future.
    """
    if kept and mask is not None:
        if mask.ndim != 4 or mask.shape[-2:] != (length, kept + length):
            raise Unsupported(f"the mask has shape {tuple(mask.shape)} for {kept} tokens before")
        past = torch.ones(kept, kept + length, dtype=torch.bool, device=mask.device).tril()
        if mask.dtype != torch.bool:
            hidden = torch.finfo(mask.dtype).min
            past = torch.zeros_like(past, dtype=mask.dtype).masked_fill(~past, hidden)
        mask = torch.cat([past.expand(*mask.shape[:2], -1, -1), mask], -2)
    length = kept + length
    if mask is None:
        if not causal and length > 1:
            raise Unsupported(NOT_CAUSAL)
        return Pairs()
    if mask.ndim != 4 or mask.shape[-2:] != (length, length):
        raise Unsupported(f"the mask has shape {tuple(mask.shape)}, expected (B, H, L, L)")
    allowed = admitted(mask)
    if kept and not bool(allowed.diagonal(0, -2, -1)[..., kept:].any()):
        raise Unsupported(
            "the cache has room for tokens to come, so places are not those of tokens"
        )
    past = torch.ones(length, length, dtype=torch.bool, device=mask.device).tril()
    causal_part = allowed & past
    empty = ~causal_part.any(-1)
    ahead = (allowed ^ causal_part).any(-1)  # of a row without any pair it does not matter
    if bool((ahead & ~empty).any()):
        raise Unsupported(NOT_CAUSAL)
    allowed = causal_part
    bias = None
    if mask.dtype != torch.bool:
        added = torch.where(allowed, mask, torch.zeros_like(mask))
        bias = added if bool((added != 0).any()) else None
    return Pairs(
        allowed=None if bool((allowed == past).all()) else allowed,
        bias=bias,
        empty=empty if bool(empty.any()) else None,
    )


def as_mask(allowed: Bool[Tensor, "B heads L L"] | None) -> masks.Mask | None:
    """The mask with these pairs, in the fewest numbers."""
    if allowed is None:
        return None
    length = allowed.shape[-1]
    last = int(allowed[0, 0, -1].sum())
    found: list[masks.Mask] = [masks.Window(last)] if last else []
    hides_first = (~allowed[0, 0, :, 0]).nonzero()
    if len(hides_first) and int(hides_first[0]):
        found.append(masks.Blocks(int(hides_first[0])))
    past = torch.ones_like(allowed[0, 0]).tril()
    for candidate in found:
        if bool((allowed == (candidate.rows(0, length, 0, allowed.device) & past)).all()):
            return candidate
    return masks.Given(allowed)


def as_decay(pairs: Pairs) -> Float[Tensor, "B heads L"] | None:
    """c with bias_{i,j} = c_{j+1} + ... + c_i for every pair, or None where there is no such c."""
    bias = pairs.bias
    if bias is None:
        return None
    total = bias[..., 0]
    gap = total[..., :, None] - total[..., None, :] - bias
    past = torch.ones_like(gap[0, 0], dtype=torch.bool).tril()
    past = past if pairs.allowed is None else past & pairs.allowed
    largest = 4 * torch.finfo(bias.dtype).eps * bias.abs().amax()
    if bool((gap.abs().masked_fill(~past, 0.0) > largest).any()):
        return None
    return total.diff(dim=-1, prepend=torch.zeros_like(total[..., :1]))


def extend(
    q: Float[Tensor, "B H L n"], k: Float[Tensor, "B H L n"], bias: Float[Tensor, "#B heads L L"]
) -> tuple[Float[Tensor, "B H L m"], Float[Tensor, "B H L m"]]:
    """q and k with further channels, so that q^T k is the score with the bias."""
    rows = bias.to(q.dtype).expand(*q.shape[:2], -1, -1)
    eye = torch.eye(q.shape[-2], dtype=q.dtype, device=q.device).expand_as(rows)
    return torch.cat([q, rows], -1), torch.cat([k, eye], -1)
