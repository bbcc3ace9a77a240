"""Gated short convolution of LFM2 (Liquid AI): one head per channel, d_v = 1.

    y_i = c_i sum_{s < K} w_s b_{i-s} x_{i-s}

A row of Table 1 whose state is the last K inputs, which A_t moves on by one place:

    A_t = shift by one,  b_j = 1,  k = e_1,  q_i = c_i (w_0, ..., w_{K-1}),  phi = Id,  eta = 1

v is the input after its gate b. A bias of the convolution, times c, is outside.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.lens.adapters.base import (
    CONTINUES,
    Call,
    ProjectedAdapter,
    Refused,
    bind,
    call_method,
    operation,
    wide,
)
from coefdyn.shapes import Tensor

__all__ = ["ShortConvolution"]

#: the argument that holds the cache, since transformers 5.24 and before
CACHES = ("cache", "past_key_values")


class ShortConvolution(ProjectedAdapter):
    """b, c and x leave ``in_proj`` side by side, c times the convolution enters ``out_proj``."""

    mechanism = "short convolution"
    outside = "gate b before v; bias of the convolution, and projection after y"
    class_names = ("Lfm2ShortConv", "Lfm2MoeShortConv")
    into, out = "in_proj", "out_proj"

    def listen(self, original: Callable[..., Any], note: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def stand_in(module: Any, *args: Any, **kwargs: Any) -> Any:
            given = bind(original, (module, *args), kwargs)
            cache = next((given[name] for name in CACHES if given.get(name) is not None), None)
            begun = cache is not None and cache.has_previous_state(module.layer_idx)

            def at_output(heard: dict[str, Any]) -> Tensor:
                told = {**heard, "begun": begun}
                return note(module, lambda: self.read(original, given, told), heard["y"])

            with operation(), self.overheard(module, at_output=at_output):
                return original(module, *args, **kwargs)

        return stand_in

    def read(self, original: Callable[..., Any], given: dict[str, Any], heard: dict) -> Call:
        if heard["begun"]:
            raise Refused(CONTINUES)
        module = given["self"]
        b, c, x = wide(heard["qkv"]).transpose(1, 2).chunk(3, dim=1)
        taps = (
            wide(module.conv.weight)[:, 0].to(x.dtype).flip(-1)
        )  # w_0 is that of the token itself
        width = taps.shape[-1]
        shift = torch.ones(width - 1, dtype=x.dtype, device=x.device).diag(-1)
        first = torch.zeros_like(taps[0])
        first[0] = 1
        length = x.shape[-1]
        dynamics = CoefficientDynamics(
            q=c[..., None] * taps[:, None],
            k=first.expand(1, 1, length, width),
            evolution=evolution.Dense(matrix=shift.expand(1, 1, length, width, width)),
            scaling=1.0,
            readout=readout.identity,
            normalizer=normalizer.One(),
        )
        bias = module.conv.bias
        added = torch.zeros_like(c) if bias is None else c * wide(bias).to(c.dtype)[:, None]

        def replay(v: Tensor) -> Tensor:
            columns = v.shape[-1]
            folded = v.permute(3, 0, 1, 2).flatten(0, 1)
            gate = c.repeat(columns, 1, 1)
            qkv = torch.cat([torch.ones_like(gate), gate, folded], dim=1).transpose(1, 2)
            changed = {name: None for name in given if name in (*CACHES, "attention_mask")}
            with self.overheard(module, qkv=qkv.to(heard["qkv"].dtype)) as again:
                call_method(original, given, **changed)
            y = wide(again["y"]).transpose(1, 2) - added.repeat(columns, 1, 1)
            return y.unflatten(0, (columns, -1)).permute(1, 2, 3, 0)

        return Call(
            dynamics=dynamics,
            values=(b * x)[..., None],
            output=(wide(heard["y"]).transpose(1, 2) - added)[..., None],
            replay=replay,
            columns=length,
            put=lambda y: (y[..., 0] + added).transpose(1, 2).contiguous().to(heard["y"].dtype),
        )
