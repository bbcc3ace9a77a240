"""Sums over the past, for keys and queries that are made of it."""

from __future__ import annotations

import torch

from coefdyn.dynamics.documents import Documents
from coefdyn.shapes import Float, Tensor

__all__ = ["running_sum"]


def running_sum(
    terms: Float[Tensor, "*heads L c"],
    before: Float[Tensor, "*heads c"] | None = None,
    documents: Documents | None = None,
) -> tuple[Float[Tensor, "*heads L c"], Float[Tensor, "*heads c"]]:
    """Sums s_i = s_{i-1} + terms_i over tokens, which begin anew with each document.

    ``build`` sees one piece of a sequence at a time, so that a sum in it would forget what came
    before. A mixer whose keys are made of the past sums in ``tokens``, and keeps the last sum in
    ``past`` for the next piece:

        tokens, past = super().tokens(x, state, documents)
        before = None if state is None else state.past["sum"]
        sums, past["sum"] = running_sum(terms, before, documents)

    Sums are float64 inside, so that a document keeps its digits next to what came before it.

    Args:
        terms: one vector per head and token, ``(..., H, L, c)``; flatten a matrix.
        before: the sums that the previous piece returned, ``(..., H, c)``; None at first.
        documents: what ``tokens`` was given; None for one document.

    Returns:
        the sum up to and with each token, ``(..., H, L, c)``, and the last one, ``(..., H, c)``.
    """
    whole = terms.double().cumsum(-2)
    earlier = torch.zeros_like(whole[..., 0, :]) if before is None else before.double()
    if documents is None:
        sums = whole + earlier[..., None, :]
    else:
        index = torch.arange(terms.shape[-2], device=terms.device)
        begins = torch.where(documents.starts, index, 0).cummax(-1).values[..., None, :, None]
        without = (whole - terms).gather(-2, begins.expand(whole.shape))
        kept = documents.kept()[..., None, :, None]
        sums = whole + torch.where(kept, earlier[..., None, :], -without)
    sums = sums.to(terms.dtype)
    return sums, sums[..., -1, :]
