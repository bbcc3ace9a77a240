"""Rows with an own term, an outer decay, a window or a sink, against their authors' references."""

from __future__ import annotations

import inspect
from types import SimpleNamespace

import pytest
import torch
from fla.ops.forgetting_attn.naive import naive_forgetting_attn
from fla.ops.rwkv6.recurrent_naive import naive_recurrent_rwkv6
from mixer_cases import build, tokens
from torch import nn
from torch.nn import functional
from transformers.models.gpt_oss.modeling_gpt_oss import eager_attention_forward
from transformers.models.mamba.modeling_mamba import mamba_selective_scan
from transformers.models.mamba2.modeling_mamba2 import mamba2_chunk_scan
from widened import agrees_with_peer, fla, widened

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.mixers import Mixer

F64 = torch.float64
LENGTH, N, DV = 40, 8, 6


def draw(*names: str) -> dict[str, torch.Tensor]:
    """Leaves (2, 3, L, ...): "q", "k", "w" of n channels, "v" of d_v, others one number each."""
    generator = torch.Generator().manual_seed(0)
    sizes = {"q": (N,), "k": (N,), "w": (N,), "v": (DV,)}
    return {
        name: torch.randn(
            2, 3, LENGTH, *sizes.get(name, ()), generator=generator, dtype=F64
        ).requires_grad_()
        for name in names
    }


def parameters(mixer: Mixer) -> dict[str, nn.Parameter]:
    """Those that act before the output stage."""
    named = dict(mixer.named_parameters())
    return {name: value for name, value in named.items() if not name.startswith("output.")}


@pytest.mark.parametrize("method", ["parallel", "chunked"])
def test_forgetting_attention_is_flas(method: str) -> None:
    mixer, x = build("ForgettingAttention"), tokens(2, LENGTH)
    dynamics, v = mixer.dynamics(x)
    gate = functional.logsigmoid(mixer.forget(x)).transpose(-1, -2)
    theirs = fla(naive_forgetting_attn, dynamics.q, dynamics.k, v, gate)
    agrees_with_peer(parameters(mixer), dynamics.apply(v, method=method), theirs)


def test_alibi_adds_a_linear_bias_to_the_scores() -> None:
    mixer, x = build("ALiBiAttention", n_heads=8, d_model=16), tokens(2, LENGTH, d_model=16)
    dynamics, v = mixer.dynamics(x)
    assert torch.equal(mixer.slopes(), 2.0 ** -torch.arange(1, 9, dtype=F64))  # as in the paper
    gap = torch.arange(LENGTH)[:, None] - torch.arange(LENGTH)
    bias = -mixer.slopes()[:, None, None] * gap
    bias = bias.masked_fill(gap < 0, -torch.inf)
    theirs = functional.scaled_dot_product_attention(dynamics.q, dynamics.k, v, attn_mask=bias)
    agrees_with_peer(parameters(mixer), dynamics.apply(v), theirs)


@pytest.mark.parametrize("method", ["parallel", "chunked"])
def test_a_window_is_flas(method: str) -> None:
    mixer, x = build("Window-SoftmaxAttention"), tokens(2, LENGTH)
    dynamics, v = mixer.dynamics(x)
    no_gate = torch.zeros_like(dynamics.q[..., 0])
    size = mixer.mask.size
    theirs = fla(naive_forgetting_attn, dynamics.q, dynamics.k, v, no_gate, window_size=size)
    agrees_with_peer(parameters(mixer), dynamics.apply(v, method=method), theirs)


@pytest.mark.parametrize("method", ["parallel", "chunked"])
def test_sinks_are_those_of_gpt_oss(method: str) -> None:
    mixer, x = build("Sink-SoftmaxAttention"), tokens(2, LENGTH)
    dynamics, v = mixer.dynamics(x)
    layer = SimpleNamespace(num_key_value_groups=1, sinks=mixer.sink, training=False)
    future = torch.full((LENGTH, LENGTH), -torch.inf, dtype=F64).triu(1)
    theirs = eager_attention_forward(layer, dynamics.q, dynamics.k, v, future, mixer.key_dim**-0.5)
    agrees_with_peer(parameters(mixer), dynamics.apply(v, method=method), theirs[0].transpose(1, 2))


def linear(x: dict, evolved: evolution.Evolution, **ingredients: object) -> CoefficientDynamics:
    choices = {"q": x["q"], "k": x["k"], "scaling": 1.0, **ingredients}
    return CoefficientDynamics(
        evolution=evolved, readout=readout.identity, normalizer=normalizer.One(), **choices
    )


@pytest.mark.parametrize("method", ["recurrent", "parallel", "chunked"])
def test_mamba2_s_d_is_an_own_term(method: str) -> None:
    """transformers' scan with its D, one number per head, in float64."""
    x = draw("q", "k", "v", "delta")
    x |= {name: torch.linspace(-1, 2, 3, dtype=F64).requires_grad_() for name in ("log_a", "D")}
    delta = functional.softplus(x["delta"])
    evolved = evolution.Scalar(log_decay=-delta * x["log_a"].exp()[:, None])
    own = x["D"][:, None].expand(2, 3, LENGTH)
    ours = linear(x, evolved, scaling=delta, own=own).apply(x["v"], method=method)
    scan = inspect.unwrap(mamba2_chunk_scan)
    v, dt, k, q = (x[name].transpose(1, 2) for name in ("v", "delta", "k", "q"))
    with widened():
        a = -x["log_a"].exp()
        theirs = scan(v, dt, a, k, q, chunk_size=16, D=x["D"], dt_softplus=True)
    agrees_with_peer(x, ours, theirs.transpose(1, 2))


@pytest.mark.parametrize("method", ["recurrent", "parallel", "chunked"])
def test_mamba_s_d_is_an_own_term(method: str) -> None:
    """transformers' selective scan with its D: a head per channel, q and k shared by all."""
    generator = torch.Generator().manual_seed(0)
    shapes = {"q": (2, LENGTH, N), "k": (2, LENGTH, N), "v": (2, DV, LENGTH)}
    shapes |= {"delta": (2, DV, LENGTH), "log_a": (DV, N), "D": (DV,)}
    x = {
        name: torch.randn(shape, generator=generator, dtype=F64).requires_grad_()
        for name, shape in shapes.items()
    }
    delta = functional.softplus(x["delta"])
    evolved = evolution.Diagonal(log_decay=-delta[..., None] * x["log_a"].exp()[:, None])
    shared = {"q": x["q"][:, None], "k": x["k"][:, None]}
    own = x["D"][:, None].expand(2, DV, LENGTH)
    dynamics = linear(shared, evolved, scaling=delta, own=own)
    ours = dynamics.apply(x["v"][..., None], method=method)[..., 0]
    scan = inspect.unwrap(mamba_selective_scan)
    k, q = (x[name].transpose(1, 2) for name in ("k", "q"))
    with widened():
        a = -x["log_a"].exp()
        theirs = scan(x["v"], x["delta"], a, k, q, D=x["D"], delta_softplus=True)
    agrees_with_peer(x, ours, theirs)


@pytest.mark.parametrize("method", ["recurrent", "parallel", "chunked"])
def test_rwkv6_reads_before_its_decay(method: str) -> None:
    """q / w_i reads the state before the decay of its own token; own puts u on the diagonal."""
    x = draw("q", "k", "v", "w")
    u = torch.randn(3, N, generator=torch.Generator().manual_seed(1), dtype=F64).requires_grad_()
    g = functional.logsigmoid(x["w"])
    early = x["q"] * (-g).exp()
    own = (x["q"] * u[:, None] * x["k"]).sum(-1) - (early * x["k"]).sum(-1)
    d = linear({**x, "q": early}, evolution.Diagonal(log_decay=g), own=own)
    with widened():
        theirs = naive_recurrent_rwkv6(x["q"], x["k"], x["v"], g, u, scale=1.0)[0]
    agrees_with_peer({**x, "u": u}, d.apply(x["v"], method=method), theirs)


@pytest.mark.parametrize("method", ["recurrent", "parallel", "chunked"])
def test_mamba3_is_a_trapezoid(method: str) -> None:
    """h_t = a_t h_{t-1} + (1 - l_t) D_t a_t B_{t-1} x_{t-1} + l_t D_t B_t x_t (arXiv 2603.15569).

    B and C are q and k of the state space's usual names; their rotation is a matter of q and k.
    """
    x = draw("q", "k", "v", "delta", "share", "skip")
    delta, share = functional.softplus(x["delta"]), x["share"].sigmoid()
    ahead = functional.pad(((1 - share) * delta)[..., 1:], (0, 1))
    d = linear(
        x,
        evolution.Scalar(log_decay=-delta),
        scaling=share * delta + ahead,
        own=x["skip"] - ahead * (x["q"] * x["k"]).sum(-1),
    )
    state = torch.zeros(2, 3, N, DV, dtype=F64)
    written, outputs = torch.zeros_like(state), []
    for t in range(LENGTH):
        a, step, lam = ((-delta).exp(), delta, share)
        a, step, lam = (value[..., t, None, None] for value in (a, step, lam))
        now = x["k"][..., t, :, None] * x["v"][..., t, None, :]
        state = a * state + (1 - lam) * step * a * written + lam * step * now
        written = now
        y = (x["q"][..., t, :, None] * state).sum(-2)
        outputs.append(y + x["skip"][..., t, None] * x["v"][..., t, :])
    agrees_with_peer(x, d.apply(x["v"], method=method), torch.stack(outputs, -2))
