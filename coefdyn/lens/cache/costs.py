"""Costs of cutting the past of each softmax head, from one pass forward and one backward.

The change of y_h is exact, that of the coefficients on the values of this pass,

    d_i = sum_j (alpha'_{i,j} / eta'_i - alpha_{i,j} / eta_i) v_j,

and the backward pass gives g_i = dL/dy_i for the sum L of the losses of all tokens. Their product
p_i = g_i^T d_i is kept per token and key-value head. Coefficients are made one layer at a time.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.dynamics.evolution import Identity
from coefdyn.dynamics.normalizer import RowSum
from coefdyn.lens.adapters.base import Call, Refused, Unsupported, first
from coefdyn.lens.change.changes import HeadsSeen, Windowed, readable
from coefdyn.lens.run.listening import Heard, Listener, deviation, far_off, seen_rows
from coefdyn.shapes import Float, Tensor

__all__ = ["Costs", "LayerCosts", "is_softmax", "key_heads"]


@dataclass(kw_only=True, eq=False)
class LayerCosts:
    """One softmax layer in one pass over one sequence. ``K`` key-value heads, ``H`` heads.

    Attributes:
        queries: heads that read one key-value head, H / K.
        delta: change of y, ``(1, H, L, d_v)``.
        probe: zeros that were added to y, whose gradient is that of y.
        change: sum of squares of delta, and of y, per key-value head, ``(2, K)``.
        shares: mean |alpha| on the tokens kept at the start, and on all that is kept, ``(2, K)``.
        rows: tokens that the cache holds at most: all, and what is kept.
        width: bytes of one token's key and value.
    """

    queries: int
    delta: Tensor
    probe: Tensor
    change: Tensor
    shares: Tensor
    rows: tuple[int, int]
    width: int


class Costs(Listener):
    """Collects ``parts``, a ``LayerCosts`` per layer; ``unsupported`` says where it cannot."""

    def __init__(self, model: nn.Module, keep: Windowed) -> None:
        super().__init__(model)
        self.keep = keep
        self.parts: dict[str, LayerCosts] = {}
        self.unsupported: dict[str, str] = {}

    def on_call(self, call: Heard, y: Tensor | None) -> Tensor | None:
        with self.reading():
            try:
                read = call.read()
                if not is_softmax(read.dynamics):
                    return None
                if getattr(self.model.get_submodule(call.name), "kv_lora_rank", None):
                    raise Unsupported(
                        "its cache holds a latent that all heads share, so a cut frees nothing"
                    )
                part = self._part(call, read)
            except (Unsupported, Refused) as reason:
                self.unsupported[call.label] = str(reason)
                return None
        self.parts[call.label] = part
        return (read.output if y is None else y) + part.probe

    def on_end(self, output: object) -> None:
        """A module that ran twice in one pass may have one cache for both."""
        for label in [label for label in self.parts if label.endswith(")")]:
            name = label.rpartition(" (")[0]
            for one in (name, label):
                if self.parts.pop(one, None) is not None:
                    self.unsupported[one] = f"{name} attends more than once over one cache"

    def _part(self, call: Heard, read: Call) -> LayerCosts:
        if read.start:
            raise Refused("it continues a cache; plan on whole sequences")
        with torch.no_grad():
            heads, design = read.output.shape[1], read.dynamics
            if _is_extended(design):
                raise Unsupported(
                    "a bias on its scores is no decay, so its keys are not those kept"
                )
            seen = HeadsSeen(
                layer=call.label,
                heads=tuple(range(heads)),
                dynamics=design,
                values=read.values,
                output=read.output,
                segments=call.segments,
            )
            alpha = design.coefficients(normalized=True)
            rows = seen_rows(read)
            error = deviation(alpha @ read.values, read.output, rows)
            if error > far_off(self.model):
                raise Unsupported(
                    f"its output is not that of {call.adapter.mechanism} (error {error:.1e})"
                )
            cut = self.keep.dynamics(seen)
            delta = ((cut.coefficients(normalized=True) - alpha) @ read.values) * rows
            groups = key_heads(design, read.values)
            shared = heads // groups

            def grouped(per_head: Tensor) -> Tensor:
                return per_head.sum(0).unflatten(0, (groups, shared)).sum(1)

            size = torch.stack([grouped(x.square().sum((-2, -1))) for x in (delta, read.output)])
            kept = readable(cut)
            start = kept & self.keep.first_tokens(seen)
            weights = alpha.abs() * rows
            whole = grouped(weights.sum((-2, -1))).clamp(min=1e-30)
            shares = torch.stack(
                [grouped((weights * m).sum((-2, -1))) / whole for m in (start, kept)]
            )
            item = first(read.put(read.output)).element_size()
            return LayerCosts(
                queries=shared,
                delta=delta,
                probe=torch.zeros_like(read.output).requires_grad_(),
                change=size,
                shares=shares,
                rows=(_most_held(readable(design)), _most_held(kept)),
                width=item * (design.k.shape[-1] + read.values.shape[-1]),
            )


def is_softmax(dynamics: CoefficientDynamics) -> bool:
    """True if its memory is a cache of keys and values: A_t = I, a readout that is not linear."""
    return (
        isinstance(dynamics.evolution, Identity)
        and isinstance(dynamics.normalizer, RowSum)
        and not dynamics.readout.is_linear
    )


def key_heads(dynamics: CoefficientDynamics, values: Float[Tensor, "B H L dv"]) -> int:
    """Number of heads with keys and values of their own, which the others share in groups."""
    heads = values.shape[1]
    for groups in range(1, heads):
        if heads % groups == 0 and all(
            bool((x.unflatten(1, (groups, -1)) == x[:, :: heads // groups, None]).all())
            for x in (dynamics.k.expand(-1, heads, -1, -1), values)
        ):
            return groups
    return heads


def _most_held(allowed: Tensor) -> int:
    """Most tokens that some later query, or the present one, may still read."""
    place = torch.arange(allowed.shape[-1], device=allowed.device)
    last = torch.where(allowed, place[:, None], -1).amax(-2, keepdim=True)
    return int(((place <= place[:, None]) & (place[:, None] <= last)).sum(-1).max())


def _is_extended(dynamics: CoefficientDynamics) -> bool:
    """Return whether keys have one channel per token more, for a bias on the scores."""
    length = dynamics.length
    if dynamics.k.shape[-1] <= length:
        return False
    eye = torch.eye(length, dtype=dynamics.k.dtype, device=dynamics.device)
    return bool((dynamics.k[..., -length:] == eye).all())
