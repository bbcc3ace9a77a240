"""mLSTM of transformers' xlstm.

A_t = sigmoid(f_t) I,  b_j = exp(i_j) / sqrt(n),  phi = Id,  eta = max(abs(row sum), 1)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.nn import functional

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.lens.adapters.base import (
    Call,
    MethodAdapter,
    call_method,
    first,
    refuse_state,
    wide,
    with_first,
)
from coefdyn.shapes import Tensor

__all__ = ["MLSTM"]


class MLSTM(MethodAdapter):
    """``xLSTMBackend.forward``: query, key, value (B, H, L, n), igate and fgate (B, H, L)."""

    mechanism = "mlstm"
    outside = "norm, output gate and projection after y"
    class_names = ("xLSTMBackend", "mLSTMBackend")

    def read(self, original: Callable[..., Any], given: dict[str, Any], result: Any) -> Call:
        refuse_state(given.get("c_initial"))
        q, k, v, i, f = (wide(given[name]) for name in ("query", "key", "value", "igate", "fgate"))
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
