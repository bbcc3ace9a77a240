"""RG-LRU of transformers' recurrent_gemma: one head per channel, n = d_v = 1.

    A_t = a_t (0 where a document begins),  b_j = 1,  q = k = 1,  phi = Id,  eta = 1

v is the input after its gate and the factor sqrt(1 - a^2).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

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

__all__ = ["RGLRU"]

#: log decay that forgets everything
RESET = -1e4


class RGLRU(MethodAdapter):
    """``_rnn_scan(x, gate, reset, state)``, each (B, L, channels)."""

    mechanism = "rg-lru"
    outside = "short convolution, input gate and sqrt(1 - a^2) before v; gate and projection after"
    class_names = ("RecurrentGemmaRglru",)
    method = "_rnn_scan"

    def read(self, original: Callable[..., Any], given: dict[str, Any], result: Any) -> Call:
        refuse_state(given["recurrent_states"])
        x = wide(given["hidden_states"]).transpose(1, 2)
        gate = wide(given["recurrent_gate"]).to(x.dtype)
        gate = (gate * ~given["reset"]).transpose(1, 2)
        log_decay = gate.log().clamp(min=RESET)
        ones = torch.ones_like(x)[..., None]
        dynamics = CoefficientDynamics(
            q=ones,
            k=ones,
            evolution=evolution.Scalar(log_decay=log_decay),
            scaling=1.0,
            readout=readout.identity,
            normalizer=normalizer.One(),
        )

        def replay(v: Tensor) -> Tensor:
            columns = v.shape[-1]
            changed = {
                "hidden_states": v.permute(3, 0, 2, 1).flatten(0, 1),
                "recurrent_gate": given["recurrent_gate"].repeat(columns, 1, 1),
                "reset": given["reset"].expand(len(v), -1, -1).repeat(columns, 1, 1),
                "recurrent_states": None,
            }
            y = first(call_method(original, given, **changed))
            return y.unflatten(0, (columns, -1)).permute(1, 3, 2, 0)

        return Call(
            dynamics=dynamics,
            values=x[..., None],
            output=wide(first(result)).transpose(1, 2)[..., None],
            replay=replay,
            columns=x.shape[-1],
            put=lambda y: with_first(result, y[..., 0].transpose(1, 2).contiguous()),
        )
