"""A trace as one page of text: what was shown and how exactly, and its heads in numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter

from coefdyn.lens.layer import LayerTrace
from coefdyn.lens.read.reading import DEAD
from coefdyn.lens.read.tables import Row, check_tokens, head_rows
from coefdyn.shapes import Int, Tensor

__all__ = ["report"]

#: listed per layer (a Mamba layer has one per channel); the rest is counted
MOST_HEADS = 16
#: lines of a page; layers, heads that stand out and reasons that it names
PAGE, MOST_LAYERS, MOST_NAMED, MOST_REASONS = 60, 40, 3, 6

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

    A line per head where that fits on a page; otherwise a line per layer with the means of its
    heads, and the heads that stand out. All numbers are in ``Trace.rows``.

    Args:
        layers: what a trace shows, at least one.
        unsupported: name of a module and why it cannot be shown.
        tokens: the ids that went in, for the induction score.

    Raises:
        ValueError: for a pass that continues a cache, and tokens of another shape.
    """
    check_tokens(layers, tokens)
    if not layers:
        return "\n".join(["0 layers shown.", *_not_shown(unsupported)])
    tables = [head_rows(x, tokens) if _is_long_enough(x) else [] for x in layers]
    head = [
        f"{len(layers)} layers shown, {len(unsupported)} not; largest error "
        f"{max(layer.error for layer in layers):.1e} of the model's own output.",
        "",
    ]
    tail = [*_not_shown(unsupported), LEGEND]
    body = [line for x, rows in zip(layers, tables, strict=True) for line in [*_layer(x, rows), ""]]
    if sum(len(part.splitlines()) for part in [*head, *body, *tail]) > PAGE:
        body = [*_layer_lines(layers, tables), ""]
    return "\n".join([*head, *body, *tail])


def _is_long_enough(layer: LayerTrace) -> bool:
    return min(one.stop - one.start for one in layer.documents) >= 2


def _not_shown(unsupported: Mapping[str, str]) -> list[str]:
    lines = [f"not shown: {name}: {reason}" for name, reason in unsupported.items()]
    more = len(lines) - MOST_REASONS
    return lines if more <= 0 else [*lines[:MOST_REASONS], f"not shown: {more} more"]


def _layer(layer: LayerTrace, rows: Sequence[Row]) -> list[str]:
    evolution = type(layer.dynamics.evolution).__name__
    head = (
        f"{layer.name}: {layer.mechanism}, {layer.heads} heads, A_t {evolution}, "
        f"phi {layer.dynamics.readout.name}, eta {layer.dynamics.normalizer.name}, "
        f"error {layer.error:.1e}"
    )
    lines = [head, f"  outside alpha: {layer.outside}"]
    if not rows:
        return lines
    lines += [HEADER, *(f"{row['head']:>6} {_numbers(row)}" for row in rows[:MOST_HEADS])]
    if len(rows) > MOST_HEADS:
        lines.append(f"{'...':>6} {len(rows) - MOST_HEADS} more heads")
    dead = sum(row["output_size"] < DEAD for row in rows)
    closed = sum(row["closed"] > 0.99 for row in rows)
    if dead:
        lines.append(f"  {dead} dead heads: outputs below {DEAD:g} of the layer's")
    if closed:
        lines.append(f"  {closed} heads with closed gates: they drop the past at each token")
    return lines


def _numbers(row: Row) -> str:
    induced = f"{row['induction']:9.2f}" if row["induction"] == row["induction"] else f"{'-':>9}"
    return (
        f"{row['entropy']:8.3f} {row['first']:6.3f} {row['previous']:8.3f} {row['own']:6.3f} "
        f"{row['memory_tokens']:7.1f} {row['near_zero']:6.3f} {row['half_life']:9.4g} "
        f"{row['gates_half_life']:9.4g} {induced}"
    )


def _layer_lines(layers: Sequence[LayerTrace], tables: Sequence[Sequence[Row]]) -> list[str]:
    """A line per layer, the means of its heads (half-lives: the median), then what stands out."""
    width = max(len(layer.name) for layer in layers[:MOST_LAYERS])
    lines = [f"{'layer':<{width}} {'heads':>5} {'error':>8} {'dead':>4} {HEADER[7:]}"]
    for layer, rows in list(zip(layers, tables, strict=True))[:MOST_LAYERS]:
        dead = sum(row["output_size"] < DEAD for row in rows)
        start = f"{layer.name:<{width}} {layer.heads:>5} {layer.error:8.1e} {dead:>4}"
        lines.append(f"{start} {_numbers(_mean(rows))}" if rows else start)
    if len(layers) > MOST_LAYERS:
        lines.append(f"... {len(layers) - MOST_LAYERS} more layers")
    every = [row for rows in tables for row in rows]
    for name, words in (("first", "first token"), ("previous", "token before"), ("induction", "")):
        known = [row for row in every if row[name] == row[name]]
        most = sorted(known, key=itemgetter(name), reverse=True)[:MOST_NAMED]
        if most:
            told = ", ".join(f"{row['layer']} head {row['head']} ({row[name]:.2f})" for row in most)
            lines.append(f"most {words or 'induction over chance'}: {told}")
    kinds = dict.fromkeys((layer.mechanism, layer.outside) for layer in layers)
    return [*lines, *(f"{kind}: outside alpha: {outside}" for kind, outside in kinds)]


def _mean(rows: Sequence[Row]) -> Row:
    def middle(name: str) -> float:
        return sorted(row[name] for row in rows)[len(rows) // 2]

    lives = ("half_life", "gates_half_life")
    names = [name for name, value in rows[0].items() if isinstance(value, float)]
    means = {name: sum(row[name] for row in rows) / len(rows) for name in names}
    return means | {name: middle(name) for name in lives}
