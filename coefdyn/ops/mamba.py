"""mamba-ssm's scans: the selective scan of Mamba-1, and the scan of Mamba-2.

    S_t = exp(Delta_t A) S_{t-1} + Delta_t B_t x_t^T,   y_t = S_t^T C_t + D x_t

Signatures: mamba-ssm 2.3.2.
"""

from __future__ import annotations

import itertools

import torch
from torch.nn import functional

from coefdyn.dynamics import CoefficientDynamics, documents, normalizer, readout
from coefdyn.dynamics.evolution import Diagonal, Evolution, Scalar
from coefdyn.execution.state import LinearState
from coefdyn.ops.arguments import check_shape
from coefdyn.ops.mixing import working
from coefdyn.shapes import Float, Int, Tensor

__all__ = ["mamba_chunk_scan_combined", "selective_scan_fn"]


def selective_scan_fn(
    u: Float[Tensor, "B D L"],
    delta: Float[Tensor, "B D L"],
    A: Float[Tensor, "D N"],
    B: Tensor,
    C: Tensor,
    D: Float[Tensor, " D"] | None = None,
    z: Float[Tensor, "B D L"] | None = None,
    delta_bias: Float[Tensor, " D"] | None = None,
    delta_softplus: bool = False,
    return_last_state: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Mamba-1: every channel d has a state of N numbers of its own.

        x_t = exp(Delta_t A) x_{t-1} + Delta_t B_t u_t,   y_t = (C_t^T x_t + D u_t) silu(z_t)

    Unlike mamba-ssm's, the last state has a gradient.

    Args:
        u: input.
        delta: Delta before bias and softplus.
        A: real; usually negative.
        B: ``(B, N, L)``, ``(B, G, N, L)`` for groups of D / G channels, or a constant ``(D, N)``.
        C: as B.
        D: of the skip; None for none.
        z: of the gate; None for none.
        delta_bias: added to delta.
        delta_softplus: Delta is softplus(delta + delta_bias).
        return_last_state: whether to return x after the last token, too.

    Returns:
        y ``(B, D, L)`` in the dtype of u; with ``return_last_state`` a pair of y and ``(B, D, N)``.

    Raises:
        ValueError: for shapes that do not fit, and a complex A, by the name of the argument.
    """
    if A.is_complex():
        raise ValueError("A is complex, which the scan of real channels does not take; use A.real.")
    if u.ndim != 3:
        raise ValueError(f"u must have shape (B, D, L), got {tuple(u.shape)}.")
    batch, width, length = u.shape
    check_shape("delta", delta, (batch, width, length), "B, D, L")
    check_shape("A", A, (width, A.shape[-1]), "D, N")
    kind = working(u, delta, A)
    step = delta.to(kind)
    if delta_bias is not None:
        check_shape("delta_bias", delta_bias, (width,), "D")
        step = step + delta_bias.to(kind)[:, None]
    if delta_softplus:
        step = functional.softplus(step)
    k, q = (_per_channel(name, x, u, A).to(kind) for name, x in (("B", B), ("C", C)))
    dynamics = CoefficientDynamics(
        q=q,
        k=k,
        evolution=Diagonal(log_decay=step[..., None] * A.to(kind)[:, None, :]),
        scaling=step,
        readout=readout.identity,
        normalizer=normalizer.One(),
    )
    values = u.to(kind)
    last: Tensor | None = None
    if return_last_state:
        rows, after = dynamics.extend(values[..., None])
        assert isinstance(after, LinearState)
        last = after.matrix[..., 0, :]
    else:
        rows = dynamics.apply(values[..., None])
    y = rows[..., 0]
    if D is not None:
        check_shape("D", D, (width,), "D")
        y = y + D.to(kind)[:, None] * values
    if z is not None:
        check_shape("z", z, (batch, width, length), "B, D, L")
        y = y * functional.silu(z.to(kind))
    y = y.to(u.dtype)
    return y if last is None else (y, last)


def _per_channel(name: str, x: Tensor, u: Tensor, A: Tensor) -> Float[Tensor, "#B #D L N"]:
    """B or C with an axis of channels, of size 1 where all share it."""
    (batch, width, length), states = u.shape, A.shape[-1]
    if x.ndim == 2:
        check_shape(name, x, (width, states), "D, N")
        return x[None, :, None, :].expand(1, -1, length, -1)
    if x.ndim == 3:
        check_shape(name, x, (batch, states, length), "B, N, L")
        return x.mT[:, None]
    if x.ndim == 4 and x.shape[1] and width % x.shape[1] == 0:
        groups = x.shape[1]
        check_shape(name, x, (batch, groups, states, length), "B, G, N, L")
        return x.mT.repeat_interleave(width // groups, dim=1)
    raise ValueError(
        f"{name} must be (D, N), (B, N, L) or (B, G, N, L) with D = {width} a multiple of G, got "
        f"{tuple(x.shape)}."
    )


def mamba_chunk_scan_combined(
    x: Float[Tensor, "B L H P"],
    dt: Float[Tensor, "B L H"],
    A: Float[Tensor, " H"],
    B: Float[Tensor, "B L G N"],
    C: Float[Tensor, "B L G N"],
    chunk_size: int,
    D: Tensor | None = None,
    z: Float[Tensor, "B L H P"] | None = None,
    dt_bias: Float[Tensor, " H"] | None = None,
    initial_states: Float[Tensor, "B H P N"] | None = None,
    seq_idx: Int[Tensor, "B L"] | None = None,
    cu_seqlens: Int[Tensor, " bounds"] | None = None,
    dt_softplus: bool = False,
    dt_limit: tuple[float, float] = (0.0, float("inf")),
    return_final_states: bool = False,
    return_varlen_states: bool = False,
) -> Tensor | tuple[Tensor, ...]:
    """Mamba-2: every head h has a state S of P x N numbers.

        S_t = exp(Delta_t A_h) S_{t-1} + Delta_t x_t B_t^T,   y_t = (S_t C_t + D x_t) silu(z_t)

    Args:
        x: input; P is the width of a head.
        dt: Delta before bias, softplus and limits.
        A: one per head, usually negative.
        B: shared by groups of H / G heads.
        C: as B.
        chunk_size: a positive number; without effect.
        D: of the skip, ``(H)`` or ``(H, P)``; None for none.
        z: of the gate; None for none.
        dt_bias: added to dt.
        initial_states: S before the first token, which documents other than number 0 do not see.
        seq_idx: number of the document of each token, in a row; None for one document.
        cu_seqlens: boundaries of the same documents; looked at with ``return_varlen_states`` only.
        dt_softplus: Delta is softplus(dt + dt_bias).
        dt_limit: Delta lies in these limits.
        return_final_states: whether to return S after the last token, ``(B, H, P, N)``.
        return_varlen_states: whether to return S after the last token of each document, B = 1.

    Returns:
        y ``(B, L, H, P)`` in the dtype of x; with states asked for a tuple of y and these.

    Raises:
        ValueError: for shapes that do not fit, and boundaries that are not those of ``seq_idx``.
    """
    if x.ndim != 4 or B.ndim != 4:
        raise ValueError(
            f"x must be (B, L, H, P) and B (B, L, G, N), got {tuple(x.shape)}, {tuple(B.shape)}."
        )
    batch, length, heads, width = x.shape
    groups, states = B.shape[2:]
    if groups < 1 or heads % groups:
        raise ValueError(f"x has {heads} heads, which must be a multiple of the {groups} of B.")
    if isinstance(chunk_size, bool) or not isinstance(chunk_size, int) or chunk_size < 1:
        raise ValueError(f"chunk_size must be a positive number of tokens, got {chunk_size!r}.")
    check_shape("dt", dt, (batch, length, heads), "B, L, H")
    check_shape("A", A, (heads,), "H")
    check_shape("B", B, (batch, length, groups, states), "B, L, G, N")
    check_shape("C", C, (batch, length, groups, states), "B, L, G, N")
    kind = working(x, dt, A)
    step = _step(dt.to(kind), dt_bias, dt_softplus, dt_limit).transpose(1, 2)
    k, q = (t.to(kind).transpose(1, 2).repeat_interleave(heads // groups, dim=1) for t in (B, C))
    values = x.to(kind).transpose(1, 2)
    before = None
    if initial_states is not None:
        check_shape("initial_states", initial_states, (batch, heads, width, states), "B, H, P, N")
        before = initial_states.to(kind)
    cuts = _documents(seq_idx, batch, length)
    rates = A.to(kind)[:, None]
    rows, finals, ends = [], [], []
    for row, (bounds, first) in enumerate(cuts):
        at = slice(None) if len(cuts) == 1 else slice(row, row + 1)
        held = None if before is None or not first else before[at]
        parts = []
        for start, end in itertools.pairwise(bounds):
            inside = (at, slice(None), slice(start, end))
            y, held = _scanned(
                *(q[inside], k[inside], values[inside], step[inside]),
                Scalar(log_decay=step[inside] * rates),
                held,
            )
            parts.append(y)
            ends.append(held)
            last, held = held, None
        rows.append(torch.cat(parts, 2))
        finals.append(last)
    y = torch.cat(rows).transpose(1, 2)
    if D is not None:
        check_shape("D", D, (heads, width) if D.ndim == 2 else (heads,), "H, P or H")
        y = y + (D if D.ndim == 2 else D[:, None]).to(kind) * x.to(kind)
    if z is not None:
        check_shape("z", z, tuple(x.shape), "B, L, H, P")
        y = y * functional.silu(z.to(kind))
    found: tuple[Tensor, ...] = (y.contiguous().to(x.dtype),)
    if return_final_states:
        found += (torch.cat(finals),)
    if return_varlen_states:
        found += (_ends(cu_seqlens, cuts, ends, before),)
    return found if len(found) > 1 else found[0]


def _step(
    dt: Tensor, bias: Tensor | None, softplus: bool, limit: tuple[float, float]
) -> Float[Tensor, "B L H"]:
    """Delta: bias, softplus and limits applied."""
    if bias is not None:
        check_shape("dt_bias", bias, dt.shape[-1:], "H")
        dt = dt + bias.to(dt.dtype)
    if softplus:
        dt = functional.softplus(dt)
    return dt.clamp(min=limit[0], max=limit[1])


def _documents(seq_idx: Tensor | None, batch: int, length: int) -> list[tuple[list[int], bool]]:
    """Boundaries of documents, and whether the first one has number 0.

    One entry for the whole batch where no row is divided, otherwise one per row.

    Raises:
        ValueError: for another shape.
    """
    if seq_idx is None:
        return [([0, length], True)]
    check_shape("seq_idx", seq_idx, (batch, length), "B, L")
    found = []
    for row in seq_idx.tolist():
        cuts = [i for i in range(1, length) if row[i] != row[i - 1]]
        found.append(([0, *cuts, length], row[0] == 0))
    return found


def _scanned(
    q: Tensor, k: Tensor, v: Tensor, step: Tensor, evolution: Evolution, before: Tensor | None
) -> tuple[Tensor, Tensor]:
    """y of a document, and the state after it."""
    dynamics = CoefficientDynamics(
        q=q,
        k=k,
        evolution=evolution,
        scaling=step,
        readout=readout.identity,
        normalizer=normalizer.One(),
    )
    state = None if before is None else LinearState(matrix=before, offset=None)
    y, after = dynamics.extend(v, state)
    assert isinstance(after, LinearState)
    return y, after.matrix


def _ends(
    cu_seqlens: Tensor | None,
    cuts: list[tuple[list[int], bool]],
    ends: list[Tensor],
    before: Tensor | None,
) -> Float[Tensor, "documents H P N"]:
    """States after each document, 0 for an empty one.

    Raises:
        ValueError: for boundaries that are not those of ``seq_idx``, a batch, and initial states.
    """
    if cu_seqlens is None:
        raise ValueError("return_varlen_states=True needs cu_seqlens.")
    if before is not None:
        raise ValueError("return_varlen_states=True does not take initial_states.")
    if len(cuts) != 1 or ends[0].shape[0] != 1:
        raise ValueError("return_varlen_states=True packs documents into one row: B must be 1.")
    inner = cuts[0][0]
    documents.packed(cu_seqlens, inner[-1])
    bounds = cu_seqlens.tolist()
    if sorted(set(bounds)) != inner:
        raise ValueError(
            f"cu_seqlens has boundaries {bounds[:6]}, seq_idx {inner[:6]}: the states of documents "
            "are those of both, so give seq_idx the same documents."
        )
    states = dict(zip(inner[1:], ends, strict=True))
    pairs = itertools.pairwise(bounds)
    return torch.cat([states[b] if b > a else torch.zeros_like(ends[0]) for a, b in pairs])
