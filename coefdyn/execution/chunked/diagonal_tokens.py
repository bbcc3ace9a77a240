r"""Linear readout, A_t = diag(exp(g_t)), one value channel: token by token, all heads at once.

With d_v = 1 (S6: a head per channel) the C x C scores of a chunk cost far more than its state of n
numbers. The recurrence itself is then the fastest form,

    S_t = e^{g_t} S_{t-1} + k_t (b_t v_t)^T,     o_t = S_t^T q_t,

one multiply-add per token over all batch entries; everything else is done for a block of tokens at
once. Backward, with dS_t = q_t do_t^T + e^{g_{t+1}} dS_{t+1}, blocks are recomputed from the states
at their starts:

    dq_t = S_t do_t,    dk_t = dS_t b_t v_t,    d(b_t v_t) = dS_t^T k_t,
    dg_t = e^{g_t} S_{t-1} * dS_t, summed over value channels.

Nothing is divided by a decay, so none is too strong. Heads that share q and k have one copy of
them, ``(G, L, n)`` for B = G H batch entries: their sums over heads are products of matrices.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from coefdyn.execution.chunked.operators import Kernel
from coefdyn.execution.chunked.scan import write_factor
from coefdyn.execution.chunked.tiles import chunk_bounds, scaled
from coefdyn.shapes import Float, Tensor

__all__ = ["diagonal_tokens_kernel", "pays"]

#: most value channels for which this form is the faster one: one, and one more for a row sum
CHANNELS = 2
#: fewest batch entries; with less, the price of a call per token rules
MANY = 16
#: bytes of the states of one block of tokens; a handful of such blocks then stay in cache
BLOCK_BYTES = 1024 * 1024


def pays(v: Float[Tensor, "B L dv"]) -> bool:
    """Return whether this is faster than chunks (see ``tests/benchmarks/cpu.py --only crossover``).

    On a CPU only: on a GPU a call per token is never cheap.
    """
    return v.device.type == "cpu" and v.shape[2] <= CHANNELS and v.shape[0] >= MANY


class _Block(NamedTuple):
    """Some tokens of all batch entries: tokens first, so that each one's states lie together."""

    q: Float[Tensor, "T G n"]
    k: Float[Tensor, "T G n"]
    values: Float[Tensor, "T B dv"]
    decay: Float[Tensor, "T B 1 n"]


def _tokens_first(x: Float[Tensor, "B T c"]) -> Float[Tensor, "T B c"]:
    return x.transpose(0, 1).contiguous()


def _block(q, k, v, weight, log_decay, scale: float, bounds: tuple[int, int]) -> _Block:
    here = (slice(None), slice(*bounds))
    values = scaled(v[here], write_factor(weight, scale, *bounds))
    q, k, g, values = (_tokens_first(x) for x in (q[here], k[here], log_decay[here], values))
    return _Block(q, k, values, g.exp()[:, :, None])


def _bounds(q: Tensor, v: Tensor) -> list[tuple[int, int]]:
    token_bytes = v.shape[0] * v.shape[2] * q.shape[2] * q.element_size()
    return chunk_bounds(q.shape[1], max(4, BLOCK_BYTES // token_bytes))


def _outer(values: Float[Tensor, "T B dv"], vectors: Float[Tensor, "T G n"]) -> Tensor:
    """values_b vectors_g^T of every batch entry b and its group g: ``(T, B, dv, n)``."""
    tokens, groups, _ = vectors.shape
    heads = values.view(tokens, groups, -1, values.shape[2], 1)
    return (heads * vectors[:, :, None, None]).flatten(1, 2)


def _read(states: Float[Tensor, "T B dv n"], vectors: Float[Tensor, "T G n"]) -> Tensor:
    """S_b vectors_g: ``(T, B, dv)``."""
    tokens, groups, size = vectors.shape
    if groups == states.shape[1]:
        return (states * vectors[:, :, None]).sum(3)
    rows = states.view(tokens * groups, -1, size)
    return torch.bmm(vectors.view(-1, 1, size), rows.transpose(1, 2)).view(states.shape[:3])


def _gathered(states: Float[Tensor, "T B dv n"], values: Float[Tensor, "T B dv"], groups: int):
    """S_b^T values_b, summed over the batch entries of each group: ``(G, T, n)``."""
    tokens, batch, channels, size = states.shape
    if groups < batch:
        rows = states.view(tokens * groups, -1, size)
        found = torch.bmm(values.view(tokens * groups, 1, -1), rows).view(tokens, groups, size)
    elif channels == 1:
        found = (states * values[..., None])[:, :, 0]
    else:
        found = (states * values[..., None]).sum(2)
    return found.transpose(0, 1)


def _states(block: _Block, before: Float[Tensor, "B dv n"] | None) -> Float[Tensor, "T B dv n"]:
    """S_t of every token of a block, given the state before it."""
    states = _outer(block.values, block.k)
    tokens, decays = states.unbind(0), block.decay.unbind(0)
    if before is not None:
        tokens[0].addcmul_(decays[0], before)
    for t in range(1, len(tokens)):
        tokens[t].addcmul_(decays[t], tokens[t - 1])
    return states


def _states_back(
    grads: Float[Tensor, "T B dv n"], decay: Float[Tensor, "T B 1 n"], after: Tensor
) -> Float[Tensor, "B dv n"]:
    """Turns q_t do_t^T into dS_t, in place; returns the gradient of the state before the block."""
    tokens, decays = grads.unbind(0), decay.unbind(0)
    tokens[-1].add_(after)
    for t in range(len(tokens) - 2, -1, -1):
        tokens[t].addcmul_(decays[t + 1], tokens[t + 1])
    return tokens[0] * decays[0]


def forward(q, k, v, weight, log_decay, state, scale: float) -> tuple[Tensor, Tensor, Tensor]:
    """(O, state after the last token, states at the starts of the blocks but the first)."""
    out, blocks = torch.empty_like(v), _bounds(q, v)
    starts = v.new_empty(_start_shape(q, v))
    s = None if state is None else state.transpose(1, 2)
    for number, bounds in enumerate(blocks):
        if number:
            starts[:, number - 1] = s
        block = _block(q, k, v, weight, log_decay, scale, bounds)
        states = _states(block, s)
        s = states[-1].clone()
        out[:, slice(*bounds)] = _read(states, block.q).transpose(0, 1)
    return out, s.transpose(1, 2).contiguous(), starts


def backward(
    q, k, v, weight, log_decay, state, out, final, starts, grad_out, grad_final, scale: float
) -> tuple[Tensor | None, ...]:
    """Gradients of (q, k, v, weight, log_decay, state)."""
    dq, dk, dv, dg = (torch.empty_like(x) for x in (q, k, v, log_decay))
    dweight = None if weight is None else torch.empty_like(weight)
    befores = [None if state is None else state.transpose(1, 2), *starts.unbind(1)]
    ds, groups = grad_final.transpose(1, 2), q.shape[0]
    for bounds in reversed(_bounds(q, v)):
        here, before = (slice(None), slice(*bounds)), befores.pop()
        block = _block(q, k, v, weight, log_decay, scale, bounds)
        states = _states(block, before)
        grad = _tokens_first(grad_out[here])
        dstates = _outer(grad, block.q)
        dq[here] = _gathered(states, grad, groups)
        ds = _states_back(dstates, block.decay, ds)
        dk[here] = _gathered(dstates, block.values, groups)
        dvalues = _read(dstates, block.k).transpose(0, 1)
        if dweight is not None:
            dweight[here] = (v[here] * dvalues).sum(-1).mul_(scale)
        dv[here] = scaled(dvalues, write_factor(weight, scale, *bounds))
        dstates[1:] *= states[:-1]
        if before is None:
            dstates[0].zero_()
        else:
            dstates[0] *= before
        over_values = dstates[:, :, 0] if dstates.shape[2] == 1 else dstates.sum(2)
        torch.mul(over_values.transpose(0, 1), block.decay[:, :, 0].transpose(0, 1), out=dg[here])
    return dq, dk, dv, dweight, dg, None if state is None else ds.transpose(1, 2).contiguous()


def _start_shape(q: Tensor, v: Tensor) -> tuple[int, ...]:
    return v.shape[0], len(_bounds(q, v)) - 1, v.shape[2], q.shape[2]


def _output_shapes(q: Tensor, k: Tensor, v: Tensor, *rest: Tensor | None) -> tuple:
    return v.shape, (v.shape[0], q.shape[2], v.shape[2]), _start_shape(q, v)


diagonal_tokens_kernel = Kernel(
    "diagonal_tokens",
    forward,
    backward,
    tensors=("q", "k", "v", "weight?", "log_decay", "state?"),
    options=("float scale",),
    shapes=_output_shapes,
    outputs=3,
    constants=1,
)
