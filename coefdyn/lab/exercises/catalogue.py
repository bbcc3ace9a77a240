"""The exercises of the chapters: hidden inputs, the solution, and common mistakes.

One long file, since it is a list: each entry is a few lines that are read together and share
nothing with the next one but the drawing of inputs.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import normalize

from coefdyn.lab.exercises.exercise import Exercise
from coefdyn.lab.exercises.hidden import SIZES, draw
from coefdyn.lab.exercises.optimizing import OPTIMIZING
from coefdyn.lab.exercises.principles import PRINCIPLES
from coefdyn.lab.exercises.readings import READINGS
from coefdyn.lab.exercises.views import VIEWS
from coefdyn.shapes import Tensor

__all__ = ["EXERCISES"]

# -- coefficient dynamics --------------------------------------------------------------------------


def _coefficient_inputs(case: int) -> dict[str, Any]:
    L, n, _ = SIZES[case]
    q, k, A, b = draw(case, (L, n), (L, n), (L, n, n), (L,))
    return {"q": q, "k": k, "A": A / n**0.5, "b": b.abs() + 0.5}


def _scores(
    q: Tensor, k: Tensor, A: Tensor, b: Tensor, *, first: int = 1, left: bool = True
) -> Tensor:
    """q_i^T A_i ... A_{j+first} b_j k_j; left False multiplies later matrices on the right."""
    L, n = q.shape
    alpha = q.new_zeros(L, L)
    for j in range(L):
        product = torch.eye(n, dtype=q.dtype)
        for i in range(j, L):
            if i >= j + first:
                product = A[i] @ product if left else product @ A[i]
            alpha[i, j] = q[i] @ product @ (b[j] * k[j])
    return alpha


def _without_scaling(q: Tensor, k: Tensor, A: Tensor, b: Tensor) -> Tensor:
    return _scores(q, k, A, torch.ones_like(b))


def _scaled_by_reader(q: Tensor, k: Tensor, A: Tensor, b: Tensor) -> Tensor:
    return _scores(q, k, A, torch.ones_like(b)) * b[:, None]


def _acausal(q: Tensor, k: Tensor, A: Tensor, b: Tensor) -> Tensor:
    above = torch.ones_like(q @ k.T).triu(1)
    return _scores(q, k, A, b) + above * ((q @ k.T) * b)


# -- rows ------------------------------------------------------------------------------------------


def _row_inputs(case: int) -> dict[str, Any]:
    L, _, d_v = SIZES[case]
    scores, v = draw(case, (L,), (L, d_v))
    return {"scores": scores * (1, 1, 1, 600)[case], "v": v}


def _softmax_row(scores: Tensor, v: Tensor) -> Tensor:
    return scores.softmax(-1) @ v


def _unnormalized_row(scores: Tensor, v: Tensor) -> Tensor:
    return (scores - scores.max()).exp() @ v


def _overflowing_row(scores: Tensor, v: Tensor) -> Tensor:
    weights = scores.exp()
    return weights @ v / weights.sum()


def _stale_row(scores: Tensor, v: Tensor) -> Tensor:
    """Softmax row with a running maximum that forgets to rescale the earlier sum."""
    largest, total, summed = scores[0], torch.zeros_like(scores[0]), torch.zeros_like(v[0])
    for s, value in zip(scores, v, strict=True):
        largest = torch.maximum(largest, s)
        total = total + (s - largest).exp()
        summed = summed + (s - largest).exp() * value
    return summed / total


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


# -- linear attention and chunks -------------------------------------------------------------------


def _features(case: int) -> dict[str, Any]:
    L, n, d_v = SIZES[case]
    q, k, v = draw(case, (L, n), (L, n), (L, d_v))
    return {"q": q.exp(), "k": k.exp(), "v": v}


def _linear_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    alpha = (q @ k.T).tril()
    return alpha @ v / alpha.sum(-1, keepdim=True)


def _divides_by_all(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.T).tril() @ v / (q @ k.T).sum(-1, keepdim=True)


def _not_causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    alpha = q @ k.T
    return alpha @ v / alpha.sum(-1, keepdim=True)


def _undivided(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.T).tril() @ v


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


# -- rows since Table 1 ----------------------------------------------------------------------------


def _forgetting_inputs(case: int) -> dict[str, Any]:
    L, n, d_v = SIZES[case]
    q, k, v, f = draw(case, (L, n), (L, n), (L, d_v), (L,))
    return {"q": q, "k": k, "v": v, "log_f": -f.abs() - 0.1}


def _forgetting(q: Tensor, k: Tensor, v: Tensor, log_f: Tensor) -> Tensor:
    total = log_f.cumsum(0)
    return _causal_softmax(q @ k.T + total[:, None] - total, v)


def _causal_softmax(scores: Tensor, v: Tensor) -> Tensor:
    ahead = torch.ones_like(scores).triu(1).bool()
    return scores.masked_fill(ahead, -torch.inf).softmax(-1) @ v


def _forgets_the_new(q: Tensor, k: Tensor, v: Tensor, log_f: Tensor) -> Tensor:
    total = log_f.cumsum(0)
    return _causal_softmax(q @ k.T + total[:, None] - total + log_f, v)


def _fades_inside(q: Tensor, k: Tensor, v: Tensor, log_f: Tensor) -> Tensor:
    total = log_f.cumsum(0)
    kept = (total[:, None] - total).tril().exp()
    return _causal_softmax(kept * (q @ k.T), v)


def _fades_after_dividing(q: Tensor, k: Tensor, v: Tensor, log_f: Tensor) -> Tensor:
    total = log_f.cumsum(0)
    scores = (q @ k.T).masked_fill(torch.ones_like(q @ k.T).triu(1).bool(), -torch.inf)
    return (scores.softmax(-1) * (total[:, None] - total).tril().exp()) @ v


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


def _many_inputs(case: int) -> dict[str, Any]:
    L, H, d_v = SIZES[case]
    alpha, v, W = draw(case, (H, L, L), (H, L, d_v), (H * d_v, 4))
    return {"alpha": alpha.tril(), "v": v, "W": W}


def _many(alpha: Tensor, v: Tensor, W: Tensor) -> Tensor:
    return (alpha @ v).transpose(0, 1).flatten(1) @ W


def _heads_reshaped(alpha: Tensor, v: Tensor, W: Tensor) -> Tensor:
    return (alpha @ v).reshape(alpha.shape[-1], -1) @ W


def _heads_averaged(alpha: Tensor, v: Tensor, W: Tensor) -> Tensor:
    return (alpha.mean(0) @ v).transpose(0, 1).flatten(1) @ W


def _channels_first(alpha: Tensor, v: Tensor, W: Tensor) -> Tensor:
    return (alpha @ v).permute(1, 2, 0).flatten(1) @ W


_PAIR = "(S, y): the new state (n, d_v), and the output (d_v,)"

_ALL = (
    Exercise(
        name="coefficients",
        inputs=_coefficient_inputs,
        solution=_scores,
        returns="a tensor alpha of shape (L, L), zero above the diagonal",
        mistakes={
            "A_j itself acts on the key of token j; the first matrix is A_{j+1}.": lambda **x: (
                _scores(**x, first=0)
            ),
            "a later matrix stands to the left of an earlier one: A_i ... A_{j+1}.": lambda **x: (
                _scores(**x, left=False)
            ),
            "the scaling b is missing.": _without_scaling,
            "b belongs to the token that is written, j, and not to the one that reads.": (
                _scaled_by_reader
            ),
            "entries above the diagonal are the future; they are 0.": _acausal,
        },
    ),
    Exercise(
        name="one pass",
        inputs=_row_inputs,
        solution=_softmax_row,
        returns="the output of one row, a tensor of shape (d_v,)",
        mistakes={
            "the weights do not sum to 1 yet.": _unnormalized_row,
            "when the maximum rises, what was summed before has to be rescaled.": _stale_row,
            "exp of a raw score overflows; subtract the largest score so far.": _overflowing_row,
        },
    ),
    Exercise(
        name="linear attention",
        inputs=_features,
        solution=_linear_attention,
        returns="the outputs, a tensor of shape (L, d_v)",
        mistakes={
            "the row sum of row i ends at token i, like the sum above it.": _divides_by_all,
            "row i may not read tokens after i.": _not_causal,
            "the division by the row sum is missing.": _undivided,
        },
    ),
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
        name="forgetting attention",
        inputs=_forgetting_inputs,
        solution=_forgetting,
        returns="the outputs, a tensor of shape (L, d_v)",
        mistakes={
            "a token is not faded by its own gate: the sum runs from j + 1 to i.": _forgets_the_new,
            "the decay is added to the score, or multiplies exp of it; it is not a factor of "
            "the score.": _fades_inside,
            "the row is divided by the sum of the faded coefficients.": _fades_after_dividing,
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
        name="many heads",
        inputs=_many_inputs,
        solution=_many,
        returns="the outputs, a tensor of shape (L, d)",
        mistakes={
            "reshaping (H, L, d_v) mixes tokens; move the heads behind the tokens first.": (
                _heads_reshaped
            ),
            "every head reads with coefficients of its own; they are not averaged.": (
                _heads_averaged
            ),
            "the channels of one head stay together: head by head, then channel by channel.": (
                _channels_first
            ),
        },
    ),
)

#: name -> exercise
EXERCISES: dict[str, Exercise] = {
    exercise.name: exercise for exercise in (*_ALL, *READINGS, *PRINCIPLES, *VIEWS, *OPTIMIZING)
}
