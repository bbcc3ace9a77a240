"""The standard profile of dsf-mqar: names and sizes."""

from __future__ import annotations

from coefdyn.lab.tasks import MqarConfig

SOFTMAX, LINEAR, NORMALIZED = "softmax attention", "linear attention", "normalized attention"
S6, SSD = "S6", "SSD"
PLAIN, REVERSED = "qLSTM, sigmoid", "qLSTM, reversed"
#: the row that the reversed sigmoid is taken from; it stands beside the two, without a claim
RG_LRU = "RG-LRU"
EXPANDED, GATES = (SOFTMAX, LINEAR, NORMALIZED, S6, SSD), (PLAIN, REVERSED)
#: the standard profile: model -> values of n; S6 and qLSTM last, they cost most
STANDARD_SIZES: dict[str, tuple[int, ...]] = {
    **dict.fromkeys((SOFTMAX, LINEAR, NORMALIZED, SSD), (4, 8, 16, 32)),
    S6: (4, 16),
    PLAIN: (1,),
    REVERSED: (1,),
}
ONE_PER_CHANNEL = (S6, PLAIN, REVERSED, RG_LRU)
#: 3000 for all models at first, and with these no qLSTM passed the guess by the query's place
STEPS, GATED_STEPS = 3000, 12_000


def standard_task() -> MqarConfig:
    """Eight pairs in 32 tokens: the density of the paper's hardest size, 64 pairs in 512."""
    return MqarConfig(vocab_size=64, seq_len=32, pairs=8, train_examples=12_800, test_examples=640)


def gated_task() -> MqarConfig:
    """Four pairs in 16 tokens, for the claim about the two qLSTMs.

    Of eight pairs their seeds had, after 12 000 steps, learned too little to be told from the guess
    by the query's place.
    """
    return MqarConfig(vocab_size=64, seq_len=16, pairs=4, train_examples=12_800, test_examples=640)
