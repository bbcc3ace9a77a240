"""A trace as rows of a table, a dict per layer and head, and two traces beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from coefdyn.dynamics.evolution import Dense, DiagonalPlusRankOne, Householder
from coefdyn.lens.layer import LayerTrace
from coefdyn.lens.read.reading import SCORES, induction, looks, output_sizes, shares
from coefdyn.lens.read.survival import survival
from coefdyn.shapes import Int, Tensor

__all__ = ["check_tokens", "compare_traces", "head_rows"]

Row = dict[str, Any]


def check_tokens(layers: Sequence[LayerTrace], tokens: Int[Tensor, "B L"] | None) -> None:
    """Raise where the tokens are those of no layer.

    Raises:
        ValueError: naming the shapes.
    """
    expected = {(layer.dynamics.batch_shape[0], layer.dynamics.length) for layer in layers}
    if tokens is not None and expected and tuple(tokens.shape) not in expected:
        raise ValueError(
            f"tokens must have the shape (B, L) of what went in, {sorted(expected)[0]}, got "
            f"{tuple(tokens.shape)}."
        )


def head_rows(layer: LayerTrace, tokens: Int[Tensor, "B L"] | None = None) -> list[Row]:
    """A dict per head, as ``Trace.rows`` returns them."""
    about = {
        "layer": layer.name,
        "mechanism": layer.mechanism,
        "evolution": type(layer.dynamics.evolution).__name__,
        "error": layer.error,
        "probe_error": layer.probe_error,
    }
    read = looks(layer)
    lives, by_gates = _half_lives(layer)
    columns: dict[str, list[float]] = {
        name: getattr(read, name).double().mean(0).tolist() for name in (*SCORES, "closed", "open")
    }
    columns |= {
        "output_size": output_sizes(layer).amax(0).tolist(),
        "half_life": lives,
        "gates_half_life": by_gates,
        "induction": _induced(layer, tokens),
    }
    return [
        about | {"head": head} | {name: values[head] for name, values in columns.items()}
        for head in range(layer.heads)
    ]


def compare_traces(first: Sequence[LayerTrace], second: Sequence[LayerTrace]) -> list[Row]:
    """Difference of each head between two runs on inputs of the same shape.

    Two models of one architecture on one input, or one model on two inputs, or with and without
    ``replaced``. Means are over the real tokens of ``first``:

        output_change   max abs(y - y') / max abs(y)
        share_change    mean over the queries of 1/2 sum_j abs(w_{i,j} - w'_{i,j}), 0 to 1

    and each of ``SCORES``, second minus first, as ``NAME_change``.

    Returns:
        A dict per head of the layers that both show, with ``layer``, ``mechanism`` and ``head``.

    Raises:
        ValueError: where no layer is in both, or one has another shape in the second.
    """
    known = {layer.name: layer for layer in second}
    rows: list[Row] = []
    for layer in first:
        if layer.name not in known:
            continue
        other = known[layer.name]
        if layer.output.shape != other.output.shape or layer.start != other.start:
            raise ValueError(
                f"{layer.name} has y of shape {tuple(layer.output.shape)} in one trace and "
                f"{tuple(other.output.shape)} in the other; trace inputs of the same batch and "
                "length, both without a cache."
            )
        rows += _compared(layer, other)
    if not rows:
        raise ValueError(
            f"the traces have no layer in common: {', '.join(x.name for x in first)} and "
            f"{', '.join(known)}."
        )
    return rows


def _compared(layer: LayerTrace, other: LayerTrace) -> list[Row]:
    weights = shares(layer.dynamics), shares(other.dynamics)
    distance = (weights[0] - weights[1]).abs().sum(-1) / 2
    gaps, sizes, distances = [], [], []
    for one in layer.documents:
        mine, theirs = (x.output[one.row, :, one.tokens] for x in (layer, other))
        gaps.append((mine - theirs).abs().amax((-2, -1)))
        sizes.append(mine.abs().amax((-2, -1)))
        distances.append(distance[one.row, :, one.tokens])
    size = torch.stack(sizes).amax(0)
    output = torch.stack(gaps).amax(0) / torch.where(size > 0, size, torch.ones_like(size))
    share = torch.cat(distances, -1).mean(-1)
    before, after = head_rows(layer), head_rows(other)
    return [
        {
            "layer": layer.name,
            "mechanism": layer.mechanism,
            "head": head,
            "output_change": output[head].item(),
            "share_change": share[head].item(),
            **{f"{name}_change": after[head][name] - before[head][name] for name in SCORES},
        }
        for head in range(layer.heads)
    ]


def _half_lives(layer: LayerTrace) -> tuple[list[float], list[float]]:
    """Median over the tokens, with erasure and by the gates alone."""
    if isinstance(layer.dynamics.evolution, Dense):
        unknown = [float("nan")] * layer.heads
        return unknown, unknown
    found = [survival(dynamics) for dynamics in layer.sequences()]
    gates = [one.gates_half_life for one in found]
    erased = isinstance(layer.dynamics.evolution, Householder | DiagonalPlusRankOne)
    return _medians([one.half_life for one in found] if erased else gates), _medians(gates)


def _medians(lives: Sequence[Tensor]) -> list[float]:
    flat = torch.cat([one.transpose(0, 1).flatten(1) for one in lives], -1)
    return flat.sort(-1).values[:, flat.shape[-1] // 2].tolist()


def _induced(layer: LayerTrace, tokens: Tensor | None) -> list[float]:
    """Score over chance, NaN where no tokens are given or none occurs twice."""
    if tokens is not None:
        try:
            found = induction(layer, tokens)
        except ValueError:
            tokens = None
        else:
            return (found.mean / found.chance).tolist()
    return [float("nan")] * layer.heads
