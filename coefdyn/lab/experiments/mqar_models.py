"""Models of the dynamical systems framework on MQAR, which three experiments train, and sizes."""

from __future__ import annotations

from typing import Any

from coefdyn.lab.experiments import plan
from coefdyn.lab.tasks import MqarConfig
from coefdyn.lab.training import TrainConfig
from coefdyn.models import ModelConfig

__all__ = [
    "LEARNING_RATES",
    "LINEAR",
    "NORMALIZED",
    "PLAIN",
    "REVERSED",
    "RG_LRU",
    "S6",
    "SOFTMAX",
    "SSD",
    "attention",
    "build",
    "gated_task",
    "quick_mqar",
    "quick_task",
    "standard_task",
    "trained_as_zoology",
]

SOFTMAX, LINEAR, NORMALIZED = "softmax attention", "linear attention", "normalized attention"
S6, SSD = "S6", "SSD"
PLAIN, REVERSED = "qLSTM, sigmoid", "qLSTM, reversed"
#: the row that the reversed sigmoid is taken from
RG_LRU = "RG-LRU"
#: np.logspace(-4, -2, 4)
LEARNING_RATES = tuple(10.0 ** (-4 + 2 * step / 3) for step in range(4))


def quick_task() -> MqarConfig:
    """Four pairs in 16 tokens, 15 keys and 16 values: solved in seconds by softmax attention."""
    return MqarConfig(vocab_size=32, seq_len=16, pairs=4, train_examples=6_400, test_examples=640)


def standard_task() -> MqarConfig:
    """Eight pairs in 32 tokens: the density of the paper's hardest size, 64 pairs in 512."""
    return MqarConfig(vocab_size=64, seq_len=32, pairs=8, train_examples=12_800, test_examples=640)


def gated_task() -> MqarConfig:
    """Four pairs in 16 tokens, for the claim about the two qLSTMs.

    Of eight pairs their seeds had, after 12 000 steps, learned too little to be told from the guess
    by the query's place.
    """
    return MqarConfig(vocab_size=64, seq_len=16, pairs=4, train_examples=12_800, test_examples=640)


def quick_mqar(variants: list[plan.Variant]) -> plan.Plan:
    """200 steps of batches of 64, a warm-up over a tenth of them."""
    options = {"batch": 64, "warmup": 20, "stop_accuracy": None}
    return plan.quick_plan(variants, 200, weight_decay=0.1, **options)


def trained_as_zoology(task: MqarConfig) -> TrainConfig:
    """The paper's Appendix J.1: 64 epochs, 10 % warm-up, batch 512, less for long sequences."""
    batch = 512 if task.seq_len <= 128 else 256 if task.seq_len <= 256 else 128
    per_epoch = task.train_examples // batch
    return TrainConfig(
        steps=64 * per_epoch,
        batch=batch,
        betas=(0.9, 0.999),
        warmup=64 * per_epoch // 10,
        final_learning_rate=0.0,
        cosine_per_epoch=True,
        evaluate_every=per_epoch,
        stop_accuracy=0.99,
        precision="tf32",
    )


def attention(mixer: str, width: int, n: int, taps: int, **options: Any) -> ModelConfig:
    """One head with n channels for keys and d for values, learned positions; two layers."""
    sizes = {"n_heads": 1, "key_dim": n, "bias": True, "short_convolution": taps}
    return _model(mixer, width, {**sizes, **options}, "learned")


def build(model: str, width: int, n: int, taps: int) -> ModelConfig:
    """A model by its name in the figures; ``taps`` of a short convolution, 0 for none.

    The two SSMs have no gate and no positions; without convolution, S6 reads x itself.
    """
    bare = {"short_convolution": taps, "output_gate": "none", "output_norm": "none"}
    if model == SOFTMAX:
        return attention("SoftmaxAttention", width, n, taps)
    if model == LINEAR:
        return attention("LinearAttention", width, n, taps, scaling="one")
    if model == NORMALIZED:
        return attention("NormalizedAttention", width, n, taps, scaling="one")
    if model == S6:
        return _model("S6", width, {"key_dim": n, "input_projection": taps > 0, **bare}, "none")
    if model == SSD:
        return _model("Mamba2", width, {"n_heads": 1, "key_dim": n, **bare}, "none")
    options: dict[str, Any] = {"short_convolution": 4, "output_gate": "silu"}
    if model == RG_LRU:
        return _model("RGLRU", width, options, "learned")
    options["forget_gate"] = "reversed" if model == REVERSED else "sigmoid"
    return _model("QLSTM", width, options, "learned")


def _model(mixer: str, width: int, options: dict[str, Any], position: str) -> ModelConfig:
    return ModelConfig(
        width=width, layers=2, mlp=2 * width, mixer=mixer, options=options, position=position
    )
