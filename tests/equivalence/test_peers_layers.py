"""Whole mixers against whole layers of others, weights copied over: every convention at once.

torch.nn.MultiheadAttention, transformers' Mamba2Mixer and Qwen3NextGatedDeltaNet: order of
projections, short convolution, activations, norms, gates, skip and decay parameters.
"""

from __future__ import annotations

import inspect

import pytest
import torch
from fla.ops.generalized_delta_rule.iplr.naive import iplr_recurrence
from mixer_cases import build, tokens
from tolerances import assert_agree
from torch import nn
from transformers.models.kimi_linear import modeling_kimi_linear
from transformers.models.kimi_linear.configuration_kimi_linear import KimiLinearConfig
from transformers.models.mamba2 import modeling_mamba2
from transformers.models.mamba2.configuration_mamba2 import Mamba2Config
from transformers.models.qwen3_next import modeling_qwen3_next
from transformers.models.qwen3_next.configuration_qwen3_next import Qwen3NextConfig
from widened import agrees_with_peer, widened

from coefdyn.mixers import DeltaNet, Mixer

SIZES = {"d_model": 16, "n_heads": 4, "key_dim": 8, "value_dim": 8}


def compare(mixer: Mixer, layer: nn.Module, run, dtype: torch.dtype) -> None:
    """Outputs, and the gradient of x."""
    x = tokens(2, 37, d_model=16).to(dtype).requires_grad_()
    ours, theirs = mixer.to(dtype)(x), run(layer.to(dtype), x)
    assert_agree(ours, theirs, method="peer", dtype=dtype, quantity="output")
    weights = torch.linspace(-1, 2, ours.numel(), dtype=dtype).reshape(ours.shape)
    mine, other = (torch.autograd.grad((y * weights).sum(), x)[0] for y in (ours, theirs))
    assert_agree(mine, other, method="peer", dtype=dtype, quantity="gradient")


def linears(mixer: Mixer, *names: str) -> list[torch.Tensor]:
    return [mixer.project[name].linear.weight for name in names]


def taps(mixer: Mixer, *names: str) -> torch.Tensor:
    """Our (width, channels), newest tap first, as Conv1d's (channels, 1, width), oldest first."""
    weights = [mixer.project[name].convolution.weight.flip(0).T for name in names]
    return torch.cat(weights)[:, None, :]


@torch.no_grad()
def test_softmax_attention_is_torchs_multihead_attention() -> None:
    mixer = build("SoftmaxAttention", d_model=16, n_heads=4, key_dim=4, value_dim=4)
    layer = nn.MultiheadAttention(16, 4, bias=False, batch_first=True).double()
    layer.in_proj_weight.copy_(torch.cat(linears(mixer, "query", "key", "value")))
    layer.out_proj.weight.copy_(mixer.output.projection.weight)

    def run(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        return layer(x, x, x, attn_mask=future, need_weights=False)[0]

    with torch.enable_grad():
        compare(mixer, layer, run, torch.float64)


def test_a_direction_of_its_own_is_a_generalised_delta_rule() -> None:
    """A_t = I - beta_t z_t z_t^T with z not the key: fla's identity-plus-low-rank recurrence."""
    torch.manual_seed(0)
    mixer, x = DeltaNet(**SIZES, direction="learned").double(), tokens(2, 37, d_model=16)
    q, k, v, z = (mixer.project[n](x)[0] for n in ("query", "key", "value", "direction"))
    q, k, z = (one / (one.square().sum(-1, keepdim=True) + 1e-6).sqrt() for one in (q, k, z))
    beta = torch.sigmoid(mixer.beta.linear(x)).transpose(1, 2)[..., None]
    with widened():
        theirs = iplr_recurrence(q, beta * k, v, z, -beta * z)[0]
    dynamics, values = mixer.dynamics(x)
    agrees_with_peer(dict(mixer.named_parameters()), dynamics.apply(values), theirs)


@pytest.mark.parametrize("n_groups", [1, 2])
@torch.no_grad()
def test_mamba2_is_transformers_layer(n_groups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        modeling_mamba2, "mamba2_chunk_scan", inspect.unwrap(modeling_mamba2.mamba2_chunk_scan)
    )
    mixer = build("Mamba2", **SIZES) if n_groups == 1 else build("Mamba2-two", **SIZES)
    config = Mamba2Config(
        hidden_size=16,
        num_heads=4,
        head_dim=8,
        state_size=8,
        expand=2,
        n_groups=n_groups,
        chunk_size=16,
        num_hidden_layers=1,
    )
    layer = modeling_mamba2.Mamba2Mixer(config, layer_idx=0).eval()
    parts = [mixer.output.gate.weight, *linears(mixer, "value", "key", "query")]
    layer.in_proj.weight.copy_(torch.cat([*parts, mixer.decay.linear.weight]))
    order = ("value", "key", "query")
    layer.conv1d.weight.copy_(taps(mixer, *order))
    layer.conv1d.bias.copy_(torch.cat([mixer.project[n].convolution.bias for n in order]))
    layer.dt_bias.copy_(mixer.decay.delta_bias)
    layer.A_log.copy_(mixer.decay.log_a)
    layer.D.copy_(mixer.skip)
    layer.norm.weight.copy_(mixer.output.norm_weight.flatten())
    layer.out_proj.weight.copy_(mixer.output.projection.weight)
    with torch.enable_grad():
        compare(mixer, layer, lambda layer, x: layer(x), torch.float32)


@torch.no_grad()
def test_gated_deltanet_is_transformers_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torch_chunk_gated_delta_rule", "causal_conv1d_fn"):
        plain = inspect.unwrap(getattr(modeling_qwen3_next, name))
        monkeypatch.setattr(modeling_qwen3_next, name, plain)
    mixer = build("GatedDeltaNet", **SIZES)
    config = Qwen3NextConfig(
        hidden_size=16,
        linear_num_value_heads=4,
        linear_num_key_heads=4,
        linear_key_head_dim=8,
        linear_value_head_dim=8,
        rms_norm_eps=1e-5,
        num_hidden_layers=1,
    )
    layer = modeling_qwen3_next.Qwen3NextGatedDeltaNet(config, layer_idx=0).eval()
    names = ("query", "key", "value")
    per_head = [w.unflatten(0, (4, 8)) for w in linears(mixer, *names)]
    per_head.append(mixer.output.gate.weight.unflatten(0, (4, 8)))
    layer.in_proj_qkvz.weight.copy_(torch.cat(per_head, dim=1).flatten(0, 1))
    gates = torch.stack([mixer.beta.linear.weight, mixer.decay.linear.weight], dim=1)
    layer.in_proj_ba.weight.copy_(gates.flatten(0, 1))
    layer.conv1d.weight.copy_(taps(mixer, *names))
    layer.dt_bias.copy_(mixer.decay.delta_bias)
    layer.A_log.copy_(mixer.decay.log_a)
    layer.norm.weight.copy_(mixer.output.norm_weight)
    layer.out_proj.weight.copy_(mixer.output.projection.weight)
    with torch.enable_grad():
        compare(mixer, layer, lambda layer, x: layer(x), torch.float32)


@torch.no_grad()
def test_kda_is_transformers_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    """In float64; the authors' gate is a product of two matrices, ours their product."""
    for name in ("chunk_kimi_delta_attention", "causal_conv1d_fn"):
        plain = inspect.unwrap(getattr(modeling_kimi_linear, name))
        monkeypatch.setattr(modeling_kimi_linear, name, plain)
    mixer = build("KDA", **SIZES)
    config = KimiLinearConfig(
        hidden_size=16,
        linear_num_heads=4,
        linear_head_dim=8,
        rms_norm_eps=1e-5,
        num_hidden_layers=1,
        layer_types=["linear_attention"],
    )
    layer = modeling_kimi_linear.KimiLinearDeltaAttention(config, layer_idx=0).eval().double()
    names = ("query", "key", "value")
    for part, weight in zip(("q", "k", "v"), linears(mixer, *names), strict=True):
        getattr(layer, f"{part}_proj").weight.copy_(weight)
    layer.conv1d.weight.copy_(taps(mixer, *names))
    layer.forget_gate.f_a_proj.weight.copy_(mixer.decay.down.weight)
    layer.forget_gate.f_b_proj.weight.copy_(mixer.decay.up.weight)
    layer.forget_gate.dt_bias.copy_(mixer.decay.bias)
    layer.forget_gate.A_log.copy_(mixer.decay.log_rate[:, None])
    layer.b_proj.weight.copy_(mixer.beta.linear.weight)
    low, high = layer.g_a_proj.weight, layer.g_b_proj.weight
    mixer.output.gate.weight.copy_(high @ low)
    layer.o_norm.weight.copy_(mixer.output.norm_weight)
    layer.o_proj.weight.copy_(mixer.output.projection.weight)
    with torch.enable_grad(), widened():
        compare(mixer, layer, lambda layer, x: layer(x), torch.float64)
