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


def _delta(S, q, k, v, beta):
    S = S + beta * outer(k, v - k @ S)
    return S, q @ S


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


def _never_below_zero(f, i):
    m, chain = torch.zeros_like(f[0]), []
    for forget, write in zip(f, i, strict=True):
        m = torch.maximum(forget + m, write).clamp(min=-60)
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


# -- delta product


def _inverse_with_quotients(S, q, keys, values, beta):
    overlaps = torch.diag(1 / beta) + (keys @ keys.T).tril(-1)
    S = S + keys.T @ torch.linalg.inv(overlaps) @ (values - keys @ S)
    return S, q @ S


# -- bilinear rule


def _write_through_an_inverse(A, B, delta):
    one = torch.eye(len(A), dtype=A.dtype)
    moved = torch.linalg.solve(one - delta / 2 * A, one + delta / 2 * A)
    return moved, torch.linalg.solve(A, (moved - one) @ B)


# -- leaky average


def _by_powers(x, a):
    t = torch.arange(1, len(x) + 1, dtype=x.dtype)[:, None]
    return a**t * ((1 - a) * x / a**t).cumsum(0)


def _matrix_per_channel(x, a):
    t = torch.arange(len(x), dtype=x.dtype)
    weights = (a[:, None, None] ** (t[:, None] - t).clamp(min=0)).tril()
    return torch.einsum("dts,sd->td", weights, (1 - a) * x)


# -- optimizer step


def _adam(p, g, m, v, t, rate, *, below=0.0, beside=1e-8, mean=0.9, square=0.98):
    m, v = mean * m + (1 - mean) * g, square * v + (1 - square) * g**2
    root = (v / (1 - square**t) + below).sqrt() + beside
    return p - rate * m / (1 - mean**t) / root, m, v


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
    },
    "delta rule": {
        "limits beta to 1": lambda S, q, k, v, beta: _delta(S, q, k, v, beta.clamp(0, 1)),
    },
    "gated delta rule": {
        "limits beta to 1": lambda S, q, k, v, beta, a: _delta(a * S, q, k, v, beta.clamp(max=1)),
        "divides by the decay": _writes_undecayed_then_divides,
    },
    "stabilizer": {
        "goes through a sum": _through_a_sum,
        "has a floor": _never_below_zero,
    },
    "one chunk": {
        "loops over tokens": _token_by_token,
        "has exponents above 0": _exponents_above_zero,
    },
    "delta product": {
        "divides by beta": _inverse_with_quotients,
    },
    "bilinear rule": {
        "needs an inverse of A": _write_through_an_inverse,
    },
    "leaky average": {
        "divides by powers": _by_powers,
        "keeps a matrix per channel": _matrix_per_channel,
    },
    "divided step": {
        "divides by at least 0.1": lambda S, q, k, v, log_eta: (
            S + outer(k, v),
            q @ (S + outer(k, v)) / log_eta.exp().clamp(min=0.1),
        ),
    },
    "optimizer step": {
        "adds 1e-8 below the root": lambda **x: _adam(**x, below=1e-8, beside=0.0),
    },
}
