"""Time-invariant mixers: coefficients from eigenvalues r e^{+-i theta} that are parameters.

A complex eigenvalue is a decay and a turn. The decay is a real diagonal A_t; the turn goes into
queries and keys, which are rotated by their position as rotary positions do:

    q^T (r R(theta))^{i-j} k = (R(-i theta) q)^T r^{i-j} (R(-j theta) k)
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.dynamics.documents import Documents
from coefdyn.mixers.base import Mixer, MixerState, Tokens
from coefdyn.mixers.projections import OutputStage
from coefdyn.mixers.tokens import first
from coefdyn.shapes import Float, Int, Tensor

__all__ = ["ModeMixer", "Modes", "turn_back"]


class Modes(NamedTuple):
    """Parameters of a time-invariant mixer; one head per row, channels in pairs, float64.

    log_radius: log r of each pair, (H, n/2), nats per token, negative.
    angle: theta of each pair, (H, n/2), radians per token.
    query, key: q and k at position 0, (H, n): first coordinates of all pairs, then the second.
    """

    log_radius: Float[Tensor, "H pairs"]
    angle: Float[Tensor, "H pairs"]
    query: Float[Tensor, "H n"]
    key: Float[Tensor, "H n"]


def turn_back(
    x: Float[Tensor, "H n"], angle: Float[Tensor, "H pairs"], index: Int[Tensor, "*batch L"]
) -> Float[Tensor, "*heads L n"]:
    """R(-i theta) x for the positions i in ``index``, ``(L,)`` or ``(..., 1, L)``; channels r and
    r + n/2 are a pair."""
    turned = index[..., None].to(angle.dtype) * angle[:, None, :]
    cos, sin = turned.cos(), turned.sin()
    first, second = x[:, None, :].chunk(2, dim=-1)
    return torch.cat([first * cos + second * sin, second * cos - first * sin], dim=-1)


class ModeMixer(Mixer):
    """Base of S4D and LRU: the same A, b, q and k for every token; only the values depend on x.

    A subclass says what its modes are, and how values come from x. ``outputs`` is the number of
    heads, and their width, that its ``finish`` hands to the output projection.
    """

    def __init__(
        self,
        *,
        d_model: int,
        n_heads: int,
        key_dim: int,
        value_dim: int,
        outputs: tuple[int, int],
        bias: bool,
    ) -> None:
        heads, width = outputs
        output = OutputStage(d_model=d_model, n_heads=heads, value_dim=width, bias=bias)
        super().__init__(
            d_model=d_model,
            n_heads=n_heads,
            key_dim=key_dim,
            value_dim=value_dim,
            project={},
            output=output,
        )

    @abstractmethod
    def modes(self) -> Modes:
        """The eigenvalues, and q and k in the basis where they are diagonal."""

    @abstractmethod
    def values(self, x: Float[Tensor, "*batch L d"]) -> Float[Tensor, "*heads L dv"]:
        """v, one row per head."""

    def eigenvalues(self) -> Tensor:
        """r e^{i theta} and r e^{-i theta} of every pair, complex, (H, n)."""
        modes = self.modes()
        upper = torch.complex(modes.log_radius, modes.angle).exp()
        return torch.cat([upper, upper.conj()], dim=-1)

    def angles(self) -> Float[Tensor, "H 1 n"]:
        """theta and -theta of every pair, for ``coefdyn.analysis.spectrum(..., angles=...)``."""
        angle = self.modes().angle
        return torch.cat([angle, -angle], dim=-1)[:, None, :]

    def tokens(
        self,
        x: Float[Tensor, "*batch L d"],
        state: MixerState | None = None,
        documents: Documents | None = None,
    ) -> tuple[Tokens, dict[str, Tensor]]:
        """Values from x; q and k with size 1 for its leading axes: no token changes them.

        Where documents are told apart, q and k turn by the position in each of them.
        """
        self.check_input(x, state)
        modes, v = self.modes(), self.values(x)
        tokens = Tokens(x=x, q=v, k=v, v=v, start=first(state), documents=documents)
        shape = (*(1,) * (x.ndim - 2), self.n_heads, x.shape[-2], self.key_dim)
        q, k = (
            turn_back(one, modes.angle, tokens.index()).to(v.dtype)
            for one in (modes.query, modes.key)
        )
        if documents is None:
            q, k = q.view(shape), k.view(shape)
        return replace(tokens, q=q, k=k), {}

    def forward(
        self,
        x: Float[Tensor, "*batch L d"],
        method: str = "auto",
        *,
        attention_mask: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        state: MixerState | None = None,
        return_state: bool = False,
    ) -> Float[Tensor, "*batch L d"] | tuple[Float[Tensor, "*batch L d"], MixerState | None]:
        """Apply the mixer; whole sequences share one kernel, so they join the axis of values."""
        masks: Any = {"attention_mask": attention_mask, "cu_seqlens": cu_seqlens}
        whole = state is None and not return_state
        if not whole or attention_mask is not None or cu_seqlens is not None:
            return super().forward(x, method, state=state, return_state=return_state, **masks)
        tokens = self.tokens(x)[0]
        dynamics, v = self._design(tokens), tokens.v
        if v.numel() == 0:  # no sequence: nothing to join
            return self.finish(v, tokens)
        joined = v.reshape(-1, *v.shape[-3:]).permute(1, 2, 0, 3).flatten(-2)
        y = dynamics.apply(joined.view(*dynamics.q.shape[:-1], -1), method=method)
        split = y.view(*joined.shape[:-1], -1, v.shape[-1]).permute(2, 0, 1, 3)
        return self.finish(split.reshape(v.shape), tokens)

    def build(self, tokens: Tokens) -> CoefficientDynamics:
        log_radius = self.modes().log_radius
        log_decay = torch.cat([log_radius, log_radius], dim=-1)[:, None, :]
        return CoefficientDynamics(
            q=tokens.q,
            k=tokens.k,
            evolution=evolution.Diagonal(log_decay=tokens.match(log_decay).expand(tokens.q.shape)),
            scaling=1.0,
            readout=readout.identity,
            normalizer=normalizer.One(),
        )

    def dynamics(
        self,
        x: Float[Tensor, "*batch L d"],
        *,
        attention_mask: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
    ) -> tuple[CoefficientDynamics, Float[Tensor, "*heads L dv"]]:
        """Coefficient dynamics as in ``Mixer``; a head's kernel is repeated along the axes of x."""
        found, v = super().dynamics(x, attention_mask=attention_mask, cu_seqlens=cu_seqlens)
        batch = (*x.shape[:-2], self.n_heads)
        repeated = [one.expand(*batch, *one.shape[-2:]) for one in (found.q, found.k)]
        return replace(found, q=repeated[0], k=repeated[1]), v
