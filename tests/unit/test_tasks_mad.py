"""Selective copying and memorization."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from accuracies import micro_accuracy
from scipy.stats import chisquare

from coefdyn.lab.tasks import (
    IGNORE,
    MemorizationConfig,
    SelectiveCopyingConfig,
    copying,
    memorization,
    sample,
    split_generator,
    splits,
)


def draw(config, n, split="test", seed=0):
    return sample(config, n, split_generator(seed, split), split)


def row(text):
    return [IGNORE if word == "." else int(word) for word in text.split()]


def test_copying_layout_is_the_worked_example():
    # MAD's own generator at vocab 8, length 20, 4 tokens to copy.
    expected = "6 6 5 6 6 6 3 3 6 6 6 6 6 6 1 7 6 6 6 6"
    batch = copying.lay_out(torch.tensor([[5, 3, 3, 1]]), torch.tensor([[2, 3, 0, 6]]), 20, 8)
    assert batch.inputs.tolist() == [row(expected)]
    assert batch.targets.tolist() == [[IGNORE] * 16 + [5, 3, 3, 1]]


@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize("preset", ["paper", "quick"])
def test_copying_repeats_the_content_in_order(preset, split):
    config = getattr(SelectiveCopyingConfig, preset)()
    blank, copy, count = config.vocab_size - 2, config.vocab_size - 1, config.tokens_to_copy
    inputs, targets = draw(config, 100, split)
    for tokens, target in zip(inputs.tolist(), targets.tolist(), strict=True):
        content = [token for token in tokens if token < blank]
        assert target == [IGNORE] * (config.seq_len - count) + content
        assert tokens.index(copy) == config.seq_len - count - 1
        assert tokens[-count:] == [blank] * count
        assert tokens[-count - 2] == content[-1], "the last content token stands at copy"


def test_blanks_fall_before_each_content_token_alike():
    config = SelectiveCopyingConfig.quick()
    inputs = draw(config, 2000).inputs[:, : -config.tokens_to_copy - 1]
    content = (inputs < config.vocab_size - 2).nonzero()[:, 1].view(2000, -1)
    before = torch.diff(content, dim=1, prepend=torch.full((2000, 1), -1)) - 1
    assert (before.sum(dim=1) == config.blanks).all()
    assert chisquare(before.sum(dim=0).numpy()).pvalue > 1e-3
    tokens = inputs[inputs < config.vocab_size - 2]
    assert chisquare(torch.bincount(tokens, minlength=14).numpy()).pvalue > 1e-3


def test_plain_copying_has_all_blanks_after_the_content():
    config = SelectiveCopyingConfig.quick().with_changes({"selective": False})
    inputs, targets = draw(config, 20)
    assert torch.equal(inputs[:, :8], targets[:, -8:])
    assert (inputs[:, 8 : 8 + config.blanks] == config.vocab_size - 2).all()


def test_the_map_is_that_of_the_original():
    config = MemorizationConfig(vocab_size=12, seq_len=8)
    values = memorization.value_map(config)
    assert dict(enumerate(values.tolist())) == {4: 9, 3: 7, 0: 6, 2: 8, 1: 5}
    batch = memorization.lay_out(torch.tensor([[2, 0, 3, 3]]), values, 11)
    assert batch.inputs.tolist() == [row("2 11 0 11 3 11 3 11")]
    assert batch.targets.tolist() == [row(". 8 . 6 . 7 . 7")]


@pytest.mark.parametrize("vocab_size", [256, 4096])
def test_the_map_agrees_with_shuffled_lists(vocab_size):
    """The original shuffles Python lists of keys, then of values, with one numpy generator."""
    half = (vocab_size - 1) // 2
    rng = np.random.default_rng(12345)
    keys, values = list(range(half)), list(range(half, vocab_size - 1))
    rng.shuffle(keys)
    rng.shuffle(values)
    expected = dict(zip(keys, values, strict=False))
    ours = memorization.value_map(MemorizationConfig(vocab_size=vocab_size))
    assert dict(enumerate(ours.tolist())) == expected


def test_memorization_answers_come_from_one_map_in_both_splits():
    config = MemorizationConfig.quick()
    train, test = splits(config, 4)
    table = memorization.value_map(config)
    assert len(table.unique()) == config.num_keys
    for inputs, targets in (train, test):
        keys = inputs[:, ::2]
        assert (inputs[:, 1::2] == config.vocab_size - 1).all()
        assert (targets[:, ::2] == IGNORE).all()
        assert torch.equal(targets[:, 1::2], table[keys])
        assert chisquare(torch.bincount(keys.flatten(), minlength=31).numpy()).pvalue > 1e-3


def test_memorization_cannot_pass_its_ceiling():
    """4 096 draws over 2 047 keys miss (1 - 1/2047)^4096 of them; the spec's run saw 0.867."""
    config = MemorizationConfig.paper().with_changes({"test_examples": 2000})
    expected = 1 - (1 - 1 / config.num_keys) ** (256 * 16)
    train, test = splits(config, 0)
    ceiling = memorization.ceiling(config, train)
    assert ceiling == pytest.approx(expected, abs=0.02)
    assert ceiling == pytest.approx(0.867, abs=0.02)
    learned = torch.full((config.vocab_size,), -1)
    learned[train.inputs[:, ::2]] = train.targets[:, 1::2]
    guess = torch.full_like(test.inputs, -1)
    guess[:, 1::2] = learned[test.inputs[:, ::2]]
    assert micro_accuracy(guess, test.targets).item() == pytest.approx(ceiling, abs=0.01)
