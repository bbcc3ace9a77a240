"""Exercises on recurrences: a stabiliser, a chunk, several steps, a discretisation, an average."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from torch.nn.functional import normalize

from coefdyn.lab.exercises.demands import no_large_tensor, no_loop
from coefdyn.lab.exercises.exercise import Exercise, Twist, register
from coefdyn.lab.exercises.hidden import SIZES, Arguments, draw, numbers, put, tokens_of
from coefdyn.shapes import Tensor

# -- recurrences: one step (S, q, k, v, gates) -> (S, y) -------------------------------------------


Step = tuple[Tensor, Tensor]


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


# -- hard cases


def _same_keys(x: Arguments) -> Tensor:
    keys = x["keys"].clone()
    keys[1] = keys[0]
    return keys


def _long_chunk(length: int) -> Arguments:
    found = tokens_of(length, 3, q=2, k=2, v=2, g=1)
    return {"S": found["k"][:3] * 1.0, **found, "g": -found["g"].abs()}


def _long_average(length: int) -> Arguments:
    return {**tokens_of(length, 2, x=2), "a": torch.tensor([0.5, 0.9], dtype=torch.float64)}


register(
    Exercise(
        name="stabilizer",
        inputs=_stable_inputs,
        solution=_stabiliser,
        returns="m, a tensor of shape (L,)",
        mistakes={
            "the old maximum fades with the forget gate before it is compared.": _no_forgetting,
            "the chain starts from m_0 = 0.": _starts_empty,
        },
        hard={
            "a forget gate of exactly 0, whose logarithm is -inf": Twist(
                change=put(f=lambda x: x["f"].index_fill(0, torch.tensor([4]), -math.inf)),
                hint="-inf - (-inf) is no number; go from token to token instead of through a sum.",
            ),
            "inputs near -200 and strong forgetting": Twist(
                change=put(f=lambda x: x["f"] - 40, i=lambda x: x["i"] - 200),
                hint="m has no floor: it falls with the forget gates, below 0.",
            ),
            "forget gates of exactly 1": Twist(
                change=put(f=lambda x: 0 * x["f"]),
                hint="log f = 0 fades nothing: m is the running maximum of 0 and the inputs.",
            ),
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
        hard={
            "g = -60 at every token": Twist(
                change=put(g=lambda x: torch.full_like(x["g"], -60.0)),
                hint="an exponent above 0 overflows: subtract inside exp, so that none is above 0.",
                case=3,
            ),
            "g = 0": Twist(
                change=put(g=lambda x: 0 * x["g"]),
                hint="with g = 0 nothing fades; divide by no logarithm.",
            ),
        },
        demands={"the number of operations": no_loop(_long_chunk)},
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
        hard={
            "the same key twice, beta = 2": Twist(
                change=put(keys=_same_keys, beta=lambda x: torch.full_like(x["beta"], 2.0)),
                hint="each step looks up what the one before left; beta is not limited to 1.",
            ),
            "one beta of 0": Twist(
                change=put(beta=lambda x: x["beta"].index_fill(0, torch.tensor([3]), 0.0)),
                hint="a step with beta = 0 leaves the state as it is; divide by no beta.",
            ),
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
        hard={
            "an A that has one eigenvector, to the eigenvalue 0": Twist(
                change=put(A=lambda x: torch.ones_like(x["A"][0, :-1]).diag(1)),
                hint="A may have no inverse and too few eigenvectors; solve with I - delta/2 A.",
            ),
            "A = 0": Twist(
                change=put(A=lambda x: 0 * x["A"]),
                hint="with A = 0 the state is kept and delta B is added.",
            ),
        },
    ),
    Exercise(
        name="leaky average",
        inputs=_leaky_inputs,
        solution=_leaky,
        returns="the states of all tokens, of shape (L, d)",
        mistakes={
            "that is a sum that fades; an average weighs the new token by 1 - a.": partial(
                _leaky, weighed=False
            ),
            "a is what is kept, and 1 - a what is written.": partial(_leaky, swapped=True),
            "the token is written before it is read.": partial(_leaky, early=True),
        },
        hard={
            "a of exactly 0, exactly 1 and 1e-40": Twist(
                change=put(a=numbers(0, 1, 0.5, 1e-40)),
                hint="a power of a is 0 soon; go from state to state and divide by none.",
            ),
        },
        demands={"the numbers that are kept": no_large_tensor(_long_average, 512)},
    ),
)
