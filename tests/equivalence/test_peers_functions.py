"""Rows of Table 1 against other people's code: fla, transformers and torch, y and gradients.

fla-core's ``naive`` modules and transformers' torch functions compute in float32, so both sides do.
Where fla is importable, transformers hands its functions over to fla's kernels;
``inspect.unwrap`` gives the torch ones.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest
import torch
from fla.ops.attn.naive import naive_parallel_attn
from fla.ops.delta_rule.naive import delta_rule_recurrence
from fla.ops.gated_delta_rule.naive import (
    naive_recurrent_gated_delta_rule,
)
from fla.ops.generalized_delta_rule.iplr.naive import iplr_recurrence
from fla.ops.gla.naive import naive_recurrent_gla
from fla.ops.linear_attn.naive import naive_recurrent_linear_attn
from fla.ops.path_attn.naive import naive_path_attn
from fla.ops.retention.naive import naive_retention
from fla.ops.simple_gla.naive import naive_recurrent_simple_gla
from rows import ROWS, draw, elu1
from torch.nn import functional
from transformers.models.mamba2.modeling_mamba2 import mamba2_chunk_scan
from transformers.models.qwen3_next.modeling_qwen3_next import (
    torch_recurrent_gated_delta_rule,
)
from transformers.models.xlstm.modeling_xlstm import mlstm_recurrent_sequence_native
from widened import agrees_with_peer, time_first

from coefdyn import CoefficientDynamics, evolution, normalizer, readout

Leaves = dict[str, torch.Tensor]
LENGTH = 64


def back(y: torch.Tensor | tuple) -> torch.Tensor:
    """fla's (B, L, H, d_v), perhaps with a state, to (B, H, L, d_v)."""
    return (y[0] if isinstance(y, tuple) else y).transpose(1, 2)


def sdpa(x: Leaves) -> torch.Tensor:
    return functional.scaled_dot_product_attention(x["q"], x["k"], x["v"], is_causal=True)


def fla_attention(x: Leaves) -> torch.Tensor:
    return back(naive_parallel_attn(*time_first(x["q"], x["k"], x["v"])))


def fla_linear_attention(x: Leaves) -> torch.Tensor:
    k = x["k"] / x["k"].shape[-1] ** 0.5
    q, k, v = time_first(elu1(x["q"]), elu1(k), x["v"])
    return back(naive_recurrent_linear_attn(q, k, v, scale=1.0, normalize=True))


def fla_normalized_attention(x: Leaves) -> torch.Tensor:
    q, k, v = time_first(x["q"], x["k"], x["v"])
    return back(naive_recurrent_linear_attn(q, k, v)) / x["eta"].exp()[..., None]


def fla_gla(x: Leaves) -> torch.Tensor:
    gate = functional.logsigmoid(x["channel_gate"]) / 16
    return back(naive_recurrent_gla(*time_first(x["q"], x["k"], x["v"], gate)))


def _scalar(x: Leaves, run: Callable) -> torch.Tensor:
    delta = functional.softplus(x["delta"])
    decay = -delta * x["log_a"].exp()[..., None]
    q, k, v, g = time_first(x["q"], x["k"] * delta[..., None], x["v"], decay)
    return back(run(q, k, v, g, scale=1.0))


def fla_scalar_recurrent(x: Leaves) -> torch.Tensor:
    return _scalar(x, naive_recurrent_simple_gla)


def transformers_mamba2(x: Leaves) -> torch.Tensor:
    """Its A is one per head; our leaf is one per head and sequence, so sequences go one by one."""
    scan, ys = inspect.unwrap(mamba2_chunk_scan), []
    q, k, v, delta = time_first(x["q"], x["k"], x["v"], x["delta"])
    for b in range(q.shape[0]):
        one = slice(b, b + 1)
        a = -x["log_a"][b].exp()
        ys.append(scan(v[one], delta[one], a, k[one], q[one], chunk_size=16, dt_softplus=True))
    return back(torch.cat(ys))


def fla_deltanet_recurrent(x: Leaves) -> torch.Tensor:
    return delta_rule_recurrence(x["q"], x["k"], x["v"], x["beta"].sigmoid())[0]


def _gated(x: Leaves, run: Callable) -> torch.Tensor:
    beta, g = x["beta"].sigmoid(), -functional.softplus(x["delta"])
    q, k, v, beta, g = time_first(x["q"], x["k"], x["v"], beta, g)
    return back(run(q, k, v, beta=beta, g=g))


def fla_gated_recurrent(x: Leaves) -> torch.Tensor:
    return _gated(x, naive_recurrent_gated_delta_rule)


def transformers_gated_recurrent(x: Leaves) -> torch.Tensor:
    return _gated(x, inspect.unwrap(torch_recurrent_gated_delta_rule))


def transformers_mlstm(x: Leaves) -> torch.Tensor:
    """Without the 1e-6 that transformers adds to the denominator."""
    return mlstm_recurrent_sequence_native(
        x["q"], x["k"], x["v"], igate=x["write"], fgate=x["forget"], eps=0.0
    )


PEERS: dict[Callable[[Leaves], torch.Tensor], str] = {
    sdpa: "SoftmaxAttention",
    fla_attention: "SoftmaxAttention",
    fla_linear_attention: "LinearAttention",
    fla_normalized_attention: "NormalizedAttention",
    fla_gla: "GLA",
    fla_scalar_recurrent: "Mamba2",
    transformers_mamba2: "Mamba2",
    fla_deltanet_recurrent: "DeltaNet",
    fla_gated_recurrent: "GatedDeltaNet",
    transformers_gated_recurrent: "GatedDeltaNet",
    transformers_mlstm: "MLSTM",
}


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.__name__)
def test_row_is_the_peers(peer: Callable[[Leaves], torch.Tensor]) -> None:
    row = PEERS[peer]
    leaves = draw(row, LENGTH, dtype=torch.float32)
    agrees_with_peer(leaves, ROWS[row](leaves).apply(leaves["v"]), peer(leaves))


def test_softmax_is_torchs_attention_in_float64() -> None:
    leaves = draw("SoftmaxAttention", LENGTH)
    agrees_with_peer(leaves, ROWS["SoftmaxAttention"](leaves).apply(leaves["v"]), sdpa(leaves))


def with_direction() -> tuple[Leaves, torch.Tensor, evolution.Householder]:
    """Leaves with a unit direction z of their own, beta in (0, 2), and I - beta z z^T."""
    leaves = draw("DeltaNet", LENGTH, dtype=torch.float32)
    noise = torch.randn(leaves["k"].shape, generator=torch.Generator().manual_seed(3))
    leaves["z"] = functional.normalize(noise, dim=-1).requires_grad_()
    beta = 2 * leaves["beta"].sigmoid()
    return leaves, beta, evolution.Householder(direction=leaves["z"], beta=beta)


def test_exp_with_householder_is_path_attention() -> None:
    """A cell outside Table 1: A_t = I - beta_t z_t z_t^T under phi = exp (PaTH attention)."""
    leaves, beta, reflect = with_direction()
    ours = CoefficientDynamics(
        q=leaves["q"],
        k=leaves["k"],
        evolution=reflect,
        scaling=8**-0.5,
        readout=readout.exp,
        normalizer=normalizer.RowSum(),
    ).apply(leaves["v"])
    q, k, v, z, b = time_first(leaves["q"], leaves["k"], leaves["v"], leaves["z"], beta)
    no_gate = torch.zeros_like(b)
    theirs = back(naive_path_attn(q, k, v, z, b, no_gate, scale=8**-0.5, chunk_size=16))
    agrees_with_peer(leaves, ours, theirs)


def test_householder_with_its_own_direction_is_a_generalised_delta_rule() -> None:
    """A_t = I - beta_t z_t z_t^T with z not the key: fla's identity-plus-low-rank recurrence."""
    leaves, beta, reflect = with_direction()
    ours = CoefficientDynamics(
        q=leaves["q"],
        k=leaves["k"],
        evolution=reflect,
        scaling=8**-0.5,
        readout=readout.identity,
        normalizer=normalizer.One(),
    ).apply(leaves["v"])
    low = -beta[..., None] * leaves["z"]
    q, k, v, z = (leaves[name] for name in ("q", "k", "v", "z"))
    agrees_with_peer(leaves, ours, iplr_recurrence(q, k, v, z, low)[0])


def test_constant_decay_per_head_is_retention() -> None:
    leaves = draw("SoftmaxAttention", LENGTH, dtype=torch.float32)
    decay = (1 - 2.0 ** (-5.0 - torch.arange(3))).log()
    ours = CoefficientDynamics(
        q=leaves["q"],
        k=leaves["k"],
        evolution=evolution.Scalar(log_decay=decay[None, :, None].expand(2, 3, LENGTH)),
        scaling=8**-0.5,
        readout=readout.identity,
        normalizer=normalizer.One(),
    ).apply(leaves["v"])
    agrees_with_peer(leaves, ours, naive_retention(leaves["q"], leaves["k"], leaves["v"]))
