"""In-context recall and its noisy variant."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from accuracies import mean_batch_macro_accuracy, micro_accuracy
from scipy.stats import chisquare

from coefdyn.lab.tasks import (
    IGNORE,
    NoisyRecallConfig,
    RecallConfig,
    sample,
    split_generator,
)
from coefdyn.lab.tasks.recall import lay_out, shift

# MAD's own generator at vocab 12, length 24, 4 noise ids, noise fraction 0.4, numpy seed 1.
EXAMPLE_INPUT = "2 4 0 4 1 5 3 6 10 11 3 6 3 6 1 5 8 9 9 9 10 9 2"
EXAMPLE_TARGET = ". . . . . . . . . . 6 . 6 . 5 . . . . . . . 4"


def numbers(text):
    return [IGNORE if word == "." else int(word) for word in text.split()]


def draw(config, n, split="test", seed=0):
    return sample(config, n, split_generator(seed, split), split)


def answers_by_hand(config, tokens):
    """Values that the context gives, found by reading a test sequence slot by slot."""
    known, targets = {}, [IGNORE] * len(tokens)
    for at in range(0, len(tokens) - 1, 2):
        key, value = tokens[at], tokens[at + 1]
        if key < config.num_keys:
            if key in known:
                assert known[key] == value, "a key changed its value"
                targets[at] = value
            known[key] = value
    targets[-1] = known[tokens[-1]]
    return targets


def test_the_layout_is_the_worked_example():
    sequence = [*numbers(EXAMPLE_INPUT), 4]
    slots = torch.tensor(sequence).view(1, 12, 2)
    seen = set()
    asked = [bool(k in seen or seen.add(k)) and k < 4 for k in slots[0, :-1, 0].tolist()]
    parts = lay_out(slots[:, :-1], torch.tensor([asked]), slots[:, -1:], None)
    test, train = shift(*parts, "test"), shift(*parts, "train")
    assert test.inputs.tolist() == train.inputs.tolist() == [numbers(EXAMPLE_INPUT)]
    assert test.targets.tolist() == [numbers(EXAMPLE_TARGET)]
    assert train.targets.tolist() == [sequence[1:]]


@pytest.mark.parametrize("config", [NoisyRecallConfig.paper(), RecallConfig.paper()])
def test_every_answer_follows_from_the_context(config):
    inputs, targets = draw(config, 200)
    assert inputs.shape == (200, 127)
    for row, target in zip(inputs.tolist(), targets.tolist(), strict=True):
        assert answers_by_hand(config, row) == target


def test_train_targets_are_the_next_tokens():
    inputs, targets = draw(NoisyRecallConfig.paper(), 50, "train")
    assert torch.equal(inputs[:, 1:], targets[:, :-1])
    assert (targets != IGNORE).all()


def test_a_copy_prefix_asks_for_one_value_only():
    config = NoisyRecallConfig(vocab_size=33, multi_query=False)
    inputs, targets = draw(config, 100)
    assert inputs.shape == (100, 128)
    assert (inputs[:, -2] == 32).all()
    assert (inputs[:, :-2] < 32).all()
    assert (targets[:, :-1] == IGNORE).all()
    for row, value in zip(inputs.tolist(), targets[:, -1].tolist(), strict=True):
        slots = dict(zip(row[:-2:2], row[1:-2:2], strict=True))
        assert slots[row[-1]] == value


@pytest.mark.parametrize(
    ("config", "mean", "lowest", "highest"),
    [(NoisyRecallConfig.paper(), 43.6, 30, 55), (RecallConfig.paper(), 56.0, 56, 57)],
)
def test_the_number_of_answers_is_that_of_the_original(config, mean, lowest, highest):
    scored = (draw(config, 2000).targets != IGNORE).sum(dim=1)
    assert abs(scored.double().mean().item() - mean) < 0.25
    assert lowest <= scored.min()
    assert scored.max() <= highest


def test_slots_keys_values_and_noise_have_the_stated_distributions():
    config = NoisyRecallConfig.paper()
    inputs = draw(config, 400, "train", seed=5).inputs
    first, second = inputs[:, :-1:2], inputs[:, 1::2]
    noise = first >= config.content
    assert torch.equal(noise, second >= config.content), "noise fills whole slots"
    # One of 64 indices is protected, so a slot is noise with probability 0.2 * 63/64.
    expected = 0.2 * 63 / 64
    share = noise.double().mean().item()
    assert abs(share - expected) < 4 * (expected * (1 - expected) / noise.numel()) ** 0.5
    keys = torch.bincount(first[~noise], minlength=8)
    assert chisquare(keys.numpy()).pvalue > 1e-3
    for tokens in (first, second):
        ids = torch.bincount(tokens[noise] - config.content, minlength=16)
        assert chisquare(ids.numpy()).pvalue > 1e-3


def test_values_and_the_final_key_are_uniform():
    config = NoisyRecallConfig.paper()
    inputs, targets = draw(config, 4000, seed=6)
    values = torch.bincount(targets[:, -1] - config.num_keys, minlength=8)
    assert chisquare(values.numpy()).pvalue > 1e-3
    assert chisquare(torch.bincount(inputs[:, -1], minlength=8).numpy()).pvalue > 1e-3
    # Values of different keys are drawn apart: they collide with probability 1/8.
    firsts = inputs[:, :4]
    two_pairs = (firsts < config.content).all(dim=1) & (firsts[:, 0] != firsts[:, 2])
    equal = (firsts[two_pairs, 1] == firsts[two_pairs, 3]).double()
    assert abs(equal.mean().item() - 1 / 8) < 4 * (7 / 64 / len(equal)) ** 0.5


def test_the_final_key_is_uniform_over_the_keys_shown_not_over_slots():
    config = RecallConfig(vocab_size=4, seq_len=10)
    inputs, _ = draw(config, 20_000, seed=2)
    slots = inputs[:, :-1:2]
    lopsided = inputs[(slots == 0).sum(dim=1) == 3]
    share = (lopsided[:, -1] == 0).double().mean().item()
    assert abs(share - 0.5) < 4 * (0.25 / len(lopsided)) ** 0.5


def test_the_most_frequent_value_scores_about_0_312():
    config = NoisyRecallConfig.paper()
    inputs, targets = draw(config, config.test_examples)
    counts = F.one_hot(inputs, config.vocab_size).cumsum(dim=1)
    counts[..., : config.num_keys] = -1
    counts[..., config.content :] = -1
    guess = counts.argmax(dim=-1)
    assert micro_accuracy(guess, targets).item() == pytest.approx(0.312, abs=0.012)
    macro = mean_batch_macro_accuracy(guess, targets, config.vocab_size)
    assert macro.item() == pytest.approx(0.312, abs=0.012)


def test_a_sequence_always_shows_a_pair():
    config = NoisyRecallConfig(vocab_size=4, noise_vocab=2, frac_noise=0.9, seq_len=4)
    inputs, targets = draw(config, 500)
    assert (inputs[:, 0] < config.num_keys).all()
    assert torch.equal(inputs[:, 1], targets[:, -1])
