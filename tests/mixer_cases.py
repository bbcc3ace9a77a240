"""Small mixers for tests: Table 1, the mixers beyond it, and designs that cover every option."""

from __future__ import annotations

from collections.abc import Callable

import torch

from coefdyn import mixers
from coefdyn.mixers import (
    LRU,
    MIXERS,
    QLSTM,
    RGLRU,
    S4D,
    S6,
    Mixer,
)

SIZES = {"d_model": 12, "n_heads": 2, "key_dim": 4, "value_dim": 6}

#: options beyond the defaults, by name of the case
VARIANTS: dict[str, tuple[str, dict[str, object]]] = {
    "SoftmaxAttention-rotary": ("SoftmaxAttention", {"position": "rotary", "bias": True}),
    "LinearAttention-learned": (
        "LinearAttention",
        {"position": "learned", "max_length": 1000, "feature_map": "softplus"},
    ),
    "NormalizedAttention-sigmoid": (
        "NormalizedAttention",
        {"eta": "sigmoid", "short_convolution": 4, "output_gate": "silu"},
    ),
    "Mamba2-fixed": ("Mamba2", {"scaling": "inverse_sqrt", "fixed_delta": True}),
    "Mamba2-two": ("Mamba2", {"n_groups": 2}),
    "DeltaNet-negative": ("DeltaNet", {"negative_eigenvalues": True, "output_gate": "silu"}),
    "GatedDeltaNet-learned": (
        "GatedDeltaNet",
        {"direction": "learned", "negative_eigenvalues": True},
    ),
    "GatedDeltaNet-grouped": (
        "GatedDeltaNet",
        {"key_heads": 1, "direction": "learned", "position": "rotary"},
    ),
    "MLSTM-x": ("MLSTM", {"gate_input": "x", "short_convolution": 0, "forget_gate": "exp"}),
}

DESIGNS: dict[str, dict[str, object]] = {
    "identity-softplus": {"readout": "softplus", "scaling": "one", "position": "rotary"},
    "identity-exp-one": {"readout": "exp", "normalizer": "one", "scaling": "gate_inverse_sqrt"},
    "constant-relu-geometric": {
        "evolution": "constant",
        "constant": 1.05,
        "readout": "relu",
        "normalizer": "geometric",
    },
    "constant-exp": {"evolution": "constant", "readout": "exp", "query_key_norm": True},
    "flip-psi-exp": {
        "evolution": "constant",
        "constant": -0.9,
        "readout": "psi_exp",
        "normalizer": "exp",
    },
    "scalar-delta-identity": {
        "evolution": "scalar",
        "readout": "identity",
        "normalizer": "one",
        "scaling": "delta",
        "short_convolution": 4,
        "output_gate": "sigmoid",
        "output_norm": "layer",
    },
    "scalar-gla-floored": {
        "evolution": "scalar",
        "decay": "gla",
        "readout": "identity",
        "normalizer": "floored",
        "scaling": "gate",
    },
    "diagonal-mamba2-exp": {"evolution": "diagonal", "readout": "exp", "scaling": "delta"},
    "diagonal-gla-identity": {
        "evolution": "diagonal",
        "decay": "gla",
        "readout": "identity",
        "normalizer": "softplus",
    },
    "householder-key-fixed": {
        "evolution": "householder",
        "beta": "fixed",
        "readout": "identity",
        "normalizer": "one",
    },
    "householder-learned-softplus": {"evolution": "householder_learned", "readout": "softplus"},
    "householder-scaled-delta": {
        "evolution": "scaled_householder",
        "readout": "identity",
        "normalizer": "one",
        "scaling": "delta",
    },
}


def _shake(mixer: Mixer, generator: torch.Generator) -> Mixer:
    """Move every parameter a little: weights that start at zero would hide mistakes."""
    with torch.no_grad():
        for parameter in mixer.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.add_(0.1 * noise.to(parameter))
    return mixer


def build(case: str, seed: int = 0, **sizes: int) -> Mixer:
    """The mixer of a case in float64, reproducibly random; torch's own generator is untouched."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        mixer = CASES[case](**{**SIZES, **sizes}).double()
    return _shake(mixer, torch.Generator().manual_seed(seed))


#: rows since Table 1, with options beyond the defaults where they have some
LATER: dict[str, tuple[str, dict[str, object]]] = {
    "RetNet": ("RetNet", {}),
    "LightningAttention": ("LightningAttention", {"depth": 0.5}),
    "HGRN2": ("HGRN2", {}),
    "HGRN2-low": ("HGRN2", {"lower_bound": 0.3, "short_convolution": 4}),
    "PaTHAttention": ("PaTHAttention", {}),
    "WallAttention": ("WallAttention", {"open_bias": 1.0}),
    "SigmoidAttention": ("SigmoidAttention", {"length": 8}),
    "MesaNet": ("MesaNet", {}),
    "GSA": ("GSA", {}),
    "GSA-slots": ("GSA", {"slots": 3, "short_convolution": 4}),
    "KDA": ("KDA", {}),
    "KDA-grouped": ("KDA", {"key_heads": 1}),
    "KDA-negative": (
        "KDA",
        {"negative_eigenvalues": True, "short_convolution": 0, "bias": True},
    ),
    "GatedDeltaNet2": ("GatedDeltaNet2", {}),
    "Comba": ("Comba", {}),
    "MomentumDeltaNet": ("MomentumDeltaNet", {}),
    "RWKV7": ("RWKV7", {"output_norm": "rms"}),
    "RWKV6": ("RWKV6", {"output_norm": "rms"}),
    "Mamba3": ("Mamba3", {}),
    "LogLinearAttention": ("LogLinearAttention", {"longest": 1024}),
    "DeltaProduct": ("DeltaProduct", {"steps": 3}),
    "GatedDeltaProduct": ("GatedDeltaProduct", {}),
    "DifferentialAttention": ("DifferentialAttention", {"layer": 1}),
    "ForgettingAttention": ("ForgettingAttention", {}),
    "ALiBiAttention": ("ALiBiAttention", {}),
    "Window-SoftmaxAttention": ("SoftmaxAttention", {"window": 5}),
    "Sink-SoftmaxAttention": ("SoftmaxAttention", {"sink": True}),
    "SlidingWindowAttention": ("SlidingWindowAttention", {"window": 4, "sink": True}),
    "SinkAttention": ("SinkAttention", {"window": 7}),
}


def _case(name: str, options: dict[str, object]) -> Callable[..., Mixer]:
    form = getattr(mixers, name)
    return lambda **sizes: form(**sizes, **options)


#: one head per channel and d_v = 1, whatever sizes a test asks for
CHANNELWISE: dict[str, tuple[type[Mixer], dict[str, object]]] = {
    "S6": (S6, {}),
    "S6-plain": (
        S6,
        {"input_projection": False, "channels": None, "short_convolution": 0, "skip": False},
    ),
    "S6-norm": (S6, {"output_norm": "rms", "bias": True, "timestep_rank": 2}),
    "QLSTM": (QLSTM, {}),
    "QLSTM-reversed": (
        QLSTM,
        {"forget_gate": "reversed", "short_convolution": 4, "output_gate": "silu"},
    ),
    "RGLRU": (RGLRU, {}),
}


def _channelwise(name: str) -> Callable[..., Mixer]:
    form, options = CHANNELWISE[name]

    def make(*, d_model: int, n_heads: int, key_dim: int, value_dim: int) -> Mixer:
        expansion = {} if form is RGLRU else {"key_dim": key_dim}
        return form(**{"d_model": d_model, "channels": n_heads, **expansion, **options})

    return make


#: time-invariant mixers: state_dim is all they can be given
MODES: dict[str, tuple[type[Mixer], dict[str, object]]] = {
    "S4D": (S4D, {"state_dim": 4}),
    "S4D-bias": (S4D, {"state_dim": 2, "delta_max": 0.5, "bias": True}),
    "LRU": (LRU, {"state_dim": 3}),
    "LRU-plain": (LRU, {"state_dim": 1, "r_min": 0.0, "skip": False, "bias": True}),
}


def _time_invariant(name: str) -> Callable[..., Mixer]:
    form, options = MODES[name]
    return lambda *, d_model, **sizes: form(d_model=d_model, **options)


CASES: dict[str, Callable[..., Mixer]] = {
    **{name: _case(name, {}) for name in MIXERS},
    **{case: _case(name, options) for case, (name, options) in VARIANTS.items()},
    **{case: _case(name, options) for case, (name, options) in LATER.items()},
    **{case: _channelwise(case) for case in CHANNELWISE},
    **{case: _time_invariant(case) for case in MODES},
    **{f"Design-{case}": _case("DesignMixer", options) for case, options in DESIGNS.items()},
}


def tokens(*shape: int, d_model: int = SIZES["d_model"], seed: int = 1) -> torch.Tensor:
    """x (..., L, d_model) in float64."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, d_model, generator=generator, dtype=torch.float64)
