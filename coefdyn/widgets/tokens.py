"""The explorer's tokens and gates, and the ``CoefficientDynamics`` they make.

``js/tokens.js`` and ``js/ingredients.js`` hold the same arithmetic, operation for operation. Draws
are sums of 32-bit integers, rounded to three decimals, so both languages get the same numbers.

    A_t = s a_t (I - beta_t z_t z_t^T), with the parts that the structure has
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

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.dynamics.evolution import Evolution
from coefdyn.dynamics.normalizer import Normalizer
from coefdyn.dynamics.readout import FeatureMap, Readout
from coefdyn.shapes import Tensor

__all__ = ["READOUTS", "Tokens", "build_dynamics", "decay_of", "draw_normal", "draw_uniform"]

_STREAM = {"query": 1, "key": 2, "word": 3, "decay": 4, "beta": 5, "input": 6, "output": 7}
_VOCABULARY = 5
_MASK = 0xFFFFFFFF

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


def _mix32(x: int) -> int:
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & _MASK
    x = ((x ^ (x >> 15)) * 0x846CA68B) & _MASK
    return x ^ (x >> 16)


def _draw_key(seed: int, stream: int, token: int, channel: int) -> int:
    x = _mix32((seed + 0x9E3779B9) & _MASK)
    for part in (stream, token, channel):
        x = _mix32((x + part) & _MASK)
    return x


def _round_milli(x: float) -> float:
    return math.floor(x * 1000 + 0.5) / 1000


def draw_normal(seed: int, stream: int, token: int, channel: int) -> float:
    """Twelve uniforms minus six: mean 0, variance 1, three decimals."""
    x = _draw_key(seed, stream, token, channel)
    total = sum(_mix32((x + m * 0x9E3779B9) & _MASK) for m in range(1, 13))
    return _round_milli(total / 2**32 - 6)


def draw_uniform(seed: int, stream: int, token: int, channel: int) -> float:
    """Uniform in (-1, 1), three decimals."""
    return _round_milli(_draw_key(seed, stream, token, channel) / 2**32 * 2 - 1)


@dataclass(frozen=True)
class Tokens:
    """Everything drawn for complete settings. Arrays are float64 tensors."""

    settings: Mapping[str, Any]

    @property
    def identities(self) -> list[int]:
        """What stands at each position; equal numbers are equal inputs."""
        s = self.settings
        ids = list(range(s["length"]))
        if s["tokens"] == "repeating":
            word = _STREAM["word"]
            ids = [_draw_key(s["seed"], word, t, 0) % _VOCABULARY for t in ids]
        if s["duplicate"]:
            ids[s["duplicate"] - 1] = ids[s["column"] - 1]
        return ids

    def gates(self, name: str, channels: int = 1) -> np.ndarray:
        """u, ``(L, channels)``, of one stream."""
        seed, stream = self.settings["seed"], _STREAM[name]
        return np.array(
            [[draw_uniform(seed, stream, t, c) for c in range(channels)] for t in self.identities]
        )

    def queries_keys(self) -> tuple[Tensor, Tensor]:
        """q and k, ``(L, n)``. A query leans towards its own token's key."""
        s = self.settings
        width, seed, ids = s["width"], s["seed"], self.identities

        def normals(stream: str) -> list[list[float]]:
            return [[draw_normal(seed, _STREAM[stream], t, c) for c in range(width)] for t in ids]

        keys, noise = normals("key"), normals("query")
        queries = [
            [_round_milli(0.8 * k + 0.6 * e) for k, e in zip(*pair, strict=True)]
            for pair in zip(keys, noise, strict=True)
        ]
        for name, values in s["points"].items():
            t = int(name[1:]) - 1
            if t < s["length"]:
                target = queries if name[0] == "q" else keys
                target[t][: len(values)] = [float(x) for x in values[:width]]
        return torch.tensor(queries, dtype=torch.float64), torch.tensor(keys, dtype=torch.float64)

    def betas(self) -> Tensor:
        """beta_t, ``(L,)``."""
        beta, variation = self.settings["beta"], self.settings["variation"]
        return _tensor(beta + variation * self.gates("beta")[:, 0] * min(beta, 2 - beta))

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
        """z_t, ``(L, n)``, of length one."""
        s = self.settings
        length, width = keys.shape
        turn = math.radians(1) * s["angle"] * torch.ones(length, dtype=torch.float64)
        if s["direction"] == "turning":
            turn = turn * torch.arange(1, length + 1, dtype=torch.float64)
        first = torch.zeros(length, width, dtype=torch.float64)
        first[:, 0] = 1
        if s["direction"] == "key":
            norm = keys.norm(dim=-1, keepdim=True)
            first = torch.where(norm > 0, keys / norm.clamp(min=1e-300), first)
        return _rotate_pairs(first, turn)


def _tensor(array: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.float64))


def _rotate_pairs(rows: Tensor, turn: Tensor) -> Tensor:
    """Turns the planes (1, 2), (3, 4), ...; an odd last coordinate stays."""
    out = rows.clone()
    even = rows.shape[-1] // 2 * 2
    x, y = rows[:, 0:even:2], rows[:, 1:even:2]
    cos, sin = torch.cos(turn)[:, None], torch.sin(turn)[:, None]
    out[:, 0:even:2] = cos * x - sin * y
    out[:, 1:even:2] = sin * x + cos * y
    return out


def _evolution(tokens: Tokens, keys: Tensor) -> Evolution:
    s = tokens.settings
    structure = s["structure"]
    if structure == "identity":
        return evolution.Identity()
    if structure == "diagonal":
        decay = tokens.channel_decays()
        return evolution.Diagonal(log_decay=decay, sign=_sign(s, decay))
    steps = tokens.steps()
    if structure == "scalar":
        return evolution.Scalar(log_decay=steps, sign=_sign(s, steps))
    z, beta = tokens.directions(keys), tokens.betas()
    if structure == "householder":
        return evolution.Householder(direction=z, beta=beta)
    return evolution.ScaledHouseholder(
        direction=z, beta=beta, log_decay=steps, sign=_sign(s, steps)
    )


def _sign(settings: Mapping[str, Any], like: Tensor) -> Tensor | None:
    return -torch.ones_like(like) if settings["flip"] else None


def _scaling(tokens: Tokens) -> tuple[float | Tensor, Tensor | None]:
    """b_j, and its logarithm where it is an exponential gate."""
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


def _normalizer(tokens: Tokens) -> Normalizer:
    s = tokens.settings
    if s["normalizer"] == "row_sum":
        return normalizer.RowSum()
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
    if isinstance(a, (evolution.Scalar, evolution.ScaledHouseholder, evolution.Diagonal)):
        signed = a.log_decay.exp() if a.sign is None else a.sign * a.log_decay.exp()
        decay = decay * (signed if isinstance(a, evolution.Diagonal) else signed[:, None])
    return decay


def build_dynamics(settings: Mapping[str, Any]) -> CoefficientDynamics:
    """The dynamics that the page shows for complete settings (``settings.validate``), in float64.

    Shapes are ``(L, n)``, without leading axes. A morph is not applied here.
    """
    tokens = Tokens(settings)
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
    )
