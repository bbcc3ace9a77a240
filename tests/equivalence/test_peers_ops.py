"""``coefdyn.ops`` against the plain functions that fla keeps beside its kernels, in float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from fla.ops.delta_rule.naive import delta_rule_recurrence
from fla.ops.gated_delta_rule.gate import naive_gdn_gate
from fla.ops.gated_delta_rule.naive import (
    naive_chunk_gated_delta_rule,
    naive_recurrent_gated_delta_rule,
)
from fla.ops.gla.naive import naive_recurrent_gla
from fla.ops.kda.gate import naive_kda_gate, naive_kda_lowerbound_gate
from fla.ops.kda.naive import naive_recurrent_kda
from fla.ops.linear_attn.naive import naive_recurrent_linear_attn
from fla.ops.retention.naive import naive_retention
from fla.ops.simple_gla.naive import naive_chunk_simple_gla, naive_recurrent_simple_gla
from tolerances import assert_agree
from torch.nn import functional

from coefdyn import ops

Inputs = dict[str, torch.Tensor]
BATCH, LENGTH, HEADS, WIDTH = 2, 64, 3, 16


def drawn() -> Inputs:
    noise = torch.Generator().manual_seed(9)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=noise)

    rows = (BATCH, LENGTH, HEADS)
    found = {
        **{"q": normal(*rows, WIDTH), "k": functional.normalize(normal(*rows, WIDTH), dim=-1)},
        **{"v": normal(*rows, WIDTH), "g": -normal(*rows).abs(), "gk": -normal(*rows, WIDTH).abs()},
        **{"beta": normal(*rows).sigmoid(), "state": normal(BATCH, HEADS, WIDTH, WIDTH)},
        **{"A_log": 0.3 * normal(HEADS), "bias": normal(HEADS), "bias_k": normal(HEADS * WIDTH)},
    }
    return {name: x.detach().requires_grad_() for name, x in found.items()}


def heads_first(*values: torch.Tensor) -> list[torch.Tensor]:
    return [x.transpose(1, 2) for x in values]


def delta(x: Inputs) -> tuple[torch.Tensor, torch.Tensor]:
    y, last = delta_rule_recurrence(*heads_first(x["q"], x["k"], x["v"], x["beta"]), x["state"])
    return y.transpose(1, 2), last


KEPT: dict[str, Any] = {"output_final_state": True}
QKV = ("q", "k", "v")
#: peer -> (ours, theirs), both of inputs: y and the last state, from the same first state
PEERS: dict[str, tuple[Callable[[Inputs], tuple], Callable[[Inputs], tuple]]] = {
    "naive_chunk_gated_delta_rule": (
        lambda x: ops.chunk_gated_delta_rule(
            *(x[n] for n in (*QKV, "g", "beta")), initial_state=x["state"], **KEPT
        ),
        lambda x: naive_chunk_gated_delta_rule(
            *(x[n] for n in (*QKV, "g", "beta")), initial_state=x["state"], **KEPT
        ),
    ),
    "naive_recurrent_gated_delta_rule": (
        lambda x: ops.fused_recurrent_gated_delta_rule(
            *(x[n] for n in (*QKV, "g")), beta=x["beta"], initial_state=x["state"], **KEPT
        ),
        lambda x: naive_recurrent_gated_delta_rule(
            *(x[n] for n in (*QKV, "beta", "g")), initial_state=x["state"], **KEPT
        ),
    ),
    "naive_gdn_gate": (
        lambda x: ops.chunk_gated_delta_rule(
            *(x[n] for n in (*QKV, "g", "beta")),
            use_gate_in_kernel=True,
            A_log=x["A_log"],
            dt_bias=x["bias"],
            **KEPT,
        ),
        lambda x: naive_recurrent_gated_delta_rule(
            *(x[n] for n in (*QKV, "beta")), naive_gdn_gate(x["g"], x["A_log"], x["bias"]), **KEPT
        ),
    ),
    "delta_rule_recurrence": (
        lambda x: ops.chunk_delta_rule(
            *(x[n] for n in (*QKV, "beta")), initial_state=x["state"], **KEPT
        ),
        delta,
    ),
    "naive_recurrent_gla": (
        lambda x: ops.chunk_gla(*(x[n] for n in (*QKV, "gk")), initial_state=x["state"], **KEPT),
        lambda x: naive_recurrent_gla(*(x[n] for n in (*QKV, "gk")), x["state"], True),
    ),
    "naive_recurrent_simple_gla": (
        lambda x: ops.chunk_simple_gla(
            *(x[n] for n in (*QKV, "g")), initial_state=x["state"], **KEPT
        ),
        lambda x: naive_recurrent_simple_gla(
            *(x[n] for n in (*QKV, "g")), initial_state=x["state"], **KEPT
        ),
    ),
    "naive_chunk_simple_gla": (
        lambda x: ops.chunk_simple_gla(*(x[n] for n in (*QKV, "g")), scale=0.5, **KEPT),
        lambda x: naive_chunk_simple_gla(*(x[n] for n in (*QKV, "g")), scale=0.5, **KEPT),
    ),
    "naive_retention": (
        lambda x: ops.chunk_retention(*(x[n] for n in QKV))[:1],
        lambda x: (naive_retention(*heads_first(*(x[n] for n in QKV))).transpose(1, 2),),
    ),
    "naive_recurrent_kda": (
        lambda x: ops.chunk_kda(
            *(x[n] for n in (*QKV, "gk", "beta")), initial_state=x["state"], **KEPT
        ),
        lambda x: naive_recurrent_kda(
            *(x[n] for n in (*QKV, "gk", "beta")), initial_state=x["state"], **KEPT
        ),
    ),
    "naive_kda_gate": (
        lambda x: ops.chunk_kda(
            *(x[n] for n in (*QKV, "gk", "beta")),
            use_gate_in_kernel=True,
            A_log=x["A_log"],
            dt_bias=x["bias_k"],
            **KEPT,
        ),
        lambda x: naive_recurrent_kda(
            *(x[n] for n in QKV),
            naive_kda_gate(x["gk"], x["A_log"], x["bias_k"]),
            x["beta"],
            **KEPT,
        ),
    ),
    "naive_kda_lowerbound_gate": (
        lambda x: ops.chunk_kda(
            *(x[n] for n in (*QKV, "gk", "beta")), use_gate_in_kernel=True, lower_bound=-2.0, **KEPT
        ),
        lambda x: naive_recurrent_kda(
            *(x[n] for n in QKV),
            naive_kda_lowerbound_gate(x["gk"], None, None, -2.0),
            x["beta"],
            **KEPT,
        ),
    ),
    "naive_recurrent_linear_attn": (
        lambda x: _flat(ops.chunk_linear_attn(x["q"].exp(), x["k"].exp(), x["v"], **KEPT)),
        lambda x: _flat(
            naive_recurrent_linear_attn(x["q"].exp(), x["k"].exp(), x["v"], normalize=True, **KEPT)
        ),
    ),
}


def _flat(found: tuple) -> tuple:
    return (found[0], *found[1])


def gradients(found: tuple, x: Inputs) -> tuple[torch.Tensor | None, ...]:
    """Of every input, for a loss of y and of the state without symmetry."""
    weights = [torch.linspace(-1, 2, y.numel(), dtype=y.dtype).view_as(y) for y in found]
    loss = sum((y * w).sum() for y, w in zip(found, weights, strict=True))
    return torch.autograd.grad(loss, list(x.values()), allow_unused=True)


@pytest.mark.parametrize("peer", PEERS)
def test_operation_is_flas_own_plain_function(peer: str) -> None:
    """Gradients of a gate's parameters sum those of the decays of all tokens, which cancel."""
    x = drawn()
    ours, theirs = (compute(x) for compute in PEERS[peer])
    for mine, other in zip(ours, theirs, strict=True):
        assert_agree(mine, other, method="peer", dtype=torch.float32, quantity="output")
    for name, a, b in zip(x, gradients(ours, x), gradients(theirs, x), strict=True):
        assert (a is None) == (b is None), name
        if a is not None and b is not None:
            method = "chunked" if name in ("A_log", "bias") else "peer"
            assert_agree(a, b, method=method, dtype=torch.float32, quantity="gradient", what=name)
