"""The page draws the library's sequences: token for token, from the same seed, in its order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from browser.explorer_pages import ask

from coefdyn.lab.tasks import (
    ForgetConfig,
    LongMemoryConfig,
    MqarConfig,
    NoisyRecallConfig,
    OverwriteConfig,
    ParityConfig,
    PositionConfig,
    RecallConfig,
    SelectiveCopyingConfig,
    TaskConfig,
    sample,
    task_of,
)
from coefdyn.lab.tasks.base import split_generator
from coefdyn.lab.train.offers import offered
from coefdyn.lab.train.source import trainer_source
from coefdyn.lab.training.data import RunData
from coefdyn.lab.training.seeds import derive_seed

pytestmark = pytest.mark.browser

CONFIGS: dict[str, TaskConfig] = {
    "noisy recall, quick": NoisyRecallConfig.quick(),
    "noisy recall, paper": NoisyRecallConfig.paper(),
    "noisy recall, nearly all noise": NoisyRecallConfig(seq_len=10, frac_noise=0.9),
    "noisy recall, one question": NoisyRecallConfig(
        vocab_size=13, seq_len=16, noise_vocab=4, multi_query=False
    ),
    "recall, quick": RecallConfig.quick(),
    "recall, one key": RecallConfig(vocab_size=2, seq_len=4),
    "mqar, quick": MqarConfig.quick(),
    "mqar, with filler": MqarConfig(vocab_size=24, seq_len=16, pairs=3, random_filler=True),
    "mqar, uniform places": MqarConfig(vocab_size=34, seq_len=32, pairs=8, power=1.0),
    "selective copying, quick": SelectiveCopyingConfig.quick(),
    "copying": SelectiveCopyingConfig(seq_len=16, tokens_to_copy=4, selective=False),
    "overwrite, quick": OverwriteConfig.quick(),
    "overwrite, two keys": OverwriteConfig(vocab_size=10, pairs=2, writes=4, seq_len=18),
    "forget, quick": ForgetConfig.quick(),
    "forget, three keys": ForgetConfig(vocab_size=12, pairs=3, seq_len=12),
    "long memory": LongMemoryConfig(vocab_size=10, seq_len=48),
    "position": PositionConfig(vocab_size=8, seq_len=24, distance=3),
    "parity, quick": ParityConfig.quick(),
}

DRAW = """(cases) => cases.map(([config, seed, n, split]) => {
  const { inputs, targets } = sampleTask(config, n, generatorFor(seed, split), split);
  return [[...inputs], [...targets]];
})"""
SEEDS, COUNTS, SPLITS = (0, 1, 2**40 + 3), (1, 7, 100), ("train", "test")


@pytest.fixture(scope="module")
def page(browser: Any) -> Iterator[Any]:
    page = browser.new_page()
    page.add_script_tag(content=trainer_source(offered()))
    yield page
    page.close()


@pytest.mark.parametrize("name", CONFIGS)
def test_the_page_draws_what_torch_draws(name: str, page: Any) -> None:
    config = CONFIGS[name]
    cases = [(seed, n, split) for seed in SEEDS for n in COUNTS for split in SPLITS]
    drawn = ask(page, DRAW, [[config.to_dict(), *case] for case in cases])
    for (seed, n, split), (inputs, targets) in zip(cases, drawn, strict=True):
        want = sample(config, n, split_generator(seed, split), split)
        assert inputs == want.inputs.flatten().tolist(), (seed, n, split)
        assert targets == want.targets.flatten().tolist(), (seed, n, split)


def test_two_splits_and_two_seeds_differ(page: Any) -> None:
    config = CONFIGS["noisy recall, quick"].to_dict()
    drawn = ask(page, DRAW, [[config, seed, 20, split] for seed in (0, 1) for split in SPLITS])
    assert len({tuple(inputs) for inputs, _ in drawn}) == 4


@pytest.mark.parametrize("name", CONFIGS)
def test_tokens_have_the_librarys_names(name: str, page: Any) -> None:
    config = CONFIGS[name]
    draw = "([config, n]) => Array.from({ length: n }, (_, token) => taskTokenName(config, token))"
    names = page.evaluate(draw, [config.to_dict(), config.vocab_size])
    named = task_of(config).token_name
    assert names == [named(config, token) for token in range(config.vocab_size)]


@pytest.mark.parametrize("seed", [0, 5])
def test_batches_come_in_the_trainings_order(seed: int, page: Any) -> None:
    """Three epochs of a training set whose last batch is incomplete."""
    config = NoisyRecallConfig.quick().with_changes({"train_examples": 50, "test_examples": 9})
    data = RunData(config, seed, 16, torch.device("cpu"))
    order = """([config, seed, steps]) => {
      const data = new TaskData(config, seed, 16);
      const batches = steps.map((t) => data.trainBatch(t));
      const plain = ({ inputs, targets }) => [[...inputs], [...targets]];
      return [...batches, data.test].map(plain);
    }"""
    steps = [0, 1, 2, 3, 8, 7]
    got = ask(page, order, [config.to_dict(), seed, steps])
    for t, (inputs, targets) in zip(steps, got, strict=False):
        want = data.train_batch(t)
        assert inputs == want[0].flatten().tolist()
        assert targets == want[1].flatten().tolist()
    (tests,) = data.chunks("test", 9)
    assert got[-1][0] == tests[0].flatten().tolist()


def test_draws_are_torchs_and_so_are_their_seeds(page: Any) -> None:
    draws = """(seed) => {
      const g = new Generator(seed);
      return [[...g.integers(3, 1000, 700)], [...g.uniforms(700)], [...g.permutation(700)]];
    }"""
    for seed in (0, 1, 2**32 - 1):
        g = torch.Generator().manual_seed(seed)
        want = [
            torch.randint(3, 1000, (700,), generator=g).tolist(),
            torch.rand(700, generator=g).tolist(),
            torch.randperm(700, generator=g).tolist(),
        ]
        assert page.evaluate(draws, seed) == want
    derive = "(labels) => deriveSeed(...labels) >>> 0"
    for labels in ([0, "train"], [17, "order", 3], [3, "x" * 100]):
        seed, *rest = labels
        assert page.evaluate(derive, labels) == derive_seed(int(seed), *rest) % 2**32
