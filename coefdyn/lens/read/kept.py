"""A few heads of a trace in one small file, to look at without the model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from coefdyn import CoefficientDynamics, evolution, mask, normalizer, readout
from coefdyn.dynamics.coefficients import with_tensors
from coefdyn.lens.layer import LayerTrace
from coefdyn.shapes import Tensor

__all__ = ["KeptHeads", "keep_heads", "load_heads"]

_READOUTS = {"identity": readout.identity, "exp": readout.exp}


@dataclass(frozen=True, kw_only=True, eq=False)
class KeptHeads:
    """Heads that ``load_heads`` found.

    Attributes:
        layers: as ``trace`` gave them, first batch entry only, heads that were kept.
        words: the tokens as text.
        about: where it comes from: model, licence, how it was made.
        numbers: per layer name, which heads of the model these are.
    """

    layers: tuple[LayerTrace, ...]
    words: tuple[str, ...]
    about: Mapping[str, Any]
    numbers: Mapping[str, tuple[int, ...]]

    def __getitem__(self, name: str) -> LayerTrace:
        for layer in self.layers:
            if layer.name == name:
                return layer
        known = ", ".join(layer.name for layer in self.layers)
        raise KeyError(f"no layer is named {name!r}; there are {known}.")

    def together(self, mechanism: str) -> tuple[CoefficientDynamics, list[tuple[int, int]]]:
        """All heads of one mechanism side by side, to choose from, and where each stands.

        Args:
            mechanism: such as "softmax attention".

        Returns:
            Dynamics with batch shape (heads,), and the number of the layer (the first one in its
            name) and of the head in the model.

        Raises:
            ValueError: for a mechanism that no layer has, or layers with masks.
        """
        chosen = [layer for layer in self.layers if layer.mechanism == mechanism]
        if not chosen:
            known = ", ".join(sorted({layer.mechanism for layer in self.layers}))
            raise ValueError(f"no layer is {mechanism!r}; there are {known}.")
        places = [
            (_first_number(layer.name), head)
            for layer in chosen
            for head in self.numbers[layer.name]
        ]
        return _side_by_side([layer.dynamics for layer in chosen]), places


def keep_heads(
    path: Path,
    layers: Sequence[LayerTrace],
    *,
    words: Sequence[str],
    about: Mapping[str, Any],
    heads: Mapping[str, Sequence[int]] | None = None,
) -> None:
    """Write heads of the first batch entry to a compressed ``.npz`` file, in float32.

    Args:
        path: the file.
        layers: a trace, or some layers of it.
        words: the tokens as text, one per position.
        about: what a reader must know of it, as plain data.
        heads: per layer name, which heads; layers that it does not name are left out. None for all
            heads of all layers.

    Raises:
        ValueError: for words that do not fit, a readout other than identity and exp, or a name
            that no layer has.
    """
    names = [layer.name for layer in layers]
    if unknown := [name for name in heads or () if name not in names]:
        raise ValueError(f"no layer is called {unknown[0]!r}; there are {', '.join(names)}.")
    arrays: dict[str, Any] = {}
    entries: list[dict[str, Any]] = []
    for layer in layers:
        if heads is not None and layer.name not in heads:
            continue
        if len(words) != layer.dynamics.length:
            raise ValueError(f"{len(words)} words for {layer.dynamics.length} tokens.")
        chosen = list(range(layer.heads) if heads is None else heads[layer.name])
        tensors, entry = _describe(layer, chosen)
        arrays |= {f"{len(entries)}/{name}": value for name, value in tensors.items()}
        entries.append({**entry, "heads": chosen})
    head = json.dumps({"layers": entries, "words": list(words), "about": dict(about)})
    np.savez_compressed(path, header=np.array(head), **arrays)


def load_heads(path: Path) -> KeptHeads:
    """Heads that ``keep_heads`` wrote."""
    with np.load(path) as file:
        header = json.loads(str(file["header"]))
        layers = []
        for place, entry in enumerate(header["layers"]):
            prefix = f"{place}/"
            tensors = {
                name.removeprefix(prefix): torch.from_numpy(file[name])
                for name in file.files
                if name.startswith(prefix)
            }
            layers.append(_rebuild(entry, tensors))
    return KeptHeads(
        layers=tuple(layers),
        words=tuple(header["words"]),
        about=header["about"],
        numbers={entry["name"]: tuple(entry["heads"]) for entry in header["layers"]},
    )


def _first_number(name: str) -> int:
    return next((int(part) for part in name.split(".") if part.isdigit()), 0)


def _side_by_side(parts: Sequence[CoefficientDynamics]) -> CoefficientDynamics:
    """Dynamics of one kind with batch shapes (1, H), as one with all their heads."""
    first = parts[0]
    if any(part.mask is not None for part in parts):
        raise ValueError("heads with masks are shown layer by layer; use [name].dynamics.")

    held = [one._named_tensors() for one in parts]
    return with_tensors(
        first, lambda name, axes, x: torch.cat([one[name][0] for one in held], 1)[0]
    )


def _describe(layer: LayerTrace, heads: list[int]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    dynamics = layer.dynamics
    phi, eta = dynamics.readout, dynamics.normalizer
    if not any(phi.same_as(known) for known in _READOUTS.values()):
        raise ValueError(f"{layer.name} has the readout {phi.name}; identity and exp can be kept.")
    batch = dynamics.batch_shape

    def pick(value: Tensor, axes: int) -> np.ndarray:
        whole = value.expand(*batch, *value.shape[value.ndim - axes :])
        return whole[:1, heads].float().cpu().numpy()

    named = {
        name: pick(value, len(axes)) for name, (value, axes) in dynamics._named_tensors().items()
    }
    if layer.segments is not None:
        named["segments"] = layer.segments[:1].cpu().numpy()
    named |= {"values": pick(layer.values, 2), "output": pick(layer.output, 2)}
    if isinstance(dynamics.mask, mask.Given):
        named["allowed"] = pick(dynamics.mask.allowed, 2).astype(bool)
    entry = {
        "name": layer.name,
        "mechanism": layer.mechanism,
        "outside": layer.outside,
        "error": layer.error,
        "probe_error": layer.probe_error,
        "start": layer.start,
        "evolution": type(dynamics.evolution).__name__,
        "readout": phi.name,
        "normalizer": type(eta).__name__,
        "floor": getattr(eta, "floor", None),
        "sink": None if isinstance(sink := getattr(eta, "sink", None), Tensor) else sink,
        "mask": _named_mask(dynamics.mask),
        "scaling": None if isinstance(dynamics.scaling, Tensor) else dynamics.scaling,
    }
    return named, entry


def _named_mask(pairs: mask.Mask | None) -> list[Any] | None:
    """A window or blocks by name and numbers; other masks are kept pair by pair."""
    match pairs:
        case mask.Window(size=size):
            return ["Window", size]
        case mask.Blocks(size=size, before=before, position=position):
            return ["Blocks", size, before, position]
    return None


#: names in kept files of what has another one now
_EARLIER = {"ScaledHouseholder": "Householder"}


def _rebuild(entry: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> LayerTrace:
    def part(prefix: str) -> dict[str, Tensor]:
        return {
            name.removeprefix(prefix): value
            for name, value in tensors.items()
            if name.startswith(prefix)
        }

    kind = getattr(normalizer, entry["normalizer"])
    numbers = {name: entry[name] for name in ("floor", "sink") if entry.get(name) is not None}
    pairs: mask.Mask | None = None
    if "allowed" in tensors:
        pairs = mask.Given(tensors["allowed"])
    elif entry.get("mask") is not None:
        name, *sizes = entry["mask"]
        pairs = getattr(mask, name)(*sizes)
    dynamics = CoefficientDynamics(
        q=tensors["q"],
        k=tensors["k"],
        evolution=getattr(evolution, _EARLIER.get(entry["evolution"], entry["evolution"]))(
            **part("evolution.")
        ),
        scaling=tensors["scaling"] if entry["scaling"] is None else entry["scaling"],
        log_scaling=tensors.get("log_scaling"),
        readout=_READOUTS[entry["readout"]],
        normalizer=kind(**part("normalizer."), **numbers),
        own=tensors.get("own"),
        outer_log_decay=tensors.get("outer_log_decay"),
        mask=pairs,
    )
    return LayerTrace(
        name=entry["name"],
        mechanism=entry["mechanism"],
        dynamics=dynamics,
        values=tensors["values"],
        output=tensors["output"],
        error=entry["error"],
        outside=entry["outside"],
        probe_error=entry["probe_error"],
        segments=tensors.get("segments"),
        start=entry.get("start", 0),
    )
