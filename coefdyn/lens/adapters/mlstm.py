"""mLSTM of transformers' xlstm.

A_t = sigmoid(f_t) I,  b_j = exp(i_j) / sqrt(n),  phi = Id,  eta = max(abs(row sum), 1)
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
    MethodAdapter,
    Unsupported,
    call_method,
    first,
    refuse_state,
    wide,
    with_first,
)
from coefdyn.lens.adapters.running import Runs, Taken
from coefdyn.shapes import Tensor

__all__ = ["MLSTM"]


class MLSTM(MethodAdapter, Runs):
    """``xLSTMBackend.forward``: query, key, value (B, H, L, n), igate and fgate (B, H, L)."""

    mechanism = "mlstm"
    outside = "norm, output gate and projection after y"
    class_names = ("xLSTMBackend", "mLSTMBackend")

    def is_step(self, given: dict[str, Any]) -> bool:
        return given["query"].shape[-2] == 1

    def take(self, given: dict[str, Any]) -> Taken:
        """Read the arguments as the class computes with them: sums over exp(m_t).

        m_t is the largest exponent so far, and the class adds eps to the eta that it scales, so
        both stay in its units here. Its states c, n and m are (B, H, n, d_v), (B, H, n), (B, H, 1).
        """
        config, (q, k, v, i, f) = given["self"].config, _inputs(given)
        if type(given["self"]).__name__ == "mLSTMBackend":
            raise Unsupported("it is the layer of the package xlstm, which has kernels of its own")
        training = "train" in (given["mode"] or config.mode)
        whole = q.shape[-2] % config.chunk_size == 0
        if training and not whole:
            raise Unsupported(f"{q.shape[-2]} tokens are no whole chunks of {config.chunk_size}")
        states = [given[name] for name in ("c_initial", "n_initial", "m_initial")]
        c, n, m = (None if state is None else state.to(q.dtype) for state in states)
        scale, log_decay = q.shape[-1] ** -0.5, functional.logsigmoid(f)
        m = torch.zeros_like(i[..., :1]) if m is None else m
        total = log_decay.double().cumsum(-1)
        most = (total + (i - total).cummax(-1).values.maximum(m.double())).to(q.dtype)
        earlier = torch.cat([m, most[..., :-1]], -1)
        dynamics = CoefficientDynamics(
            q=q,
            k=k,
            evolution=evolution.Scalar(log_decay=log_decay + earlier - most),
            scaling=(i - most).exp() * scale,
            readout=readout.identity,
            normalizer=normalizer.One(),
        )
        last = given["return_last_states"]
        keeps = not training or bool(config.return_last_states if last is None else last)
        half = given["key"].dtype if whole else getattr(torch, config.inference_state_dtype)

        def result(y: Tensor, after: LinearState | None) -> Any:
            floor = (-most).exp()[..., None]
            h = y[..., :-1] / (y[..., -1:].abs().maximum(floor) + config.eps)
            h = h.to(given["query"].dtype)
            if after is None:
                return h
            matrix = after.matrix / scale
            left = (matrix[..., :-1, :].mT.contiguous(), matrix[..., -1, :], most[..., -1:])
            return h, tuple(state.to(half) for state in left)

        before = None
        if c is not None and n is not None:
            before = LinearState(matrix=torch.cat([c.mT, n[..., None, :]], -2) * scale, offset=None)
        return Taken(
            dynamics=dynamics,
            values=torch.cat([v, torch.ones_like(v[..., :1])], -1),
            result=result,
            before=before,
            keeps=keeps,
        )

    def read(self, original: Callable[..., Any], given: dict[str, Any], result: Any) -> Call:
        refuse_state(given.get("c_initial"))
        q, k, v, i, f = _inputs(given)
        dynamics = CoefficientDynamics(
            q=q,
            k=k,
            evolution=evolution.Scalar(log_decay=functional.logsigmoid(f)),
            scaling=q.shape[-1] ** -0.5,
            log_scaling=i,
            readout=readout.identity,
            normalizer=normalizer.FlooredRowSum(1.0),
        )

        def replay(columns: Tensor) -> Tensor:
            value = columns.to(given["value"].dtype)
            return first(call_method(original, given, value=value, c_initial=None))

        return Call(
            dynamics=dynamics,
            values=v,
            output=wide(first(result)),
            replay=replay,
            columns=v.shape[-1],
            put=lambda y: with_first(result, y),
        )


def _inputs(given: dict[str, Any]) -> tuple[Tensor, ...]:
    """q, k, v and the gates i and f."""
    names = ("query", "key", "value", "igate", "fgate")
    q, *rest = (wide(given[name]) for name in names)
    return q, *(value.to(q.dtype) for value in rest)
