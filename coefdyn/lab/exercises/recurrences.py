"""Exercises on recurrences: steps, a stabiliser, a chunk, a discretisation, an average."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import normalize

from coefdyn.lab.exercises.exercise import Exercise
from coefdyn.lab.exercises.hidden import SIZES, draw
from coefdyn.shapes import Tensor

__all__ = ["RECURRENCES"]

# -- recurrences: one step (S, q, k, v, gates) -> (S, y) -------------------------------------------

Step = tuple[Tensor, Tensor]


def _memory(case: int, gates: int) -> tuple[dict[str, Any], Tensor]:
    """S, q, a unit key, v, and ``gates`` numbers in (0, 1)."""
    _, n, d_v = SIZES[case]
    S, q, k, v, g = draw(case, (n, d_v), (n,), (n,), (d_v,), (gates,))
    return {"S": S, "q": q, "k": normalize(k, dim=-1), "v": v}, g.sigmoid()


def _gla_inputs(case: int) -> dict[str, Any]:
    tensors, _ = _memory(case, 1)
    return {**tensors, "a": draw(50 + case, tuple(tensors["q"].shape))[0].sigmoid()}


def _gla_step(S: Tensor, q: Tensor, k: Tensor, v: Tensor, a: Tensor) -> Step:
    S = a[:, None] * S + torch.outer(k, v)
    return S, q @ S


def _gla_decays_the_new(S: Tensor, q: Tensor, k: Tensor, v: Tensor, a: Tensor) -> Step:
    S = a[:, None] * (S + torch.outer(k, v))
    return S, q @ S


def _gla_reads_before(S: Tensor, q: Tensor, k: Tensor, v: Tensor, a: Tensor) -> Step:
    return a[:, None] * S + torch.outer(k, v), q @ S


def _mamba_inputs(case: int) -> dict[str, Any]:
    tensors, g = _memory(case, 2)
    return {**tensors, "delta": g[0], "a": 1 + 3 * g[1]}


def _mamba_step(S: Tensor, q: Tensor, k: Tensor, v: Tensor, delta: Tensor, a: Tensor) -> Step:
    S = (-delta * a).exp() * S + delta * torch.outer(k, v)
    return S, q @ S


def _mamba_grows(S: Tensor, q: Tensor, k: Tensor, v: Tensor, delta: Tensor, a: Tensor) -> Step:
    S = (delta * a).exp() * S + delta * torch.outer(k, v)
    return S, q @ S


def _mamba_untied(S: Tensor, q: Tensor, k: Tensor, v: Tensor, delta: Tensor, a: Tensor) -> Step:
    S = (-delta * a).exp() * S + torch.outer(k, v)
    return S, q @ S


def _delta_inputs(case: int) -> dict[str, Any]:
    tensors, g = _memory(case, 1)
    return {**tensors, "beta": g[0]}


def _delta_step(S: Tensor, q: Tensor, k: Tensor, v: Tensor, beta: Tensor) -> Step:
    S = S + beta * torch.outer(k, v - k @ S)
    return S, q @ S


def _delta_adds(S: Tensor, q: Tensor, k: Tensor, v: Tensor, beta: Tensor) -> Step:
    S = S + beta * torch.outer(k, v)
    return S, q @ S


def _delta_erases_all(S: Tensor, q: Tensor, k: Tensor, v: Tensor, beta: Tensor) -> Step:
    S = S - torch.outer(k, k @ S) + beta * torch.outer(k, v)
    return S, q @ S


def _delta_writes_all(S: Tensor, q: Tensor, k: Tensor, v: Tensor, beta: Tensor) -> Step:
    S = S - beta * torch.outer(k, k @ S) + torch.outer(k, v)
    return S, q @ S


def _gated_inputs(case: int) -> dict[str, Any]:
    tensors, g = _memory(case, 2)
    return {**tensors, "beta": g[0], "a": g[1]}


def _gated_step(S: Tensor, q: Tensor, k: Tensor, v: Tensor, beta: Tensor, a: Tensor) -> Step:
    return _delta_step(a * S, q, k, v, beta)


def _gated_decays_after(
    S: Tensor, q: Tensor, k: Tensor, v: Tensor, beta: Tensor, a: Tensor
) -> Step:
    S = a * _delta_step(S, q, k, v, beta)[0]
    return S, q @ S


def _gated_looks_up_undecayed(
    S: Tensor, q: Tensor, k: Tensor, v: Tensor, beta: Tensor, a: Tensor
) -> Step:
    S = a * S + beta * torch.outer(k, v - k @ S)
    return S, q @ S


# -- mLSTM: the stabiliser -------------------------------------------------------------------------


def _stable_inputs(case: int) -> dict[str, Any]:
    L = SIZES[case][0]
    f, i = draw(case, (L,), (L,))
    return {"f": -f.abs() * (1, 2, 1, 3)[case], "i": 4 * i}


def _stabiliser(f: Tensor, i: Tensor) -> Tensor:
    m, chain = torch.zeros((), dtype=f.dtype), []
    for t in range(len(f)):
        m = torch.maximum(f[t] + m, i[t])
        chain.append(m)
    return torch.stack(chain)


def _no_forgetting(f: Tensor, i: Tensor) -> Tensor:
    return torch.cummax(torch.cat([torch.zeros(1, dtype=f.dtype), i]), 0).values[1:]


def _starts_empty(f: Tensor, i: Tensor) -> Tensor:
    m, chain = torch.tensor(-torch.inf, dtype=f.dtype), []
    for t in range(len(f)):
        m = torch.maximum(f[t] + m, i[t])
        chain.append(m)
    return torch.stack(chain)


# -- chunks ----------------------------------------------------------------------------------------


def _chunk_inputs(case: int) -> dict[str, Any]:
    L, n, d_v = SIZES[case]
    S, q, k, v, g = draw(case, (n, d_v), (L, n), (L, n), (L, d_v), (L,))
    return {"S": S, "q": q, "k": k, "v": v, "g": -g.abs()}


def _chunk(S: Tensor, q: Tensor, k: Tensor, v: Tensor, g: Tensor) -> Step:
    total = g.cumsum(0)
    decay = (total[:, None] - total[None, :]).tril().exp().tril()
    y = (decay * (q @ k.T)) @ v + total.exp()[:, None] * (q @ S)
    S = total[-1].exp() * S + (k * (total[-1] - total).exp()[:, None]).T @ v
    return S, y


def _chunk_forgets_state(S: Tensor, q: Tensor, k: Tensor, v: Tensor, g: Tensor) -> Step:
    return _chunk(S, q, k, v, g)[0], _chunk(torch.zeros_like(S), q, k, v, g)[1]


def _chunk_state_undecayed(S: Tensor, q: Tensor, k: Tensor, v: Tensor, g: Tensor) -> Step:
    total = g.cumsum(0)
    end, y = _chunk(S, q, k, v, g)
    return end, y + ((1 - total.exp())[:, None] * (q @ S))


def _chunk_keys_undecayed(S: Tensor, q: Tensor, k: Tensor, v: Tensor, g: Tensor) -> Step:
    return g.sum().exp() * S + k.T @ v, _chunk(S, q, k, v, g)[1]


# -- several steps per token -----------------------------------------------------------------------


def _product_inputs(case: int) -> dict[str, Any]:
    m, n, d_v = SIZES[case]
    S, q, keys, values, g = draw(case, (n, d_v), (n,), (m, n), (m, d_v), (m,))
    return {
        "S": S,
        "q": q,
        "keys": normalize(keys, dim=-1),
        "values": values,
        "beta": 2 * g.sigmoid(),
    }


def _product(S: Tensor, q: Tensor, keys: Tensor, values: Tensor, beta: Tensor) -> Step:
    for key, value, strength in zip(keys, values, beta, strict=True):
        S = S + strength * torch.outer(key, value - key @ S)
    return S, q @ S


def _product_at_once(S: Tensor, q: Tensor, keys: Tensor, values: Tensor, beta: Tensor) -> Step:
    S = S + (beta[:, None] * keys).T @ (values - keys @ S)
    return S, q @ S


def _product_backwards(S: Tensor, q: Tensor, keys: Tensor, values: Tensor, beta: Tensor) -> Step:
    return _product(S, q, keys.flip(0), values.flip(0), beta.flip(0))


def _product_read_first(S: Tensor, q: Tensor, keys: Tensor, values: Tensor, beta: Tensor) -> Step:
    return _product(S, q, keys, values, beta)[0], q @ S


# -- discretisation --------------------------------------------------------------------------------


def _bilinear_inputs(case: int) -> dict[str, Any]:
    n = SIZES[case][1]
    A, B, step = draw(case, (n, n), (n,), (1,))
    return {"A": A - 2 * torch.eye(n, dtype=A.dtype), "B": B, "delta": step.abs()[0] / 2 + 0.1}


def _bilinear(A: Tensor, B: Tensor, delta: Tensor) -> tuple[Tensor, Tensor]:
    eye = torch.eye(len(A), dtype=A.dtype)
    left = torch.linalg.inv(eye - delta / 2 * A)
    return left @ (eye + delta / 2 * A), left @ (delta * B)


def _forward_euler(A: Tensor, B: Tensor, delta: Tensor) -> tuple[Tensor, Tensor]:
    return torch.eye(len(A), dtype=A.dtype) + delta * A, delta * B


def _backward_euler(A: Tensor, B: Tensor, delta: Tensor) -> tuple[Tensor, Tensor]:
    left = torch.linalg.inv(torch.eye(len(A), dtype=A.dtype) - delta * A)
    return left, left @ (delta * B)


def _bilinear_plain_write(A: Tensor, B: Tensor, delta: Tensor) -> tuple[Tensor, Tensor]:
    return _bilinear(A, B, delta)[0], delta * B


def _held(A: Tensor, B: Tensor, delta: Tensor) -> tuple[Tensor, Tensor]:
    moved = torch.linalg.matrix_exp(delta * A)
    return moved, torch.linalg.solve(A, (moved - torch.eye(len(A), dtype=A.dtype)) @ B)


_PAIR = "(S, y): the new state (n, d_v), and the output (d_v,)"


def _leaky_inputs(case: int) -> dict[str, Any]:
    L, n, _ = SIZES[case]
    x, a = draw(case, (L, n), (n,))
    return {"x": x, "a": a.sigmoid()}


def _leaky(
    x: Tensor,
    a: Tensor,
    *,
    weighed: bool = True,
    swapped: bool = False,
    early: bool = False,
) -> Tensor:
    """States s_t = a s_(t-1) + (1 - a) x_t, with three choices that can be made wrong."""
    keep, write = (1 - a, a) if swapped else (a, 1 - a)
    s, found = torch.zeros_like(a), []
    for x_t in x:
        before, s = s, keep * s + (write if weighed else 1) * x_t
        found.append(before if early else s)
    return torch.stack(found)


def _leaky_sum(x: Tensor, a: Tensor) -> Tensor:
    return _leaky(x, a, weighed=False)


def _leaky_swapped(x: Tensor, a: Tensor) -> Tensor:
    return _leaky(x, a, swapped=True)


def _leaky_early(x: Tensor, a: Tensor) -> Tensor:
    return _leaky(x, a, early=True)


RECURRENCES = (
    Exercise(
        name="fading step",
        inputs=_gla_inputs,
        solution=_gla_step,
        returns=_PAIR,
        mistakes={
            "the decay of step t acts on what was stored before; the new token is whole.": (
                _gla_decays_the_new
            ),
            "token t reads the state that already holds it.": _gla_reads_before,
        },
    ),
    Exercise(
        name="discretized step",
        inputs=_mamba_inputs,
        solution=_mamba_step,
        returns=_PAIR,
        mistakes={
            "the state grows; the exponent is -delta a.": _mamba_grows,
            "a long step also writes more: the key is scaled by delta.": _mamba_untied,
        },
    ),
    Exercise(
        name="delta rule",
        inputs=_delta_inputs,
        solution=_delta_step,
        returns=_PAIR,
        mistakes={
            "that adds; look up what is stored under k and write the difference.": _delta_adds,
            "the old value is removed whole; beta scales the removal too.": _delta_erases_all,
            "beta scales the writing as well as the removal.": _delta_writes_all,
        },
    ),
    Exercise(
        name="gated delta rule",
        inputs=_gated_inputs,
        solution=_gated_step,
        returns=_PAIR,
        mistakes={
            "the decay comes first; the new token is not decayed in its own step.": (
                _gated_decays_after
            ),
            "the look-up reads the memory after it has decayed.": _gated_looks_up_undecayed,
            "the decay is missing.": lambda S, q, k, v, beta, a: _delta_step(S, q, k, v, beta),
        },
    ),
    Exercise(
        name="stabilizer",
        inputs=_stable_inputs,
        solution=_stabiliser,
        returns="m, a tensor of shape (L,)",
        mistakes={
            "the old maximum fades with the forget gate before it is compared.": _no_forgetting,
            "the chain starts from m_0 = 0.": _starts_empty,
        },
    ),
    Exercise(
        name="one chunk",
        inputs=_chunk_inputs,
        solution=_chunk,
        returns="(S, y): the state after the chunk (n, d_v), and the outputs (L, d_v)",
        mistakes={
            "the outputs also read the state that comes into the chunk.": _chunk_forgets_state,
            "the incoming state has faded by exp(g_1 + ... + g_i) when token i reads it.": (
                _chunk_state_undecayed
            ),
            "a key written early in the chunk has faded by the end of it.": _chunk_keys_undecayed,
        },
    ),
    Exercise(
        name="delta product",
        inputs=_product_inputs,
        solution=_product,
        returns=_PAIR,
        mistakes={
            "every step looks up in the state that the step before it left.": _product_at_once,
            "the first key acts first; later factors stand on the left.": _product_backwards,
            "the token reads after its last step.": _product_read_first,
        },
    ),
    Exercise(
        name="bilinear rule",
        inputs=_bilinear_inputs,
        solution=_bilinear,
        returns="the pair of the sampled A, of shape (n, n), and B, of shape (n,)",
        mistakes={
            "that is Euler's step, which looks at the start of the interval only.": _forward_euler,
            "that looks at the end of the interval only; the bilinear rule takes the mean.": (
                _backward_euler
            ),
            "the inverse multiplies B as well.": _bilinear_plain_write,
            "that is the exact step for a held input; the bilinear rule has no exponential.": _held,
        },
    ),
    Exercise(
        name="leaky average",
        inputs=_leaky_inputs,
        solution=_leaky,
        returns="the states of all tokens, of shape (L, d)",
        mistakes={
            "that is a sum that fades; an average weighs the new token by 1 - a.": _leaky_sum,
            "a is what is kept, and 1 - a what is written.": _leaky_swapped,
            "the token is written before it is read.": _leaky_early,
        },
    ),
)
