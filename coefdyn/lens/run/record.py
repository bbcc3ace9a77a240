"""Result of the lens: the layers of one pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

from coefdyn.lens.layer import LayerTrace
from coefdyn.lens.read.report import report
from coefdyn.lens.read.tables import check_tokens, head_rows
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
        """Return a layer by its place or by its name."""
        if not isinstance(place, str):
            return self.layers[place]
        for layer in self.layers:
            if layer.name == place:
                return layer
        raise KeyError(
            f"no layer is named {place!r}; there are {', '.join(x.name for x in self.layers)}."
        )

    def rows(self, tokens: Int[Tensor, "B L"] | None = None) -> list[dict[str, Any]]:
        """A dict per layer and head, which ``pandas.DataFrame`` takes.

        Keys: ``layer``, ``mechanism``, ``evolution``, ``error``, ``probe_error`` (None where it was
        not asked for), ``head``; means over the sequences of ``SCORES``, ``closed`` and ``open``
        (see ``HeadReading``); ``output_size`` relative to the layer's largest; ``half_life`` and
        ``gates_half_life``, medians in tokens, infinite where nothing fades; ``induction``, the
        score over chance, NaN without tokens or where none occurs twice.

        Args:
            tokens: the ids that went in, for the induction score.

        Raises:
            ValueError: for sequences of one token, a pass that continues a cache, and tokens of
                another shape.
        """
        check_tokens(self.layers, tokens)
        return [row for layer in self.layers for row in head_rows(layer, tokens)]

    def report(self, tokens: Int[Tensor, "B L"] | None = None) -> str:
        """One page of text: every layer with its error, and its heads in numbers or their means.

        Args:
            tokens: the ids that went in, for the induction score.
        """
        return report(self.layers, self.unsupported, tokens)

    def __repr__(self) -> str:
        lines = [f"Trace of {len(self.layers)} layers", *(f"  {layer!r}" for layer in self.layers)]
        lines += [f"  not shown: {name}: {why}" for name, why in self.unsupported.items()]
        return "\n".join(lines)
