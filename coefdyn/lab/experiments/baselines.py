"""What one gets on a task without solving it."""

from __future__ import annotations

from functools import lru_cache

import torch

from coefdyn.lab.tasks import IGNORE, MqarConfig, RecallConfig, splits

__all__ = ["accuracy_by_place", "frequent_value_accuracy"]


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


@lru_cache(maxsize=8)
def accuracy_by_place(task: MqarConfig, seed: int = 0) -> float:
    """MQAR: accuracy of a guess that knows only where a query stands, in [0, 1].

    The task favours early slots, and key j takes the j-th slot drawn, so that an early query is
    more often one of the first keys: the guess is the value of the pair most often asked there.
    """
    batch = splits(task.with_changes({"train_examples": 1}), seed).test
    places = (batch.targets != IGNORE).nonzero()
    keys = batch.inputs[:, 0 : 2 * task.pairs : 2]
    asked = (keys[places[:, 0]] == batch.inputs[tuple(places.T)][:, None]).int().argmax(1)
    counts = torch.zeros(task.seq_len, task.pairs).index_put_(
        (places[:, 1], asked), torch.ones(len(asked)), accumulate=True
    )
    return (counts.max(1).values.sum() / counts.sum()).item()
