"""What a model is, as plain data: sizes, block design, mixer and its options."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from coefdyn.options import check_choice, check_count, check_number, from_plain

__all__ = ["BLOCKS", "NORMS", "POSITIONS", "ModelConfig"]

#: block designs of the paper's Figure 12: type 1 and type 2
BLOCKS = ("transformer", "gated")
NORMS = ("layer", "rms")
POSITIONS = ("none", "learned", "rotary")

#: what a block design asks of its mixer
MIXER_DEFAULTS: dict[str, dict[str, Any]] = {
    "transformer": {},
    "gated": {"short_convolution": 4, "output_gate": "silu", "output_norm": "rms"},
}


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Sizes and choices of a ``SequenceModel``; the defaults are the paper's for MAD (Table 6).

    Args:
        width: d, channels between blocks.
        layers: number of mixer blocks (an interleaved MLP does not count).
        mixer: name of a class of ``coefdyn.mixers``, or of one given to ``register_mixer``.
        options: the mixer's keyword arguments besides ``d_model``. n and d_v are per head there.
        block: "transformer" (type 1: attention style) or "gated" (type 2: Gated DeltaNet style,
            short convolution of width 4, output norm and SiLU gate); ``options`` override it.
        mlp: inner width of the SwiGLU after each mixer, or None for none.
        norm: "layer" or "rms", before each mixer and MLP and at the end.
        position: "none", "learned" (a table added to the embedding) or "rotary" (in the mixer).
        embedding_std: standard deviation of the embedding's initial weights.

    Raises:
        ValueError: for an unknown choice, naming the nearest one, or a size below 1.
    """

    width: int = 128
    layers: int = 2
    mixer: str = "DesignMixer"
    options: dict[str, Any] = field(default_factory=dict)
    block: str = "transformer"
    mlp: int | None = 256
    norm: str = "layer"
    position: str = "none"
    embedding_std: float = 0.02

    def __post_init__(self) -> None:
        check_choice("block", self.block, BLOCKS)
        check_choice("norm", self.norm, NORMS)
        check_choice("position", self.position, POSITIONS)
        check_count("width", self.width)
        check_count("layers", self.layers)
        if self.mlp is not None:
            check_count("mlp (None for no SwiGLU, else its inner width)", self.mlp)
        check_number("embedding_std", self.embedding_std, least=0.0)
        if not isinstance(self.options, dict):
            raise ValueError(
                f"options must be a dict of the mixer's keywords, got {self.options!r}."
            )

    def mixer_options(self) -> dict[str, Any]:
        """The mixer's keyword arguments: the block's defaults, the position, then ``options``."""
        rotary = {"position": "rotary"} if self.position == "rotary" else {}
        return {**MIXER_DEFAULTS[self.block], **rotary, **self.options}

    def to_dict(self) -> dict[str, Any]:
        """Plain values; ``ModelConfig.from_dict`` takes them back."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> ModelConfig:
        """The configuration that ``to_dict`` described; an unknown key is an error."""
        return from_plain(cls, values)
