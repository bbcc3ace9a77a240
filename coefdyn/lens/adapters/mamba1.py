"""Mamba-1 (S6): mamba, falcon_mamba, jamba, zamba of transformers. One head per channel, d_v = 1.

    A_t = diag(exp(Delta_t a)),  b_j = Delta_j,  phi = Id,  eta = 1,  q = C, k = B,  own = D

The gate silu(z) comes after: y is what the scan gives without it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.execution.state import LinearState
from coefdyn.lens.adapters.base import Call, OpAdapter, Unsupported, first, wide, with_first
from coefdyn.lens.adapters.mamba2 import skip
from coefdyn.lens.adapters.running import Runs, Taken
from coefdyn.shapes import Float, Tensor

__all__ = ["Mamba1"]


class Mamba1(OpAdapter, Runs):
    """``mamba_selective_scan``: x and dt (B, D, L), A (D, n), B and C (B, n, L)."""

    mechanism = "mamba-1"
    outside = "short convolution on x; gate silu(z) and projection after y"
    names = ("mamba_selective_scan", "selective_scan_fn")
    continuing = ("mamba_selective_state_update",)

    def run_op(
        self, op: Callable[..., Any], given: dict[str, Any], is_kernel: bool
    ) -> tuple[Any, Any]:
        """The gate is applied out here, as the torch function does; a kernel runs twice."""
        z = given.get("z")
        if z is None:
            return super().run_op(op, given, is_kernel)
        bare = op(**{**given, "z": None})
        if is_kernel:
            return bare, op(**given)
        return bare, _gated(given, bare)

    def take(self, given: dict[str, Any]) -> Taken:
        """Read the arguments; no state is given, and the last one is (B, D, n)."""
        x = wide(given[_input(given)])
        dt = take_step(given).to(x.dtype)
        if given["B"].ndim != 3 or given["C"].ndim != 3:
            raise Unsupported("B and C are grouped or constant; expected (B, n, L)")
        a = wide(given["A"]).to(x.dtype)
        dynamics = CoefficientDynamics(
            q=wide(given["C"]).to(x.dtype).transpose(1, 2)[:, None],
            k=wide(given["B"]).to(x.dtype).transpose(1, 2)[:, None],
            evolution=evolution.Diagonal(log_decay=_log_decays(dt, a)),
            scaling=dt,
            readout=readout.identity,
            normalizer=normalizer.One(),
            own=None if given.get("D") is None else skip(given["D"], dt),
        )
        keeps = bool(given.get("return_last_state"))

        def result(y: Tensor, after: LinearState | None) -> Any:
            dtype = given[_input(given)].dtype
            for name in ("D", "z"):
                if given.get(name) is not None:
                    dtype = torch.promote_types(dtype, given[name].dtype)
            y = _gated(given, y[..., 0]).to(dtype)
            return y if after is None else (y, after.matrix[..., 0, :].contiguous())

        return Taken(dynamics=dynamics, values=x[..., None], result=result, keeps=keeps)

    def read_op(self, op: Callable[..., Any], given: dict[str, Any], result: Any) -> Call:
        taken, key = self.take(given), _input(given)

        def replay(v: Tensor) -> Tensor:
            return _replay(op, given, key, v)

        return Call(
            dynamics=taken.dynamics,
            values=taken.values,
            output=wide(first(result)).to(taken.values.dtype)[..., None],
            replay=replay,
            columns=taken.values.shape[-2],
            put=lambda y: _gated(given, with_first(result, y[..., 0])),
        )


def _input(given: dict[str, Any]) -> str:
    """Name of the argument x."""
    return "hidden_states" if "hidden_states" in given else "u"


def _gated(given: dict[str, Any], bare: Any) -> Any:
    """Output of the layer: the scan's y times silu(z), where there is a z."""
    z = given.get("z")
    return bare if z is None else with_first(bare, first(bare) * functional.silu(z))


def take_step(given: dict[str, Any]) -> Tensor:
    """Delta (B, D, L): bias and softplus applied."""
    dt = wide(given["dt"] if "dt" in given else given["delta"])
    if given.get("delta_bias") is not None:
        dt = dt + given["delta_bias"].to(dt.dtype)[:, None]
    return functional.softplus(dt) if given.get("delta_softplus") else dt


def _log_decays(dt: Float[Tensor, "B D L"], a: Float[Tensor, "D n"]) -> Float[Tensor, "B D L n"]:
    """Delta_t a. On a CPU the gradients of a matrix product hold no further tensor of this size."""
    if dt.device.type != "cpu":
        return dt[..., None] * a[:, None, :]  # where a matrix product may be rounded
    with torch.autocast("cpu", enabled=False):
        return dt[..., None] @ a[:, None, :]


def _replay(op: Callable[..., Any], given: dict[str, Any], key: str, v: Tensor) -> Tensor:
    """The scan has one value channel: columns of v become entries of the batch."""
    columns = v.shape[-1]
    folded = v.permute(3, 0, 1, 2).flatten(0, 1).to(given[key].dtype)
    step = "dt" if "dt" in given else "delta"
    copies = {name: given[name].repeat(columns, 1, 1) for name in (step, "B", "C")}
    y = first(op(**{**given, **copies, key: folded, "z": None}))
    return y.unflatten(0, (columns, -1)).permute(1, 2, 3, 0)
