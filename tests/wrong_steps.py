"""Wrong answers to the graded exercises on steps and recurrences, as readers may write them."""

from __future__ import annotations

import torch
from torch import outer
from torch.nn.functional import normalize

__all__ = ["WRONG_STEPS"]


def _step(S, q, k, v):
    """A plain step: write and read."""
    S = S + outer(k, v)
    return S, q @ S


def _undecayed_look_up(S, q, k, v, beta, a):
    S = a * S + beta * outer(k, v - k @ S)
    return S, q @ S


def _delta(S, q, k, v, beta):
    S = S + beta * outer(k, v - k @ S)
    return S, q @ S


def _reads_first(S, q, k, v, beta):
    return _delta(S, q, k, v, beta)[0], q @ S


def _writes_undecayed_then_divides(S, q, k, v, beta, a):
    S, y = _delta(S, q, k, v / a, beta)
    return a * S, a * y


# -- constructions by hand


def _mirrored(bits, *, size=2.0, along=0, length=1.0):
    z = torch.zeros(len(bits), 2, dtype=torch.float64)
    z[:, along] = length
    return z, size * bits.double()


def _counts_in_beta(bits):
    z, beta = _mirrored(bits)
    return z, beta * (1 - 1e-6 * bits.cumsum(0))


def _signed(tokens, *, key=1.0, value=1.0):
    """q, k, v of 1, where a key or a value of None has the sign of the symbol."""
    signed = (2.0 * tokens.double() - 1.0)[:, None]
    ones = torch.ones_like(signed)
    return ones, signed if key is None else key * ones, signed if value is None else value * ones


def _remembers_the_last_lead(tokens):
    q, k, v = _signed(tokens, key=None)
    return q, k, v + 1e-6 * k.cumsum(0)


# -- stabilizer


def _through_a_sum(f, i):
    F = f.cumsum(0)
    start = torch.zeros(1, dtype=f.dtype)
    return F + torch.cummax(torch.cat([start, i - F]), 0).values[1:]


def _starts_at_first_input(f, i):
    m, chain = i[0], [i[0]]
    for t in range(1, len(f)):
        m = torch.maximum(f[t] + m, i[t])
        chain.append(m)
    return torch.stack(chain)


def _never_below_zero(f, i):
    m, chain = torch.zeros_like(f[0]), []
    for forget, write in zip(f, i, strict=True):
        m = torch.maximum(forget + m, write).clamp(min=-60)
        chain.append(m)
    return torch.stack(chain)


def _fades_the_input_too(f, i):
    m, chain = torch.zeros_like(f[0]), []
    for forget, write in zip(f, i, strict=True):
        m = forget + torch.maximum(m, write)
        chain.append(m)
    return torch.stack(chain)


# -- one chunk


def _token_by_token(S, q, k, v, g):
    outputs = []
    for t in range(len(q)):
        S = g[t].exp() * S + outer(k[t], v[t])
        outputs.append(q[t] @ S)
    return S, torch.stack(outputs)


def _exponents_above_zero(S, q, k, v, g):
    total = g.cumsum(0)
    faded = k * torch.exp(-total)[:, None]
    y = total.exp()[:, None] * ((q @ faded.T).tril() @ v + q @ S)
    return total[-1].exp() * (S + faded.T @ v), y


def _state_unread(S, q, k, v, g):
    total = g.cumsum(0)
    decay = (total[:, None] - total).tril().exp().tril()
    end = total[-1].exp() * S + (k * (total[-1] - total).exp()[:, None]).T @ v
    return end, (decay * (q @ k.T)) @ v


def _mask_forgotten(S, q, k, v, g):
    total = g.cumsum(0)
    y = ((total[:, None] - total).tril().exp() * (q @ k.T)) @ v + total.exp()[:, None] * (q @ S)
    return total[-1].exp() * S + (k * (total[-1] - total).exp()[:, None]).T @ v, y


def _rows_in_a_loop(S, q, k, v, g):
    total, rows = g.cumsum(0), []
    for i in range(len(q)):
        weights = (total[i] - total[: i + 1]).exp() * (k[: i + 1] @ q[i])
        rows.append(weights @ v[: i + 1] + total[i].exp() * (q[i] @ S))
    end = total[-1].exp() * S + (k * (total[-1] - total).exp()[:, None]).T @ v
    return end, torch.stack(rows)


# -- delta product


def _steps(S, q, keys, values, beta):
    for key, value, strength in zip(keys, values, beta, strict=True):
        S = S + strength * outer(key, value - key @ S)
    return S, q @ S


def _reads_all(S, q, keys, values, beta):
    y = 0 * (q @ S)
    for key, value, strength in zip(keys, values, beta, strict=True):
        S = S + strength * outer(key, value - key @ S)
        y = y + q @ S
    return S, y


def _inverse_with_quotients(S, q, keys, values, beta):
    overlaps = torch.diag(1 / beta) + (keys @ keys.T).tril(-1)
    S = S + keys.T @ torch.linalg.inv(overlaps) @ (values - keys @ S)
    return S, q @ S


def _all_look_up_at_once(S, q, keys, values, beta):
    S = S + (beta[:, None] * keys).T @ (values - keys @ S)
    return S, q @ S


# -- bilinear rule


def _write_through_an_inverse(A, B, delta):
    one = torch.eye(len(A), dtype=A.dtype)
    moved = torch.linalg.solve(one - delta / 2 * A, one + delta / 2 * A)
    return moved, torch.linalg.solve(A, (moved - one) @ B)


def _eigenvalue_by_eigenvalue(A, B, delta):
    values, vectors = torch.linalg.eig(A)
    back = torch.linalg.inv(vectors)
    moved = (vectors * ((1 + delta / 2 * values) / (1 - delta / 2 * values))) @ back
    written = (vectors * (delta / (1 - delta / 2 * values))) @ back @ B.to(values.dtype)
    return moved.real, written.real


def _euler(A, B, delta):
    return torch.eye(len(A), dtype=A.dtype) + delta * A, delta * B


def _implicit_euler(A, B, delta):
    left = torch.linalg.inv(torch.eye(len(A), dtype=A.dtype) - delta * A)
    return left, left @ B * delta


def _writes_plainly(A, B, delta):
    one = torch.eye(len(A), dtype=A.dtype)
    return torch.linalg.solve(one - delta / 2 * A, one + delta / 2 * A), delta * B


# -- leaky average


def _by_powers(x, a):
    t = torch.arange(1, len(x) + 1, dtype=x.dtype)[:, None]
    return a**t * ((1 - a) * x / a**t).cumsum(0)


def _matrix_per_channel(x, a):
    t = torch.arange(len(x), dtype=x.dtype)
    weights = (a[:, None, None] ** (t[:, None] - t).clamp(min=0)).tril()
    return torch.einsum("dts,sd->td", weights, (1 - a) * x)


def _starts_at_the_first(x, a):
    s, states = x[0], []
    for x_t in x:
        s = a * s + (1 - a) * x_t
        states.append(s)
    return torch.stack(states)


def _fades_after_writing(x, a):
    s, states = torch.zeros_like(a), []
    for x_t in x:
        s = a * (s + (1 - a) * x_t)
        states.append(s)
    return torch.stack(states)


def _sums(x, a):
    s, states = torch.zeros_like(a), []
    for x_t in x:
        s = a * s + x_t
        states.append(s)
    return torch.stack(states)


# -- optimizer step


def _adam(p, g, m, v, t, rate, *, below=0.0, beside=1e-8, mean=0.9, square=0.98):
    m, v = mean * m + (1 - mean) * g, square * v + (1 - square) * g**2
    root = (v / (1 - square**t) + below).sqrt() + beside
    return p - rate * m / (1 - mean**t) / root, m, v


def _biased(p, g, m, v, t, rate):
    m, v = 0.9 * m + 0.1 * g, 0.98 * v + 0.02 * g**2
    return p - rate * m / (v.sqrt() + 1e-8), m, v


#: exercise -> what is wrong -> the answer
WRONG_STEPS = {
    "parity by hand": {
        "mirrors nearly": lambda bits: _mirrored(bits, size=1.9),
        "erases": lambda bits: _mirrored(bits, size=1.0),
        "mirrors at the zeros": lambda bits: _mirrored(1 - bits),
        "mirrors what is not stored": lambda bits: _mirrored(bits, along=1),
        "goes beyond 2": lambda bits: _mirrored(bits, size=3.0),
        "has a z of length 2": lambda bits: _mirrored(bits, length=2.0),
        "counts in beta": _counts_in_beta,
    },
    "count by hand": {
        "averages": lambda tokens: _signed(tokens, value=None),
        "adds up": lambda tokens: _signed(0 * tokens, key=1.0, value=1.0),
        "signs keys and values": lambda tokens: _signed(tokens, key=None, value=None),
        "asks for the other symbol": lambda tokens: _signed(1 - tokens, key=None),
        "has small keys": lambda tokens: tuple(
            x * y for x, y in zip(_signed(tokens, key=None), (1.0, 0.25, 1.0), strict=True)
        ),
        "remembers the last lead": _remembers_the_last_lead,
    },
    "fading step": {
        "normalizes the key": lambda S, q, k, v, a: _step(
            a[:, None] * S, q, normalize(k, dim=0), v
        ),
        "decays through a quotient": lambda S, q, k, v, a: (
            a[:, None] * (S + outer(k / a, v)),
            q @ (a[:, None] * (S + outer(k / a, v))),
        ),
        "decays the new token": lambda S, q, k, v, a: (
            a[:, None] * _step(S, q, k, v)[0],
            (q * a) @ _step(S, q, k, v)[0],
        ),
        "reads before it writes": lambda S, q, k, v, a: (
            _step(a[:, None] * S, q, k, v)[0],
            q @ (a[:, None] * S),
        ),
        "averages old and new": lambda S, q, k, v, a: _step(a[:, None] * S, q, (1 - a) * k, v),
    },
    "discretized step": {
        "normalizes the key": lambda S, q, k, v, delta, a: _step(
            (-delta * a).exp() * S, q, delta * normalize(k, dim=0), v
        ),
        "limits delta from below": lambda S, q, k, v, delta, a: _step(
            (-delta.clamp(min=1e-4) * a).exp() * S, q, delta.clamp(min=1e-4) * k, v
        ),
        "multiplies by exp and divides by it": lambda S, q, k, v, delta, a: (
            (S + (delta * a).exp() * delta * outer(k, v)) / (delta * a).exp(),
            q @ (S + (delta * a).exp() * delta * outer(k, v)) / (delta * a).exp(),
        ),
        "grows": lambda S, q, k, v, delta, a: _step((delta * a).exp() * S, q, delta * k, v),
        "writes at full strength": lambda S, q, k, v, delta, a: _step(
            (-delta * a).exp() * S, q, k, v
        ),
        "takes Euler's step": lambda S, q, k, v, delta, a: _step(
            (1 - delta * a) * S, q, delta * k, v
        ),
    },
    "delta rule": {
        "limits beta to 1": lambda S, q, k, v, beta: _delta(S, q, k, v, beta.clamp(0, 1)),
        "erases channel by channel": lambda S, q, k, v, beta: _step(
            (1 - beta * k**2)[:, None] * S, q, beta * k, v
        ),
        "adds": lambda S, q, k, v, beta: _step(S, q, beta * k, v),
        "removes the old value whole": lambda S, q, k, v, beta: _step(
            S - outer(k, k @ S), q, beta * k, v
        ),
        "reads before it writes": _reads_first,
    },
    "gated delta rule": {
        "limits beta to 1": lambda S, q, k, v, beta, a: _delta(a * S, q, k, v, beta.clamp(max=1)),
        "divides by the decay": _writes_undecayed_then_divides,
        "looks up before the decay": _undecayed_look_up,
        "decays the new token": lambda S, q, k, v, beta, a: (
            a * _delta(S, q, k, v, beta)[0],
            q @ (a * _delta(S, q, k, v, beta)[0]),
        ),
        "forgets the decay": lambda S, q, k, v, beta, a: _delta(S, q, k, v, beta),
    },
    "stabilizer": {
        "goes through a sum": _through_a_sum,
        "starts at the first input": _starts_at_first_input,
        "has a floor": _never_below_zero,
        "fades the input too": _fades_the_input_too,
        "forgets to forget": lambda f, i: torch.cummax(i.clamp(min=0), 0).values,
    },
    "one chunk": {
        "loops over tokens": _token_by_token,
        "loops over rows": _rows_in_a_loop,
        "has exponents above 0": _exponents_above_zero,
        "does not read the incoming state": _state_unread,
        "keeps the future": _mask_forgotten,
    },
    "delta product": {
        "limits beta to 1": lambda S, q, keys, values, beta: _steps(
            S, q, keys, values, beta.clamp(max=1)
        ),
        "divides by beta": _inverse_with_quotients,
        "looks everything up at once": _all_look_up_at_once,
        "takes the last step first": lambda S, q, keys, values, beta: _steps(
            S, q, keys.flip(0), values.flip(0), beta.flip(0)
        ),
        "reads before it writes": lambda S, q, keys, values, beta: (
            _steps(S, q, keys, values, beta)[0],
            q @ S,
        ),
        "reads after every step": _reads_all,
    },
    "bilinear rule": {
        "needs an inverse of A": _write_through_an_inverse,
        "needs eigenvectors": _eigenvalue_by_eigenvalue,
        "takes Euler's step": _euler,
        "takes Euler's implicit step": _implicit_euler,
        "writes without the inverse": _writes_plainly,
    },
    "leaky average": {
        "divides by powers": _by_powers,
        "keeps a matrix per channel": _matrix_per_channel,
        "starts at the first input": _starts_at_the_first,
        "fades what it writes": _fades_after_writing,
        "sums": _sums,
    },
    "divided step": {
        "normalizes the key": lambda S, q, k, v, log_eta: (
            S + outer(normalize(k, dim=0), v),
            q @ (S + outer(normalize(k, dim=0), v)) / log_eta.exp(),
        ),
        "divides by at least 0.1": lambda S, q, k, v, log_eta: (
            S + outer(k, v),
            q @ (S + outer(k, v)) / log_eta.exp().clamp(min=0.1),
        ),
        "divides the state": lambda S, q, k, v, log_eta: (
            (S + outer(k, v)) / log_eta.exp(),
            q @ (S + outer(k, v)) / log_eta.exp(),
        ),
        "multiplies": lambda S, q, k, v, log_eta: (
            S + outer(k, v),
            q @ (S + outer(k, v)) * log_eta.exp(),
        ),
        "divides by the logarithm": lambda S, q, k, v, log_eta: (
            S + outer(k, v),
            q @ (S + outer(k, v)) / log_eta,
        ),
    },
    "optimizer step": {
        "adds 1e-8 below the root": lambda **x: _adam(**x, below=1e-8, beside=0.0),
        "adds nothing": lambda **x: _adam(**x, beside=0.0),
        "leaves the means uncorrected": _biased,
        "swaps the rates of the means": lambda **x: _adam(**x, mean=0.98, square=0.9),
        "steps uphill": lambda **x: _adam(**{**x, "rate": -x["rate"]}),
    },
}
