"""Report of an engine: what it computed, layer by layer, and what it left to the model."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

__all__ = ["EngineReport", "LayerRuns"]

ELSEWHERE = "the model's own code: no operation that is computed here has run in it"


@dataclass(kw_only=True)
class LayerRuns:
    """Calls of one layer's operation.

    Attributes:
        name: of the module that calls it.
        mechanism: such as "mamba-2".
        calls: how many were computed here.
        left: how many the model computed, by the reason.
    """

    name: str
    mechanism: str
    calls: int = 0
    left: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        parts = [f"{self.calls} computed here"] if self.calls else []
        parts += [f"{count} left ({reason})" for reason, count in self.left.items()]
        return f"{self.name}: {self.mechanism}, {', '.join(parts)}"


@dataclass(kw_only=True)
class EngineReport:
    """Layers of a model whose operation ran, and what else mixes tokens in it.

    Attributes:
        model: name of its class.
        mixers: names of all modules that look like mixers.
        layers: those in which an operation with an adapter ran, in that order, by name.
    """

    model: str
    mixers: tuple[str, ...]
    layers: dict[str, LayerRuns] = field(default_factory=dict)

    @property
    def left(self) -> dict[str, str]:
        """Reasons, by the layer's name, why its mixing or some calls of it were the model's own."""
        found = {name: "; ".join(one.left) for name, one in self.layers.items() if one.left}
        for name in self.mixers:
            inside = (other == name or other.startswith(f"{name}.") for other in self._known())
            if not any(inside):
                found[name] = ELSEWHERE
        return found

    def note(self, name: str, mechanism: str, reason: str | None) -> None:
        """Count a call: one computed here, or one left for this reason."""
        layer = self.layers.setdefault(name, LayerRuns(name=name, mechanism=mechanism))
        if reason is None:
            layer.calls += 1
        else:
            layer.left[reason] += 1

    def _known(self) -> list[str]:
        deeper = [one for one in self.mixers if self._is_parent(one)]
        return [*self.layers, *deeper]

    def _is_parent(self, name: str) -> bool:
        """Whether other mixers lie in this one, which is then no mixer by itself."""
        return any(other.startswith(f"{name}.") for other in self.mixers)

    def __str__(self) -> str:
        here = sum(bool(one.calls) for one in self.layers.values())
        lines = [f"{self.model}: {here} layers computed here"]
        lines += [f"  {layer}" for layer in self.layers.values()]
        lines += [f"  {n}: {why}" for n, why in self.left.items() if n not in self.layers]
        return "\n".join(lines)
