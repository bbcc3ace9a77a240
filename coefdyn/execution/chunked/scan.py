"""Linear readouts: the one walk over batch entries and pieces of a sequence, there and back.

A structure of A_t says how its sequences are cut, what a piece makes of the state before it, and
how gradients pass through one piece. Groups of batch entries whose tiles stay in cache together go
through all pieces; on the way back a piece is computed again from the state at its start.

Heads that share q and k (Mamba-2) have one copy of them, ``(G, L, n)`` for B = G H batch entries.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

import torch

from coefdyn.execution.chunked.operators import Kernel
from coefdyn.execution.chunked.tiles import batch_groups, scaled
from coefdyn.shapes import Float, Tensor

__all__ = ["Group", "Piece", "scan_kernel", "tile_bytes", "write_factor"]


class Piece(NamedTuple):
    """Tokens start .. stop - 1."""

    start: int
    stop: int


class Group(ABC):
    """Some batch entries of a scan; its tensors are attributes, by their names in the kernel."""

    #: names of the structure's own tensors, and of its log decay
    own: ClassVar[tuple[str, ...]] = ()
    log_decay_name: ClassVar[str] = "log_decay?"
    q: Tensor
    k: Tensor
    v: Tensor
    weight: Tensor | None
    log_decay: Any

    def __init__(self, tensors: Mapping[str, Tensor | None], chunk: int, scale: float) -> None:
        vars(self).update(tensors)
        self.chunk, self.scale = chunk, scale

    @staticmethod
    def steady(tensors: Mapping[str, Any], chunk: int) -> int:
        """The chunk that these inputs allow."""
        return chunk

    @abstractmethod
    def pieces(self) -> Iterator[Any]:
        """Pieces of the sequence in order; ``start`` and ``stop`` are among their fields."""

    @abstractmethod
    def forward(self, piece: Any, state: Tensor | None) -> tuple[Tensor, Tensor]:
        """o of a piece, and the state after it."""

    @abstractmethod
    def advance(self, piece: Any, state: Tensor | None) -> tuple[Tensor, Any]:
        """The state after a piece, and what ``backward`` would otherwise compute again."""

    @abstractmethod
    def backward(
        self, piece: Any, seen: Any, state: Tensor | None, end: Tensor, grad: Tensor, ds: Tensor
    ) -> tuple[dict[str, Tensor], Tensor]:
        """Gradients of one piece by name, "v" for that of b V, and of the state before it.

        Args:
            piece, seen: as ``advance`` had and returned them.
            state, end: before and after the piece.
            grad, ds: gradients of o and of ``end``.
        """

    def of(self, piece: Any, *names: str) -> Iterator[Tensor]:
        """The tokens of a piece in these tensors."""
        return (getattr(self, name)[:, piece.start : piece.stop] for name in names)

    def factor(self, piece: Any) -> Tensor | float | None:
        """b_j of one piece."""
        return write_factor(self.weight, self.scale, piece.start, piece.stop)

    def written(self, piece: Any) -> Float[Tensor, "B C dv"]:
        """b V of one piece."""
        return scaled(self.v[:, piece.start : piece.stop], self.factor(piece))


def write_factor(
    weight: Tensor | None, scale: float, start: int, stop: int
) -> Tensor | float | None:
    """b_j = scale * weight_j of some tokens, ``(B, C, 1)``; None for 1."""
    if weight is None:
        return None if scale == 1.0 else scale
    return weight[:, start:stop, None] * scale


def tile_bytes(q: Tensor, v: Tensor, chunk: int) -> int:
    """Size of the largest tile of one batch entry."""
    return chunk * max(q.shape[-1], v.shape[-1], chunk) * q.element_size()


def _groups(
    form: type[Group], tensors: Mapping[str, Any], chunk: int, scale: float
) -> Iterator[tuple[slice, slice, Group]]:
    """(entries of q and k, of all other tensors, their group); shared q and k are expanded."""
    q, k, v = (tensors[name] for name in ("q", "k", "v"))
    chunk, heads = form.steady(tensors, chunk), len(v) // len(q)
    spans = [(0, len(v))] if heads == 1 else [(g * heads, heads) for g in range(len(q))]
    for first, entries in spans:
        for some in batch_groups(entries, tile_bytes(q, v, chunk)):
            rows = slice(first + some.start, first + some.stop)
            pairs = rows if heads == 1 else slice(first // heads, first // heads + 1)
            cut = {name: None if x is None else x[rows] for name, x in tensors.items()}
            size = rows.stop - rows.start
            cut |= {"q": q[pairs].expand(size, -1, -1), "k": k[pairs].expand(size, -1, -1)}
            yield pairs, rows, form(cut, chunk, scale)


def scan_kernel(name: str, form: type[Group]) -> Kernel:
    """The kernel of a structure: (q, k, v, own tensors, weight, log decay, state, chunk, scale) to
    (O, state after the last token)."""
    declared = ("q", "k", "v", *form.own, "weight?", form.log_decay_name, "state?")
    names = [one.rstrip("?") for one in declared]

    def forward(*args: Any) -> tuple[Tensor, Tensor]:
        tensors, (chunk, scale) = dict(zip(names, args, strict=False)), args[-2:]
        q, v = tensors["q"], tensors["v"]
        out, final = torch.empty_like(v), v.new_empty(len(v), q.shape[-1], v.shape[-1])
        for _, rows, group in _groups(form, tensors, chunk, scale):
            state = None if tensors["state"] is None else tensors["state"][rows]
            for piece in group.pieces():
                out[rows, piece.start : piece.stop], state = group.forward(piece, state)
            final[rows] = state
        return out, final

    def backward(*args: Any) -> tuple[Tensor | None, ...]:
        tensors, (grad_out, grad_final, chunk, scale) = (
            dict(zip(names, args, strict=False)),
            args[-4:],
        )
        grads = {name: None if x is None else torch.empty_like(x) for name, x in tensors.items()}
        shared = len(tensors["q"]) < len(tensors["v"])
        if shared:
            grads["q"].zero_()
            grads["k"].zero_()
        for pairs, rows, group in _groups(form, tensors, chunk, scale):
            path, state = [], None if tensors["state"] is None else tensors["state"][rows]
            for piece in group.pieces():
                end, seen = group.advance(piece, state)
                path.append((piece, seen, state))
                state = end
            ds, end = grad_final[rows], state
            while path:
                piece, seen, state = path.pop()
                here = (rows, slice(piece.start, piece.stop))
                found, ds = group.backward(piece, seen, state, end, grad_out[here], ds)
                values = found.pop("v")
                if shared:
                    for name in ("q", "k"):
                        grads[name][pairs, piece.start : piece.stop] += found.pop(name).sum(0)
                for name, x in found.items():
                    grads[name][here] = x
                if group.weight is not None:
                    grads["weight"][here] = (tensors["v"][here] * values).sum(-1).mul_(scale)
                grads["v"][here] = scaled(values, group.factor(piece))
                end = state
            if grads["state"] is not None:
                grads["state"][rows] = ds
        return tuple(grads.values())

    return Kernel(
        name,
        forward,
        backward,
        tensors=declared,
        options=("int chunk", "float scale"),
        shapes=output_shapes,
        outputs=2,
    )


def output_shapes(q: Tensor, k: Tensor, v: Tensor, *rest: Tensor | None) -> tuple:
    """O like v, and the final state (B, n, d_v)."""
    return v.shape, (v.shape[0], q.shape[-1], v.shape[-1])
