"""Rows of the tables against their authors' functions, or fla's and transformers', in float64.

Each reference starts from the mixer's own projections of x, so that order and place of every
activation, gate and scaling are compared too; gradients of x and of all parameters. What of the
rows is compared as a whole layer stands in test_peers_layers.py, and fla's operations by their
names in test_peers_ops.py; that all methods agree is the contract's.
"""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch
from fla.ops.comba.naive import naive_chunk_comba
from fla.ops.delta_rule.naive import delta_rule_recurrence
from fla.ops.forgetting_attn.naive import naive_forgetting_attn
from fla.ops.gated_delta_product.naive import naive_recurrent_gated_delta_product
from fla.ops.gdn2.naive import naive_recurrent_gdn2
from fla.ops.generalized_delta_rule.dplr.naive import dplr_recurrence
from fla.ops.gla.naive import naive_recurrent_gla
from fla.ops.gsa.naive import naive_recurrent_gsa
from fla.ops.linear_attn.naive import naive_recurrent_linear_attn
from fla.ops.log_linear_attn.naive import naive_log_linear_attn
from fla.ops.mesa_net.naive import naive_mesa_net_exact
from fla.ops.momentum_delta_rule.naive import recurrent_momentum_delta_rule_ref
from fla.ops.path_attn.naive import naive_path_attn
from fla.ops.retention.naive import naive_retention
from fla.ops.rwkv6.recurrent_naive import naive_recurrent_rwkv6
from fla.ops.wall_attn import naive as wall
from mixer_cases import build, tokens
from tolerances import assert_agree
from torch.nn import functional
from transformers.models.gpt_oss.modeling_gpt_oss import eager_attention_forward
from transformers.models.minimax.configuration_minimax import MiniMaxConfig
from transformers.models.minimax.modeling_minimax import MiniMaxLightningAttention
from transformers.models.xlstm.modeling_xlstm import mlstm_recurrent_sequence_native
from widened import agrees_with_peer, time_first, widened

from coefdyn.analysis import probe
from coefdyn.mixers import Mixer
from coefdyn.mixers.projections import rotate_positions, split_heads

F64 = torch.float64


def heads(mixer: Mixer, x: torch.Tensor) -> list[torch.Tensor]:
    """q, k and v as they are projected and convolved, (B, H, L, ...)."""
    return [mixer.project[name](x)[0] for name in ("query", "key", "value")]


def linear_attention(mixer: Mixer, x: torch.Tensor) -> torch.Tensor:
    """The row's sum is read as one more value of 1, without the 1e-10 that fla adds to it."""
    q, k, v = heads(mixer, x)
    q, k = (functional.elu(one) + 1 for one in (q, k / math.sqrt(mixer.key_dim)))
    parts = time_first(q, k, torch.cat([v, torch.ones_like(v[..., :1])], -1))
    y = naive_recurrent_linear_attn(*parts, scale=1.0)[0].transpose(1, 2)
    return y[..., :-1] / y[..., -1:]


def normalized_attention(mixer: Mixer, x: torch.Tensor) -> torch.Tensor:
    eta = mixer.eta.linear(x).exp().transpose(1, 2)
    return (
        naive_recurrent_linear_attn(*time_first(*heads(mixer, x)))[0].transpose(1, 2)
        / eta[..., None]
    )


def gla(mixer: Mixer, x: torch.Tensor) -> torch.Tensor:
    raw = split_heads(mixer.decay.up(mixer.decay.down(x)), mixer.n_heads)
    parts = time_first(*heads(mixer, x), functional.logsigmoid(raw) / 16)
    return naive_recurrent_gla(*parts)[0].transpose(1, 2)


def deltanet(mixer: Mixer, x: torch.Tensor) -> torch.Tensor:
    q, k, v = heads(mixer, x)
    beta = torch.sigmoid(mixer.beta.linear(x)).transpose(1, 2)
    return delta_rule_recurrence(unit(q), unit(k), v, beta)[0]


def gated_deltanet_with_its_own_direction(mixer: Mixer, x: torch.Tensor) -> torch.Tensor:
    """a (I - beta z z^T) is diagonal plus low rank."""
    q, k, v = heads(mixer, x)
    z = unit(mixer.project["direction"](x)[0])
    beta = 2 * torch.sigmoid(mixer.beta.linear(x)).transpose(1, 2)[..., None]
    gate = mixer.decay(x)[0][..., None]
    low = gate.exp() * beta * z
    return dplr_recurrence(unit(q), beta * unit(k), v, -z, low, gate.expand_as(k))[0]


def mlstm(mixer: Mixer, x: torch.Tensor) -> torch.Tensor:
    """Without the 1e-6 that transformers adds to the denominator."""
    q, k, v = heads(mixer, x)
    read = torch.cat([one.transpose(1, 2).flatten(2) for one in (q, k, v)], -1)
    write, forget = (
        functional.linear(read, weight, bias).transpose(1, 2)
        for weight, bias in (
            (mixer.input_weight, mixer.input_bias),
            (mixer.forget_weight, mixer.forget_bias),
        )
    )
    exact = {"eps": 0.0, "dtype_state": F64}
    return mlstm_recurrent_sequence_native(q, k, v, igate=write, fgate=forget, **exact)


def gated_deltanet2(mixer: Mixer, x: torch.Tensor) -> torch.Tensor:
    q, k, v = heads(mixer, x)
    gates = (split_heads(part(x).sigmoid(), mixer.n_heads) for part in (mixer.erase, mixer.write))
    parts = time_first(unit(q), unit(k), v, mixer.decay(x), *gates)
    return naive_recurrent_gdn2(*parts)[0].transpose(1, 2)


def comba(mixer: Mixer, x: torch.Tensor) -> torch.Tensor:
    q, k, v = heads(mixer, x)
    k = unit(k)
    q = unit(q) - mixer.correction[:, None, None] * k
    erased = mixer.feedback.sigmoid()[:, None, None] * k
    parts = time_first(q, k, v, erased, mixer.decay(x)[0], mixer.beta(x))
    return naive_chunk_comba(*parts, chunk_size=8)[0].transpose(1, 2)


def forgetting_attention(mixer: Mixer, x: torch.Tensor) -> torch.Tensor:
    gate = functional.logsigmoid(mixer.forget(x)).transpose(1, 2)
    dynamics, v = mixer.dynamics(x)
    return naive_forgetting_attn(*time_first(dynamics.q, dynamics.k, v, gate)).transpose(1, 2)


def alibi(mixer: Mixer, x: torch.Tensor) -> torch.Tensor:
    """A linear bias on the scores, with the paper's slopes."""
    dynamics, v = mixer.dynamics(x)
    slopes = 2.0 ** (-8 * torch.arange(1, mixer.n_heads + 1, dtype=F64) / mixer.n_heads)
    gap = torch.arange(x.shape[1])[:, None] - torch.arange(x.shape[1])
    bias = (-slopes[:, None, None] * gap).masked_fill(gap < 0, -torch.inf)
    return functional.scaled_dot_product_attention(dynamics.q, dynamics.k, v, attn_mask=bias)


def window(mixer: Mixer, x: torch.Tensor) -> torch.Tensor:
    dynamics, v = mixer.dynamics(x)
    parts = time_first(dynamics.q, dynamics.k, v, torch.zeros_like(dynamics.q[..., 0]))
    return naive_forgetting_attn(*parts, window_size=mixer.mask.size).transpose(1, 2)


def sink(mixer: Mixer, x: torch.Tensor) -> torch.Tensor:
    dynamics, v = mixer.dynamics(x)
    layer = SimpleNamespace(num_key_value_groups=1, sinks=mixer.sink, training=False)
    future = torch.full((x.shape[1], x.shape[1]), -torch.inf, dtype=F64).triu(1)
    parts = dynamics.q, dynamics.k, v, future, mixer.key_dim**-0.5
    return eager_attention_forward(layer, *parts)[0].transpose(1, 2)


def retnet(mixer: Mixer, x: torch.Tensor) -> torch.Tensor:
    q, k, v = heads(mixer, x)
    return naive_retention(rotate_positions(q, 0), rotate_positions(k, 0), v)


def hgrn2(mixer: Mixer, x: torch.Tensor) -> torch.Tensor:
    q, raw, v = heads(mixer, x)
    low = mixer.lower_bound
    forget = low + (1 - low) * raw.sigmoid()
    q = functional.silu(q)
    return naive_recurrent_gla(*time_first(q, 1 - forget, v, forget.log()))[0].transpose(1, 2)


def path(mixer: Mixer, x: torch.Tensor) -> torch.Tensor:
    w = mixer.project["direction"](x)[0]
    w = w / (w.square().sum(-1, keepdim=True) + 1e-6).sqrt()
    beta = 2 * torch.sigmoid(mixer.beta.linear(x)).transpose(1, 2)
    parts = time_first(*heads(mixer, x), w, beta, torch.zeros_like(beta))
    return naive_path_attn(*parts, scale=mixer.key_dim**-0.5, chunk_size=16).transpose(1, 2)


def wall_attention(mixer: Mixer, x: torch.Tensor) -> torch.Tensor:
    gate = functional.logsigmoid(split_heads(mixer.decay(x), mixer.n_heads))
    parts = time_first(*heads(mixer, x), gate)
    return wall.naive_wall_attn(*parts, scale=mixer.key_dim**-0.5).transpose(1, 2)


def sigmoid_attention(mixer: Mixer, x: torch.Tensor) -> torch.Tensor:
    q, k, v = heads(mixer, x)
    scores = rotate_positions(q, 0) @ rotate_positions(k, 0).mT / math.sqrt(mixer.key_dim)
    return (1 / (1 + 8 * torch.exp(-scores))).tril() @ v  # sigmoid(s - log 8)


def mesanet(mixer: Mixer, x: torch.Tensor, v: torch.Tensor | None = None) -> torch.Tensor:
    q, k, own = heads(mixer, x)
    v = own if v is None else v
    q, k = (one / (one.square().sum(-1, keepdim=True) + 1e-6).sqrt() for one in (q, k))
    gate = functional.logsigmoid(mixer.decay.linear(x))
    beta = torch.sigmoid(mixer.beta.linear(x))
    ridge = functional.softplus(mixer.raw_ridge) + 0.25
    return naive_mesa_net_exact(*time_first(q, k, v), gate, ridge, beta)[0].transpose(1, 2)


def gsa(mixer: Mixer, x: torch.Tensor, v: torch.Tensor | None = None) -> torch.Tensor:
    q, k, own = (functional.silu(one) for one in heads(mixer, x))
    v = own if v is None else v
    gate = functional.logsigmoid(split_heads(mixer.decay(x), mixer.n_heads)) / 8
    parts = time_first(q, k, v, 1 - gate.exp(), gate)
    return naive_recurrent_gsa(*parts, scale=1.0)[0].transpose(1, 2)


def momentum(mixer: Mixer, x: torch.Tensor) -> torch.Tensor:
    q, k, v = heads(mixer, x)
    q, k = (one / (one.square().sum(-1, keepdim=True) + 1e-6).sqrt() for one in (q, k))
    a, mu = mixer.decay(x)[0], mixer.momentum(x)[0]
    beta, eta = (torch.sigmoid(gate.linear(x)).transpose(1, 2) for gate in (mixer.beta, mixer.eta))
    parts = time_first(q, k, v, a, mu, a.exp()[..., None] * k, beta, eta)
    return recurrent_momentum_delta_rule_ref(*parts)[0].transpose(1, 2)


def unit(one: torch.Tensor) -> torch.Tensor:
    return one / (one.square().sum(-1, keepdim=True) + 1e-6).sqrt()


def rwkv6(mixer: Mixer, x: torch.Tensor) -> torch.Tensor:
    q, k, v = heads(mixer, x)
    gate = -split_heads(mixer.decay(x), mixer.n_heads).exp()
    assert gate.min() > -5  # nothing is bounded here
    return naive_recurrent_rwkv6(q, k, v, gate, mixer.bonus[:, 0], scale=1.0)[0]


def rwkv7(mixer: Mixer, x: torch.Tensor) -> torch.Tensor:
    q, raw, v = heads(mixer, x)
    gate, rate = (
        split_heads(part(x).sigmoid(), mixer.n_heads) for part in (mixer.decay, mixer.rate)
    )
    z, k = unit(mixer.erase * raw), raw * (1 + (rate - 1) * mixer.strength)
    whole = q * math.sqrt(mixer.key_dim)  # theirs divides by the root
    state = dplr_recurrence(whole, k, v, -z, rate * z, -math.exp(-0.5) * gate)[0]
    return state + (q * mixer.bonus * k).sum(-1, keepdim=True) * v


def delta_product(mixer: Mixer, x: torch.Tensor) -> torch.Tensor:
    def in_turn(one: torch.Tensor) -> torch.Tensor:
        """(B, H m, L, c) to fla's (B, L m, H, c)."""
        return one.unflatten(1, (mixer.n_heads, -1)).permute(0, 3, 2, 1, 4).flatten(1, 2)

    q, k, v = heads(mixer, x)
    beta = in_turn(2 * torch.sigmoid(mixer.beta.linear(x)).transpose(1, 2)[..., None])
    gate = mixer.decay(x)[0].transpose(1, 2) if hasattr(mixer, "decay") else None
    return naive_recurrent_gated_delta_product(
        unit(q).transpose(1, 2),
        in_turn(unit(k)),
        in_turn(v),
        gate,
        beta[..., 0],
        scale=mixer.key_dim**-0.5,
        num_householder=mixer.steps,
    )[0].transpose(1, 2)


def log_linear(mixer: Mixer, x: torch.Tensor) -> torch.Tensor:
    gate = mixer.decay(x)[0]
    levels = functional.softplus(mixer.weights(x)).unflatten(-1, (mixer.n_heads, -1))
    parts = time_first(*heads(mixer, x), gate)
    return naive_log_linear_attn(*parts, levels, scale=None).transpose(1, 2)


def mamba3(mixer: Mixer, x: torch.Tensor) -> torch.Tensor:
    """The recurrence of the paper; a rotated pair of channels is one complex number."""

    def pairs(name: str) -> torch.Tensor:
        one, weight = mixer.project[name](x)[0], getattr(mixer, f"{name}_weight")
        one = one / (one.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight
        return torch.complex(*(one + getattr(mixer, f"{name}_bias")).chunk(2, dim=-1))

    c, b, v = pairs("query"), pairs("key"), mixer.project["value"](x)[0]
    step = functional.softplus(mixer.timestep.linear(x)).transpose(1, 2)
    rate = functional.softplus(mixer.rate.linear(x)).transpose(1, 2)
    share = torch.sigmoid(mixer.share.linear(x)).transpose(1, 2)
    theta = mixer.speed(x)[:, None]
    state = torch.zeros(*v.shape[:2], b.shape[-1], v.shape[-1], dtype=torch.complex128)
    written, outputs = torch.zeros_like(state), []
    for t in range(x.shape[1]):
        a, d, s = (one[:, :, t, None, None] for one in ((-step * rate).exp(), step, share))
        turn = torch.polar(torch.ones_like(d), d * theta[:, :, t, :, None])
        now = b[:, :, t, :, None] * v[:, :, t, None, :]
        state = a * turn * (state + (1 - s) * d * written) + s * d * now
        written = now
        outputs.append((c[:, :, t, :, None].conj() * state).real.sum(-2))
    return torch.stack(outputs, dim=2) + mixer.skip[:, None, None] * v


def differential(mixer: Mixer, x: torch.Tensor) -> torch.Tensor:
    q, k, v = heads(mixer, x)
    scores = rotate_positions(q, 0) @ rotate_positions(k, 0).mT / math.sqrt(mixer.key_dim)
    future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
    weights = scores.masked_fill(future, -torch.inf).softmax(-1)
    (q1, q2), (k1, k2) = mixer.rates
    first = 0.8 - 0.6 * math.exp(-0.3)
    weight = torch.exp(q1 @ k1) - torch.exp(q2 @ k2) + first
    return (weights[:, 0::2] - weight * weights[:, 1::2]) @ v


PEERS = {
    "LinearAttention": linear_attention,
    "NormalizedAttention": normalized_attention,
    "GLA": gla,
    "DeltaNet": deltanet,
    "GatedDeltaNet-learned": gated_deltanet_with_its_own_direction,
    "MLSTM": mlstm,
    "GatedDeltaNet2": gated_deltanet2,
    "Comba": comba,
    "ForgettingAttention": forgetting_attention,
    "ALiBiAttention": alibi,
    "Window-SoftmaxAttention": window,
    "Sink-SoftmaxAttention": sink,
    "RetNet": retnet,
    "HGRN2": hgrn2,
    "HGRN2-low": hgrn2,
    "PaTHAttention": path,
    "WallAttention": wall_attention,
    "SigmoidAttention": sigmoid_attention,
    "MesaNet": mesanet,
    "MomentumDeltaNet": momentum,
    "RWKV6": rwkv6,
    "RWKV7": rwkv7,
    "Mamba3": mamba3,
    "DeltaProduct": delta_product,
    "GatedDeltaProduct": delta_product,
    "LogLinearAttention": log_linear,
    "DifferentialAttention": differential,
    "GSA": gsa,
    "GSA-slots": gsa,
}


@pytest.fixture(autouse=True)
def _sums_without_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """fla's eager Wall attention sums by a GPU kernel, and has 1/log(2) in float32."""

    def running_sum(g: torch.Tensor, cu_seqlens: None = None, scale: float = 1.0) -> torch.Tensor:
        return g.cumsum(1) * scale

    monkeypatch.setattr(wall, "chunk_global_cumsum", running_sum)
    monkeypatch.setattr(wall, "RCP_LN2", 1 / math.log(2))


@pytest.mark.parametrize("case", PEERS)
def test_the_row_is_its_authors(case: str) -> None:
    mixer, x = build(case, value_dim=4), tokens(2, 40).requires_grad_()
    found, v = mixer.dynamics(x)
    with widened():
        expected = PEERS[case](mixer, x)
    leaves = {"x": x, **dict(mixer.named_parameters())}
    agrees_with_peer(leaves, mixer.collect(found.apply(v)), expected)


@torch.no_grad()
def test_lightning_attention_is_transformers_layer() -> None:
    """The whole layer of MiniMax: projections, SiLU, decay of its depth, norm and gate."""
    mixer = build("LightningAttention", d_model=16, n_heads=4, key_dim=4, value_dim=4)
    config = MiniMaxConfig(
        hidden_size=16,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=4,
        num_hidden_layers=3,
        block_size=16,
        rms_norm_eps=1e-5,
    )
    mixer.depth = 1 / (2 + 1e-5)
    with widened():
        layer = MiniMaxLightningAttention(config, layer_idx=1).double()
        layer.norm.variance_epsilon = 1e-5
        parts = [mixer.project[name].linear.weight for name in ("query", "key", "value")]
        stacked = torch.stack([part.unflatten(0, (4, 4)) for part in parts], dim=1)
        layer.qkv_proj.weight.copy_(stacked.flatten(0, 2))
        layer.output_gate.weight.copy_(mixer.output.gate.weight)
        layer.norm.weight.copy_(mixer.output.norm_weight)
        layer.out_proj.weight.copy_(mixer.output.projection.weight)
        x = tokens(2, 37, d_model=16)
        with torch.enable_grad():
            x.requires_grad_()
            theirs, ours = layer(x, None, None)[0], mixer(x)
            agrees_with_peer({"x": x}, ours, theirs)


@pytest.mark.parametrize(("case", "authors"), [("MesaNet", mesanet), ("GSA", gsa)])
def test_a_query_made_of_the_past_leaves_the_map_linear_in_the_values(case: str, authors) -> None:
    """With everything but v fixed, the authors' function has the coefficients of our dynamics."""
    mixer, x = build(case, value_dim=4), tokens(1, 20)
    expected, v = mixer.dynamics(x)

    def theirs(values: torch.Tensor) -> torch.Tensor:
        with widened():
            return authors(mixer, x, values)

    found = probe(theirs, v.detach())
    assert found.has_coefficients(1e-11), str(found)
    alpha = expected.coefficients(normalized=True)
    assert_agree(found.coefficients, alpha, method="peer", dtype=F64, quantity="output")
