"""Exercises on trained models: stored keys, heads, and what a cache keeps."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import normalize

from coefdyn.lab.exercises.exercise import Exercise, Twist, register
from coefdyn.lab.exercises.hidden import SIZES, Arguments, draw, on, put
from coefdyn.shapes import Tensor

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


def _what_is_left(alpha: Tensor, v: Tensor, window: int, sink: int) -> Tensor:
    return _mixed(alpha * _kept(len(alpha), window, sink), v)


# -- hard cases


def _three_times(x: Arguments) -> Tensor:
    """Words of which one occurs three times, numbered as in a large vocabulary."""
    tokens = 50_000 + x["tokens"]
    tokens[-2] = tokens[1]
    return tokens


def _repeated(x: Arguments) -> Arguments:
    """A word that is written twice, the second time with beta = 1."""
    k, beta, j = x["k"].clone(), x["beta"].clone(), x["j"]
    k[j] = k[j + 1] = torch.eye(4, dtype=k.dtype)[0]
    beta[j + 1] = 1.0
    return {**x, "k": k, "beta": beta}


register(
    Exercise(
        name="what is left of a key",
        inputs=_left_inputs,
        solution=_left,
        returns="lengths, a tensor of shape (L - j,) that begins with 1",
        mistakes={
            "that is what the gates alone would leave; keys that came later erase too.": on(
                _left, beta=lambda x: torch.zeros_like(x["beta"])
            ),
            "later steps also fade by their gate.": on(_left, a=lambda x: torch.ones_like(x["a"])),
            "a key is not moved in its own step; begin at j + 1.": _left_after_own,
            "that is what is left along the key's old direction; its length is asked for.": (
                _left_along
            ),
        },
        hard={
            "the same key again, with beta = 1": Twist(
                change=_repeated, hint="nothing may be left: lengths of exactly 0, and no division."
            ),
            "the last token": Twist(
                change=put(j=lambda x: len(x["k"]) - 1),
                hint="nothing comes after the last token, so lengths has one entry, 1.",
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
        hard={
            "a token that occurs three times, large token numbers": Twist(
                change=put(tokens=_three_times),
                hint="add the weights behind all earlier copies; token numbers are only compared.",
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
            "the token itself is one of the window's tokens.": on(
                _change, window=lambda x: x["window"] + 1
            ),
            "the first tokens are kept as well.": on(_change, sink=lambda x: 0),
            "that is the new y; its difference to the old one is asked for.": _what_is_left,
        },
        hard={
            "a window of 3 and no sink": Twist(
                change=put(window=lambda x: 3, sink=lambda x: 0),
                hint="the sizes of the window and of the sink are arguments; either may be "
                "another.",
            ),
        },
    ),
)
