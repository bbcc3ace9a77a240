"""Accuracy and margin of a member on words, and whether it decides all of a length."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from coefdyn.lab.capabilities.hand import Change, Member, layer_output, pieces
from coefdyn.lab.capabilities.words import hard_words, own_length, random_words, small_words
from coefdyn.lab.tasks import IGNORE
from coefdyn.lab.tasks.base import Batch
from coefdyn.shapes import Float, Int, Tensor

__all__ = ["BATCHES", "LENGTHS", "Reading", "decides", "measure", "read_answers", "words_of"]

LENGTHS = (64, 512, 4096)
#: random words at the scoreboard's length and at each of LENGTHS
BATCHES = (128, 32, 8, 2)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Answers of a member on some words; ``a + b`` is that on both sets of words.

    scored: answers asked for.
    right:  those that are right.
    lead:   least lead of the right answer over |c_a - c_b|.
    size:   largest |y|.
    """

    scored: int = 0
    right: int = 0
    lead: float = torch.inf
    size: float = 0.0

    def __add__(self, other: Reading) -> Reading:
        return Reading(
            scored=self.scored + other.scored,
            right=self.right + other.right,
            lead=min(self.lead, other.lead),
            size=max(self.size, other.size),
        )

    @property
    def accuracy(self) -> float:
        """Share of right answers."""
        return self.right / self.scored

    @property
    def margin(self) -> float:
        """``lead`` over ``size``, so that a factor of y does not count."""
        return self.lead / max(self.size, 1e-300)


def read_answers(
    member: Member, y: Float[Tensor, "*batch L d"], targets: Int[Tensor, "*batch L"]
) -> Reading:
    """Compare the decoder's answers with the right ones, where some are asked for.

    Args:
        member: its decoder works in float64.
        y: outputs of the layer.
        targets: the right answers, ``IGNORE`` where none is asked for.
    """
    scored = targets != IGNORE
    if not scored.any():
        return Reading()
    y, target = y[scored].double(), targets[scored]
    scores = y @ member.weight.T + member.offset
    right = scores.gather(1, target[:, None])
    apart = (member.weight[:, None] - member.weight).norm(dim=-1)[target]
    lead = (right - scores) / apart.clamp_min(1e-30)
    lead = torch.where(apart == 0, torch.where(right > scores, torch.inf, -torch.inf), lead)
    wrong = torch.ones_like(scores, dtype=torch.bool).scatter_(1, target[:, None], False)
    best = torch.where(wrong, scores, -torch.inf).amax(1)
    return Reading(
        scored=len(target),
        right=int((right[:, 0] > best).sum()),
        lead=float(lead[wrong].amin().nan_to_num(-torch.inf)),
        size=float(y.norm(dim=-1).amax()),
    )


@torch.no_grad()
def _reading(
    member: Member,
    batch: Batch,
    dtype: torch.dtype,
    change: Change | None = None,
    piece: int | None = None,
) -> Reading:
    mixer = member.mixer.to(dtype)
    if piece is None:
        found = read_answers(member, layer_output(mixer, batch.inputs, change), batch.targets)
    else:
        outputs = pieces(mixer, batch.inputs, piece)
        parts = zip(outputs, batch.targets.split(piece, dim=-1), strict=True)
        found = sum((read_answers(member, y, target) for y, target in parts), Reading())
    member.mixer.double()
    return found


def measure(
    member: Member,
    batch: Batch,
    dtype: torch.dtype = torch.float64,
    change: Change | None = None,
    piece: int | None = None,
) -> tuple[float, float]:
    """Accuracy, and margin: least lead of the right answer over |c_a - c_b| max |y|.

    Args:
        member: its mixer is converted to ``dtype`` and back.
        batch: words and their answers.
        dtype: of the mixer; the decoder works in float64.
        change: replaces an ingredient of the dynamics.
        piece: tokens at a time, continued by the state, for long words; None for all at once.
    """
    assert change is None or piece is None, "an ingredient is replaced in whole words only"
    found = _reading(member, batch, dtype, change, piece)
    return found.accuracy, found.margin


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

    The margin is that of all words with the same number of tokens together.

    Args are those of ``words_of`` and ``measure``.
    """
    found: dict[int, Reading] = {}
    for batch in words_of(task, length, count, shorter=shorter):
        tokens = batch.inputs.shape[-1]
        found[tokens] = found.get(tokens, Reading()) + _reading(member, batch, dtype)
    right = all(one.right == one.scored for one in found.values())
    return right, min(one.margin for one in found.values())
