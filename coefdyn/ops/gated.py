"""fla's operations that only decay: linear attention, retention, and gated linear attention.

    S_t = diag(exp(g_t)) S_{t-1} + k_t v_t^T,   o_t = scale S_t^T q_t

S is ``(K, V)``. Signatures: fla-core 0.6.0.
"""

from __future__ import annotations

import torch

from coefdyn.dynamics.evolution import Diagonal, Identity, Scalar
from coefdyn.ops.arguments import as_said, check_chunk, check_shape, refuse
from coefdyn.ops.mixing import heads_of, mixed
from coefdyn.shapes import Float, Int, Tensor

__all__ = ["chunk_gla", "chunk_linear_attn", "chunk_retention", "chunk_simple_gla"]

Result = tuple[Tensor, "Tensor | None"]


def chunk_gla(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H K"],
    v: Float[Tensor, "B T H V"],
    g: Float[Tensor, "B T H K"],
    scale: float | None = None,
    initial_state: Float[Tensor, "N H rows columns"] | None = None,
    output_final_state: bool = False,
    state_v_first: bool = False,
    cu_seqlens: Int[Tensor, " bounds"] | None = None,
    cu_seqlens_cpu: Int[Tensor, " bounds"] | None = None,
) -> Result:
    """Gated linear attention: S_t = diag(exp(g_t)) S_{t-1} + k_t v_t^T, o_t = scale S_t^T q_t.

    Args:
        q: queries.
        k: keys.
        v: values.
        g: log decay per channel, nats per token.
        scale: of q; None for 1 / sqrt(K).
        initial_state: S before the first token of each sequence; None for 0.
        output_final_state: whether to return the states after the last tokens.
        state_v_first: states are ``(N, H, V, K)``.
        cu_seqlens: boundaries of N documents in one row, from 0 to T; one may be empty.
        cu_seqlens_cpu: the same on the CPU; not needed here.

    Returns:
        o ``(B, T, H, V)`` in the dtype of v, and the states ``(N, H, K, V)`` or None.

    Raises:
        ValueError: for shapes that do not fit, by the name of the argument.
    """
    x = heads_of(q, k, v, scale)
    decay = x.gate("g", g, "B, T, H, K")
    return mixed(
        x,
        lambda part: Diagonal(log_decay=decay[:, :, part]),
        initial_state=initial_state,
        output_final_state=output_final_state,
        cu_seqlens=cu_seqlens,
        v_first=state_v_first,
    )


def chunk_simple_gla(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H K"],
    v: Float[Tensor, "B T H V"],
    g: Float[Tensor, "B T H"] | None = None,
    g_gamma: Float[Tensor, " H"] | None = None,
    scale: float | None = None,
    initial_state: Float[Tensor, "N H rows columns"] | None = None,
    output_final_state: bool = False,
    state_v_first: bool = False,
    cu_seqlens: Int[Tensor, " bounds"] | None = None,
    cu_seqlens_cpu: Int[Tensor, " bounds"] | None = None,
    *,
    chunk_size: int | None = None,
    head_first: bool | None = None,
) -> Result:
    """Gated linear attention with one decay per head: the core of Mamba-2.

    Args:
        q, k, v, scale, initial_state, output_final_state: as for ``chunk_gla``.
        state_v_first, cu_seqlens, cu_seqlens_cpu: as there.
        g: log decay, nats per token; None for none.
        g_gamma: the same at every token; only one of g and g_gamma may be given.
        chunk_size: a power of 2, or None; without effect.
        head_first: refused.

    Returns:
        o ``(B, T, H, V)`` in the dtype of v, and the states ``(N, H, K, V)`` or None.

    Raises:
        ValueError: as ``chunk_gla``; for both g and g_gamma.
    """
    refuse("chunk_simple_gla", head_first=as_said(head_first))
    check_chunk(chunk_size, None)
    if g is not None and g_gamma is not None:
        raise ValueError("g and g_gamma are two decays of the same state: give one of them.")
    x = heads_of(q, k, v, scale)
    decay = None
    if g is not None:
        decay = x.gate("g", g, "B, T, H")
    elif g_gamma is not None:
        check_shape("g_gamma", g_gamma, (x.k.shape[1],), "H")
        decay = g_gamma.to(x.q.dtype)[:, None].expand(x.k.shape[:-1])
    return mixed(
        x,
        lambda part: Identity() if decay is None else Scalar(log_decay=decay[:, :, part]),
        initial_state=initial_state,
        output_final_state=output_final_state,
        cu_seqlens=cu_seqlens,
        v_first=state_v_first,
    )


def chunk_retention(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H K"],
    v: Float[Tensor, "B T H V"],
    scale: float | None = None,
    initial_state: Float[Tensor, "N H K V"] | None = None,
    output_final_state: bool = False,
    cu_seqlens: Int[Tensor, " bounds"] | None = None,
    *,
    chunk_size: int | None = None,
    head_first: bool | None = None,
) -> Result:
    """Retention: S_t = (1 - 2^(-5-h)) S_{t-1} + k_t v_t^T for head h = 0, 1, ...

    The decays are those of fla's float32.

    Args:
        q, k, v, scale, initial_state, output_final_state: as for ``chunk_gla``.
        cu_seqlens: as there.
        chunk_size: a power of 2, or None; without effect.
        head_first: refused.

    Returns:
        o ``(B, T, H, V)`` in the dtype of v, and the states ``(N, H, K, V)`` or None.

    Raises:
        ValueError: as ``chunk_gla``.
    """
    refuse("chunk_retention", head_first=as_said(head_first))
    head = torch.arange(q.shape[2], dtype=torch.float32, device=q.device)
    return chunk_simple_gla(
        *(q, k, v),
        g_gamma=(1 - 2.0 ** (-5.0 - head)).log(),
        scale=scale,
        initial_state=initial_state,
        output_final_state=output_final_state,
        cu_seqlens=cu_seqlens,
        chunk_size=chunk_size,
    )


def chunk_linear_attn(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H K"],
    v: Float[Tensor, "B T H V"],
    scale: float | None = None,
    initial_state: Tensor | tuple[Tensor, Tensor] | None = None,
    output_final_state: bool = False,
    normalize: bool = True,
    cu_seqlens: Int[Tensor, " bounds"] | None = None,
) -> tuple[Tensor, Tensor | tuple[Tensor | None, Tensor] | None]:
    """Linear attention, o_t = S_t^T q_t / (z_t^T q_t), or without the divisor.

        S_t = S_{t-1} + k_t v_t^T,   z_t = z_{t-1} + k_t

    The feature map has been applied to q and k before. 1e-10 is added to the divisor scale z^T q.

    Args:
        q, k, v, scale, output_final_state, cu_seqlens: as for ``chunk_gla``.
        initial_state: S ``(N, H, K, V)``; with ``normalize`` a pair of it and z ``(N, 1, H, K)``,
            or S alone for z = 0.
        normalize: divide; without it o_t = scale S_t^T q_t.

    Returns:
        o ``(B, T, H, V)`` in the dtype of v, and the last state: with ``normalize`` a pair of S, or
        None where it is not asked for, and z; otherwise S or None.

    Raises:
        ValueError: as ``chunk_gla``; for a pair without ``normalize``.
    """
    paired = isinstance(initial_state, tuple)
    if paired and not normalize:
        raise ValueError("initial_state is a pair (S, z) with normalize=True only.")
    before, sums = initial_state if isinstance(initial_state, tuple) else (initial_state, None)
    x = heads_of(q, k, v, scale)
    if not normalize:
        return mixed(
            x,
            lambda part: Identity(),
            initial_state=before,
            output_final_state=output_final_state,
            cu_seqlens=cu_seqlens,
        )
    # One more channel of the values, of ones: its state is z, and its output the divisor.
    wider = torch.cat([v, torch.ones_like(v[..., :1])], -1)
    if before is not None or sums is not None:
        one = before if before is not None else sums
        assert one is not None
        count = one.shape[0]
        heads, width = k.shape[2:]
        if sums is None:
            sums = k.new_zeros(count, 1, heads, width)
        check_shape("initial_state[1]", sums, (count, 1, heads, width), "N, 1, H, K")
        if before is None:
            before = v.new_zeros(count, heads, width, v.shape[-1])
        kind = x.q.dtype
        before = torch.cat([before.to(kind), sums.to(kind).squeeze(1)[..., None]], -1)
    y, after = mixed(
        heads_of(q, k, wider.to(x.q.dtype), scale),
        lambda part: Identity(),
        initial_state=before,
        output_final_state=True,
        cu_seqlens=cu_seqlens,
    )
    assert after is not None
    out = (y[..., :-1] / (y[..., -1:] + 1e-10)).to(v.dtype)
    return out, (after[..., :-1] if output_final_state else None, after[..., -1][:, None])
