"""Wrong answers to graded exercises of principles, second view and lens, as readers may write."""

from __future__ import annotations

import torch
from torch import outer
from torch.nn.functional import normalize

__all__ = ["WRONG_NUMBERS"]


def _affine(S, z, q, k, v, a):
    S, z = a[:, None] * S + outer(k, v), z + v
    return S, z, z + q @ S


# -- silencing query


def _divides_by_lengths(q, k):
    unit = k / k.norm(dim=-1, keepdim=True)
    return q - torch.linalg.pinv(unit) @ (unit @ q)


# -- two copies


def _product(A, j, later):
    moved = torch.eye(A.shape[1], dtype=A.dtype)
    for t in range(j + 1, later + 1):
        moved = A[t] @ moved
    return moved


def _through_inverses(A, h, j, later):
    return _product(A, -1, later) @ _product(A, -1, j).inverse() @ h - h


# -- mirror


def _mirror(a, b, *, epsilon=0.0, beta=2.0):
    z = (a - b) / ((a - b).norm() + epsilon)
    return torch.eye(len(a), dtype=a.dtype) - beta * outer(z, z)


def _swaps_in_the_plane(a, b):
    """The reflection along (a + b), built from half-way vectors: right unless a + b is 0."""
    middle = normalize(a / a.norm() + b / b.norm(), dim=0, eps=0.0)
    side = normalize(a - b, dim=0)
    rest = torch.eye(len(a), dtype=a.dtype) - outer(middle, middle) - outer(side, side)
    return rest + outer(middle, middle) - outer(side, side)


# -- eigenvalues


def _matrix(z, beta, a, ratio):
    return ratio * a * (torch.eye(len(z), dtype=z.dtype) - beta * outer(z, z))


def _along_and_rest(along, rest, n):
    return torch.cat([along[None], rest.expand(n - 1)])


def _by_a_quotient(z, beta, a, ratio):
    direction = z / z.norm()
    along = direction @ _matrix(z, beta, a, ratio) @ direction
    return _along_and_rest(along, ratio * a, len(z))


# -- row backwards, what is left of a key


def _all_matrices(q, k, beta, a):
    scores, moved = [], torch.eye(len(q), dtype=q.dtype)
    for j in reversed(range(len(k))):
        scores.append(q @ moved @ k[j])
        step = a[j] * (torch.eye(len(q), dtype=q.dtype) - beta[j] * outer(k[j], k[j]))
        moved = moved @ step
    return torch.stack(scores[::-1])


def _backwards(q, k, beta, a, *, own=False, order=reversed):
    scores = {}
    for j in order(range(len(k))):
        moved = a[j] * (q - beta[j] * (k[j] @ q) * k[j])
        scores[j] = (moved if own else q) @ k[j]
        q = moved
    return torch.stack([scores[j] for j in range(len(k))])


def _decays_by_quotients(q, k, beta, a):
    whole = a.prod()
    scores = _backwards(q, k, beta, torch.ones_like(a))
    return scores * whole / a.cumprod(0)


def _lengths(k, beta, a, j, *, first=1, divide=False):
    h, found = k[j], [k[j].norm()]
    for t in range(j + first, len(k)):
        before = h.norm()
        h = a[t] * (h - beta[t] * (k[t] @ h) * k[t])
        found.append(found[-1] * (h.norm() / before) if divide else h.norm())
    return torch.stack(found)


# -- reading off


def _rest(mix, v, *, epsilon=0.0, fitted=False, transposed=False, whole=True):
    alpha = mix(v) @ torch.linalg.pinv(v) if fitted else mix(torch.eye(len(v), dtype=v.dtype))
    alpha = alpha.T if transposed else alpha
    rest = (mix(v) - alpha @ v).norm()
    return alpha, rest / (mix(v).norm() + epsilon) if whole else rest


# -- induction score


def _one_hot(alpha, tokens):
    words = torch.nn.functional.one_hot(tokens, 100).double()
    before = torch.cat([torch.zeros_like(words[:1]), words[:-1]])
    target = (words @ before.T).tril()
    return (alpha * target).sum(-1)[target.any(-1)].mean()


# -- a window and a sink


def _cut(alpha, v, window, sink, old_divisor=False):
    place = torch.arange(len(alpha))
    left = alpha * ((place[:, None] - place < window) | (place < sink))
    divisor = (alpha if old_divisor else left).sum(-1, keepdim=True)
    return left / divisor @ v


def _uncut(alpha, v):
    return alpha / alpha.sum(-1, keepdim=True) @ v


#: exercise -> what is wrong -> the answer
WRONG_NUMBERS = {
    "affine readout": {
        "decays through a logarithm of at least 1e-6": lambda S, z, q, k, v, a: _affine(
            S, z, q, k, v, a.clamp(min=1e-6).log().exp()
        ),
    },
    "worst drift": {
        "divides by the cosine": lambda q, k, rho: (
            (k @ q) * (1 + rho / ((k @ q) / (k.norm(dim=-1) * q.norm())))
        ),
        "normalizes the query by hand": lambda q, k, rho: (
            (k + rho * k.norm(dim=-1, keepdim=True) * q / q.norm()) @ q
        ),
    },
    "zeros of features": {
        "divides by p": lambda p, r, n: (p * (1 + r / p - r)) ** n,
    },
    "silencing query": {
        "divides by the lengths": _divides_by_lengths,
    },
    "two copies": {
        "undoes steps by inverses": _through_inverses,
    },
    "mirror": {
        "goes through a + b": _swaps_in_the_plane,
        "adds an epsilon": lambda a, b: _mirror(a, b, epsilon=1e-12),
    },
    "unit variance": {
        "adds an epsilon": lambda T_q, T_k: (
            1 / ((T_q @ T_q.T @ T_k @ T_k.T).trace() + 1e-12).sqrt()
        ),
    },
    "system step": {
        "goes through logarithms": lambda h, A, k, v, eta_before, eta: (
            (eta_before.log() - eta.log()).exp() * A @ h + outer(k, v) / eta
        ),
    },
    "eigenvalues of a step": {
        "asks an eigensolver": lambda **x: torch.linalg.eigvalsh(_matrix(**x)),
        "divides by the length of z": _by_a_quotient,
    },
    "row backwards": {
        "forms matrices": _all_matrices,
        "divides decays": _decays_by_quotients,
    },
    "reading off": {
        "adds an epsilon": lambda mix, v: _rest(mix, v, epsilon=1e-8),
    },
    "what is left of a key": {
        "multiplies quotients of lengths": lambda **x: _lengths(**x, divide=True),
    },
    "a window and a sink": {
        "always keeps the first token": lambda alpha, v, window, sink: (
            _cut(alpha, v, window, 1) - _uncut(alpha, v)
        ),
    },
    "induction score": {
        "needs small token numbers": _one_hot,
    },
}
