"""Fuzzy in-context recall."""

from __future__ import annotations

import pytest
import torch
from scipy.stats import chi2_contingency, chisquare
from task_oracles import fuzzy_recall, seeded

from coefdyn.lab.tasks import IGNORE, FuzzyRecallConfig, sample, split_generator
from coefdyn.lab.tasks.fuzzy import Pairs, lay_out
from coefdyn.lab.tasks.recall import shift

# MAD's own generator at vocab 7, length 40, keys and values of up to 2, test, numpy seed 3.
EXAMPLE = "2 0 4|1 2 3|2 0 4|0 2 4|1 2 3|0 1 4 5|2 1 4|1 2 3|2 1 4|1 0 5 4|0 1 4 5|1 2 3"
EXAMPLE_INPUT = "6 6 " + EXAMPLE.replace("|", " ")[: -len(" 3")]
EXAMPLE_TARGETS = {9: 4, 15: 3, 25: 3, 28: 4, 35: 4, 36: 5, 39: 3}


def draw(config, n, split="test", seed=0):
    return sample(config, n, split_generator(seed, split), split)


def tuples(rows):
    """Rows of tuples of ids as padded tensors and sizes, (1, P, largest) and (1, P)."""
    largest = max(map(len, rows))
    ids = torch.tensor([[*row, *[0] * (largest - len(row))] for row in rows])
    return ids[None], torch.tensor([[len(row) for row in rows]])


def parse(config, tokens):
    """Split tokens (final value included) into pairs by runs of key and of value ids.

    Test keys have a fixed size, so two pairs in a row are never ambiguous.
    """
    at = next(i for i, token in enumerate(tokens) if token != config.pad)
    pairs = []
    while at < len(tokens):
        key = tuple(tokens[at : at + config.key_size])
        at += config.key_size
        end = at
        while end < len(tokens) and config.num_keys <= tokens[end] < config.content:
            end += 1
        pairs.append((key, tuple(tokens[at:end])))
        at = end
    return pairs


def test_the_layout_is_the_worked_example():
    pairs = [[int(t) for t in pair.split()] for pair in EXAMPLE.split("|")]
    keys, values = [p[:2] for p in pairs], [p[2:] for p in pairs]
    seen = set()
    asked = [bool(tuple(k) in seen or seen.add(tuple(k))) for k in keys]
    laid = lay_out(
        Pairs(*tuples(keys), *tuples(values)),
        torch.ones(1, len(pairs), dtype=torch.bool),
        torch.tensor([asked]),
        length=41,
        pad=6,
        copy=None,
    )
    batch = shift(*laid, "test")
    assert batch.inputs.tolist() == [[int(t) for t in EXAMPLE_INPUT.split()]]
    scored = {i: t for i, t in enumerate(batch.targets[0].tolist()) if t != IGNORE}
    assert scored == EXAMPLE_TARGETS


@pytest.mark.parametrize("config", [FuzzyRecallConfig.quick(), FuzzyRecallConfig.paper()])
def test_every_answer_but_a_missing_probe_follows_from_the_context(config):
    inputs, targets = draw(config, 300)
    missing = 0
    for row, target in zip(inputs.tolist(), targets.tolist(), strict=True):
        pairs = parse(config, [*row, target[-1]])
        known, expected = {}, []
        for number, (key, value) in enumerate(pairs):
            assert len(set(key)) == len(key) == config.key_size
            assert max(key) < config.num_keys
            assert len(set(value)) == len(value) <= config.value_size
            assert known.get(key, value) == value, "a key changed its value"
            last = number == len(pairs) - 1
            missing += last and key not in known
            asked = last or key in known
            known[key] = value
            expected += [IGNORE] * len(key) + [t if asked else IGNORE for t in value]
        pad = [IGNORE] * (len(row) + 1 - len(expected))
        assert [*pad, *expected][1:] == target
    assert missing <= 0.06 * len(inputs)


def test_train_targets_are_the_next_tokens_padding_included():
    config = FuzzyRecallConfig.paper()
    inputs, targets = draw(config, 50, "train")
    assert inputs.shape == (50, 128)
    assert torch.equal(inputs[:, 1:], targets[:, :-1])
    assert (targets != IGNORE).all()
    assert (targets[:, -1] >= config.num_keys).all()


@pytest.mark.parametrize("multi_query", [True, False])
@pytest.mark.parametrize("split", ["train", "test"])
def test_agrees_with_a_plain_generator_in_distribution(split, multi_query):
    """Length before padding, scored tokens, share of sequences whose probe is shown."""
    config = FuzzyRecallConfig(vocab_size=12, seq_len=48, multi_query=multi_query)
    n, rng = 2000, seeded(1)
    values = config.content - config.num_keys
    plain = [
        fuzzy_recall(rng, config.num_keys, values, 48, 3, 3, split == "train") for _ in range(n)
    ]
    extra = 0 if multi_query else 1
    inputs, targets = draw(config, n, split, seed=1)
    written = (inputs != config.pad).sum(dim=1) + 1
    _same_counts(written.tolist(), [length + extra for *_, length in plain])
    final_known = [shown for _, _, shown, _ in plain]
    if split == "test":
        expected = [
            sum(len(v) for (_, v), a in zip(pairs, asked, strict=True) if a and multi_query)
            or len(pairs[-1][1])
            for pairs, asked, _, _ in plain
        ]
        _same_counts((targets != IGNORE).sum(dim=1).tolist(), expected)
        known = [_probe_known(config, row, t) for row, t in zip(inputs, targets, strict=True)]
        _same_counts(known, final_known)


def _probe_known(config, row, target):
    tokens = [*row.tolist(), target[-1].item()]
    if not config.multi_query:
        tokens.remove(config.vocab_size - 1)
    *shown, (probe, _) = parse(config, tokens)
    return probe in {key for key, _ in shown}


def _same_counts(ours, theirs):
    """Two samples of a discrete variable come from one distribution (chi-square, p > 0.001)."""
    support = sorted({*ours, *theirs})
    table = [[sample_.count(value) for value in support] for sample_ in (ours, theirs)]
    rare = [i for i in range(len(support)) if table[0][i] + table[1][i] < 20]
    pooled = [
        [row[i] for i in range(len(support)) if i not in rare] + [sum(row[i] for i in rare)]
        for row in table
    ]
    if pooled[0][-1] + pooled[1][-1] < 20:
        pooled = [row[:-1] for row in pooled]
    assert chi2_contingency(pooled).pvalue > 1e-3, pooled


def test_how_often_the_probe_is_not_shown():
    config = FuzzyRecallConfig.paper()
    inputs, targets = draw(config, 1500, seed=8)
    known = [_probe_known(config, row, t) for row, t in zip(inputs, targets, strict=True)]
    assert 1 - sum(known) / len(known) == pytest.approx(0.024, abs=0.012)


@pytest.mark.parametrize(
    ("config", "mean"),
    [
        (FuzzyRecallConfig(), 4.25),
        (FuzzyRecallConfig.paper(), 2.2),
        (FuzzyRecallConfig.paper().with_changes({"key_size": 1, "value_size": 1}), 48.2),
    ],
)
def test_the_number_of_answers_is_that_of_the_original(config, mean):
    scored = (draw(config, 2000).targets != IGNORE).sum(dim=1).double()
    assert scored.mean().item() == pytest.approx(mean, abs=0.2)


def test_probe_keys_and_values_are_uniform():
    config = FuzzyRecallConfig(vocab_size=9, seq_len=48, key_size=2, value_size=2)
    inputs, targets = draw(config, 6000, seed=3)
    size = (targets[:, -2:] != IGNORE).sum(dim=1)
    assert chisquare(torch.bincount(size)[1:].numpy()).pvalue > 1e-3
    key = torch.stack([inputs.gather(1, 47 - size[:, None] + back)[:, 0] for back in (0, 1)], dim=1)
    codes = torch.bincount(key[:, 0] * 4 + key[:, 1], minlength=16).view(4, 4)
    assert (codes.diagonal() == 0).all()
    assert chisquare(codes[~torch.eye(4, dtype=torch.bool)].numpy()).pvalue > 1e-3
    assert chisquare(torch.bincount(targets[:, -1] - 4).numpy()).pvalue > 1e-3
