"""What one gets on a task without solving it."""

from __future__ import annotations

from functools import lru_cache

import torch

from coefdyn.tasks import IGNORE, RecallConfig, splits

__all__ = ["frequent_value_accuracy"]


@lru_cache(maxsize=8)
def frequent_value_accuracy(task: RecallConfig, seed: int = 0) -> float:
    """Accuracy of answering, at every question, the value shown most often so far.

    This is where a model stands that knows which tokens are values but not which key each belongs
    to; on noisy recall it is far above 1 / (number of values), and it is what "random" means here.
    """
    inputs, targets = splits(task, seed).test
    shown = torch.nn.functional.one_hot(inputs, task.vocab_size).cumsum(1)
    values = torch.zeros(task.vocab_size, dtype=torch.bool)
    values[task.num_keys : task.content] = True
    guess = shown.masked_fill(~values, -1).argmax(-1)
    scored = targets != IGNORE
    return float((guess == targets)[scored].double().mean())
