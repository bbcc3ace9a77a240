"""What the lens hands back: the layers of one pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

from coefdyn.lens.layer import LayerTrace
from coefdyn.lens.report import report
from coefdyn.shapes import Int, Tensor

__all__ = ["Trace"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Trace(Sequence[LayerTrace]):
    """The layers of one forward pass, in the order in which they ran.

    Attributes:
        layers: what the lens can show.
        unsupported: name of a module and why it cannot be shown.
        model_output: what the model itself returned, as without the lens.
    """

    layers: tuple[LayerTrace, ...]
    unsupported: Mapping[str, str]
    model_output: Any

    def __len__(self) -> int:
        return len(self.layers)

    def __iter__(self) -> Iterator[LayerTrace]:
        return iter(self.layers)

    @overload
    def __getitem__(self, place: int | str) -> LayerTrace: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[LayerTrace, ...]: ...
    def __getitem__(self, place: int | str | slice) -> LayerTrace | tuple[LayerTrace, ...]:
        """A layer by its place or by its name."""
        if not isinstance(place, str):
            return self.layers[place]
        for layer in self.layers:
            if layer.name == place:
                return layer
        raise KeyError(
            f"no layer is named {place!r}; there are {', '.join(x.name for x in self.layers)}."
        )

    def report(self, tokens: Int[Tensor, "B L"] | None = None) -> str:
        """One page of text: every layer with its error, every head in numbers.

        Args:
            tokens: the ids that went in, for the induction score.
        """
        return report(self.layers, self.unsupported, tokens)

    def __repr__(self) -> str:
        lines = [f"Trace of {len(self.layers)} layers", *(f"  {layer!r}" for layer in self.layers)]
        lines += [f"  not shown: {name}: {why}" for name, why in self.unsupported.items()]
        return "\n".join(lines)
