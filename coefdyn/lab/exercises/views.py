"""Exercises of the second view, of designs and of trained models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.functional import normalize

from coefdyn.lab.exercises.exercise import Exercise
from coefdyn.lab.exercises.hidden import SIZES, draw
from coefdyn.shapes import Tensor

__all__ = ["VIEWS"]


# -- one state instead of many keys: a step with the divisor inside


def _system_inputs(case: int) -> dict[str, Any]:
    _, n, d_v = SIZES[case]
    h, A, k, v, eta = draw(case, (n, d_v), (n, n), (n,), (d_v,), (2,))
    before, now = eta.exp()
    return {"h": h, "A": A, "k": k, "v": v, "eta_before": before, "eta": now}


def _system(h: Tensor, A: Tensor, k: Tensor, v: Tensor, eta_before: Tensor, eta: Tensor) -> Tensor:
    return (eta_before * A @ h + torch.outer(k, v)) / eta


def _upside_down(
    h: Tensor, A: Tensor, k: Tensor, v: Tensor, eta_before: Tensor, eta: Tensor
) -> Tensor:
    return eta / eta_before * A @ h + torch.outer(k, v) / eta


def _as_printed(
    h: Tensor, A: Tensor, k: Tensor, v: Tensor, eta_before: Tensor, eta: Tensor
) -> Tensor:
    return eta_before / eta * A @ h + torch.outer(k, v) / eta_before


def _writes_undivided(
    h: Tensor, A: Tensor, k: Tensor, v: Tensor, eta_before: Tensor, eta: Tensor
) -> Tensor:
    return eta_before / eta * A @ h + torch.outer(k, v)


def _divides_twice(
    h: Tensor, A: Tensor, k: Tensor, v: Tensor, eta_before: Tensor, eta: Tensor
) -> Tensor:
    return (A @ h + torch.outer(k, v)) / eta


# -- eigenvalues read off the structure


def _moduli_inputs(case: int) -> dict[str, Any]:
    _, n, _ = SIZES[case]
    z, g = draw(case, (n,), (3,))
    return {"z": z, "beta": 2 * g[0].sigmoid(), "a": g[1].sigmoid(), "ratio": g[2].exp()}


def _eigenvalues(z: Tensor, beta: Tensor, a: Tensor, ratio: Tensor) -> Tensor:
    along = 1 - beta * (z @ z)
    return ratio * a * torch.cat([along[None], torch.ones(len(z) - 1, dtype=z.dtype)])


def _unit_direction(z: Tensor, beta: Tensor, a: Tensor, ratio: Tensor) -> Tensor:
    return _eigenvalues(normalize(z, dim=0), beta, a, ratio)


def _without_ratio(z: Tensor, beta: Tensor, a: Tensor, ratio: Tensor) -> Tensor:
    return _eigenvalues(z, beta, a, torch.ones_like(ratio))


def _rest_at_one(z: Tensor, beta: Tensor, a: Tensor, ratio: Tensor) -> Tensor:
    found = _eigenvalues(z, beta, a, ratio)
    return torch.cat([found[:1], torch.ones_like(found[1:])])


def _moduli(z: Tensor, beta: Tensor, a: Tensor, ratio: Tensor) -> Tensor:
    return _eigenvalues(z, beta, a, ratio).abs()


# -- a mixer of your own: one row of scores, from the query backwards


def _backwards_inputs(case: int) -> dict[str, Any]:
    L, n, _ = SIZES[case]
    q, k, beta, a = draw(case, (n,), (L, n), (L,), (L,))
    return {"q": q, "k": normalize(k, dim=-1), "beta": beta.sigmoid(), "a": a.sigmoid()}


def _backwards(q: Tensor, k: Tensor, beta: Tensor, a: Tensor, *, own: bool = False) -> Tensor:
    """Scores of q on all keys; with ``own`` a token's step moves its own key too."""
    scores = []
    for j in reversed(range(len(k))):
        moved = a[j] * (q - beta[j] * (k[j] @ q) * k[j])
        scores.append((moved if own else q) @ k[j])
        q = moved
    return torch.stack(scores[::-1])


def _moved_by_own_step(q: Tensor, k: Tensor, beta: Tensor, a: Tensor) -> Tensor:
    return _backwards(q, k, beta, a, own=True)


def _erases_nothing(q: Tensor, k: Tensor, beta: Tensor, a: Tensor) -> Tensor:
    return _backwards(q, k, torch.zeros_like(beta), a)


def _fades_nothing(q: Tensor, k: Tensor, beta: Tensor, a: Tensor) -> Tensor:
    return _backwards(q, k, beta, torch.ones_like(a))


def _forwards(q: Tensor, k: Tensor, beta: Tensor, a: Tensor) -> Tensor:
    """Scores with the query moved by the first steps first."""
    scores = []
    for key, b, decay in zip(k, beta, a, strict=True):
        scores.append(q @ key)
        q = decay * (q - b * (key @ q) * key)
    return torch.stack(scores)


# -- rows: has a mixer coefficients at all?

Mixer = Callable[[Tensor], Tensor]


def _mixer_inputs(case: int) -> dict[str, Any]:
    """Maps of values, linear in the first two cases and nonlinear in the others."""
    L, _, d_v = SIZES[case]
    alpha, v = draw(case, (L, L), (L, d_v))
    alpha, bend = alpha.tril(), 0.3 if case > 1 else 0.0
    return {"mix": lambda u: alpha @ u + bend * (alpha @ u).tanh(), "v": v}


def _read_off(mix: Mixer, v: Tensor) -> tuple[Tensor, Tensor]:
    alpha = mix(torch.eye(len(v), dtype=v.dtype))
    return alpha, (mix(v) - alpha @ v).norm() / mix(v).norm()


def _read_off_transposed(mix: Mixer, v: Tensor) -> tuple[Tensor, Tensor]:
    alpha = mix(torch.eye(len(v), dtype=v.dtype)).T
    return alpha, (mix(v) - alpha @ v).norm() / mix(v).norm()


def _absolute(mix: Mixer, v: Tensor) -> tuple[Tensor, Tensor]:
    alpha, share = _read_off(mix, v)
    return alpha, share * mix(v).norm()


def _fitted(mix: Mixer, v: Tensor) -> tuple[Tensor, Tensor]:
    alpha = mix(v) @ torch.linalg.pinv(v)
    return alpha, (mix(v) - alpha @ v).norm() / mix(v).norm()


# -- a trained model: what is left of a stored key


def _left_inputs(case: int) -> dict[str, Any]:
    L, n, _ = SIZES[case]
    k, beta, a = draw(case, (L, n), (L,), (L,))
    return {
        "k": normalize(k, dim=-1),
        "beta": beta.sigmoid(),
        "a": a.sigmoid(),
        "j": min(case, L - 2),
    }


def _left(k: Tensor, beta: Tensor, a: Tensor, j: int) -> Tensor:
    h, lengths = k[j], [k[j].norm()]
    for t in range(j + 1, len(k)):
        h = a[t] * (h - beta[t] * (k[t] @ h) * k[t])
        lengths.append(h.norm())
    return torch.stack(lengths)


def _left_by_gates(k: Tensor, beta: Tensor, a: Tensor, j: int) -> Tensor:
    return _left(k, torch.zeros_like(beta), a, j)


def _left_by_erasure(k: Tensor, beta: Tensor, a: Tensor, j: int) -> Tensor:
    return _left(k, beta, torch.ones_like(a), j)


def _left_after_own(k: Tensor, beta: Tensor, a: Tensor, j: int) -> Tensor:
    """Share that is left when a key's own step acts on it too."""
    first = a[j] * (1 - beta[j])
    return first.abs() * _left(k, beta, a, j)


def _left_along(k: Tensor, beta: Tensor, a: Tensor, j: int) -> Tensor:
    h, along = k[j], [k[j] @ k[j]]
    for t in range(j + 1, len(k)):
        h = a[t] * (h - beta[t] * (k[t] @ h) * k[t])
        along.append(h @ k[j])
    return torch.stack(along)


# -- heads: the induction score


def _induction_inputs(case: int) -> dict[str, Any]:
    """Sequences with repeated tokens; the second case has one repeated immediately."""
    length = SIZES[case][0]
    tokens = torch.arange(length).repeat(2)
    if case == 1:
        tokens[2] = tokens[1]
    (scores,) = draw(case, (2 * length, 2 * length))
    above = torch.ones_like(scores).triu(1).bool()
    return {"alpha": scores.masked_fill(above, -torch.inf).softmax(-1), "tokens": tokens}


def _score(alpha: Tensor, target: Tensor) -> Tensor:
    target = target.tril()
    return (alpha * target).sum(-1)[target.any(-1)].mean()


def _followers(tokens: Tensor) -> Tensor:
    """Mask of the columns j whose preceding token is that of row i."""
    before = torch.cat([tokens.new_tensor([-1]), tokens[:-1]])
    return tokens[:, None] == before


def _induction(alpha: Tensor, tokens: Tensor) -> Tensor:
    return _score(alpha, _followers(tokens))


def _same_word(alpha: Tensor, tokens: Tensor) -> Tensor:
    return _score(alpha, (tokens[:, None] == tokens).tril(-1))


def _word_before(alpha: Tensor, tokens: Tensor) -> Tensor:
    after = torch.cat([tokens[1:], tokens.new_tensor([-1])])
    return _score(alpha, (tokens[:, None] == after).tril(-2))


def _all_rows(alpha: Tensor, tokens: Tensor) -> Tensor:
    return (alpha * _followers(tokens).tril()).sum(-1).mean()


# -- the change of y where a head keeps a window and a sink


def _cut_inputs(case: int) -> dict[str, Any]:
    length, _, d_v = SIZES[case]
    scores, v = draw(case, (length, length), (length, d_v))
    return {"alpha": scores.exp().tril(), "v": v, "window": 2, "sink": 1}


def _kept(length: int, window: int, sink: int) -> Tensor:
    place = torch.arange(length)
    return (place[:, None] - place < window) | (place < sink)


def _mixed(alpha: Tensor, v: Tensor) -> Tensor:
    return alpha / alpha.sum(-1, keepdim=True) @ v


def _change(alpha: Tensor, v: Tensor, window: int, sink: int) -> Tensor:
    return _mixed(alpha * _kept(len(alpha), window, sink), v) - _mixed(alpha, v)


def _old_divisor(alpha: Tensor, v: Tensor, window: int, sink: int) -> Tensor:
    weights = alpha / alpha.sum(-1, keepdim=True)
    return (weights * _kept(len(alpha), window, sink) - weights) @ v


def _one_too_many(alpha: Tensor, v: Tensor, window: int, sink: int) -> Tensor:
    return _change(alpha, v, window + 1, sink)


def _no_sink(alpha: Tensor, v: Tensor, window: int, sink: int) -> Tensor:
    return _change(alpha, v, window, 0)


def _what_is_left(alpha: Tensor, v: Tensor, window: int, sink: int) -> Tensor:
    return _mixed(alpha * _kept(len(alpha), window, sink), v)


VIEWS = (
    Exercise(
        name="system step",
        inputs=_system_inputs,
        solution=_system,
        returns="the new state h, a tensor of shape (n, d_v)",
        mistakes={
            "the state comes divided by eta_before; multiply by it and divide by eta.": (
                _upside_down
            ),
            "the new token is divided by its own eta, not by the one before.": _as_printed,
            "what is written now is divided by eta as well.": _writes_undivided,
            "the incoming state is divided already; take eta_before out of it first.": (
                _divides_twice
            ),
        },
    ),
    Exercise(
        name="eigenvalues of a step",
        inputs=_moduli_inputs,
        solution=_eigenvalues,
        returns="a tensor of shape (n,): the eigenvalue along z first, then the n - 1 others",
        mistakes={
            "z need not have length 1; its square belongs to beta.": _unit_direction,
            "the change of the divisor multiplies every eigenvalue.": _without_ratio,
            "what stands at a right angle to z still fades, and is divided anew.": _rest_at_one,
            "an eigenvalue has a sign; where beta z^T z exceeds 1 the key is turned over.": _moduli,
        },
    ),
    Exercise(
        name="row backwards",
        inputs=_backwards_inputs,
        solution=_backwards,
        returns="the scores, a tensor of shape (L,)",
        mistakes={
            "a key is not moved in its own step: score it first, then move the query.": (
                _moved_by_own_step
            ),
            "the part along the erased key has to leave the query.": _erases_nothing,
            "each step also fades by a.": _fades_nothing,
            "the last step acts last on a key, so it meets the query first: go backwards.": (
                _forwards
            ),
        },
    ),
    Exercise(
        name="reading off",
        inputs=_mixer_inputs,
        solution=_read_off,
        returns="(alpha, rest): the coefficients (L, L), and a number as a tensor without axes",
        mistakes={
            "row i of alpha says what output i takes from each value; this is the transpose.": (
                _read_off_transposed
            ),
            "the rest is relative: divide by the length of the whole output.": _absolute,
            "one input of d_v columns fits many matrices; feed the identity instead.": _fitted,
        },
    ),
    Exercise(
        name="what is left of a key",
        inputs=_left_inputs,
        solution=_left,
        returns="lengths, a tensor of shape (L - j,) that begins with 1",
        mistakes={
            "that is what the gates alone would leave; keys that came later erase too.": (
                _left_by_gates
            ),
            "later steps also fade by their gate.": _left_by_erasure,
            "a key is not moved in its own step; begin at j + 1.": _left_after_own,
            "that is what is left along the key's old direction; its length is asked for.": (
                _left_along
            ),
        },
    ),
    Exercise(
        name="induction score",
        inputs=_induction_inputs,
        solution=_induction,
        returns="a number, as a tensor without axes",
        mistakes={
            "that is the weight on the earlier copy; look at the token behind it.": _same_word,
            "that is the token before the earlier copy; look at the one behind it.": _word_before,
            "rows whose token has no earlier copy have nothing to find; leave them out.": (
                _all_rows
            ),
        },
    ),
    Exercise(
        name="a window and a sink",
        inputs=_cut_inputs,
        solution=_change,
        returns="the change of y, a tensor of shape (L, d_v)",
        mistakes={
            "the divisor is the sum of the coefficients that are left.": _old_divisor,
            "the token itself is one of the window's tokens.": _one_too_many,
            "the first tokens are kept as well.": _no_sink,
            "that is the new y; its difference to the old one is asked for.": _what_is_left,
        },
    ),
)
