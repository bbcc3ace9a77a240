"""Multi-query associative recall."""

from __future__ import annotations

import pytest
import torch
from scipy.stats import chisquare

from coefdyn.lab.tasks import IGNORE, MqarConfig, sample, sample_blocks, split_generator
from coefdyn.lab.tasks.mqar import BLOCK, PAPER_PAIRS, draw_slots, lay_out


def draw(config, n, split="test", seed=0):
    return sample(config, n, split_generator(seed, split), split)


def test_the_layout_is_the_worked_example():
    # Zoology's own generator at vocab 20, 3 pairs, length 16, seed 0.
    batch = lay_out(
        torch.tensor([[8, 3, 2]]), torch.tensor([[15, 11, 19]]), torch.tensor([[0, 1, 4]]), 16
    )
    assert batch.inputs.tolist() == [[8, 15, 3, 11, 2, 19, 8, 0, 3, 0, 0, 0, 0, 0, 2, 0]]
    scored = {i: t for i, t in enumerate(batch.targets[0].tolist()) if t != IGNORE}
    assert scored == {6: 15, 8: 11, 14: 19}


@pytest.mark.parametrize("seq_len", sorted(PAPER_PAIRS))
def test_every_answer_follows_from_the_pairs(seq_len):
    config = MqarConfig.paper(seq_len)
    inputs, targets = draw(config, 60)
    shown = 2 * config.pairs
    for tokens, target in zip(inputs.tolist(), targets.tolist(), strict=True):
        table = dict(zip(tokens[:shown:2], tokens[1:shown:2], strict=True))
        assert len(table) == len(set(table.values())) == config.pairs
        assert all(1 <= key < 4096 <= value < 8192 for key, value in table.items())
        later = [table.pop(t) if t else IGNORE for t in tokens[shown:]]
        assert target == [IGNORE] * shown + later
        assert not table, "a key is never asked for"
        assert set(tokens[shown + 1 :: 2]) == {0}


def test_random_filler_leaves_pairs_and_queries_alone():
    config = MqarConfig.quick().with_changes({"random_filler": True})
    inputs, targets = draw(config, 300)
    plain = draw(MqarConfig.quick(), 300)
    kept = plain.inputs != 0
    assert torch.equal(inputs[kept], plain.inputs[kept])
    assert torch.equal(targets, plain.targets)
    filler = inputs[~kept]
    assert chisquare(torch.bincount(filler, minlength=64).numpy()).pvalue > 1e-3


@pytest.mark.parametrize("power", [0.01, 1.0])
def test_slots_follow_the_power_law(power):
    """The first draw has p(i) ~ i^(a-1); the second the same law without the first's slot."""
    config = MqarConfig(vocab_size=64, seq_len=32, pairs=4, power=power)
    n = 20_000
    slots = draw_slots(config, n, split_generator(9, "train"))
    assert (slots.sort(dim=1).values.diff(dim=1) > 0).all()
    p = torch.arange(1, config.slots + 1, dtype=torch.float64) ** (power - 1)
    p /= p.sum()
    first = torch.bincount(slots[:, 0], minlength=config.slots)
    assert chisquare(first.numpy(), (n * p).numpy()).pvalue > 1e-3
    pair = p[:, None] * p / (1 - p[:, None])
    pair.fill_diagonal_(0)
    second = torch.bincount(slots[:, 1], minlength=config.slots)
    assert chisquare(second.numpy(), (n * pair.sum(dim=0)).numpy()).pvalue > 1e-3


def test_keys_and_values_are_uniform_in_every_place():
    config = MqarConfig.quick()
    inputs, _ = draw(config, 6000, seed=1)
    for place in (0, 3):
        keys = torch.bincount(inputs[:, 2 * place] - 1, minlength=31)
        values = torch.bincount(inputs[:, 2 * place + 1] - 32, minlength=32)
        assert chisquare(keys.numpy()).pvalue > 1e-3
        assert chisquare(values.numpy()).pvalue > 1e-3


def test_a_large_draw_comes_in_blocks_of_the_same_sequences():
    config, count = MqarConfig.quick(), 2 * BLOCK + 5
    whole = sample(config, count, split_generator(3, "train"))
    blocks = list(sample_blocks(config, count, split_generator(3, "train")))
    assert [len(block.inputs) for block in blocks] == [BLOCK, BLOCK, 5]
    for part, together in enumerate(whole):
        assert torch.cat([block[part] for block in blocks]).equal(together)
    assert len(whole.inputs.unique(dim=0)) == count
    keys = torch.bincount(whole.inputs[:, 0] - 1, minlength=31)
    assert chisquare(keys.numpy()).pvalue > 1e-3


def test_the_paper_has_four_sizes():
    assert MqarConfig.paper() == MqarConfig()
    with pytest.raises(ValueError, match=r"uses lengths \[64, 128, 256, 512\]; got 100"):
        MqarConfig.paper(100)
