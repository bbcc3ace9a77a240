"""The explorer's tokens and gates, and the ``CoefficientDynamics`` they make.

``js/tokens.js`` and ``js/ingredients.js`` hold the same arithmetic, operation for operation. Draws
are sums of 32-bit integers, rounded to three decimals, so both languages get the same numbers.

    A_t = s a_t (I - beta_t z_t z_t^T), with the parts that the structure has, or
    A_t = s (I - beta_t z_t z_t^T) diag(a_t), s (I - z_t (r_t z_t)^T) diag(a_t) or
        s (diag(a_t) - (r_t z_t) z_t^T): erased_diagonal, erased_channels and diagonal_rank_one,
        where r_t is beta_t drawn for each channel
    log a_t = log(decay) (1 + variation u_t);  diagonal: channel c times
        1 + spread ((2c + 1)/n - 1)
    beta_t = beta + variation u_t min(beta, 2 - beta)

The u_t are uniform in (-1, 1) and belong to the token, so equal tokens have equal gates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from coefdyn import CoefficientDynamics, evolution, mask, normalizer, readout
from coefdyn.dynamics.evolution import Evolution
from coefdyn.dynamics.normalizer import Normalizer
from coefdyn.dynamics.readout import FeatureMap, Readout
from coefdyn.shapes import Tensor
from coefdyn.widgets.draws import STREAM, draw_key, draw_normal, draw_uniform, round_milli
from coefdyn.widgets.facts import FactToken, directions, parse_facts

__all__ = ["READOUTS", "DrawnTokens", "build_dynamics", "decay_of"]

_VOCABULARY = 5

READOUTS: Mapping[str, Readout] = {
    "identity": readout.identity,
    "exp": readout.exp,
    "relu": readout.relu,
    "softplus": readout.softplus,
    "feature_elu": FeatureMap(lambda x: functional.elu(x) + 1, name="elu + 1"),
    "feature_relu": FeatureMap(torch.relu, name="relu"),
    "feature_softplus": FeatureMap(functional.softplus, name="softplus"),
    "feature_exp": FeatureMap(torch.exp, name="exp"),
}
"""phi by the explorer's name for it."""


@dataclass(frozen=True)
class DrawnTokens:
    """Everything drawn for complete settings. Arrays are float64 tensors."""

    settings: Mapping[str, Any]

    @property
    def identities(self) -> list[int]:
        """Identity of each position; equal numbers are equal inputs."""
        s = self.settings
        if s["tokens"] == "facts":
            listed = self.facts
            seen = list(dict.fromkeys((t.word, t.key, t.query) for t in listed))
            return [seen.index((t.word, t.key, t.query)) for t in listed]
        ids = list(range(s["length"]))
        if s["tokens"] == "repeating":
            word = STREAM["word"]
            ids = [draw_key(s["seed"], word, t, 0) % _VOCABULARY for t in ids]
        return self._repeat(ids)

    def _repeat(self, listed: list[Any]) -> list[Any]:
        """Repeat token j where the reader wants a copy."""
        if self.settings["duplicate"]:
            listed[self.settings["duplicate"] - 1] = listed[self.settings["column"] - 1]
        return listed

    @property
    def facts(self) -> list[FactToken]:
        """The tokens of the reader's text."""
        return self._repeat(list(parse_facts(self.settings["text"])))

    @property
    def words(self) -> list[str]:
        """Labels on the axes of the matrix at each position."""
        if self.settings["tokens"] == "facts":
            return [token.word for token in self.facts]
        ids = self.identities
        if self.settings["tokens"] == "repeating":
            return ["abcde"[m] for m in ids]
        return [str(m + 1) for m in ids]

    @property
    def values(self) -> list[str | None]:
        """The word that each position carries as its value; None carries nothing."""
        if self.settings["tokens"] == "facts":
            return [token.value for token in self.facts]
        return list(self.words)

    def gates(self, name: str, channels: int = 1) -> np.ndarray:
        """Gates u, ``(L, channels)``, of one stream."""
        seed, stream = self.settings["seed"], STREAM[name]
        return np.array(
            [[draw_uniform(seed, stream, t, c) for c in range(channels)] for t in self.identities]
        )

    def queries_keys(self) -> tuple[Tensor, Tensor]:
        """Queries and keys, ``(L, n)``. A query leans towards its own token's key."""
        s = self.settings
        width, seed = s["width"], s["seed"]
        if s["tokens"] == "facts":
            return self._placed(*directions(self.facts, width, seed))
        ids = self.identities

        def normals(stream: str) -> list[list[float]]:
            return [[draw_normal(seed, STREAM[stream], t, c) for c in range(width)] for t in ids]

        keys, noise = normals("key"), normals("query")
        queries = [
            [round_milli(0.8 * k + 0.6 * e) for k, e in zip(*pair, strict=True)]
            for pair in zip(keys, noise, strict=True)
        ]
        return self._placed(queries, keys)

    def _placed(self, queries: list[Any], keys: list[Any]) -> tuple[Tensor, Tensor]:
        """Queries and keys with the points that the reader has dragged, as tensors ``(L, n)``."""
        s = self.settings
        width = s["width"]
        for name, values in s["points"].items():
            t = int(name[1:]) - 1
            if t < s["length"]:
                target = queries if name[0] == "q" else keys
                target[t][: len(values)] = [float(x) for x in values[:width]]
        return torch.tensor(queries, dtype=torch.float64), torch.tensor(keys, dtype=torch.float64)

    def betas(self) -> Tensor:
        """beta_t, ``(L,)``."""
        return self._betas(1)[:, 0]

    def rates(self) -> Tensor:
        """beta_t of every channel, ``(L, n)``."""
        return self._betas(self.settings["width"])

    def _betas(self, channels: int) -> Tensor:
        beta, variation = self.settings["beta"], self.settings["variation"]
        return _tensor(beta + variation * self.gates("beta", channels) * min(beta, 2 - beta))

    def steps(self) -> Tensor:
        """log a_t of the scalar decay, ``(L,)``, in nats per token."""
        rate = math.log(self.settings["decay"])
        return _tensor(rate * (1 + self.settings["variation"] * self.gates("decay")[:, 0]))

    def channel_decays(self) -> Tensor:
        """log a_t of the diagonal decay, ``(L, n)``."""
        s = self.settings
        channels = 1 + s["spread"] * ((2 * np.arange(s["width"]) + 1) / s["width"] - 1)
        gates = 1 + s["variation"] * self.gates("decay", s["width"])
        return _tensor(math.log(s["decay"]) * channels * gates)

    def directions(self, keys: Tensor) -> Tensor:
        """z_t, ``(L, n)``, of length one; zero where a word stores nothing under its key."""
        s = self.settings
        length, width = keys.shape
        turn = math.radians(1) * s["angle"] * torch.ones(length, dtype=torch.float64)
        if s["direction"] == "turning":
            turn = turn * torch.arange(1, length + 1, dtype=torch.float64)
        first = torch.zeros(length, width, dtype=torch.float64)
        first[:, 0] = 1
        if s["direction"] == "key":
            norm = keys.norm(dim=-1, keepdim=True)
            if s["tokens"] == "facts":
                first = torch.zeros_like(first)
            first = torch.where(norm > 0, keys / norm.clamp(min=1e-300), first)
        return _rotate_pairs(first, turn)


def _tensor(array: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.float64))


def _rotate_pairs(rows: Tensor, turn: Tensor) -> Tensor:
    """Rotate the planes (1, 2), (3, 4), ...; an odd last coordinate stays."""
    out = rows.clone()
    even = rows.shape[-1] // 2 * 2
    x, y = rows[:, 0:even:2], rows[:, 1:even:2]
    cos, sin = torch.cos(turn)[:, None], torch.sin(turn)[:, None]
    out[:, 0:even:2] = cos * x - sin * y
    out[:, 1:even:2] = sin * x + cos * y
    return out


def _evolution(tokens: DrawnTokens, keys: Tensor) -> Evolution:
    s = tokens.settings
    structure = s["structure"]
    if structure == "identity":
        return evolution.Identity()
    if structure in ("diagonal", "erased_diagonal", "erased_channels", "diagonal_rank_one"):
        decay = tokens.channel_decays()
        sign = _sign(s, decay)
        if structure == "diagonal":
            return evolution.Diagonal(log_decay=decay, sign=sign)
        whole = 1 if sign is None else sign
        left, right = rank_one_of(tokens, keys)
        return evolution.DiagonalPlusRankOne(
            log_decay=decay, left=whole * left, right=right, sign=sign
        )
    steps = tokens.steps()
    if structure == "scalar":
        return evolution.Scalar(log_decay=steps, sign=_sign(s, steps))
    z, beta = tokens.directions(keys), tokens.betas()
    scaled = {"log_decay": steps, "sign": _sign(s, steps)} if structure != "householder" else {}
    return evolution.Householder(direction=z, beta=beta, **scaled)


def rank_one_of(tokens: DrawnTokens, keys: Tensor) -> tuple[Tensor, Tensor]:
    """left_t and right_t of an A_t that erases beside a diagonal, ``(L, n)`` each."""
    z, structure = tokens.directions(keys), tokens.settings["structure"]
    if structure == "diagonal_rank_one":
        return tokens.rates() * z, z
    faded = tokens.channel_decays().exp() * z
    if structure == "erased_channels":
        return z, tokens.rates() * faded
    return tokens.betas()[:, None] * z, faded


def _sign(settings: Mapping[str, Any], like: Tensor) -> Tensor | None:
    return -torch.ones_like(like) if settings["flip"] else None


def _scaling(tokens: DrawnTokens) -> tuple[float | Tensor, Tensor | None]:
    """Scaling b_j, and its logarithm where it is an exponential gate."""
    s = tokens.settings
    root = math.sqrt(s["width"])
    if s["scaling"] == "exponential":
        return s["scale"] / root, _tensor(4 * s["variation"] * tokens.gates("input")[:, 0])
    kinds: dict[str, Callable[[], float | Tensor]] = {
        "one": lambda: 1.0,
        "inverse_sqrt_n": lambda: 1 / root,
        "beta": lambda: tokens.betas() / root,
        "step": lambda: tokens.steps().abs(),
    }
    return s["scale"] * kinds[s["scaling"]](), None


def _normalizer(tokens: DrawnTokens) -> Normalizer:
    s = tokens.settings
    if s["normalizer"] == "row_sum":
        sunk = s["beside"] == "sink" and s["readout"] != "identity"
        return normalizer.RowSum(sink=float(s["sink"]) if sunk else None)
    if s["normalizer"] == "floored":
        return normalizer.FlooredRowSum(floor=float(s["floor"]))
    if s["normalizer"] == "geometric":
        return normalizer.Given(_tensor(np.cumprod(np.full(s["length"], float(s["base"])))))
    if s["normalizer"] == "gate":
        return normalizer.Given(_tensor(np.exp(4 * s["variation"] * tokens.gates("output")[:, 0])))
    return normalizer.One()


def decay_of(a: Evolution, length: int, width: int) -> Tensor:
    """s_t a_t of every channel, ``(L, n)``; 1 where the structure has no decay."""
    decay = torch.ones(length, width, dtype=torch.float64)
    if isinstance(a, evolution.Scalar | evolution.Householder | evolution.Diagonal):
        one = a.beta if isinstance(a, evolution.Householder) else a.log_decay
        signed = torch.ones_like(one) if a.log_decay is None else a.log_decay.exp()
        signed = signed if a.sign is None else a.sign * signed
        decay = decay * (signed if isinstance(a, evolution.Diagonal) else signed[:, None])
    return decay


def build_dynamics(settings: Mapping[str, Any]) -> CoefficientDynamics:
    """The dynamics that the page shows for complete settings (``settings.validate``), in float64.

    Shapes are ``(L, n)``, without leading axes. A morph is not applied here.
    """
    tokens = DrawnTokens(settings)
    q, k = tokens.queries_keys()
    scaling, log_scaling = _scaling(tokens)
    return CoefficientDynamics(
        q=q,
        k=k,
        evolution=_evolution(tokens, k),
        scaling=scaling,
        log_scaling=log_scaling,
        readout=READOUTS[settings["readout"]],
        normalizer=_normalizer(tokens),
        **_beside(tokens),
    )


def _beside(tokens: DrawnTokens) -> dict[str, Any]:
    """Additions beside phi; a sink is a part of the normalizer."""
    s = tokens.settings
    if s["beside"] == "fade":
        gates = 1 + s["variation"] * tokens.gates("decay")[:, 0]
        return {"outer_log_decay": _tensor(math.log(s["fade"]) * gates)}
    if s["beside"] == "own":
        return {"own": torch.full((s["length"],), float(s["own"]), dtype=torch.float64)}
    if s["beside"] == "window":
        return {"mask": mask.Window(s["window"])}
    return {}
