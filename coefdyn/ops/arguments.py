"""Every argument of every operation: served, or refused and why.

``**kwargs`` of fla's functions stand by the names that their code looks for; another name is an
error here, where fla lets it pass without effect.
"""

from __future__ import annotations

from typing import Any

import torch

from coefdyn.shapes import Tensor

__all__ = ["ARGUMENTS", "as_said", "check_chunk", "check_shape", "gate_settings", "refuse"]

SERVED = "served"
#: taken and without effect on the numbers: it chooses how fla's kernels compute them
IDLE = "served: it chooses how a kernel computes and changes no number"
_DEVICES = "refused: it spreads a sequence over several devices"
_GRAPH = "refused: graphs of a CUDA device are not recorded here"
_INSIDE = "refused: states inside of a sequence are not kept, ask for the final one"
_LAYOUT = "refused: fla has removed it, inputs are (B, T, H, ...)"
_VALUES = "refused: a decay per channel of the values is no evolution of the keys"

_PLAIN = ("q", "k", "v", "scale", "initial_state", "output_final_state", "cu_seqlens")
_NORM = ("use_qk_l2norm_in_kernel",)
_RAW = ("use_gate_in_kernel", "A_log", "dt_bias", "use_beta_sigmoid_in_kernel", "allow_neg_eigval")
_TURNED = ("state_v_first", "transpose_state_layout")


def _table(*served: str, idle: tuple[str, ...] = (), **refused: str) -> dict[str, str]:
    return dict.fromkeys(served, SERVED) | dict.fromkeys(idle, IDLE) | refused


#: operation -> argument -> whether it is served; one that is refused has its default only
ARGUMENTS: dict[str, dict[str, str]] = {
    "chunk_gated_delta_rule": _table(
        *(*_PLAIN, "g", "beta", *_NORM, *_RAW, *_TURNED),
        idle=("cu_seqlens_cpu", "chunk_indices", "chunk_size"),
        cp_context=_DEVICES,
        head_first=_LAYOUT,
    ),
    "fused_recurrent_gated_delta_rule": _table(
        *(*_PLAIN, "g", "gk", "beta", *_NORM, *_RAW, *_TURNED), gv=_VALUES
    ),
    "chunk_delta_rule": _table(
        *(*_PLAIN, "beta", *_NORM), idle=("cu_seqlens_cpu", "chunk_size"), head_first=_LAYOUT
    ),
    "chunk_gla": _table(*_PLAIN, "g", "state_v_first", idle=("cu_seqlens_cpu",)),
    "chunk_simple_gla": _table(
        *(*_PLAIN, "g", "g_gamma", "state_v_first"),
        idle=("cu_seqlens_cpu", "chunk_size"),
        head_first=_LAYOUT,
    ),
    "chunk_retention": _table(*_PLAIN, idle=("chunk_size",), head_first=_LAYOUT),
    "chunk_kda": _table(
        *(*_PLAIN, "g", "beta", *_NORM, *_RAW, *_TURNED, "lower_bound", "safe_gate"),
        idle=("cu_seqlens_cpu", "disable_recompute", "chunk_size"),
        return_intermediate_states=_INSIDE,
        cp_context=_DEVICES,
        use_graph=_GRAPH,
        max_num_seqs=_GRAPH,
    ),
    "chunk_linear_attn": _table(*_PLAIN, "normalize"),
    "selective_scan_fn": _table(
        *("u", "delta", "A", "B", "C", "D", "z"),
        *("delta_bias", "delta_softplus", "return_last_state"),
    ),
    "mamba_chunk_scan_combined": _table(
        *("x", "dt", "A", "B", "C", "D", "z", "dt_bias", "initial_states", "seq_idx", "cu_seqlens"),
        *("dt_softplus", "dt_limit", "return_final_states", "return_varlen_states"),
        idle=("chunk_size",),
    ),
}


def refuse(operation: str, **given: Any) -> None:
    """Raise for arguments that this operation does not serve and that are set.

    Raises:
        ValueError: for a value other than None and False, with the name of the argument.
    """
    for name, value in given.items():
        if value is not None and value is not False:
            reason = ARGUMENTS[operation][name].removeprefix("refused: ")
            raise ValueError(f"{operation} does not take {name}={_short(value)}: {reason}.")


def as_said(head_first: bool | None) -> str | None:
    """The removed argument ``head_first``, which is an error whatever its value."""
    return None if head_first is None else str(head_first)


def check_shape(name: str, value: Tensor, shape: tuple[int, ...], axes: str) -> None:
    """Raise unless a tensor has this shape.

    Raises:
        ValueError: with the name of the argument and of the axes.
    """
    if not isinstance(value, Tensor) or tuple(value.shape) != shape:
        got = tuple(value.shape) if isinstance(value, Tensor) else repr(value)
        raise ValueError(f"{name} must have shape ({axes}) = {shape}, got {got}.")


def check_chunk(size: int | None, allowed: tuple[int, ...] | None) -> None:
    """Raise for a chunk size that fla refuses; others have no effect.

    Args:
        size: None for the default.
        allowed: sizes that fla has; None for every power of 2.

    Raises:
        ValueError: for another size.
    """
    if size is None:
        return
    power = isinstance(size, int) and size > 0 and size & (size - 1) == 0
    if not (power if allowed is None else size in allowed):
        known = "a power of 2" if allowed is None else f"one of {allowed}"
        raise ValueError(f"chunk_size must be {known}, got {size!r}.")


def gate_settings(
    use_gate_in_kernel: bool,
    A_log: Tensor | None,
    use_beta_sigmoid_in_kernel: bool,
    allow_neg_eigval: bool,
    state_v_first: bool,
    transpose_state_layout: bool | None,
) -> bool:
    """Check the flags of raw gates; return whether states are (V, K).

    Raises:
        ValueError: for flags that contradict each other, with their names.
    """
    if use_gate_in_kernel and A_log is None:
        raise ValueError("use_gate_in_kernel=True computes the decay from A_log, got A_log=None.")
    if allow_neg_eigval and not use_beta_sigmoid_in_kernel:
        raise ValueError("allow_neg_eigval=True needs use_beta_sigmoid_in_kernel=True.")
    if transpose_state_layout is not None and state_v_first:
        raise ValueError("state_v_first and transpose_state_layout say the same: give one of them.")
    return bool(state_v_first if transpose_state_layout is None else transpose_state_layout)


def _short(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor {tuple(value.shape)}"
    return repr(value) if isinstance(value, (bool, int, float, str)) else type(value).__name__
