"""fla's operations that erase along the key: the delta rule, with and without decays.

    S_t = (I - beta_t k_t k_t^T) diag(exp(g_t)) S_{t-1} + beta_t k_t v_t^T,   o_t = scale S_t^T q_t

S is ``(K, V)``; g is 0 for ``chunk_delta_rule``, a number per head for the gated delta rule and one
per channel of the keys for KDA. Signatures: fla-core 0.6.0.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from coefdyn.dynamics.evolution import DiagonalPlusRankOne, Evolution, Householder
from coefdyn.ops.arguments import (
    as_said,
    check_chunk,
    check_shape,
    gate_settings,
    refuse,
)
from coefdyn.ops.mixing import Heads, heads_of, mixed
from coefdyn.shapes import Float, Int, Tensor

__all__ = [
    "chunk_delta_rule",
    "chunk_gated_delta_rule",
    "chunk_kda",
    "fused_recurrent_gated_delta_rule",
]

Result = tuple[Tensor, "Tensor | None"]


def chunk_delta_rule(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H K"],
    v: Float[Tensor, "B T H V"],
    beta: Float[Tensor, "B T H"],
    scale: float | None = None,
    initial_state: Float[Tensor, "N H K V"] | None = None,
    output_final_state: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
    cu_seqlens: Int[Tensor, " bounds"] | None = None,
    cu_seqlens_cpu: Int[Tensor, " bounds"] | None = None,
    *,
    chunk_size: int | None = None,
    head_first: bool | None = None,
) -> Result:
    """DeltaNet: S_t = (I - beta_t k_t k_t^T) S_{t-1} + beta_t k_t v_t^T, o_t = scale S_t^T q_t.

    Float32 and float64 are taken, too, where fla asks for half precision.

    Args:
        q: queries.
        k: keys.
        v: values.
        beta: strength of a write, usually in (0, 1).
        scale: of q; None for 1 / sqrt(K).
        initial_state: S before the first token of each sequence; None for 0.
        output_final_state: whether to return the states after the last tokens.
        use_qk_l2norm_in_kernel: bring q and k to length one, x / sqrt(|x|^2 + 1e-6).
        cu_seqlens: boundaries of N documents in one row, from 0 to T; one may be empty.
        cu_seqlens_cpu: the same on the CPU; not needed here.
        chunk_size: 16, 32, 64 or None; without effect.
        head_first: refused.

    Returns:
        o ``(B, T, H, V)`` in the dtype of v, and the states ``(N, H, K, V)`` or None.

    Raises:
        ValueError: for shapes that do not fit, and a value that is not served, by its name.
    """
    refuse("chunk_delta_rule", head_first=as_said(head_first))
    check_chunk(chunk_size, (16, 32, 64))
    x = heads_of(q, k, v, scale, norm=use_qk_l2norm_in_kernel)
    strength = x.gate("beta", beta, "B, T, H")
    return mixed(
        x,
        lambda part: Householder(direction=x.k[:, :, part], beta=strength[:, :, part]),
        strength,
        initial_state=initial_state,
        output_final_state=output_final_state,
        cu_seqlens=cu_seqlens,
    )


def chunk_gated_delta_rule(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H K"],
    v: Float[Tensor, "B T HV V"],
    g: Float[Tensor, "B T HV"],
    beta: Float[Tensor, "B T HV"],
    scale: float | None = None,
    initial_state: Float[Tensor, "N HV rows columns"] | None = None,
    output_final_state: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
    use_beta_sigmoid_in_kernel: bool = False,
    allow_neg_eigval: bool = False,
    state_v_first: bool = False,
    cu_seqlens: Int[Tensor, " bounds"] | None = None,
    cu_seqlens_cpu: Int[Tensor, " bounds"] | None = None,
    chunk_indices: Int[Tensor, "chunks 2"] | None = None,
    cp_context: Any = None,
    *,
    use_gate_in_kernel: bool = False,
    A_log: Float[Tensor, " HV"] | None = None,
    dt_bias: Float[Tensor, " HV"] | None = None,
    transpose_state_layout: bool | None = None,
    chunk_size: int | None = None,
    head_first: bool | None = None,
) -> Result:
    """Gated DeltaNet: the delta rule on a state that decays by exp(g_t) per head.

    HV is a multiple of H; the heads of q and k are shared by groups of HV / H in a row.

    Args:
        q, k, v, scale, initial_state, output_final_state: as for ``chunk_delta_rule``.
        use_qk_l2norm_in_kernel, cu_seqlens, cu_seqlens_cpu, chunk_size, head_first: as there.
        g: log decay, nats per token; with ``use_gate_in_kernel`` the raw input of the gate.
        beta: strength of a write; with ``use_beta_sigmoid_in_kernel`` its logit.
        use_beta_sigmoid_in_kernel: beta is sigmoid(beta).
        allow_neg_eigval: twice that, in (0, 2).
        state_v_first: states are ``(N, HV, V, K)``.
        chunk_indices: without effect.
        cp_context: refused.
        use_gate_in_kernel: g is -exp(A_log) softplus(g + dt_bias).
        A_log: one per head.
        dt_bias: one per head; None for 0.
        transpose_state_layout: the older name of ``state_v_first``.

    Returns:
        o ``(B, T, HV, V)`` in the dtype of v, and the states ``(N, HV, K, V)`` or None.

    Raises:
        ValueError: as ``chunk_delta_rule``.
    """
    refuse("chunk_gated_delta_rule", cp_context=cp_context, head_first=as_said(head_first))
    check_chunk(chunk_size, (16, 32, 64))
    turned = gate_settings(
        use_gate_in_kernel=use_gate_in_kernel,
        A_log=A_log,
        use_beta_sigmoid_in_kernel=use_beta_sigmoid_in_kernel,
        allow_neg_eigval=allow_neg_eigval,
        state_v_first=state_v_first,
        transpose_state_layout=transpose_state_layout,
    )
    x = heads_of(q, k, v, scale, grouped=True, norm=use_qk_l2norm_in_kernel)
    decay = x.gate("g", g)
    if use_gate_in_kernel:
        decay = _gate(decay, A_log, dt_bias, per_channel=False)
    return _delta(
        x,
        decay,
        _strength(x, beta, use_beta_sigmoid_in_kernel, allow_neg_eigval),
        initial_state=initial_state,
        output_final_state=output_final_state,
        cu_seqlens=cu_seqlens,
        v_first=turned,
    )


def fused_recurrent_gated_delta_rule(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H K"],
    v: Float[Tensor, "B T HV V"],
    g: Float[Tensor, "B T HV"] | None = None,
    gk: Float[Tensor, "B T HV K"] | None = None,
    gv: Float[Tensor, "B T HV V"] | None = None,
    beta: Float[Tensor, "B T HV"] | None = None,
    scale: float | None = None,
    initial_state: Float[Tensor, "N HV rows columns"] | None = None,
    output_final_state: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
    use_gate_in_kernel: bool = False,
    A_log: Float[Tensor, " HV"] | None = None,
    dt_bias: Float[Tensor, " HV"] | None = None,
    use_beta_sigmoid_in_kernel: bool = False,
    allow_neg_eigval: bool = False,
    state_v_first: bool = False,
    cu_seqlens: Int[Tensor, " bounds"] | None = None,
    *,
    transpose_state_layout: bool | None = None,
) -> Result:
    """The gated delta rule as fla's decoding has it; unlike there, gradients flow.

    Args:
        q, k, v, g, scale, initial_state, output_final_state: as for ``chunk_gated_delta_rule``.
        use_qk_l2norm_in_kernel, use_gate_in_kernel, A_log, dt_bias: as there.
        use_beta_sigmoid_in_kernel, allow_neg_eigval, state_v_first, cu_seqlens: as there.
        transpose_state_layout: as there.
        gk: log decay per channel of the keys; it is added to g.
        gv: refused.
        beta: strength of a write; None for 1.

    Returns:
        o ``(B, T, HV, V)`` in the dtype of v, and the states ``(N, HV, K, V)`` or None.

    Raises:
        ValueError: as ``chunk_delta_rule``.
    """
    refuse("fused_recurrent_gated_delta_rule", gv=gv)
    turned = gate_settings(
        use_gate_in_kernel=use_gate_in_kernel,
        A_log=A_log,
        use_beta_sigmoid_in_kernel=use_beta_sigmoid_in_kernel,
        allow_neg_eigval=allow_neg_eigval,
        state_v_first=state_v_first,
        transpose_state_layout=transpose_state_layout,
    )
    if use_gate_in_kernel and g is None:
        raise ValueError("use_gate_in_kernel=True needs g, the raw input of the gate.")
    x = heads_of(q, k, v, scale, grouped=True, norm=use_qk_l2norm_in_kernel)
    decay = None if g is None else x.gate("g", g)
    if decay is not None and use_gate_in_kernel:
        decay = _gate(decay, A_log, dt_bias, per_channel=False)
    if gk is not None:
        channels = x.gate("gk", gk, "B, T, HV, K")
        decay = channels if decay is None else channels + decay[..., None]
    if beta is None:
        beta = torch.ones_like(v[..., 0])
    return _delta(
        x,
        decay,
        _strength(x, beta, use_beta_sigmoid_in_kernel, allow_neg_eigval),
        initial_state=initial_state,
        output_final_state=output_final_state,
        cu_seqlens=cu_seqlens,
        v_first=turned,
    )


def chunk_kda(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H K"],
    v: Float[Tensor, "B T HV V"],
    g: Float[Tensor, "B T HV K"],
    beta: Float[Tensor, "B T HV"],
    scale: float | None = None,
    initial_state: Float[Tensor, "N HV rows columns"] | None = None,
    output_final_state: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
    use_gate_in_kernel: bool = False,
    use_beta_sigmoid_in_kernel: bool = False,
    allow_neg_eigval: bool = False,
    safe_gate: bool = False,
    lower_bound: float | None = None,
    disable_recompute: bool = False,
    return_intermediate_states: bool = False,
    state_v_first: bool = False,
    cu_seqlens: Int[Tensor, " bounds"] | None = None,
    cu_seqlens_cpu: Int[Tensor, " bounds"] | None = None,
    cp_context: Any = None,
    use_graph: bool = False,
    max_num_seqs: int | None = None,
    *,
    A_log: Float[Tensor, " HV"] | None = None,
    dt_bias: Float[Tensor, " channels"] | None = None,
    transpose_state_layout: bool | None = None,
    chunk_size: int | None = None,
) -> Result:
    """Kimi delta attention: the delta rule on a state whose key channels decay each by exp(g_t).

    Args:
        q, k, v, beta, scale, initial_state, output_final_state: as for ``chunk_gated_delta_rule``.
        use_qk_l2norm_in_kernel, use_beta_sigmoid_in_kernel, allow_neg_eigval: as there.
        state_v_first, cu_seqlens, cu_seqlens_cpu, cp_context, transpose_state_layout: as there.
        g: log decay per channel; with ``use_gate_in_kernel`` the raw input of the gate.
        use_gate_in_kernel: g is -exp(A_log) softplus(g + dt_bias), or with a ``lower_bound``
            lower_bound sigmoid(exp(A_log) (g + dt_bias)), where A_log may be None for 0.
        safe_gate: with ``use_gate_in_kernel`` a ``lower_bound`` in [-5, 0) is asked for.
        lower_bound: of a gate that is computed here, nats.
        disable_recompute: without effect.
        return_intermediate_states: refused.
        use_graph, max_num_seqs: refused.
        A_log: one per head.
        dt_bias: one per channel of all heads, ``(HV K)``; None for 0.
        chunk_size: 32, 64 or None; without effect.

    Returns:
        o ``(B, T, HV, V)`` in the dtype of v, and the states ``(N, HV, K, V)`` or None.

    Raises:
        ValueError: as ``chunk_delta_rule``.
    """
    refuse(
        "chunk_kda",
        return_intermediate_states=return_intermediate_states,
        cp_context=cp_context,
        use_graph=use_graph,
        max_num_seqs=max_num_seqs,
    )
    check_chunk(chunk_size, (32, 64))
    turned = gate_settings(
        use_gate_in_kernel=use_gate_in_kernel and lower_bound is None,
        A_log=A_log,
        use_beta_sigmoid_in_kernel=use_beta_sigmoid_in_kernel,
        allow_neg_eigval=allow_neg_eigval,
        state_v_first=state_v_first,
        transpose_state_layout=transpose_state_layout,
    )
    if safe_gate and use_gate_in_kernel and not (lower_bound and -5 <= lower_bound < 0):
        raise ValueError(f"safe_gate=True needs lower_bound in [-5, 0), got {lower_bound!r}.")
    x = heads_of(q, k, v, scale, grouped=True, norm=use_qk_l2norm_in_kernel)
    decay = x.gate("g", g, "B, T, HV, K")
    if use_gate_in_kernel:
        decay = _gate(decay, A_log, dt_bias, per_channel=True, lower_bound=lower_bound)
    return _delta(
        x,
        decay,
        _strength(x, beta, use_beta_sigmoid_in_kernel, allow_neg_eigval),
        initial_state=initial_state,
        output_final_state=output_final_state,
        cu_seqlens=cu_seqlens,
        v_first=turned,
    )


def _strength(x: Heads, beta: Tensor, sigmoid: bool, doubled: bool) -> Float[Tensor, "B HV T"]:
    """beta, heads first."""
    strength = x.gate("beta", beta)
    return strength.sigmoid() * (2 if doubled else 1) if sigmoid else strength


def _gate(
    raw: Tensor,
    A_log: Tensor | None,
    dt_bias: Tensor | None,
    per_channel: bool,
    lower_bound: float | None = None,
) -> Tensor:
    """The log decay of a raw input ``(B, HV, T)``, or ``(B, HV, T, K)`` per channel."""
    heads, width = raw.shape[1], raw.shape[-1] if per_channel else 1
    shape = (heads, 1, width) if per_channel else (heads, 1)
    if dt_bias is not None:
        check_shape("dt_bias", dt_bias, (heads * width,), "HV * K" if per_channel else "HV")
        raw = raw + dt_bias.to(raw.dtype).reshape(shape)
    rate = torch.ones((), dtype=raw.dtype, device=raw.device)
    if A_log is not None:
        check_shape("A_log", A_log, (heads,), "HV")
        rate = A_log.to(raw.dtype).exp().reshape((heads, *(1,) * (raw.ndim - 2)))
    if lower_bound is not None:
        return lower_bound * (rate * raw).sigmoid()
    return -rate * functional.softplus(raw)


def _delta(
    x: Heads,
    decay: Tensor | None,
    strength: Tensor,
    *,
    initial_state: Tensor | None,
    output_final_state: bool,
    cu_seqlens: Tensor | None,
    v_first: bool,
) -> Result:
    """The delta rule with a decay per head ``(B, HV, T)``, per channel, or none."""

    def evolves(part: slice) -> Evolution:
        k, b = x.k[:, :, part], strength[:, :, part]
        g = None if decay is None else decay[:, :, part]
        if g is None or g.ndim == b.ndim:
            return Householder(direction=k, beta=b, log_decay=g)
        return DiagonalPlusRankOne(log_decay=g, left=b[..., None] * k, right=g.exp() * k)

    return mixed(
        x,
        evolves,
        strength,
        initial_state=initial_state,
        output_final_state=output_final_state,
        cu_seqlens=cu_seqlens,
        v_first=v_first,
    )
