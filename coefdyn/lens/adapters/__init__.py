"""One file per mechanism; ``ADAPTERS`` is the list that ``trace`` goes through."""

from coefdyn.lens.adapters.attention import SoftmaxAttention
from coefdyn.lens.adapters.base import Adapter
from coefdyn.lens.adapters.gated_deltanet import GatedDeltaNet
from coefdyn.lens.adapters.kda import KimiDeltaAttention
from coefdyn.lens.adapters.lightning import Lightning
from coefdyn.lens.adapters.mamba1 import Mamba1
from coefdyn.lens.adapters.mamba2 import Mamba2
from coefdyn.lens.adapters.mlstm import MLSTM
from coefdyn.lens.adapters.own import OwnMixer
from coefdyn.lens.adapters.rglru import RGLRU

__all__ = ["ADAPTERS", "Adapter"]

ADAPTERS: tuple[Adapter, ...] = (
    GatedDeltaNet(),
    KimiDeltaAttention(),
    Mamba2(),
    Mamba1(),
    SoftmaxAttention(),
    MLSTM(),
    Lightning(),
    RGLRU(),
    OwnMixer(),
)
