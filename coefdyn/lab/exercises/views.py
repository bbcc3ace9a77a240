"""Exercises of the second view and of designs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.nn.functional import normalize

from coefdyn.lab.exercises.demands import no_eigensolver, no_large_tensor
from coefdyn.lab.exercises.exercise import Exercise, Twist, register
from coefdyn.lab.exercises.hidden import SIZES, Arguments, draw, numbers, on, put, tokens_of
from coefdyn.shapes import Tensor

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


# -- hard cases


def _long_backwards(length: int) -> Arguments:
    found = tokens_of(length, 2 * length, k=2, beta=1, a=1)
    return {
        "q": found["k"][0] * 1.0,
        "k": found["k"] / found["k"].norm(dim=-1, keepdim=True),
        "beta": found["beta"].sigmoid(),
        "a": found["a"].sigmoid(),
    }


def _long_step(length: int) -> Arguments:
    one = torch.tensor(0.9, dtype=torch.float64)
    return {"z": tokens_of(length, 1, z=1)["z"], "beta": one, "a": one * 1.0, "ratio": one * 1.0}


register(
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
        hard={
            "a negative eta_before": Twist(
                change=put(eta_before=lambda x: -x["eta_before"]),
                hint="a row sum may be negative; no logarithm, no absolute value.",
            ),
            "A = 0": Twist(
                change=put(A=lambda x: 0 * x["A"]),
                hint="after A = 0 the state is the new token alone, divided by eta.",
            ),
        },
    ),
    Exercise(
        name="eigenvalues of a step",
        inputs=_moduli_inputs,
        solution=_eigenvalues,
        returns="a tensor of shape (n,): the eigenvalue along z first, then the n - 1 others",
        mistakes={
            "z need not have length 1; its square belongs to beta.": on(
                _eigenvalues, z=lambda x: normalize(x["z"], dim=0)
            ),
            "the change of the divisor multiplies every eigenvalue.": on(
                _eigenvalues, ratio=lambda x: torch.ones_like(x["ratio"])
            ),
            "what stands at a right angle to z still fades, and is divided anew.": _rest_at_one,
            "an eigenvalue has a sign; where beta z^T z exceeds 1 the key is turned over.": _moduli,
        },
        hard={
            "z = 0": Twist(
                change=put(z=lambda x: 0 * x["z"]),
                hint="with z = 0 nothing is erased: every eigenvalue is ratio a.",
            ),
            "beta z^T z = 2": Twist(
                change=put(z=numbers(1, -1, 1, -1), beta=numbers(0.5)),
                hint="the eigenvalue along z comes first, with its sign, whatever its size.",
            ),
        },
        demands={"the way to them": no_eigensolver(_long_step)},
    ),
    Exercise(
        name="row backwards",
        inputs=_backwards_inputs,
        solution=_backwards,
        returns="the scores, a tensor of shape (L,)",
        mistakes={
            "a key is not moved in its own step: score it first, then move the query.": partial(
                _backwards, own=True
            ),
            "the part along the erased key has to leave the query.": on(
                _backwards, beta=lambda x: torch.zeros_like(x["beta"])
            ),
            "each step also fades by a.": on(_backwards, a=lambda x: torch.ones_like(x["a"])),
            "the last step acts last on a key, so it meets the query first: go backwards.": (
                _forwards
            ),
        },
        hard={
            "a decay of 0 and beta = 2": Twist(
                change=put(
                    a=lambda x: x["a"].index_fill(0, torch.tensor([5]), 0.0),
                    beta=lambda x: torch.full_like(x["beta"], 2.0),
                ),
                hint="keys before a = 0 have the score 0; undo no step, and do not limit beta.",
            ),
        },
        demands={"the numbers that are kept": no_large_tensor(_long_backwards, 8192)},
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
        hard={
            "values of size 1e-7": Twist(
                change=put(v=lambda x: 1e-7 * x["v"]),
                hint="the rest is relative, whatever the size of the output; no epsilon.",
            ),
        },
    ),
)
