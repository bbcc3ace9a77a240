"""Definition of a model as plain data: sizes, block design, mixer and its options."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from coefdyn.models.names import find_mixer
from coefdyn.options import check_choice, check_count, check_flag, check_number, from_plain

__all__ = ["BLOCKS", "NORMS", "POSITIONS", "ModelConfig"]

#: block designs of the paper's Figure 12: type 1 and type 2
BLOCKS = ("transformer", "gated")
NORMS = ("layer", "rms", "none")
POSITIONS = ("none", "learned", "rotary")

#: options that a block design sets in its mixer
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
        mixer: name of a class of ``coefdyn.mixers``, or of one given to ``register_mixer``. A
            tuple of names is a pattern that repeats over the layers (a hybrid): with four names,
            layers 0, 4, 8, ... have the first.
        options: the mixer's keyword arguments besides ``d_model``. n and d_v are per head there.
            For a pattern a tuple with the options of each name, or one dict for all of them.
        block: "transformer" (type 1: attention style) or "gated" (type 2: Gated DeltaNet style,
            short convolution of width 4, output norm and SiLU gate); ``options`` override it.
        mlp: inner width of the SwiGLU after each mixer, or None for none.
        norm: "layer", "rms" or "none", before each mixer and MLP and at the end.
        position: "none", "learned" (a table added to the embedding) or "rotary" (in the mixer).
        embedding_std: standard deviation of the embedding's initial weights.
        skip: whether a mixer's input is added to its output.

    Raises:
        ValueError: for an unknown choice or mixer, naming the nearest one, a size below 1, or a
            pattern that is longer than the model.
    """

    width: int = 128
    layers: int = 2
    mixer: str | tuple[str, ...] = "DesignMixer"
    options: dict[str, Any] | tuple[dict[str, Any], ...] = field(default_factory=dict)
    block: str = "transformer"
    mlp: int | None = 256
    norm: str = "layer"
    position: str = "none"
    embedding_std: float = 0.02
    skip: bool = True

    def __post_init__(self) -> None:
        check_choice("block", self.block, BLOCKS)
        check_choice("norm", self.norm, NORMS)
        check_choice("position", self.position, POSITIONS)
        check_count("width", self.width)
        check_count("layers", self.layers)
        if self.mlp is not None:
            check_count("mlp (None for no SwiGLU, else its inner width)", self.mlp)
        check_number("embedding_std", self.embedding_std, least=0.0)
        check_flag("skip", self.skip)
        for name in ("mixer", "options"):
            if isinstance(getattr(self, name), list):  # as JSON gives it back
                object.__setattr__(self, name, tuple(getattr(self, name)))
        self._check_pattern()

    def _check_pattern(self) -> None:
        names = self.mixer if isinstance(self.mixer, tuple) else (self.mixer,)
        if not 1 <= len(names) <= self.layers:
            raise ValueError(
                f"mixer must be a name, or a tuple of 1 to layers={self.layers} names that repeats "
                f"over the layers, got {len(names)} names."
            )
        for name in names:
            find_mixer(name)
        each = self.options if isinstance(self.options, tuple) else (self.options,)
        if not all(isinstance(one, dict) for one in each):
            raise ValueError(
                f"options must be a dict of the mixer's keywords, or a tuple of such, got "
                f"{self.options!r}."
            )
        if isinstance(self.options, tuple) and len(each) != len(names):
            raise ValueError(
                f"options must be one dict, or one for each of the {len(names)} names of mixer; "
                f"got {len(each)}."
            )

    def mixer_name(self, layer: int = 0) -> str:
        """The mixer of a layer, counted from 0."""
        return self.mixer if isinstance(self.mixer, str) else self.mixer[layer % len(self.mixer)]

    def mixer_options(self, layer: int = 0) -> dict[str, Any]:
        """A layer's keyword arguments: the block's defaults, the position, then ``options``."""
        rotary = {"position": "rotary"} if self.position == "rotary" else {}
        own = self.options
        if isinstance(own, tuple):
            own = own[layer % len(own)]
        return {**MIXER_DEFAULTS[self.block], **rotary, **own}

    def to_dict(self) -> dict[str, Any]:
        """Plain values; ``ModelConfig.from_dict`` takes them back."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> ModelConfig:
        """The configuration that ``to_dict`` described; an unknown key is an error."""
        return from_plain(cls, values)
