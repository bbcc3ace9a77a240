"""One file per mechanism; ``ADAPTERS`` is the list that ``trace`` goes through."""

from coefdyn.lens.adapters.attention import SoftmaxAttention
from coefdyn.lens.adapters.base import Adapter
from coefdyn.lens.adapters.deltanet import DeltaNet
from coefdyn.lens.adapters.eager import MPT, Bloom, WrittenOut
from coefdyn.lens.adapters.gated_deltanet import GatedDeltaNet
from coefdyn.lens.adapters.gla import GatedLinearAttention
from coefdyn.lens.adapters.kda import KimiDeltaAttention
from coefdyn.lens.adapters.lightning import Lightning
from coefdyn.lens.adapters.linear_attention import LinearAttention
from coefdyn.lens.adapters.mamba1 import Mamba1
from coefdyn.lens.adapters.mamba2 import Mamba2
from coefdyn.lens.adapters.mlstm import MLSTM
from coefdyn.lens.adapters.own import OwnMixer
from coefdyn.lens.adapters.retention import Retention
from coefdyn.lens.adapters.rglru import RGLRU
from coefdyn.lens.adapters.short_convolution import ShortConvolution
from coefdyn.lens.adapters.simple_gla import SimpleGLA
from coefdyn.lens.adapters.torch_attention import MultiheadAttention, TorchAttention

__all__ = ["ADAPTERS", "Adapter"]

ADAPTERS: tuple[Adapter, ...] = (
    GatedDeltaNet(),
    KimiDeltaAttention(),
    Mamba2(),
    Mamba1(),
    SoftmaxAttention(),
    WrittenOut(),
    Bloom(),
    MPT(),
    MultiheadAttention(),
    TorchAttention(),
    MLSTM(),
    Lightning(),
    RGLRU(),
    ShortConvolution(),
    DeltaNet(),
    GatedLinearAttention(),
    SimpleGLA(),
    Retention(),
    LinearAttention(),
    OwnMixer(),
)
