"""A row of the scoreboard whose weights are set by hand, on one-hot embeddings of width 64.

Tables say what a projection gives after its convolution and SiLU; ``Hand`` finds the weights that
give it. The output is y of one layer, heads side by side, before gate, norm, skip and projection.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch.nn import functional

from coefdyn import CoefficientDynamics, mixers
from coefdyn.lab.experiments.board import ROWS
from coefdyn.mixers.projections import HeadProjection, merge_heads
from coefdyn.shapes import Float, Int, Tensor

__all__ = ["SHUT", "WIDTH", "Hand", "Member", "before_silu", "layer_output", "pieces"]

WIDTH = 64
#: a pre-activation at which sigmoid and softplus are 0 or 1 to the last bit
SHUT = 60.0
#: replaces one ingredient of a design
Change = Callable[[CoefficientDynamics], CoefficientDynamics]


@dataclass(frozen=True, kw_only=True, eq=False)
class Member:
    """A mixer with weights, and its decoder: the answer is the argmax of ``weight @ y + offset``.

    mixer:  with weights in float64.
    weight: c_a, (answers, numbers of y).
    offset: t_a, (answers,).
    """

    mixer: mixers.Mixer
    weight: Float[Tensor, "answers d"]
    offset: Float[Tensor, " answers"]


def layer_output(
    mixer: mixers.Mixer, tokens: Int[Tensor, "*batch L"], change: Change | None = None
) -> Float[Tensor, "*batch L d"]:
    """y of one layer for tokens ``(..., L)``: 64 numbers, of the LRU 64 complex ones as 128.

    Args:
        mixer: its dtype is that of y.
        tokens: ids below 64.
        change: replaces an ingredient before the dynamics are applied.
    """
    dtype = next(mixer.parameters()).dtype
    x = functional.one_hot(tokens, WIDTH).to(dtype)
    dynamics, v = mixer.dynamics(x)
    y = mixer.collect((dynamics if change is None else change(dynamics)).apply(v))
    if isinstance(mixer, mixers.LRU):
        cosine, sine = y.unflatten(-3, (-1, 2)).unbind(-3)
        real, imaginary = cosine[..., 0] - sine[..., 1], cosine[..., 1] + sine[..., 0]
        y = torch.stack([real, imaginary], dim=-1)
    return merge_heads(y)


class _Heads(torch.nn.Module):
    """An output stage that lays the heads side by side and does nothing else."""

    def forward(self, y: Tensor, x: Tensor) -> Tensor:
        return merge_heads(y)


def pieces(
    mixer: mixers.Mixer, tokens: Int[Tensor, "*batch L"], piece: int
) -> Iterator[Float[Tensor, "*batch piece d"]]:
    """``layer_output``, ``piece`` tokens at a time, continued by the state that the mixer keeps.

    Args:
        mixer: its dtype is that of y; not an LRU, whose y is wider than its tokens.
        tokens: ids below 64.
        piece: tokens at a time; memory does not grow with the length where the state does not.
    """
    bare, state = copy.deepcopy(mixer), None
    bare.output = _Heads()
    if hasattr(bare, "skip"):
        bare.skip = None  # type: ignore[assignment]
    dtype = next(mixer.parameters()).dtype
    for part in tokens.split(piece, dim=-1):
        y, state = bare.extend(functional.one_hot(part, WIDTH).to(dtype), state)
        yield y


def before_silu(value: Tensor) -> Tensor:
    """x with SiLU(x) = value, on the branch through 0; values from -0.278 on, by bisection."""
    low = torch.full_like(value, -1.278)
    high = value.clamp_min(0) + 1
    for _ in range(70):
        middle = (low + high) / 2
        above = functional.silu(middle) > value
        low, high = torch.where(above, low, middle), torch.where(above, middle, high)
    return torch.where(value == 0, 0.0, (low + high) / 2)


class Hand:
    """The mixer of a row with every weight 0, nothing fading, and methods that fill it.

    Args:
        row: a name of ``ROWS``.
    """

    def __init__(self, row: str) -> None:
        name, options, position = ROWS[row]
        given = dict(options) if position == "none" else {**options, "position": position}
        self.row, self.mixer = row, getattr(mixers, name)(d_model=WIDTH, **given).double()
        with torch.no_grad():
            for parameter in self.mixer.parameters():
                parameter.zero_()
        self.heads, self.n = self.mixer.n_heads, self.mixer.key_dim
        self.keep()

    def part(self, name: str) -> HeadProjection:
        """A projection by name."""
        found = self.mixer.project[name]
        assert isinstance(found, HeadProjection)
        return found

    def table(self, name: str = "key") -> Float[Tensor, "64 heads n"]:
        """Zeros ``(64, heads, width)``: a row per token, to be filled for ``project``."""
        part = self.part(name)
        return torch.zeros(WIDTH, part.n_heads, part.linear.out_features // part.n_heads).double()

    @torch.no_grad()
    def project(self, name: str, table: Tensor, taps: tuple[float, ...] = (1.0,)) -> None:
        """Give a projection the values of ``table`` for the token at the taps that are not 0.

        Args:
            name: "query", "key" or "value".
            table: ``(64, heads, width)``, what the projection gives, at least -0.278 where it has
                a convolution.
            taps: of the convolution, the current token first; one of them is 1.
        """
        part = self.part(name)
        flat = table.flatten(1)
        if part.convolution is None:
            assert taps == (1.0,), f"the {name} of {self.row} has no convolution"
        else:
            part.convolution.weight.zero_()
            part.convolution.weight[: len(taps)] = torch.tensor(taps, dtype=torch.float64)[:, None]
            flat = before_silu(flat)
        part.linear.weight.copy_(flat.T)

    @torch.no_grad()
    def keep(self) -> None:
        """Set the decays to 1 to the last bit, where there are some."""
        if self.row == "GLA":
            self.mixer.decay.up.bias.fill_(SHUT)
        elif self.row in ("Mamba-2", "Gated DeltaNet"):
            self.mixer.decay.log_a.fill_(-SHUT)
        elif self.row == "mLSTM":
            self.mixer.forget_bias.fill_(SHUT)

    @torch.no_grad()
    def fade(self, log_decay: Float[Tensor, "64 n"]) -> None:
        """GLA: log a_t in nats by token and channel of a head, alike in all heads."""
        wanted = 16 * log_decay.double()
        raw = torch.where(wanted > -1e-9, SHUT, wanted - torch.log(-torch.expm1(wanted - 1e-12)))
        common = raw.mode(0).values
        left, size, right = torch.linalg.svd(raw - common)
        rank = 16
        assert float(size[rank:].abs().amax() if len(size) > rank else 0) < 1e-8
        self.mixer.decay.down.weight.copy_((left[:, :rank] * size[:rank]).T)
        self.mixer.decay.up.weight.copy_(right[:rank].T.repeat(self.heads, 1))
        self.mixer.decay.up.bias.copy_(common.repeat(self.heads))

    @torch.no_grad()
    def write(self, strength: Float[Tensor, " 64"], factor: int = -1) -> None:
        """b_j by token: Delta of Mamba-2, beta of the delta rules; other rows write always.

        Args:
            strength: ``(64,)``; beta at most 1, of DeltaProduct at most 2.
            factor: of DeltaProduct, 0 or 1; the last one if not said.
        """
        strength = strength.double()
        if self.row == "Mamba-2":
            self.delta(strength)
        elif "Delta" in self.row:
            gate = self.mixer.beta
            share = strength / gate.factor
            raw = torch.logit(share.clamp(1e-26, 1 - 1e-15))
            raw = torch.where(share <= 0, -SHUT, torch.where(share >= 1, SHUT, raw))
            steps = getattr(self.mixer, "steps", 1)
            gate.linear.weight[factor % steps :: steps] = raw

    @torch.no_grad()
    def delta(self, size: Float[Tensor, " 64"]) -> None:
        """Delta_t by token, of Mamba-2 and Gated DeltaNet."""
        raw = torch.where(size > 0, size + torch.log(-torch.expm1(-size.clamp_min(1e-30))), -SHUT)
        self.mixer.decay.linear.weight.copy_(raw.double().expand(self.heads, -1))

    def member(self, weight: Tensor, offset: Tensor | None = None) -> Member:
        """The finished member with its decoder."""
        offset = torch.zeros(len(weight)) if offset is None else offset
        return Member(mixer=self.mixer, weight=weight.double(), offset=offset.double())
