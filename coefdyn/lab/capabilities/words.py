"""Words on which a construction is checked: random ones of any length, and those meant to break it.

At the scoreboard's length they are the task's own. Longer ones keep the task's form: more filler
(recall), more writes (overwrite), more segments that end with a reset (forget), more blanks (copy).
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product

import torch

from coefdyn.lab.experiments.board import tasks_of
from coefdyn.lab.tasks import IGNORE, sample, split_generator
from coefdyn.lab.tasks.base import Batch
from coefdyn.lab.tasks.mqar import lay_out
from coefdyn.shapes import Tensor

__all__ = ["FAR", "far_words", "hard_words", "own_length", "random_words", "small_words"]

#: keys asked at the end of overwrite and forget
PAIRS = 4
#: tokens of the longest words: what "all lengths" is checked up to
FAR = 2**20


def own_length(task: str) -> int:
    """Tokens of a sequence on the scoreboard."""
    return tasks_of()[task].seq_len


def random_words(task: str, length: int, count: int, seed: int = 0) -> Batch:
    """Sequences of about ``length`` tokens (forget and overwrite end on a whole segment)."""
    config, draw = tasks_of()[task], split_generator(seed, "validation")
    if length == config.seq_len:
        return sample(config, count, draw, "validation")
    if task == "recall":
        whole = sample(config, count, draw, "validation").inputs[:, :8]
        slots = torch.stack([torch.randperm((length - 8) // 2, generator=draw)[:4]
                             for _ in range(count)])  # fmt: skip
        return lay_out(whole[:, ::2], whole[:, 1::2], slots, length // 2 * 2)
    if task in ("overwrite", "forget"):
        return _keyed(task, length, count, draw)
    return sample(replace(config, seq_len=length), count, draw, "validation")


def _keyed(task: str, length: int, count: int, draw: torch.Generator) -> Batch:
    """Writes (and resets) as pairs; the answers are read off by going through them."""
    lines = []
    for _ in range(count):
        keys = 1 + torch.randperm(15, generator=draw)[:PAIRS]
        tokens: list[int] = []
        while len(tokens) < length - 2 * PAIRS:
            order = keys[torch.randperm(PAIRS, generator=draw)]
            if task == "forget" and tokens:
                tokens.append(0)
            for key in order:
                tokens += [int(key), int(torch.randint(16, 32, (), generator=draw))]
        if task == "forget":
            tokens.append(0)
            for key in keys[:2]:
                tokens += [int(key), int(torch.randint(16, 32, (), generator=draw))]
        asked = keys[torch.randperm(PAIRS, generator=draw)]
        lines.append(tokens + asked.tolist())
    return answered(torch.tensor(lines))


def answered(inputs: Tensor) -> Batch:
    """Targets of overwrite and forget at the last four tokens."""
    targets = torch.full_like(inputs, IGNORE)
    for line, target in zip(inputs.tolist(), targets, strict=True):
        held: dict[int, int] = {}
        body = line[:-PAIRS]
        for key, value in pairwise(body):
            if key == 0:
                held.clear()
            elif key < 16 <= value:
                held[key] = value
        target[-PAIRS:] = torch.tensor([held.get(key, 0) for key in line[-PAIRS:]])
    return Batch(inputs, targets)


def small_words(task: str) -> Batch:
    """All sequences of a small size."""
    if task in ("count", "parity"):
        inputs = torch.tensor(list(product((0, 1), repeat=10)))
    elif task == "S3":
        inputs = torch.tensor(list(product(range(6), repeat=4)))
    elif task == "position":
        inputs = torch.tensor(list(product((0, 5), repeat=11)))
    elif task == "long memory":
        inputs = torch.tensor([[14, *word, 15] for word in product(range(14), repeat=3)])
    elif task in ("overwrite", "forget"):
        pairs = list(product((1, 2), (16, 17, 18, 19)))
        middle = [0] if task == "forget" else []
        inputs = torch.tensor([
            [1, 16, 2, 17, 3, 18, 4, 16, *middle, *a, *b, 1, 2, 3, 4]
            for a, b in product(pairs, pairs)
            if a[0] != b[0] and (1, 16) not in (a, b) and (2, 17) not in (a, b)
        ])  # fmt: skip
        return answered(inputs)
    elif task == "recall":  # every two keys, either of which is asked
        inputs = torch.tensor([[a, 32, b, 33, ask] for a in range(1, 32) for b in range(1, 32)
                               if a != b for ask in (a, b)])  # fmt: skip
        targets = torch.full_like(inputs, IGNORE)
        targets[:, -1] = torch.where(inputs[:, -1] == inputs[:, 0], 32, 33)
        return Batch(inputs, targets)
    else:
        return copied([[*text, 15, *[14] * 8] for text in product((0, 1), repeat=8)])
    return scored(task, inputs)


def copied(lines: list[list[int]]) -> Batch:
    """Texts with 'copy' and eight blanks behind them; the letters are below 14."""
    inputs = torch.tensor(lines)
    targets = torch.full_like(inputs, IGNORE)
    targets[:, -8:] = torch.tensor([[one for one in line if one < 14] for line in lines])
    return Batch(inputs, targets)


def scored(task: str, inputs: Tensor) -> Batch:
    """Targets of the tasks that score by a rule on the tokens."""
    targets = torch.full_like(inputs, IGNORE)
    if task == "parity":
        targets = inputs.cumsum(1) % 2
    elif task == "count":
        lead = (2 * inputs - 1).cumsum(1)
        targets = torch.where(lead == 0, 2, (lead > 0).long())
    elif task == "position":
        targets[:, 8:] = inputs[:, :-8]
    elif task == "long memory":
        targets[:, -1] = inputs[:, 1]
    elif task == "S3":
        from coefdyn.lab.tasks.tracking import _products

        state, table = torch.zeros_like(inputs[:, 0]), _products()
        for i in range(inputs.shape[1]):
            state = table[inputs[:, i], state]
            targets[:, i] = state
    return Batch(inputs, targets)


def hard_words(task: str, length: int) -> Batch | None:
    """Words meant to break a construction: one token repeated, ties, many equal wrong values."""
    if task in ("count", "parity", "S3", "position"):
        half = length // 2
        lines = [[a] * length for a in range(2)]
        lines += [[a] * half + [b] * (length - half) for a, b in ((0, 1), (1, 0))]
        lines += [[0, 1] * half + [0] * (length - 2 * half)]
        if task == "S3":
            lines += [[3] * length, [1, 2] * half + [0] * (length - 2 * half)]
        return scored(task, torch.tensor(lines))
    if task == "long memory":
        values = range(14) if length < 300 else (0, 5, 13)
        return scored(task, torch.tensor(
            [[14, a, *[b] * (length - 3), 15] for a, b in product(values, values)]
        ))  # fmt: skip
    if task == "copy":
        blanks = [14] * (length - 17)
        texts = [[a] * 8 for a in (0, 13)] + [[0, 1] * 4, [1] + [0] * 7, [0] * 7 + [1]]
        inputs = [[*blanks, *text, 15, *[14] * 8] for text in texts]
        inputs += [[*text[:-1], *blanks, text[-1], 15, *[14] * 8] for text in texts]
        return copied(inputs)
    if task in ("overwrite", "forget"):
        far = [1, 17] if length > 40 else []
        while 0 < len(far) < length - 16:  # one key is written once, the others all the time
            far += [2, 18 + len(far) // 4 % 8]
        body = [1, 20, 2, 17, 3, 17, 4, 17, 1, 18, 1, 17, 2, 18, 3, 16, 4, 19]
        line = [*(far or [*body, 1, 16]), *[3, 18, 4, 18, 2, 16][: len(far)], 1, 2, 3, 4]
        reset = [1, 17, 2, 17, 3, 17, 4, 17, 0, 1, 16, 2, 16, 3, 4, 1, 2]
        return answered(torch.tensor([line if task == "overwrite" else reset]))
    return None


def far_words(task: str) -> Batch:
    """One word of about ``FAR`` tokens: the hardest that is known, else a random one.

    Overwrite writes one key once and another half a million times, count goes far ahead and comes
    back to a tie, and S3 wears down first one direction of the plane and then another.
    """
    if task == "overwrite":
        hard = hard_words(task, FAR)
        assert hard is not None, "overwrite has a hard word at every length"
        return hard
    if task == "count":
        return scored(task, torch.tensor([[1] * (FAR // 2) + [0] * (FAR // 2)]))
    if task == "S3":
        return scored(task, torch.tensor([[5, *[2] * 754_000, *[5] * (FAR - 754_001)]]))
    return random_words(task, FAR, 1)
