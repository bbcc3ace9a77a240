"""A trace as one page of text: what was shown and how exactly, and a line per head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from coefdyn.dynamics.evolution import Dense, DiagonalPlusRankOne, Householder, ScaledHouseholder
from coefdyn.lens.layer import LayerTrace
from coefdyn.lens.reading import DEAD, induction, looks, output_sizes
from coefdyn.lens.survival import survival
from coefdyn.shapes import Int, Tensor

__all__ = ["report"]

#: listed per layer (a Mamba layer has one per channel); the rest is counted
MOST_HEADS = 16

HEADER = (
    f"{'head':>6} {'entropy':>8} {'first':>6} {'previous':>8} {'own':>6} {'memory':>7} "
    f"{'zeros':>6} {'half-life':>9} {'by gates':>9} {'induction':>9}"
)
LEGEND = (
    "entropy: of the shares |alpha/eta|, 0 one token, 1 all alike. first, previous, own: share on "
    "the first token, the one before, itself.\nmemory: tokens within which nine tenths of |alpha| "
    "lie. zeros: share of |alpha/eta| <= 0.001. half-life: median tokens until half of a stored "
    "key is gone,\nwith erasure, and by the gates alone. induction: share behind earlier "
    "occurrences of the token, over chance.\nAlpha is the mixing alone; what lies outside it is "
    "said for each layer."
)


def report(
    layers: Sequence[LayerTrace],
    unsupported: Mapping[str, str],
    tokens: Int[Tensor, "B L"] | None = None,
) -> str:
    """One page for a paper's appendix: every layer with its error, its heads in numbers.

    Args:
        layers: what a trace shows, at least one.
        unsupported: name of a module and why it cannot be shown.
        tokens: the ids that went in, for the induction score.
    """
    lines = [
        f"{len(layers)} layers shown, {len(unsupported)} not; largest error "
        f"{max(layer.error for layer in layers):.1e} of the model's own output.",
        "",
    ]
    for layer in layers:
        lines += [*_layer(layer, tokens), ""]
    lines += [f"not shown: {name}: {reason}" for name, reason in unsupported.items()]
    return "\n".join([*lines, LEGEND])


def _layer(layer: LayerTrace, tokens: Tensor | None) -> list[str]:
    evolution = type(layer.dynamics.evolution).__name__
    head = (
        f"{layer.name}: {layer.mechanism}, {layer.heads} heads, A_t {evolution}, "
        f"phi {layer.dynamics.readout.name}, eta {layer.dynamics.normalizer.name}, "
        f"error {layer.error:.1e}"
    )
    lines = [head, f"  outside alpha: {layer.outside}"]
    if min(one.stop - one.start for one in layer.documents) < 2:
        return lines
    rows = _rows(layer, tokens)
    lines += [HEADER, *rows[:MOST_HEADS]]
    if len(rows) > MOST_HEADS:
        lines.append(f"{'...':>6} {len(rows) - MOST_HEADS} more heads")
    dead = int((output_sizes(layer).amax(0) < DEAD).sum())
    closed = int((looks(layer).closed.mean(0) > 0.99).sum())
    if dead:
        lines.append(f"  {dead} dead heads: outputs below {DEAD:g} of the layer's")
    if closed:
        lines.append(f"  {closed} heads with closed gates: they drop the past at each token")
    return lines


def _rows(layer: LayerTrace, tokens: Tensor | None) -> list[str]:
    """A line per head, means over the batch."""
    read = looks(layer)
    lives = _half_lives(layer)
    induced = _induced(layer, tokens)
    rows = []
    for head in range(layer.heads):
        numbers = [
            f"{getattr(read, name)[:, head].mean():{width}.3f}"
            for name, width in (("entropy", 8), ("first", 6), ("previous", 8), ("own", 6))
        ]
        memory = read.memory_tokens[:, head].double().mean()
        rows.append(
            f"{head:>6} {' '.join(numbers)} {memory:7.1f} {read.near_zero[:, head].mean():6.3f} "
            f"{lives[0][head]:9.4g} {lives[1][head]:9.4g} "
            + ("        -" if induced is None else f"{induced[head]:9.2f}")
        )
    return rows


def _half_lives(layer: LayerTrace) -> tuple[list[float], list[float]]:
    """Median over the tokens, with erasure and by the gates alone."""
    if isinstance(layer.dynamics.evolution, Dense):
        unknown = [float("nan")] * layer.heads
        return unknown, unknown
    found = [survival(dynamics) for dynamics in layer.sequences()]
    erases = (Householder, ScaledHouseholder, DiagonalPlusRankOne)
    gates = [one.gates_half_life for one in found]
    erased = isinstance(layer.dynamics.evolution, erases)
    return _medians([one.half_life for one in found] if erased else gates), _medians(gates)


def _medians(lives: Sequence[Tensor]) -> list[float]:
    flat = torch.cat([one.transpose(0, 1).flatten(1) for one in lives], -1)
    return flat.sort(-1).values[:, flat.shape[-1] // 2].tolist()


def _induced(layer: LayerTrace, tokens: Tensor | None) -> list[float] | None:
    if tokens is None:
        return None
    try:
        found = induction(layer, tokens)
    except ValueError:
        return None
    return (found.mean / found.chance).tolist()
