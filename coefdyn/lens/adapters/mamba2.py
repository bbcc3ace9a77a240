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


class Mamba2(OpAdapter, Runs):
    """``mamba2_chunk_scan``: x (B, L, H, P), dt (B, L, H), A (H), B and C (B, L, G, n)."""

    mechanism = "mamba-2"
    outside = "short convolution on x, B, C; gated norm and projection after y"
    names = ("mamba2_chunk_scan", "mamba_chunk_scan_combined")
    continuing = ("mamba2_selective_state_update",)

    def take(self, given: dict[str, Any]) -> Taken:
        """Read the arguments; states are (B, H, P, n), as here."""
        return self._taken(given, in_groups=True)

    def _taken(self, given: dict[str, Any], in_groups: bool) -> Taken:
        """``in_groups`` has q and k once per group, and (B, G, H / G) as batch shape."""
        if given.get("seq_idx") is not None:
            raise Unsupported("several sequences are packed into one (seq_idx)")
        if given.get("z") is not None:
            raise Unsupported("the gate z is applied inside the kernel")
        x = wide(given[_input(given)])
        dt, heads = step_size(given).transpose(1, 2).to(x.dtype), x.shape[2]
        q, k = (wide(given[name]).to(x.dtype).transpose(1, 2).contiguous() for name in ("C", "B"))
        in_groups = in_groups and q.shape[1] < heads
        shape = (q.shape[1], -1) if in_groups else (heads,)

        def heads_of(x: Tensor) -> Tensor:
            return x.unflatten(1, shape)

        dynamics = CoefficientDynamics(
            q=q[:, :, None] if in_groups else repeat_heads(q, heads),
            k=k[:, :, None] if in_groups else repeat_heads(k, heads),
            evolution=evolution.Scalar(
                log_decay=heads_of(dt * wide(given["A"]).to(x.dtype)[:, None])
            ),
            scaling=heads_of(dt),
            readout=readout.identity,
            normalizer=normalizer.One(),
            own=None if given.get("D") is None else heads_of(skip(given["D"], dt)),
        )
        state = given.get("initial_states")
        if state is not None:
            state = LinearState(matrix=heads_of(state.to(x.dtype)), offset=None)

        def result(y: Tensor, after: LinearState | None) -> Any:
            own = given.get("D")
            dtype = torch.float32 if own is None else at_least_float32(own)
            y = y.reshape(len(x), heads, *y.shape[-2:]).transpose(1, 2).to(dtype).contiguous()
            if after is None:
                return y
            return y, after.matrix.reshape(len(x), heads, *after.matrix.shape[-2:]).float()

        return Taken(
            dynamics=dynamics,
            values=heads_of(x.transpose(1, 2).contiguous()),
            result=result,
            before=state,
            keeps=bool(given.get("return_final_states")),
        )

    def read_op(self, op: Callable[..., Any], given: dict[str, Any], result: Any) -> Call:
        refuse_state(given.get("initial_states"))
        taken, key = self._taken(given, in_groups=False), _input(given)

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
