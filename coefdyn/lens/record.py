"""What the lens hands back: one frozen record per layer, and the whole pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.shapes import Float, Int, Tensor

__all__ = ["LayerTrace", "Trace"]


@dataclass(frozen=True, kw_only=True, eq=False)
class LayerTrace:
    """One mixer of a model on one input, with the error of what is shown.

    Attributes:
        name: the module's name in the model; a module that ran again has " (2)" and so on behind.
        mechanism: such as "gated deltanet".
        dynamics: batch shape ``(B, H)``, H the heads of the values (grouped keys are repeated). In
            float32 for a model in half precision.
        values: v, ``(B, H, L, d_v)``.
        output: y as the model's own operation returned it, ``(B, H, L, d_v)``.
        error: max abs(dynamics.apply(values) - output) / max abs(output), over the queries that
            may read at least one token.
        outside: what of this layer lies outside alpha.
        probe_error: largest abs(alpha/eta - probe) / max abs(probe), where the probe is the
            model's own operation on v = I; None where it was not asked for.
    """

    name: str
    mechanism: str
    dynamics: CoefficientDynamics
    values: Float[Tensor, "B H L dv"]
    output: Float[Tensor, "B H L dv"]
    error: float
    outside: str
    probe_error: float | None = None

    @property
    def heads(self) -> int:
        """H."""
        return self.dynamics.batch_shape[1]

    def __repr__(self) -> str:
        batch, heads = self.dynamics.batch_shape
        return (
            f"LayerTrace({self.name}: {self.mechanism}, B={batch}, H={heads}, "
            f"L={self.dynamics.length}, error={self.error:.1e})"
        )


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
        from coefdyn.lens.report import report

        return report(self, tokens)

    def __repr__(self) -> str:
        lines = [f"Trace of {len(self.layers)} layers", *(f"  {layer!r}" for layer in self.layers)]
        lines += [f"  not shown: {name}: {why}" for name, why in self.unsupported.items()]
        return "\n".join(lines)
