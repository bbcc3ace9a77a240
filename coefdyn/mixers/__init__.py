"""Mixers: projections of x to the four ingredients; one file per row of Table 1, or beyond.

The file of a mixer is loaded when its name is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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
    from coefdyn.mixers.wall_attention import WallAttention

#: the module of each mixer, and of what stands beside it
_HOMES = {
    "ALiBiAttention": "forgetting_attention",
    "Comba": "comba",
    "DeltaNet": "deltanet",
    "DeltaProduct": "delta_product",
    "DifferentialAttention": "differential_attention",
    "ForgettingAttention": "forgetting_attention",
    "GLA": "gla",
    "GSA": "gsa",
    "GatedDeltaNet": "gated_deltanet",
    "GatedDeltaNet2": "gated_deltanet2",
    "GatedDeltaProduct": "delta_product",
    "HGRN2": "hgrn2",
    "KDA": "kda",
    "LRU": "lru",
    "Levels": "log_linear_attention",
    "LightningAttention": "lightning_attention",
    "LinearAttention": "linear_attention",
    "LogLinearAttention": "log_linear_attention",
    "MLSTM": "mlstm",
    "Mamba2": "mamba2",
    "Mamba3": "mamba3",
    "MesaNet": "mesanet",
    "MomentumDeltaNet": "momentum_deltanet",
    "NormalizedAttention": "normalized_attention",
    "PaTHAttention": "path_attention",
    "QLSTM": "qlstm",
    "RGLRU": "rglru",
    "RWKV6": "rwkv6",
    "RWKV7": "rwkv7",
    "RetNet": "retnet",
    "S4D": "s4d",
    "S6": "s6",
    "SigmoidAttention": "sigmoid_attention",
    "SinkAttention": "softmax_attention",
    "SlidingWindowAttention": "softmax_attention",
    "SoftmaxAttention": "softmax_attention",
    "WallAttention": "wall_attention",
}
_TABLE_1 = (
    "SoftmaxAttention",
    "LinearAttention",
    "NormalizedAttention",
    "GLA",
    "Mamba2",
    "DeltaNet",
    "GatedDeltaNet",
    "MLSTM",
)
_SINCE = (
    "RetNet",
    "LightningAttention",
    "HGRN2",
    "RWKV6",
    "Mamba3",
    "LogLinearAttention",
    "GSA",
    "MesaNet",
    "KDA",
    "GatedDeltaNet2",
    "Comba",
    "RWKV7",
    "MomentumDeltaNet",
    "DeltaProduct",
    "GatedDeltaProduct",
    "SigmoidAttention",
    "WallAttention",
    "PaTHAttention",
    "ALiBiAttention",
    "ForgettingAttention",
    "SlidingWindowAttention",
    "SinkAttention",
    "DifferentialAttention",
)

if TYPE_CHECKING:
    #: the rows of Table 1, in its order
    MIXERS: dict[str, type[Mixer]]
    #: rows since Table 1, by what A_t does: decay, decay and erase, move keys under another
    #: readout; last what fades, restricts and weighs the rows of softmax attention
    ROWS_SINCE: dict[str, type[Mixer]]
else:

    def __getattr__(name: str) -> Any:
        """A mixer by its name, or one of the two tables of all; each is made once."""
        if name in _HOMES:
            found = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        elif name in ("MIXERS", "ROWS_SINCE"):
            rows = _TABLE_1 if name == "MIXERS" else _SINCE
            found = {row: __getattr__(row) for row in rows}
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return globals().setdefault(name, found)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


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
