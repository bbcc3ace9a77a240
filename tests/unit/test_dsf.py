"""The experiments of the dynamical systems framework: sizes as published, claims by the numbers."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from coefdyn.lab.experiments import get_experiment
from coefdyn.lab.experiments.baselines import accuracy_by_place
from coefdyn.lab.tasks import IGNORE, MqarConfig, splits
from coefdyn.models import SequenceModel


@pytest.fixture
def mqar():
    return get_experiment("dsf-mqar")


def test_the_grid_is_the_papers(mqar):
    """320 points for attention and state space models, 24 for the qLSTMs, 4 learning rates."""
    plan = mqar.plan("paper")
    count = Counter(variant.facets["model"] for variant in plan.variants)
    assert sum(count.values()) == 344
    assert count["qLSTM, reversed"] == count["qLSTM, sigmoid"] == 12
    assert set(count.values()) == {64, 12}
    assert plan.learning_rates == pytest.approx((1e-4, 4.6416e-4, 2.15443e-3, 1e-2), rel=1e-4)
    assert plan.weight_decays == (0.1,)
    batches = {v.task.seq_len: v.train.batch for v in plan.variants}
    assert batches == {64: 512, 128: 512, 256: 256, 512: 128}
    for variant in plan.variants:
        train = variant.train
        assert train.steps == 64 * (100_000 // train.batch)
        assert train.warmup == train.steps // 10


def test_widths_and_state_expansion_reach_the_mixer(mqar):
    for variant in mqar.plan("paper").variants:
        if variant.facets["d"] != "64" or variant.task.seq_len != 64:
            continue
        with torch.device("meta"):
            model = SequenceModel(variant.model, vocab=64, length=64)
        mixer, n = model.blocks[0].mixer, int(variant.facets["n"])
        assert (mixer.d_model, mixer.key_dim) == (64, n)
        assert mixer.n_heads * mixer.value_dim == 64
        attends = "attention" in variant.facets["model"] or "qLSTM" in variant.facets["model"]
        assert (model.positions is not None) == attends


def test_the_guess_by_place_against_a_plain_loop():
    task = MqarConfig(vocab_size=32, seq_len=16, pairs=3, train_examples=8, test_examples=60)
    batch = splits(task, 0).test
    asked: dict[int, Counter] = {}
    for row, goal in zip(batch.inputs.tolist(), batch.targets.tolist(), strict=True):
        for place, target in enumerate(goal):
            if target != IGNORE:
                asked.setdefault(place, Counter())[row[:6:2].index(row[place])] += 1
    right = sum(max(counter.values()) for counter in asked.values())
    assert accuracy_by_place(task) == pytest.approx(right / (60 * 3))
