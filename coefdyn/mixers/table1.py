"""The rows of Table 1, in its order, by the names of their classes."""

from __future__ import annotations

from coefdyn.mixers.base import Mixer
from coefdyn.mixers.deltanet import DeltaNet
from coefdyn.mixers.gated_deltanet import GatedDeltaNet
from coefdyn.mixers.gla import GLA
from coefdyn.mixers.linear_attention import LinearAttention
from coefdyn.mixers.mamba2 import Mamba2
from coefdyn.mixers.mlstm import MLSTM
from coefdyn.mixers.normalized_attention import NormalizedAttention
from coefdyn.mixers.softmax_attention import SoftmaxAttention

__all__ = ["MIXERS"]

MIXERS: dict[str, type[Mixer]] = {
    mixer.__name__: mixer
    for mixer in (
        SoftmaxAttention,
        LinearAttention,
        NormalizedAttention,
        GLA,
        Mamba2,
        DeltaNet,
        GatedDeltaNet,
        MLSTM,
    )
}
