"""Micro and macro accuracy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from accuracies import macro_accuracy, mean_batch_macro_accuracy, micro_accuracy

from coefdyn.lab.tasks import IGNORE


def macro_by_hand(predictions, targets, num_classes):
    """Mean recall over classes with tp + fp + fn > 0, in plain Python."""
    pairs = [(p, t) for p, t in zip(predictions, targets, strict=True) if t != IGNORE]
    scores = []
    for c in range(num_classes):
        hits = sum(p == t == c for p, t in pairs)
        missed = sum(t == c != p for p, t in pairs)
        wrong = sum(p == c != t for p, t in pairs)
        if hits + missed + wrong:
            scores.append(hits / (hits + missed) if hits + missed else 0.0)
    return sum(scores) / len(scores)


def random_case(seed, n=60, num_classes=7):
    rng = np.random.default_rng(seed)
    targets = rng.integers(0, num_classes - 2, n)
    predictions = np.where(rng.random(n) < 0.5, targets, rng.integers(0, num_classes, n))
    targets[rng.random(n) < 0.4] = IGNORE
    return torch.from_numpy(predictions), torch.from_numpy(targets)


def test_the_worked_example():
    predictions, targets = torch.tensor([0, 0, 0, 1, 2]), torch.tensor([0, 0, 0, 1, 1])
    assert micro_accuracy(predictions, targets).item() == pytest.approx(0.80)
    assert macro_accuracy(predictions, targets, 32).item() == pytest.approx(0.50)


@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_a_count_by_hand(seed):
    predictions, targets = random_case(seed)
    scored = targets != IGNORE
    micro = (predictions[scored] == targets[scored]).double().mean().item()
    assert micro_accuracy(predictions, targets).item() == pytest.approx(micro)
    macro = macro_by_hand(predictions.tolist(), targets.tolist(), 7)
    assert macro_accuracy(predictions, targets, 7).item() == pytest.approx(macro)
    grid = macro_accuracy(predictions.view(6, 10), targets.view(6, 10), 7)
    assert grid.item() == pytest.approx(macro)


def test_positions_that_are_not_scored_count_for_nothing():
    predictions, targets = torch.tensor([0, 5, 5]), torch.tensor([0, IGNORE, IGNORE])
    assert micro_accuracy(predictions, targets).item() == 1.0
    assert macro_accuracy(predictions, targets, 6).item() == 1.0


def test_nothing_scored_gives_nan():
    predictions, targets = torch.tensor([1, 2]), torch.full((2,), IGNORE)
    assert micro_accuracy(predictions, targets).isnan()
    assert macro_accuracy(predictions, targets, 3).isnan()


def test_mean_over_batches_is_the_value_mad_logs():
    predictions, targets = random_case(3, n=50)
    parts = [macro_accuracy(predictions[i : i + 20], targets[i : i + 20], 7) for i in (0, 20, 40)]
    mean = mean_batch_macro_accuracy(predictions, targets, 7, batch_size=20)
    assert mean.item() == pytest.approx(torch.stack(parts).mean().item())


def test_logits_and_unequal_shapes_are_refused(no_shape_checks):
    with pytest.raises(ValueError, match=r"Pass logits.argmax\(-1\)"):
        micro_accuracy(torch.rand(2, 3, 4), torch.zeros(2, 3).long())
    with pytest.raises(ValueError, match=r"shape \(2,\) but targets \(3,\)"):
        macro_accuracy(torch.zeros(2).long(), torch.zeros(3).long(), 4)
