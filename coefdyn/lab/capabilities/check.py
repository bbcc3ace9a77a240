"""Accuracy and margin of a member on words, and the greatest length that it decides."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from coefdyn.lab.capabilities.hand import Change, Member, layer_output
from coefdyn.lab.capabilities.words import hard_words, own_length, random_words, small_words
from coefdyn.lab.tasks import IGNORE
from coefdyn.lab.tasks.base import Batch

__all__ = ["BATCHES", "LENGTHS", "decides", "measure", "words_of"]

LENGTHS = (64, 512, 4096)
#: random words at the scoreboard's length and at each of LENGTHS
BATCHES = (128, 32, 8, 2)


@torch.no_grad()
def measure(
    member: Member,
    batch: Batch,
    dtype: torch.dtype = torch.float64,
    change: Change | None = None,
) -> tuple[float, float]:
    """Accuracy, and margin: least lead of the right answer over |c_a - c_b| max |y|.

    Args:
        member: its mixer is converted to ``dtype`` and back.
        batch: words and their answers.
        dtype: of the mixer; the decoder works in float64.
        change: replaces an ingredient of the dynamics.
    """
    y = layer_output(member.mixer.to(dtype), batch.inputs, change).double()
    member.mixer.double()
    scored = batch.targets != IGNORE
    y, target = y[scored], batch.targets[scored]
    scores = y @ member.weight.T + member.offset
    right = scores.gather(1, target[:, None])
    apart = (member.weight[target][:, None] - member.weight).norm(dim=-1)
    lead = (right - scores) / apart.clamp_min(1e-30)
    wrong = torch.ones_like(scores, dtype=torch.bool).scatter_(1, target[:, None], False)
    same = apart == 0
    lead = torch.where(same, torch.where(right > scores, torch.inf, -torch.inf), lead)
    margin = lead[wrong].amin() / y.norm(dim=-1).amax().clamp_min(1e-300)
    best = torch.where(wrong, scores, -torch.inf).amax(1)
    accuracy = (right[:, 0] > best).double().mean()
    return float(accuracy), float(margin.nan_to_num(-1.0))


def words_of(task: str, length: int, count: int, *, shorter: bool = True) -> Iterable[Batch]:
    """Random and hard words of a length; at the scoreboard's also all small ones.

    Args:
        task, length, count: which words, and how many random ones.
        shorter: whether those count whose distance from value to question is a smaller one.
    """
    yield random_words(task, length, count)
    if (hard := hard_words(task, length)) is not None:
        yield hard
    if length == own_length(task) and (shorter or task != "long memory"):
        yield small_words(task)


def decides(
    member: Member,
    task: str,
    length: int,
    count: int,
    dtype: torch.dtype = torch.float64,
    *,
    shorter: bool = True,
) -> tuple[bool, float]:
    """Return whether every answer is right on the words of this length, and the least margin.

    Args are those of ``words_of`` and ``measure``.
    """
    words = words_of(task, length, count, shorter=shorter)
    found = [measure(member, batch, dtype) for batch in words]
    return all(one[0] == 1 for one in found), min(one[1] for one in found)
