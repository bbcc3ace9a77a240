"""Baselines: scores on a task without solving it."""

from __future__ import annotations

from functools import lru_cache

import torch

from coefdyn.lab.tasks import (
    IGNORE,
    FuzzyRecallConfig,
    MqarConfig,
    RecallConfig,
    TaskConfig,
    sample,
    split_generator,
    splits,
)

__all__ = ["accuracy_by_place", "baseline", "frequent_class_accuracy", "frequent_value_accuracy"]


def baseline(task: TaskConfig) -> tuple[float, str]:
    """Accuracy of a guess on a task, and the guess in words; what "has learned" is measured by."""
    if isinstance(task, (RecallConfig, FuzzyRecallConfig)):
        return frequent_value_accuracy(task), "answering the most frequent value"
    if isinstance(task, MqarConfig):
        return accuracy_by_place(task), "guessing by the query's place"
    return frequent_class_accuracy(task), "always giving the most frequent answer"


@lru_cache(maxsize=32)
def frequent_class_accuracy(task: TaskConfig, seed: int = 0) -> float:
    """Share of the most frequent class among the scored targets of the test split, in [0, 1]."""
    targets = sample(task, task.test_examples, split_generator(seed, "test"), "test").targets
    counts = torch.bincount(targets[targets != IGNORE], minlength=task.num_classes)
    return float(counts.max() / counts.sum())


@lru_cache(maxsize=8)
def frequent_value_accuracy(task: RecallConfig | FuzzyRecallConfig, seed: int = 0) -> float:
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
