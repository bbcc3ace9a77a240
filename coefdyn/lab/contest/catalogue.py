"""The contests of the architecture chapters: which task, which predecessor, which size.

Each task was made small until one of the rows learns it within the steps; the others then have the
same steps, learning rate and width. What they reach is whatever they reach; on selective copying
the earlier row wins.
"""

from __future__ import annotations

from typing import Any

from coefdyn.lab.contest.contest import Contest, Entrant
from coefdyn.lab.tasks import (
    ForgetConfig,
    LongMemoryConfig,
    MqarConfig,
    OverwriteConfig,
    ParityConfig,
    PositionConfig,
    SelectiveCopyingConfig,
)

__all__ = ["CONTESTS"]

#: sequences of every contest; the test set makes a share good to about two points
DRAWN: dict[str, Any] = {"train_examples": 12_800, "test_examples": 320}


def _row(mixer: str, position: str = "none", **options: Any) -> Entrant:
    """One head, and the short convolution of width 4 that the authors of the later rows have."""
    return Entrant(
        mixer=mixer, options={"n_heads": 1, "short_convolution": 4, **options}, position=position
    )


#: chapter -> contest
CONTESTS: dict[str, Contest] = {
    "softmax_attention": Contest(
        task=PositionConfig(vocab_size=8, seq_len=24, distance=3, **DRAWN),
        entrants={
            "softmax attention": _row("SoftmaxAttention", short_convolution=0),
            "with rotary positions": _row("SoftmaxAttention", "rotary", short_convolution=0),
        },
        steps=400,
    ),
    "linear_attention": Contest(
        task=MqarConfig(vocab_size=34, seq_len=32, pairs=8, **DRAWN),
        entrants={
            "softmax attention": _row("SoftmaxAttention", key_dim=8),
            "linear attention": _row("LinearAttention", key_dim=8),
        },
        steps=400,
    ),
    "normalized_attention": Contest(
        task=ForgetConfig(vocab_size=16, **DRAWN),
        entrants={
            "linear attention": _row("LinearAttention"),
            "normalized attention": _row("NormalizedAttention"),
        },
        steps=400,
    ),
    "gla": Contest(
        task=ForgetConfig(vocab_size=16, **DRAWN),
        entrants={
            "normalized attention": _row("NormalizedAttention"),
            "GLA": _row("GLA"),
        },
        steps=400,
    ),
    "mamba2": Contest(
        task=SelectiveCopyingConfig(vocab_size=8, seq_len=24, tokens_to_copy=4, **DRAWN),
        entrants={
            "GLA": _row("GLA"),
            "Mamba-2, one head": _row("Mamba2"),
            "Mamba-2, eight heads": _row("Mamba2", n_heads=8, key_dim=32),
        },
        steps=400,
    ),
    "deltanet": Contest(
        task=OverwriteConfig(vocab_size=32, pairs=4, writes=3, **DRAWN),
        entrants={
            "linear attention": _row("LinearAttention"),
            "Mamba-2": _row("Mamba2"),
            "DeltaNet": _row("DeltaNet"),
        },
        steps=400,
    ),
    "gated_deltanet": Contest(
        task=ParityConfig(seq_len=24, **DRAWN),
        entrants={
            "DeltaNet": _row("DeltaNet"),
            "Gated DeltaNet": _row("GatedDeltaNet"),
            "Gated DeltaNet, β to 2": _row("GatedDeltaNet", negative_eigenvalues=True),
        },
        steps=400,
    ),
    "mlstm": Contest(
        task=LongMemoryConfig(vocab_size=10, seq_len=48, **DRAWN),
        entrants={
            "Gated DeltaNet": _row("GatedDeltaNet"),
            "Mamba-2": _row("Mamba2"),
            "mLSTM": _row("MLSTM"),
        },
        steps=400,
    ),
}
