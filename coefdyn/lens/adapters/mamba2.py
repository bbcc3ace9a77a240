"""Mamba-2: mamba2, bamba, falcon_h1, granitemoehybrid, nemotron_h, zamba2 of transformers.

A_t = exp(Delta_t a) I,  b_j = Delta_j,  phi = Id,  eta = 1,  q = C, k = B,  own = D
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.execution.state import LinearState
from coefdyn.lens.adapters.base import (
    Call,
    OpAdapter,
    Unsupported,
    first,
    refuse_state,
    repeat_heads,
    wide,
    with_first,
)
from coefdyn.lens.adapters.running import Runs, Taken, at_least_float32
from coefdyn.shapes import Float, Tensor

__all__ = ["Mamba2"]


def step_size(given: dict[str, Any]) -> Float[Tensor, "B L H"]:
    """Delta: bias, softplus and limits applied."""
    dt = wide(given["dt"])
    if given.get("dt_bias") is not None:
        dt = dt + wide(given["dt_bias"]).to(dt.dtype)
    if given.get("dt_softplus"):
        dt = functional.softplus(dt)
    low, high = given.get("dt_limit") or (0.0, float("inf"))
    return dt.clamp(min=low, max=high)


def skip(factors: Tensor, like: Float[Tensor, "B H L"]) -> Float[Tensor, "1 H L"]:
    """D of every head, at every token."""
    if factors.ndim != 1:
        raise Unsupported(f"D has shape {tuple(factors.shape)}: one number per head is expected")
    return wide(factors).to(like.dtype)[None, :, None].expand(1, *like.shape[1:])


def heads_or_one(x: Float[Tensor, "B G L n"], heads: int) -> Tensor:
    """Once per head; a single group as it is, since the algorithms share it between heads."""
    return x if x.shape[1] == 1 else repeat_heads(x, heads)


class Mamba2(OpAdapter, Runs):
    """``mamba2_chunk_scan``: x (B, L, H, P), dt (B, L, H), A (H), B and C (B, L, G, n)."""

    mechanism = "mamba-2"
    outside = "short convolution on x, B, C; gated norm and projection after y"
    names = ("mamba2_chunk_scan", "mamba_chunk_scan_combined")
    continuing = ("mamba2_selective_state_update",)

    def take(self, given: dict[str, Any]) -> Taken:
        """Read the arguments; states are (B, H, P, n), as here."""
        if given.get("seq_idx") is not None:
            raise Unsupported("several sequences are packed into one (seq_idx)")
        if given.get("z") is not None:
            raise Unsupported("the gate z is applied inside the kernel")
        x = wide(given[_input(given)])
        dt, heads = step_size(given).transpose(1, 2).to(x.dtype), x.shape[2]
        q, k = (
            heads_or_one(wide(given[name]).to(x.dtype).transpose(1, 2).contiguous(), heads)
            for name in ("C", "B")
        )
        dynamics = CoefficientDynamics(
            q=q,
            k=k,
            evolution=evolution.Scalar(log_decay=dt * wide(given["A"]).to(x.dtype)[:, None]),
            scaling=dt,
            readout=readout.identity,
            normalizer=normalizer.One(),
            own=None if given.get("D") is None else skip(given["D"], dt),
        )
        state = given.get("initial_states")

        def result(y: Tensor, after: LinearState | None) -> Any:
            own = given.get("D")
            dtype = torch.float32 if own is None else at_least_float32(own)
            y = y.transpose(1, 2).to(dtype).contiguous()
            return y if after is None else (y, after.matrix.float())

        return Taken(
            dynamics=dynamics,
            values=x.transpose(1, 2).contiguous(),
            result=result,
            before=None if state is None else LinearState(matrix=state.to(x.dtype), offset=None),
            keeps=bool(given.get("return_final_states")),
        )

    def read_op(self, op: Callable[..., Any], given: dict[str, Any], result: Any) -> Call:
        refuse_state(given.get("initial_states"))
        taken, key = self.take(given), _input(given)

        def replay(v: Tensor) -> Tensor:
            changed = {key: v.transpose(1, 2).to(given[key].dtype)}
            return first(op(**{**given, **changed})).transpose(1, 2)

        return Call(
            dynamics=taken.dynamics,
            values=taken.values,
            output=wide(first(result)).to(taken.values.dtype).transpose(1, 2),
            replay=replay,
            columns=taken.values.shape[-1],
            put=lambda y: with_first(result, y.transpose(1, 2).contiguous()),
        )


def _input(given: dict[str, Any]) -> str:
    """Name of the argument x."""
    return "hidden_states" if "hidden_states" in given else "x"
