"""Sequences drawn on the device itself."""

from __future__ import annotations

import pytest
import torch

from coefdyn.lab.tasks import IGNORE, TASKS, make_config, sample, split_generator

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

OFFLINE = sorted(set(TASKS) - {"cifar10", "imdb", "wikitext-103"})


@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize("name", OFFLINE)
def test_a_cuda_generator_gives_cuda_sequences_that_repeat(name, split):
    config = make_config(name, "paper")
    first, again = (sample(config, 64, split_generator(0, split, "cuda"), split) for _ in range(2))
    assert first.inputs.device.type == first.targets.device.type == "cuda"
    assert torch.equal(first.inputs, again.inputs)
    assert torch.equal(first.targets, again.targets)
    assert first.inputs.max() < config.vocab_size
    assert (first.targets != IGNORE).any(dim=1).all()
