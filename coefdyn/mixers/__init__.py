"""Mixers: projections of x to the four ingredients; one file per row of Table 1, or beyond.

The file of a mixer is loaded when its name is first used.
"""

from typing import TYPE_CHECKING

from coefdyn.first_use import load_on_first_use
from coefdyn.mixers.base import Mixer, MixerState, Symbols, Tokens
from coefdyn.mixers.contract import Contract, check_mixer
from coefdyn.mixers.design import DesignMixer
from coefdyn.mixers.heads import HeadChoices, HeadMixer, HeadOptions, StageOptions
from coefdyn.mixers.projections import ShortConvolution
from coefdyn.mixers.registry import TAKEN, register_mixer
from coefdyn.mixers.sums import running_sum

if TYPE_CHECKING:
    from coefdyn.mixers.comba import Comba
    from coefdyn.mixers.delta_product import DeltaProduct, GatedDeltaProduct
    from coefdyn.mixers.deltanet import DeltaNet
    from coefdyn.mixers.differential_attention import DifferentialAttention
    from coefdyn.mixers.forgetting_attention import ALiBiAttention, ForgettingAttention
    from coefdyn.mixers.gated_deltanet import GatedDeltaNet
    from coefdyn.mixers.gated_deltanet2 import GatedDeltaNet2
    from coefdyn.mixers.gla import GLA
    from coefdyn.mixers.gsa import GSA
    from coefdyn.mixers.hgrn2 import HGRN2
    from coefdyn.mixers.kda import KDA
    from coefdyn.mixers.lightning_attention import LightningAttention
    from coefdyn.mixers.linear_attention import LinearAttention
    from coefdyn.mixers.log_linear_attention import Levels, LogLinearAttention
    from coefdyn.mixers.lru import LRU
    from coefdyn.mixers.mamba2 import Mamba2
    from coefdyn.mixers.mamba3 import Mamba3
    from coefdyn.mixers.mesanet import MesaNet
    from coefdyn.mixers.mlstm import MLSTM
    from coefdyn.mixers.momentum_deltanet import MomentumDeltaNet
    from coefdyn.mixers.normalized_attention import NormalizedAttention
    from coefdyn.mixers.path_attention import PaTHAttention
    from coefdyn.mixers.qlstm import QLSTM
    from coefdyn.mixers.retnet import RetNet
    from coefdyn.mixers.rglru import RGLRU
    from coefdyn.mixers.rows_since import ROWS_SINCE
    from coefdyn.mixers.rwkv6 import RWKV6
    from coefdyn.mixers.rwkv7 import RWKV7
    from coefdyn.mixers.s4d import S4D
    from coefdyn.mixers.s6 import S6
    from coefdyn.mixers.sigmoid_attention import SigmoidAttention
    from coefdyn.mixers.softmax_attention import (
        SinkAttention,
        SlidingWindowAttention,
        SoftmaxAttention,
    )
    from coefdyn.mixers.table1 import MIXERS
    from coefdyn.mixers.wall_attention import WallAttention

__all__ = [
    "GLA",
    "GSA",
    "HGRN2",
    "KDA",
    "LRU",
    "MIXERS",
    "MLSTM",
    "QLSTM",
    "RGLRU",
    "ROWS_SINCE",
    "RWKV6",
    "RWKV7",
    "S4D",
    "S6",
    "ALiBiAttention",
    "Comba",
    "Contract",
    "DeltaNet",
    "DeltaProduct",
    "DesignMixer",
    "DifferentialAttention",
    "ForgettingAttention",
    "GatedDeltaNet",
    "GatedDeltaNet2",
    "GatedDeltaProduct",
    "HeadChoices",
    "HeadMixer",
    "HeadOptions",
    "Levels",
    "LightningAttention",
    "LinearAttention",
    "LogLinearAttention",
    "Mamba2",
    "Mamba3",
    "MesaNet",
    "Mixer",
    "MixerState",
    "MomentumDeltaNet",
    "NormalizedAttention",
    "PaTHAttention",
    "RetNet",
    "ShortConvolution",
    "SigmoidAttention",
    "SinkAttention",
    "SlidingWindowAttention",
    "SoftmaxAttention",
    "StageOptions",
    "Symbols",
    "Tokens",
    "WallAttention",
    "check_mixer",
    "register_mixer",
    "running_sum",
]
TAKEN.update(__all__)
load_on_first_use(__name__)
