r"""Linear readout, A_t = diag(exp(g_t)), one value channel: token by token, all heads at once.

With d_v = 1 (S6: a head per channel) the C x C scores of a chunk cost far more than its state of n
numbers. The recurrence itself is then the fastest form,

    S_t = e^{g_t} S_{t-1} + k_t (b_t v_t)^T,     o_t = S_t^T q_t,

one multiply-add per token over all batch entries; everything else is done for a block of tokens at
once. Backward, with dS_t = q_t do_t^T + e^{g_{t+1}} dS_{t+1}, blocks are recomputed from the states
at their starts:

    dq_t = S_t do_t,    dk_t = dS_t b_t v_t,    d(b_t v_t) = dS_t^T k_t,
    dg_t = e^{g_t} S_{t-1} * dS_t, summed over value channels.

Nothing is divided by a decay, so none is too strong.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from coefdyn.execution.chunked.scalar import write_factor
from coefdyn.execution.chunked.tiles import chunk_bounds, scaled
from coefdyn.shapes import Float, Tensor, broadcast_shapes

__all__ = ["backward", "forward", "pays"]

#: most value channels for which this form is the faster one: one, and one more for a row sum
CHANNELS = 2
#: fewest batch entries; with less, the price of a call per token rules
MANY = 16
#: bytes of the states of one block of tokens; a handful of such blocks then stay in cache
BLOCK_BYTES = 1024 * 1024


def pays(q: Float[Tensor, "B L n"], v: Float[Tensor, "B L dv"]) -> bool:
    """Return whether this is faster than chunks (see ``tests/benchmarks/cpu.py --only crossover``).

    On a CPU only: on a GPU a call per token is never cheap.
    """
    return q.device.type == "cpu" and v.shape[2] <= CHANNELS and q.shape[0] >= MANY


class _Block(NamedTuple):
    """Some tokens of all batch entries: tokens first, so that each one's states lie together."""

    q: Float[Tensor, "T B 1 n"]
    k: Float[Tensor, "T B 1 n"]
    values: Float[Tensor, "T B dv 1"]
    decay: Float[Tensor, "T B 1 n"]


def _tokens_first(x: Float[Tensor, "B T c"]) -> Float[Tensor, "T B c"]:
    return x.transpose(0, 1).contiguous()


def _block(q, k, v, weight, log_decay, scale: float, bounds: tuple[int, int]) -> _Block:
    here = (slice(None), slice(*bounds))
    values = scaled(v[here], write_factor(weight, scale, *bounds))
    q, k, g, values = (_tokens_first(x) for x in (q[here], k[here], log_decay[here], values))
    return _Block(q[:, :, None], k[:, :, None], values[..., None], g.exp()[:, :, None])


def _bounds(q: Tensor, v: Tensor) -> list[tuple[int, int]]:
    token_bytes = q.shape[0] * q.shape[2] * v.shape[2] * q.element_size()
    return chunk_bounds(q.shape[1], max(4, BLOCK_BYTES // token_bytes))


def _states(block: _Block, before: Float[Tensor, "B dv n"] | None) -> Float[Tensor, "T B dv n"]:
    """S_t of every token of a block, given the state before it."""
    shape = broadcast_shapes(block.values.shape, block.k.shape)
    states = torch.mul(block.values, block.k, out=block.k.new_empty(shape))
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


def _over_values(x: Float[Tensor, "T B dv n"]) -> Float[Tensor, "B T n"]:
    return (x[:, :, 0] if x.shape[2] == 1 else x.sum(2)).transpose(0, 1)


def forward(q, k, v, weight, log_decay, state, scale: float) -> tuple[Tensor, Tensor]:
    """(O, state after the last token), for the arguments of ``diagonal.forward``."""
    out = torch.empty_like(v)
    s = None if state is None else state.transpose(1, 2)
    for bounds in _bounds(q, v):
        block = _block(q, k, v, weight, log_decay, scale, bounds)
        states = _states(block, s)
        s = states[-1].clone()
        out[:, slice(*bounds)] = states.mul_(block.q).sum(3).transpose(0, 1)
    return out, s.transpose(1, 2).contiguous()


def backward(
    q, k, v, weight, log_decay, state, grad_out, grad_final, scale: float
) -> tuple[Tensor | None, ...]:
    """Gradients of (q, k, v, weight, log_decay, state)."""
    dq, dk, dv, dg = (torch.empty_like(x) for x in (q, k, v, log_decay))
    dweight = None if weight is None else torch.empty_like(weight)
    blocks = _bounds(q, v)
    befores = [None if state is None else state.transpose(1, 2)]
    for bounds in blocks[:-1]:
        block = _block(q, k, v, weight, log_decay, scale, bounds)
        befores.append(_states(block, befores[-1])[-1].clone())
    ds = grad_final.transpose(1, 2)
    for bounds in reversed(blocks):
        here, before = (slice(None), slice(*bounds)), befores.pop()
        block = _block(q, k, v, weight, log_decay, scale, bounds)
        states = _states(block, before)
        grad = _tokens_first(grad_out[here])[..., None]
        dstates = torch.mul(block.q, grad, out=torch.empty_like(states))
        dq[here] = _over_values(states * grad)
        ds = _states_back(dstates, block.decay, ds)
        dk[here] = _over_values(dstates * block.values)
        dvalues = (dstates * block.k).sum(3).transpose(0, 1)
        if dweight is not None:
            dweight[here] = (v[here] * dvalues).sum(-1).mul_(scale)
        dv[here] = scaled(dvalues, write_factor(weight, scale, *bounds))
        dstates[1:] *= states[:-1]
        if before is None:
            dstates[0].zero_()
        else:
            dstates[0] *= before
        dg[here] = _over_values(dstates.mul_(block.decay))
    return dq, dk, dv, dweight, dg, None if state is None else ds.transpose(1, 2).contiguous()
