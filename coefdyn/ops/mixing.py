"""Parts that all operations share: one layout, one precision, states, and documents in a row."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import torch

from coefdyn.dynamics import CoefficientDynamics, documents, normalizer, readout
from coefdyn.dynamics.evolution import Evolution
from coefdyn.execution.state import LinearState
from coefdyn.ops.arguments import check_shape
from coefdyn.shapes import Float, Tensor

__all__ = ["Heads", "heads_of", "mixed", "pieces", "unit", "working"]


def working(*values: Tensor | None) -> torch.dtype:
    """The dtype to compute in: float64 where one of these has it, float32 otherwise."""
    wide = any(x is not None and x.dtype == torch.float64 for x in values)
    return torch.float64 if wide else torch.float32


@dataclass(frozen=True, kw_only=True)
class Heads:
    """q with its scale, k and v of one call, heads first, each once per head of the values.

    Attributes:
        q: ``(B, H, T, K)``.
        k: ``(B, H, T, K)``.
        v: ``(B, H, T, V)``.
        returns: the dtype of the result.
    """

    q: Float[Tensor, "B H T K"]
    k: Float[Tensor, "B H T K"]
    v: Float[Tensor, "B H T V"]
    returns: torch.dtype

    def gate(self, name: str, value: Tensor, axes: str = "B, T, HV") -> Tensor:
        """A gate of every head and token, ``(B, T, H, ...)``, heads first.

        Raises:
            ValueError: for another shape.
        """
        batch, heads, length, width = self.k.shape
        shape = (batch, length, heads) + ((width,) if axes.endswith("K") else ())
        check_shape(name, value, shape, axes)
        return value.to(self.q.dtype).transpose(1, 2)


def heads_of(
    q: Tensor, k: Tensor, v: Tensor, scale: float | None, grouped: bool = False, norm: bool = False
) -> Heads:
    """Read the arguments that every operation of fla has.

    Args:
        q: queries, ``(B, T, H, K)``.
        k: keys, ``(B, T, H, K)``.
        v: values, ``(B, T, HV, V)``.
        scale: of q; None for 1 / sqrt(K).
        grouped: whether HV may be a multiple of H.
        norm: whether q and k are brought to length one.

    Raises:
        ValueError: for other shapes.
    """
    if q.ndim != 4 or v.ndim != 4:
        raise ValueError(
            f"q must be (B, T, H, K) and v (B, T, HV, V), got {tuple(q.shape)}, {tuple(v.shape)}."
        )
    check_shape("k", k, tuple(q.shape), "B, T, H, K, as q")
    heads = v.shape[2]
    if grouped and heads % q.shape[2]:
        raise ValueError(f"v has {heads} heads, which must be a multiple of the {q.shape[2]} of q.")
    check_shape(
        "v", v, (*q.shape[:2], heads if grouped else q.shape[2], v.shape[-1]), "B, T, HV, V"
    )
    kind, shared = working(q, k, v), heads // q.shape[2]
    q_, k_, v_ = (x.to(kind).transpose(1, 2) for x in (q, k, v))
    if norm:
        q_, k_ = unit(q_), unit(k_)
    if shared > 1:
        q_, k_ = (x.repeat_interleave(shared, dim=1) for x in (q_, k_))
    factor = k.shape[-1] ** -0.5 if scale is None else scale
    return Heads(q=q_ * factor, k=k_, v=v_, returns=v.dtype)


def unit(x: Tensor) -> Tensor:
    """x / sqrt(|x|^2 + 1e-6), as the kernels have it."""
    return x * (x.square().sum(-1, keepdim=True) + 1e-6).rsqrt()


def pieces(cu_seqlens: Tensor | None, batch: int, length: int, state: Tensor | None) -> list[slice]:
    """Tokens of each document packed into one row; one piece where there are no boundaries.

    Raises:
        ValueError: for a batch, boundaries that do not end with the last token, and another number
            of states than of documents.
    """
    if cu_seqlens is None:
        return [slice(0, length)]
    if batch != 1:
        raise ValueError(f"cu_seqlens packs documents into one row: B must be 1, got {batch}.")
    if length:
        documents.packed(cu_seqlens, length)
    bounds = cu_seqlens.tolist()
    if bounds[-1] != length:
        raise ValueError(f"cu_seqlens must end with the last of {length} tokens, got {bounds[-1]}.")
    if state is not None and state.shape[0] != len(bounds) - 1:
        raise ValueError(
            f"initial_state holds one state for each of the {len(bounds) - 1} documents of "
            f"cu_seqlens, got {state.shape[0]}."
        )
    return [slice(a, b) for a, b in itertools.pairwise(bounds)]


def mixed(
    heads: Heads,
    evolves: Callable[[slice], Evolution],
    scaling: Float[Tensor, "B H T"] | float = 1.0,
    *,
    initial_state: Float[Tensor, "N H rows columns"] | None,
    output_final_state: bool,
    cu_seqlens: Tensor | None,
    v_first: bool = False,
) -> tuple[Float[Tensor, "B T H V"], Float[Tensor, "N H rows columns"] | None]:
    """y and the last states, both in fla's layout.

    Args:
        heads: q, k, v.
        evolves: A_t of a piece of the tokens.
        scaling: b_j.
        initial_state: S of each sequence, ``(N, H, K, V)``; None for 0.
        output_final_state: whether to return the last states; None otherwise.
        cu_seqlens: boundaries of documents packed into one row; None for a batch.
        v_first: whether states are ``(N, H, V, K)``.

    Raises:
        ValueError: for a state of another shape, and as ``pieces``.
    """
    batch, count, length, width = heads.k.shape
    cut = pieces(cu_seqlens, batch, length, initial_state)
    sequences = batch if cu_seqlens is None else len(cut)
    sizes = (width, heads.v.shape[-1])
    before = None
    if initial_state is not None:
        shape = (sequences, count, *(sizes[::-1] if v_first else sizes))
        check_shape(
            "initial_state", initial_state, shape, "N, HV, V, K" if v_first else "N, HV, K, V"
        )
        before = (initial_state if v_first else initial_state.mT).to(heads.q.dtype)
    rows, states = [], []
    for place, part in enumerate(cut):
        held = before if before is None or cu_seqlens is None else before[place : place + 1]
        y, after = _piece(heads, evolves, scaling, part, held, output_final_state)
        rows.append(y)
        states.append(after)
    y = rows[0] if len(rows) == 1 else torch.cat(rows, 2)
    out = y.transpose(1, 2).contiguous().to(heads.returns)
    if not output_final_state:
        return out, None
    last = torch.cat(states) if len(states) > 1 else states[0]
    return out, last if v_first else last.mT.contiguous()


def _piece(
    heads: Heads,
    evolves: Callable[[slice], Evolution],
    scaling: Tensor | float,
    part: slice,
    before: Tensor | None,
    wanted: bool,
) -> tuple[Tensor, Tensor]:
    """y of a piece, and the state after it (V, K); no tokens leave the state as it is."""
    v = heads.v[:, :, part]
    empty = v.new_zeros(*v.shape[:2], v.shape[-1], heads.k.shape[-1]) if before is None else before
    if not v.shape[2]:
        return v, empty
    dynamics = CoefficientDynamics(
        q=heads.q[:, :, part],
        k=heads.k[:, :, part],
        evolution=evolves(part),
        scaling=scaling[:, :, part] if isinstance(scaling, Tensor) else scaling,
        readout=readout.identity,
        normalizer=normalizer.One(),
    )
    if before is None and not wanted:
        return dynamics.apply(v), empty
    state = None if before is None else LinearState(matrix=before, offset=None)
    y, after = dynamics.extend(v, state)
    assert isinstance(after, LinearState)
    return y, after.matrix
