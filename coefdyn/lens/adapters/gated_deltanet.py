"""Gated DeltaNet: qwen3_next, qwen3_5, qwen4_exp, olmo_hybrid of transformers, and fla's layer.

A_t = exp(g_t) (I - beta_t k_t k_t^T),  b_j = beta_j / sqrt(n),  phi = Id,  eta = 1
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.dynamics.evolution import Evolution
from coefdyn.lens.adapters.base import (
    Call,
    OpAdapter,
    Unsupported,
    first,
    refuse_state,
    repeat_heads,
    take,
    wide,
)
from coefdyn.shapes import Tensor

__all__ = ["GatedDeltaNet"]

#: flags of fla's kernels that mean inputs before a gate or a sigmoid
RAW_INPUTS = ("use_gate_in_kernel", "use_beta_sigmoid_in_kernel", "safe_gate", "cu_seqlens")


def unit(x: Tensor) -> Tensor:
    """x / sqrt(|x|^2 + 1e-6), as the kernels do it."""
    return x * (x.square().sum(-1, keepdim=True) + 1e-6).rsqrt()


def delta_arguments(given: dict[str, Any]) -> dict[str, Tensor]:
    """q, k, v, g, beta heads first, keys repeated to the heads of the values, q scaled."""
    for flag in RAW_INPUTS:
        if given.get(flag) not in (None, False):
            raise Unsupported(f"the kernel is called with {flag}, whose inputs the lens cannot see")
    refuse_state(given.get("initial_state"))
    names = {"q": ("query", "q"), "k": ("key", "k"), "v": ("value", "v")}
    named = {name: take(given, *known) for name, known in names.items()}
    named |= {"g": take(given, "g"), "beta": take(given, "beta")}
    named = {name: wide(value).transpose(1, 2) for name, value in named.items()}
    heads = named["v"].shape[1]
    named = {name: repeat_heads(value, heads) for name, value in named.items()}
    if given.get("use_qk_l2norm_in_kernel"):
        named["q"], named["k"] = unit(named["q"]), unit(named["k"])
    return named


def replay_delta(op: Callable[..., Any], given: dict[str, Any]) -> Callable[[Tensor], Tensor]:
    name = "value" if "value" in given else "v"

    def replay(v: Tensor) -> Tensor:
        changed = {name: v.transpose(1, 2).to(given[name].dtype), "initial_state": None}
        return first(op(**{**given, **changed})).transpose(1, 2)

    return replay


class GatedDeltaNet(OpAdapter):
    """``chunk_gated_delta_rule``: q, k, v, g, beta with layout (B, L, H, n)."""

    mechanism = "gated deltanet"
    outside = "short convolution on q, k, v; gated norm and projection after y"
    names = ("torch_chunk_gated_delta_rule", "chunk_gated_delta_rule")
    continuing = ("torch_recurrent_gated_delta_rule",)

    def evolves(self, t: dict[str, Tensor]) -> Evolution:
        """A_t from the arguments of the kernel."""
        return evolution.ScaledHouseholder(direction=t["k"], beta=t["beta"], log_decay=t["g"])

    def read_op(self, op: Callable[..., Any], given: dict[str, Any], result: Any) -> Call:
        t = delta_arguments(given)
        scale = given.get("scale") or t["q"].shape[-1] ** -0.5
        dynamics = CoefficientDynamics(
            q=t["q"],
            k=t["k"],
            evolution=self.evolves(t),
            scaling=t["beta"] * scale,
            readout=readout.identity,
            normalizer=normalizer.One(),
        )
        return Call(
            dynamics=dynamics,
            values=t["v"],
            output=wide(first(result)).transpose(1, 2),
            replay=replay_delta(op, given),
            columns=t["v"].shape[-1],
        )
