"""Wrong answers to graded exercises of principles, second view and lens, as readers may write."""

from __future__ import annotations

import torch
from torch import outer
from torch.nn.functional import normalize

__all__ = ["WRONG_NUMBERS"]


def _affine(S, z, q, k, v, a):
    S, z = a[:, None] * S + outer(k, v), z + v
    return S, z, z + q @ S


def _affine_with(S, z, q, k, v, a, *, constant):
    S = a[:, None] * S + outer(k, v)
    return S, z + v, constant + q @ S


# -- silencing query


def _gram_schmidt(q, k):
    found = []
    for key in k:
        for one in found:
            key = key - (key @ one) * one
        if key.norm() > 1e-9 * k[0].norm() or not found:
            found.append(key / key.norm())
            q = q - (q @ found[-1]) * found[-1]
    return q


def _normal_equations(q, k):
    return q - k.T @ torch.linalg.solve(k @ k.T, k @ q)


def _one_after_another(q, k):
    for key in k:
        q = q - (q @ key) / (key @ key) * key
    return q


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


def _mirror_of_the_sum(a, b):
    s = (a + b) / (a + b).norm()
    return 2 * outer(s, s) - torch.eye(len(a), dtype=a.dtype)


def _rotation(a, b):
    u = a / a.norm()
    w = b / b.norm() - (u @ b) / b.norm() * u
    w = w / w.norm()
    c, s = (u @ b) / b.norm(), (w @ b) / b.norm()
    plane = outer(u, u) + outer(w, w)
    turn = c * plane + s * (outer(w, u) - outer(u, w))
    return torch.eye(len(a), dtype=a.dtype) - plane + turn


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


def _difference_at_v(mix, v):
    """Slopes at 0 instead of the answers to the identity."""
    eye = torch.eye(len(v), dtype=v.dtype)
    alpha = mix(1e-6 * eye) / 1e-6
    return alpha, (mix(v) - alpha @ v).norm() / mix(v).norm()


def _rest(mix, v, *, epsilon=0.0, fitted=False, transposed=False, whole=True):
    alpha = mix(v) @ torch.linalg.pinv(v) if fitted else mix(torch.eye(len(v), dtype=v.dtype))
    alpha = alpha.T if transposed else alpha
    rest = (mix(v) - alpha @ v).norm()
    return alpha, rest / (mix(v).norm() + epsilon) if whole else rest


# -- induction score


def _last_copy_only(alpha, tokens):
    found = []
    for i in range(len(tokens)):
        earlier = (tokens[:i] == tokens[i]).nonzero().flatten()
        if len(earlier):
            found.append(alpha[i, earlier[-1] + 1])
    return torch.stack(found).mean()


def _one_hot(alpha, tokens):
    words = torch.nn.functional.one_hot(tokens, 100).double()
    before = torch.cat([torch.zeros_like(words[:1]), words[:-1]])
    target = (words @ before.T).tril()
    return (alpha * target).sum(-1)[target.any(-1)].mean()


def _over_all_rows(alpha, tokens):
    before = torch.cat([tokens.new_tensor([-1]), tokens[:-1]])
    return (alpha * (tokens[:, None] == before).tril()).sum(-1).mean()


def _on_the_copy(alpha, tokens):
    target = (tokens[:, None] == tokens).tril(-1)
    return (alpha * target).sum(-1)[target.any(-1)].mean()


def _mean_per_entry(alpha, tokens):
    before = torch.cat([tokens.new_tensor([-1]), tokens[:-1]])
    return alpha[(tokens[:, None] == before).tril()].mean()


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
        "normalizes the key": lambda S, z, q, k, v, a: _affine(S, z, q, normalize(k, dim=0), v, a),
        "decays through a logarithm of at least 1e-6": lambda S, z, q, k, v, a: _affine(
            S, z, q, k, v, a.clamp(min=1e-6).log().exp()
        ),
        "decays the constant part": lambda S, z, q, k, v, a: _affine(S, a.mean() * z, q, k, v, a),
        "adds 1 to the output": lambda **x: _affine_with(**x, constant=1.0),
        "leaves the constant part out": lambda **x: _affine_with(**x, constant=0.0),
        "reads the constant part before": lambda **x: _affine_with(**x, constant=x["z"]),
    },
    "worst drift": {
        "divides by the cosine": lambda q, k, rho: (
            (k @ q) * (1 + rho / ((k @ q) / (k.norm(dim=-1) * q.norm())))
        ),
        "normalizes the query by hand": lambda q, k, rho: (
            (k + rho * k.norm(dim=-1, keepdim=True) * q / q.norm()) @ q
        ),
        "takes keys of length 1": lambda q, k, rho: k @ q + rho * q.norm(),
        "takes a query of length 1": lambda q, k, rho: k @ q + rho * k.norm(dim=-1),
        "drifts along the key": lambda q, k, rho: (1 + rho) * (k @ q),
    },
    "zeros of features": {
        "divides by p": lambda p, r, n: (p * (1 + r / p - r)) ** n,
        "asks for both": lambda p, r, n: (p * r) ** n,
        "counts twice": lambda p, r, n: (p + r) ** n,
        "asks for one channel": lambda p, r, n: p + r - p * r,
        "asks for a whole vector": lambda p, r, n: p**n + r**n - (p * r) ** n,
    },
    "silencing query": {
        "solves normal equations": _normal_equations,
        "divides by the lengths": _divides_by_lengths,
        "removes key after key": _one_after_another,
        "takes keys for a basis": lambda q, k: q - k.T @ (k @ q),
        "inverts a square of keys": lambda q, k: (
            q - k.T @ torch.linalg.inv(k @ k.T + 1e-12 * torch.eye(len(k)).double()) @ (k @ q)
        ),
    },
    "two copies": {
        "undoes steps by inverses": _through_inverses,
        "moves a key in its own step": lambda A, h, j, later: _product(A, j - 1, later) @ h - h,
        "leaves the last step out": lambda A, h, j, later: _product(A, j, later - 1) @ h - h,
        "multiplies from the right": lambda A, h, j, later: h @ _product(A, j, later) - h,
        "subtracts the older": lambda A, h, j, later: h - _product(A, j, later) @ h,
    },
    "mirror": {
        "goes through a + b": _swaps_in_the_plane,
        "adds an epsilon": lambda a, b: _mirror(a, b, epsilon=1e-12),
        "turns instead": _rotation,
        "mirrors at the sum": _mirror_of_the_sum,
        "projects": lambda a, b: _mirror(a, b, beta=1.0),
    },
    "unit variance": {
        "adds an epsilon": lambda T_q, T_k: (
            1 / ((T_q @ T_q.T @ T_k @ T_k.T).trace() + 1e-12).sqrt()
        ),
        "takes 1/sqrt(n)": lambda T_q, T_k: torch.tensor(len(T_q)).double() ** -0.5,
        "forgets the root": lambda T_q, T_k: 1 / (T_q @ T_q.T @ T_k @ T_k.T).trace(),
        "multiplies traces": lambda T_q, T_k: 1 / (T_q.norm() * T_k.norm()),
        "lets a token read itself": lambda T_q, T_k: 1 / (T_q * T_k).sum().abs(),
        "multiplies eigenvalues": lambda T_q, T_k: (
            (torch.linalg.eigvalsh(T_q @ T_q.T) * torch.linalg.eigvalsh(T_k @ T_k.T)).sum() ** -0.5
        ),
    },
    "system step": {
        "goes through logarithms": lambda h, A, k, v, eta_before, eta: (
            (eta_before.log() - eta.log()).exp() * A @ h + outer(k, v) / eta
        ),
        "turns the quotient round": lambda h, A, k, v, eta_before, eta: (
            eta / eta_before * A @ h + outer(k, v) / eta
        ),
        "divides the token by the older divisor": lambda h, A, k, v, eta_before, eta: (
            eta_before / eta * A @ h + outer(k, v) / eta_before
        ),
        "writes undivided": lambda h, A, k, v, eta_before, eta: (
            eta_before / eta * A @ h + outer(k, v)
        ),
        "divides twice": lambda h, A, k, v, eta_before, eta: (A @ h + outer(k, v)) / eta,
    },
    "eigenvalues of a step": {
        "asks an eigensolver": lambda **x: torch.linalg.eigvalsh(_matrix(**x)),
        "asks for complex ones": lambda **x: torch.linalg.eigvals(_matrix(**x)),
        "divides by the length of z": _by_a_quotient,
        "takes z for a unit vector": lambda z, beta, a, ratio: _along_and_rest(
            ratio * a * (1 - beta), ratio * a, len(z)
        ),
        "takes sizes": lambda z, beta, a, ratio: _along_and_rest(
            ratio * a * (1 - beta * z @ z).abs(), ratio * a, len(z)
        ),
        "lets the rest at 1": lambda z, beta, a, ratio: _along_and_rest(
            ratio * a * (1 - beta * z @ z), torch.ones(1).double(), len(z)
        ),
    },
    "row backwards": {
        "forms matrices": _all_matrices,
        "divides decays": _decays_by_quotients,
        "limits beta": lambda q, k, beta, a: _backwards(q, k, beta.clamp(max=1), a),
        "moves a key in its own step": lambda **x: _backwards(**x, own=True),
        "goes forwards": lambda **x: _backwards(**x, order=iter),
    },
    "reading off": {
        "adds an epsilon": lambda mix, v: _rest(mix, v, epsilon=1e-8),
        "takes slopes at 0": _difference_at_v,
        "fits v": lambda mix, v: _rest(mix, v, fitted=True),
        "transposes": lambda mix, v: _rest(mix, v, transposed=True),
        "measures no share": lambda mix, v: _rest(mix, v, whole=False),
    },
    "what is left of a key": {
        "multiplies quotients of lengths": lambda **x: _lengths(**x, divide=True),
        "begins with the own step": lambda **x: _lengths(**x, first=0)[1:],
        "leaves erasing out": lambda k, beta, a, j: torch.cat(
            [torch.ones(1).double(), a[j + 1 :].cumprod(0)]
        ),
        "leaves the gates out": lambda k, beta, a, j: _lengths(k, beta, torch.ones_like(a), j),
        "starts one step late": lambda **x: _lengths(**x, first=2),
    },
    "a window and a sink": {
        "keeps the old divisor": lambda alpha, v, window, sink: (
            _cut(alpha, v, window, sink, old_divisor=True) - _uncut(alpha, v)
        ),
        "keeps a token too many": lambda alpha, v, window, sink: (
            _cut(alpha, v, window + 1, sink) - _uncut(alpha, v)
        ),
        "forgets the sink": lambda alpha, v, window, sink: (
            _cut(alpha, v, window, 0) - _uncut(alpha, v)
        ),
        "gives the new y": _cut,
        "always keeps the first token": lambda alpha, v, window, sink: (
            _cut(alpha, v, window, 1) - _uncut(alpha, v)
        ),
    },
    "induction score": {
        "looks at the last copy only": _last_copy_only,
        "needs small token numbers": _one_hot,
        "averages over all rows": _over_all_rows,
        "looks at the copy itself": _on_the_copy,
        "averages over entries": _mean_per_entry,
    },
}
