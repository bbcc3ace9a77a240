"""Mixers of one head per channel, whose gates read the channels after the input stage."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Unpack

from torch import nn

from coefdyn.dynamics.documents import Documents
from coefdyn.mixers.base import Mixer, MixerState, Tokens
from coefdyn.mixers.heads import StageOptions
from coefdyn.mixers.projections import HeadProjection, OutputStage, merge_heads, split_heads
from coefdyn.mixers.tokens import first
from coefdyn.options import check_count, check_flag
from coefdyn.shapes import Float, Tensor

__all__ = ["ChannelMixer"]


class ChannelMixer(Mixer):
    """Base of S6 and RG-LRU: one head per channel of u, d_v = 1; u itself is the values.

    u is x after a linear map and the short convolution, or x itself. Queries and keys read u.

    Args:
        d_model: width of x.
        channels: number of channels of u; d_model if None.
        key_dim: n of one channel.
        input_projection: whether u is a linear map of x, or x itself.
        stage: see ``StageOptions``; the norm runs over all channels.

    Raises:
        ValueError: for options that do not fit; u = x needs channels = d_model.
    """

    defaults: ClassVar[StageOptions] = StageOptions(
        short_convolution=4, output_gate="silu", output_norm="none", bias=False
    )

    def __init__(
        self,
        *,
        d_model: int,
        channels: int | None,
        key_dim: int,
        input_projection: bool = True,
        **stage: Unpack[StageOptions],
    ) -> None:
        channels = check_count("channels", d_model if channels is None else channels)
        chosen: StageOptions = {**self.defaults, **stage}
        taps = chosen["short_convolution"]
        if check_flag("input_projection", input_projection):
            value: nn.Module = HeadProjection(
                d_model=d_model,
                n_heads=channels,
                width=1,
                bias=chosen["bias"],
                convolution=taps,
                convolution_bias=True,
            )
        elif channels != d_model or taps:
            raise ValueError(
                f"input_projection=False makes u = x: it needs channels = d_model = {d_model} "
                f"and short_convolution=0, got {channels} and {taps}."
            )
        else:
            value = PlainInput(channels)
        super().__init__(
            d_model=d_model,
            n_heads=channels,
            key_dim=key_dim,
            value_dim=1,
            project={"value": value},
            output=OutputStage(
                d_model=d_model,
                n_heads=channels,
                value_dim=1,
                gate=chosen["output_gate"],
                norm=chosen["output_norm"],
                norm_groups=1,
                bias=chosen["bias"],
            ),
        )

    @abstractmethod
    def queries_and_keys(self, u: Float[Tensor, "*batch L c"]) -> tuple[Tensor, Tensor]:
        """Queries and keys of every channel; one head where all channels share them."""

    def tokens(
        self,
        x: Float[Tensor, "*batch L d"],
        state: MixerState | None = None,
        documents: Documents | None = None,
    ) -> tuple[Tokens, dict[str, Tensor]]:
        """Values u of all channels, and q and k computed from u; also the convolution's memory."""
        self.check_input(x, state)
        parts, past = self.parts(x, state, "value", documents=documents)
        q, k = self.queries_and_keys(merge_heads(parts["value"]))
        v = parts["value"].to(q.dtype)  # u = x itself keeps its dtype under autocast
        return Tokens(x=x, q=q, k=k, v=v, start=first(state), documents=documents), past


class PlainInput(nn.Module):
    """Input stage that returns x as heads of one channel each."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels = channels

    def forward(
        self, x: Tensor, past: Tensor | None = None, positions: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        return split_heads(x, self.channels), past
