"""Tiny runs shared by the training tests."""

from __future__ import annotations

from coefdyn.lab.tasks import NoisyRecallConfig
from coefdyn.lab.training import RunConfig, TrainConfig
from coefdyn.models import ModelConfig

TASK = NoisyRecallConfig(
    vocab_size=10, seq_len=12, noise_vocab=2, train_examples=64, test_examples=32
)


def tiny_model(**changes) -> ModelConfig:
    """One or two heads, 16 channels; ``changes`` go to the mixer unless ModelConfig knows them."""
    own = {name: changes.pop(name) for name in list(changes) if name in ModelConfig.__annotations__}
    return ModelConfig(
        **{"width": 16, "layers": 2, "mlp": 16, **own}, options={"n_heads": 2, **changes}
    )


def tiny_run(*, seed: int = 0, model: ModelConfig | None = None, **train) -> RunConfig:
    """A run of a fraction of a second."""
    settings = {"steps": 12, "batch": 16, "evaluate_every": 6, "stop_accuracy": None, **train}
    return RunConfig(
        task=TASK, model=model or tiny_model(), train=TrainConfig(**settings), seed=seed
    )
