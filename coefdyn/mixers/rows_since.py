"""Rows since Table 1, by the names of their classes.

Their order is what A_t does: decay, decay and erase, move keys under another readout; last what
fades, restricts and weighs the rows of softmax attention.
"""

from __future__ import annotations

from coefdyn.mixers.base import Mixer
from coefdyn.mixers.comba import Comba
from coefdyn.mixers.delta_product import DeltaProduct, GatedDeltaProduct
from coefdyn.mixers.differential_attention import DifferentialAttention
from coefdyn.mixers.forgetting_attention import ALiBiAttention, ForgettingAttention
from coefdyn.mixers.gated_deltanet2 import GatedDeltaNet2
from coefdyn.mixers.gsa import GSA
from coefdyn.mixers.hgrn2 import HGRN2
from coefdyn.mixers.kda import KDA
from coefdyn.mixers.lightning_attention import LightningAttention
from coefdyn.mixers.log_linear_attention import LogLinearAttention
from coefdyn.mixers.mamba3 import Mamba3
from coefdyn.mixers.mesanet import MesaNet
from coefdyn.mixers.momentum_deltanet import MomentumDeltaNet
from coefdyn.mixers.path_attention import PaTHAttention
from coefdyn.mixers.retnet import RetNet
from coefdyn.mixers.rwkv6 import RWKV6
from coefdyn.mixers.rwkv7 import RWKV7
from coefdyn.mixers.sigmoid_attention import SigmoidAttention
from coefdyn.mixers.softmax_attention import SinkAttention, SlidingWindowAttention
from coefdyn.mixers.wall_attention import WallAttention

__all__ = ["ROWS_SINCE"]

ROWS_SINCE: dict[str, type[Mixer]] = {
    mixer.__name__: mixer
    for mixer in (
        RetNet,
        LightningAttention,
        HGRN2,
        RWKV6,
        Mamba3,
        LogLinearAttention,
        GSA,
        MesaNet,
        KDA,
        GatedDeltaNet2,
        Comba,
        RWKV7,
        MomentumDeltaNet,
        DeltaProduct,
        GatedDeltaProduct,
        SigmoidAttention,
        WallAttention,
        PaTHAttention,
        ALiBiAttention,
        ForgettingAttention,
        SlidingWindowAttention,
        SinkAttention,
        DifferentialAttention,
    )
}
