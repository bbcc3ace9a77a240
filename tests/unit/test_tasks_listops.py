"""ListOps, held to an independent parser and to trees grown one node at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from scipy.stats import chi2_contingency, ks_2samp
from task_oracles import listops_length, listops_parse, listops_tree, listops_value, seeded

from coefdyn.lab.tasks import IGNORE, ListOpsConfig, sample, split_generator
from coefdyn.lab.tasks.listops import END, PAD, TOKENS, Level, evaluate, write

EXAMPLE = "[MED 1 [MAX [MIN 8 7 X [MED 8 7 1 X 1 8 X 9 X"


def words(row):
    """The words of an expression up to its end token; the rest must be padding."""
    end = row.index(END)
    assert set(row[end + 1 :]) <= {PAD}
    return [TOKENS[token] for token in row[:end]]


def expressions(config, n, seed=0):
    inputs, targets = sample(config, n, split_generator(seed, "test"), "test")
    for row, target in zip(inputs.tolist(), targets.tolist(), strict=True):
        (at,) = [i for i, t in enumerate(target) if t != IGNORE]
        assert row[at] == END
        yield words(row), target[at]


def test_the_worked_example():
    med, top, low = 12, 11, 10
    levels = [
        Level(torch.tensor([med]), torch.tensor([0]), torch.tensor([0])),
        Level(torch.tensor([1, top, 9]), torch.zeros(3).long(), torch.zeros(3).long()),
        Level(torch.tensor([low, med, 1, 8]), torch.zeros(4).long(), torch.ones(4).long()),
        Level(torch.tensor([8, 7, 8, 7, 1]), torch.zeros(5).long(), torch.tensor([0, 0, 1, 1, 1])),
    ]
    values, lengths = evaluate(levels)
    assert values.tolist() == [8]
    assert lengths[0].tolist() == [17]
    tokens = write(levels, lengths, torch.tensor([0]), 18)[0].tolist()
    assert " ".join(TOKENS[token] for token in tokens) == f"{EXAMPLE} pad"
    assert listops_parse(EXAMPLE.split()) == (8, 4)


def test_any_depth_is_as_fast_as_the_length_allows():
    config = ListOpsConfig.quick().with_changes({"max_depth": 10**12})
    assert config.max_length < config.longest < 10**6


@pytest.mark.parametrize(
    ("config", "n"), [(ListOpsConfig.paper(), 60), (ListOpsConfig.quick(), 1000)]
)
def test_labels_lengths_and_depths(config, n):
    for expression, label in expressions(config, n):
        value, depth = listops_parse(expression)
        assert value == label
        assert config.min_length < len(expression) < config.max_length
        assert depth <= config.max_depth


def test_agrees_with_trees_grown_one_at_a_time():
    """Lengths (Kolmogorov-Smirnov) and labels (chi-square) of kept trees."""
    config = ListOpsConfig.quick().with_changes({"max_depth": 5, "max_args": 6})
    n, rng = 3000, seeded(7)
    lengths, labels = [], []
    while len(labels) < n:
        tree = listops_tree(rng, 1, config.max_depth, config.max_args)
        if config.min_length < listops_length(tree) < config.max_length:
            lengths.append(listops_length(tree))
            labels.append(listops_value(tree))
    ours = list(expressions(config, n))
    assert ks_2samp(lengths, [len(expression) for expression, _ in ours]).pvalue > 1e-3
    table = [[sample_.count(d) for d in range(10)] for sample_ in (labels, [y for _, y in ours])]
    assert chi2_contingency(table).pvalue > 1e-3
    operators = [word for expression, _ in ours for word in expression if word[0] == "["]
    counts = [operators.count(name) for name in ("[MIN", "[MAX", "[MED", "[SM")]
    assert chi2_contingency([counts, [sum(counts) // 4] * 4]).pvalue > 1e-3


def test_published_sizes_have_the_published_mean_length():
    lengths = [len(expression) for expression, _ in expressions(ListOpsConfig.paper(), 600)]
    assert sum(lengths) / len(lengths) == pytest.approx(1026, abs=60)


def test_bounds_that_no_tree_meets_end_in_an_error():
    config = ListOpsConfig(
        seq_len=64, max_depth=3, max_args=7, min_length=50, max_length=52, train_examples=1
    )
    with pytest.raises(ValueError, match="Widen these bounds"):
        sample(config.with_changes({"operator_probability": 1e-6}), 1, split_generator(0, "test"))


def test_any_depth_is_judged_at_once():
    """The longest tree is not counted further than any question about it needs."""
    deep = replace(ListOpsConfig.quick(), max_depth=10**12)
    assert deep.longest > deep.max_length
