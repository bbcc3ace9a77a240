"""The scoreboard's tasks against plain solvers that read one sequence token by token."""

from __future__ import annotations

import pytest
import torch

from coefdyn.lab.tasks import (
    IGNORE,
    ForgetConfig,
    LongMemoryConfig,
    MajorityConfig,
    OverwriteConfig,
    ParityConfig,
    PermutationConfig,
    PositionConfig,
    make_config,
    sample,
    split_generator,
)


def parity(config, tokens):
    odd, answers = False, []
    for bit in tokens:
        odd ^= bool(bit)
        answers.append(int(odd))
    return answers


def permutations(config, tokens):
    """Three cups are moved; the answer is the number of the arrangement, in lexical order."""
    moves = ["abc", "acb", "bac", "bca", "cab", "cba"]
    cups, answers = "abc", []
    for token in tokens:
        # permutation p sends the thing that is called x to p(x)
        send = dict(zip("abc", moves[token], strict=True))
        cups = "".join(send[cup] for cup in cups)
        answers.append(moves.index(cups))
    return answers


def majority(config, tokens):
    answers = []
    for i in range(len(tokens)):
        ones, zeros = tokens[: i + 1].count(1), tokens[: i + 1].count(0)
        answers.append(2 if ones == zeros else int(ones > zeros))
    return answers


def overwrite(config, tokens):
    store, writes = {}, 2 * config.pairs * config.writes
    for i in range(0, writes, 2):
        store[tokens[i]] = tokens[i + 1]
    return [IGNORE] * writes + [store[key] for key in tokens[writes:]]


def forget(config, tokens):
    store, reset = {}, tokens.index(0)
    start = len(tokens) - config.pairs
    for i in range(reset + 1, start, 2):
        store[tokens[i]] = tokens[i + 1]
    return [IGNORE] * start + [store.get(key, 0) for key in tokens[start:]]


def long_memory(config, tokens):
    assert tokens[0] == config.vocab_size - 2 and tokens[-1] == config.vocab_size - 1
    return [IGNORE] * (len(tokens) - 1) + [tokens[1]]


def position(config, tokens):
    return [tokens[i - config.distance] if i >= config.distance else IGNORE
            for i in range(len(tokens))]  # fmt: skip


SOLVERS = {
    "parity": parity,
    "permutations": permutations,
    "majority": majority,
    "overwrite": overwrite,
    "forget": forget,
    "long-memory": long_memory,
    "position": position,
}


@pytest.mark.parametrize("preset", ["quick", "paper"])
@pytest.mark.parametrize("name", SOLVERS)
def test_a_plain_solver_gives_every_target(name, preset):
    config = make_config(name, preset)
    inputs, targets = sample(config, 20, split_generator(1, "test"), "test")
    for tokens, answers in zip(inputs.tolist(), targets.tolist(), strict=True):
        assert SOLVERS[name](config, tokens) == answers


def test_every_write_but_the_last_misleads():
    config = OverwriteConfig.quick()
    inputs, targets = sample(config, 200, split_generator(0, "train"))
    written = 2 * config.pairs * config.writes
    keys, values = inputs[:, 0:written:2], inputs[:, 1:written:2]
    for row in range(len(inputs)):
        for key in keys[row].unique():
            found = values[row][keys[row] == key]
            assert len(found) == config.writes == len(found.unique())
    first = [keys[row].tolist().index(int(inputs[row, -1])) for row in range(len(inputs))]
    stale = torch.stack([values[row, place] for row, place in enumerate(first)])
    assert (stale != targets[:, -1]).all()


def test_half_of_the_keys_were_forgotten_and_had_a_value_before():
    config = ForgetConfig.quick()
    inputs, targets = sample(config, 500, split_generator(0, "train"))
    asked = targets[:, -config.pairs :]
    assert ((asked == 0).sum(1) == config.pairs - config.pairs // 2).all()
    before = inputs[:, 0 : 2 * config.pairs : 2].sort(1).values
    assert torch.equal(before, inputs[:, -config.pairs :].sort(1).values)
    share = (asked[:, 0] == 0).double().mean()
    assert abs(share - 0.5) < 0.08, "forgotten keys are asked at any place"


def test_answers_are_spread_and_no_token_gives_them_away():
    bits = sample(ParityConfig.quick(), 2000, split_generator(0, "train"))
    assert abs(bits.targets[:, -1].double().mean() - 0.5) < 0.04
    arrangement = sample(PermutationConfig.quick(), 3000, split_generator(0, "train")).targets
    shares = torch.bincount(arrangement[:, -1], minlength=6) / 3000
    assert (shares - 1 / 6).abs().max() < 0.03
    lead = sample(MajorityConfig.quick(), 2000, split_generator(0, "train")).targets[:, -1]
    assert 0.4 < (lead == 1).double().mean() < 0.6
    memory = LongMemoryConfig.quick()
    inputs, _ = sample(memory, 500, split_generator(0, "train"))
    assert (inputs[:, 1:-1] < memory.vocab_size - 2).all(), "noise is of the values' kind"


def test_sizes_that_do_not_fit_are_named():
    with pytest.raises(ValueError, match="make sequences of 28 tokens; got seq_len=30"):
        OverwriteConfig(seq_len=30)
    with pytest.raises(ValueError, match="6 keys need an even vocab_size >= 14; got 12"):
        ForgetConfig(vocab_size=12, pairs=6)
    with pytest.raises(ValueError, match="distance must be below seq_len=8; got 8"):
        PositionConfig(seq_len=8)
    with pytest.raises(ValueError, match="2 tokens; got vocab_size=3"):
        ParityConfig(vocab_size=3)
    with pytest.raises(ValueError, match="6 elements; got vocab_size=5"):
        PermutationConfig(vocab_size=5)
    with pytest.raises(ValueError, match="vocab_size=3; got 2"):
        MajorityConfig(vocab_size=2)
