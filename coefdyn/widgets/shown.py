"""The numbers that an explorer shows, at every setting and between two designs.

``js/model.js`` and ``js/math.js`` compute the same in the page.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from coefdyn import CoefficientDynamics, normalizer, readout
from coefdyn.analysis.classes import combination_class
from coefdyn.dynamics.readout import FeatureMap, Readout
from coefdyn.shapes import Float, Tensor
from coefdyn.widgets.morph import build_morph
from coefdyn.widgets.settings import schema
from coefdyn.widgets.tokens import DrawnTokens, build_dynamics

__all__ = ["Shown", "is_between", "shown_at"]

_FLOAT32_LOG_MAX = math.log(torch.finfo(torch.float32).max)
_NONNEGATIVE = ("convex", "conical")
_STRAIGHT = (readout.identity, readout.relu)


@dataclass(frozen=True, kw_only=True, eq=False)
class Shown:
    """One state of an explorer, computed in float64. Positions in ``settings`` count from 1.

    Attributes:
        settings: complete settings.
        alpha: coefficients, ``(L, L)``, zeros above the diagonal.
        weights: alpha / eta, ``(L, L)``.
        carrier: q, k, A_t and b_j on show; between two designs with the readout of the first.
        readouts: phi, or the two that are mixed, each with its share in [0, 1].
        combination: what the design guarantees: convex, conical, affine or linear.
        is_given: whether the dynamics were handed in, rather than made from the settings.
        given_words: the words handed in with them.
    """

    settings: Mapping[str, Any]
    alpha: Float[Tensor, "L L"]
    weights: Float[Tensor, "L L"]
    carrier: CoefficientDynamics
    readouts: tuple[tuple[Readout, float], ...]
    combination: str
    is_given: bool = False
    given_words: tuple[str, ...] = ()

    @property
    def row(self) -> int:
        """i of the chosen output, from 0."""
        return min(self.settings["row"], self.carrier.length) - 1

    @property
    def column(self) -> int:
        """j of the chosen token, from 0."""
        return min(self.settings["column"], self.carrier.length) - 1

    @property
    def normalized(self) -> bool:
        """True if the displayed matrix is alpha / eta."""
        return self.settings["view"] == "normalized"

    @property
    def matrix(self) -> Float[Tensor, "L L"]:
        """Displayed matrix, ``(L, L)``."""
        return self.weights if self.normalized else self.alpha

    @property
    def labels(self) -> list[str]:
        """Label of each position; its number where dynamics came without words."""
        if self.is_given:
            if self.given_words:
                return list(self.given_words)
            return [str(t + 1) for t in range(self.carrier.length)]
        return DrawnTokens(self.settings).words

    @property
    def answer(self) -> dict[str, float]:
        """y_i of the chosen output: how much of each word it holds, in the order of the words."""
        values = self.labels if self.is_given else DrawnTokens(self.settings).values
        found: dict[str, float] = {}
        for j in range(self.row + 1):
            word = values[j]
            if word is not None:
                found[word] = found.get(word, 0.0) + self.weights[self.row, j].item()
        return found

    @property
    def path(self) -> Float[Tensor, "m n"]:
        """States h_{i,j} of token j for i >= j, ``(L - j, n)``."""
        return self.carrier.states(self.column)

    @property
    def is_feature_map(self) -> bool:
        """True if every displayed readout is a feature map, which has no score to read."""
        return all(isinstance(phi, FeatureMap) for phi, _ in self.readouts)

    def curve(self, scores: Float[Tensor, " p"]) -> Float[Tensor, " p"]:
        """phi, or one coordinate of psi, at scores ``(p,)``; a mixture between two designs."""
        parts = [share * phi.fn(scores[:, None]).squeeze(-1) for phi, share in self.readouts]
        return torch.stack(parts).sum(0)

    @property
    def readout_range(self) -> tuple[float, float, float, float]:
        """Range in which phi is drawn: scores from, to, values from, to.

        exp and softplus are near zero far on the left; a straight readout is drawn around the
        scores there are (``readoutRange`` in ``js/views.js``).
        """
        plain = replace(
            self.carrier,
            readout=readout.identity,
            normalizer=normalizer.One(),
            own=None,
            outer_log_decay=None,
            mask=None,
        )
        scores = plain.coefficients()
        scores = scores[scores.isfinite()]
        if not all(phi in _STRAIGHT for phi, share in self.readouts if share > 0):
            highest = scores.max().item()
            return (-8.0, _nice_ceiling(highest) if highest > 4 else 4.0, -1.6, 4.0)
        largest = scores.abs().max().item()
        reach = _nice_ceiling(1.1 * max(largest, 2 * self.settings["epsilon"], 1e-9))
        return (-reach, reach, -1.1 * reach, 1.1 * reach)

    @property
    def near_zero_fraction(self) -> float:
        """Share of coefficients with a size of at most epsilon, of the pairs that a mask admits."""
        pairs = torch.ones_like(self.matrix).tril().bool()
        mask = self.carrier.mask
        if mask is not None:
            pairs = pairs & mask.rows(0, len(pairs), 0, pairs.device)
        inside = self.matrix[pairs].abs() <= self.settings["epsilon"]
        return inside.double().mean().item()

    @property
    def row_sum(self) -> float:
        """Sum of alpha over row i."""
        return self.alpha[self.row].sum().item()

    @property
    def eigenvalues(self) -> list[complex]:
        """Eigenvalues of A_t at the chosen output."""
        matrix = self.carrier.evolution.dense(self.row, self.carrier.key_dim).double()
        return torch.linalg.eigvals(matrix).tolist()

    @property
    def growth_nats(self) -> float:
        """The largest mean growth of log |h_{i,j}| per token, over the keys of the first half."""
        length = self.carrier.length
        rates = []
        for j in range(max(1, length // 2)):
            sizes = self.carrier.states(j).norm(dim=-1).tolist()
            if sizes[0] > 0 and sizes[-1] > 0 and length - 1 > j:
                growth = math.log(sizes[-1]) - math.log(sizes[0])
                rates.append(growth / (length - 1 - j))
        return max(rates, default=-math.inf)

    @property
    def overflow_tokens(self) -> float:
        """Tokens until a coefficient leaves float32 at this growth; infinite when it never does."""
        dynamics, phi = self.carrier, self.readouts[0][0]
        stored = torch.stack([dynamics.states(j)[0] for j in range(dynamics.length)])
        largest = (dynamics.q * stored).sum(-1).abs().max().item()
        if largest == 0:
            return math.inf
        limit = math.log(_FLOAT32_LOG_MAX) if "exp" in phi.name else _FLOAT32_LOG_MAX
        room, rate = limit - math.log(largest), self.growth_nats
        if room <= 0:
            return 0.0
        return float(math.ceil(room / rate)) if rate > 1e-9 else math.inf

    @property
    def title(self) -> str:
        """Name of the design."""
        s, rows = self.settings, schema()["rows"]
        if self.is_given:
            return "Given dynamics"
        name = rows[s["preset"]]["label"] if s["preset"] in rows else "Own design"
        if not is_between(s):
            return name
        return f"{s['morph']:.0%} of the way from {name} to {rows[s['morph_to']]['label']}"

    def words(self) -> str:
        """The design, its settings and the numbers on show, in a few sentences."""
        i, j = self.row, self.column
        symbol = "α/η" if self.normalized else "α"
        horizon = self.overflow_tokens
        never = (
            "never overflows" if horizon == math.inf else f"overflows after {horizon:.0f} tokens"
        )
        reads = ""
        if i >= j:
            alpha, weight = self.alpha[i, j].item(), self.weights[i, j].item()
            reads = f" Output {i + 1} reads token {j + 1}: α = {alpha:.3g}, α/η = {weight:.3g}."
        return (
            f"{self.title}: {', '.join(self._settings_words())}. "
            f"{self.near_zero_fraction:.1%} of the coefficients {symbol} are near zero "
            f"(at most {self.settings['epsilon']:g}); row {i + 1} sums to {self.row_sum:.3g}; "
            f"{self.combination} combinations; float32 {never}.{reads}"
        )

    def _settings_words(self) -> list[str]:
        found = [f"{self.carrier.length} tokens of width {self.carrier.key_dim}"]
        if self.is_given:
            return found
        for key, spec in schema()["ranges"].items():
            if spec["group"] == "evolution" and _applies(spec, self.settings):
                label = spec["label"][0].lower() + spec["label"][1:]
                found.append(f"{label} {self.settings[key]:g}{spec.get('unit', '')}")
        return found


def _applies(spec: Mapping[str, Any], settings: Mapping[str, Any]) -> bool:
    needs = spec.get("needs")
    return needs is None or any(
        all(settings[key] in values for key, values in need.items()) for need in needs
    )


def is_between(settings: Mapping[str, Any]) -> bool:
    """Return whether the settings show a design on the way to another."""
    return bool(settings["morph_to"]) and settings["morph"] > 0


def shown_at(
    settings: Mapping[str, Any],
    source: CoefficientDynamics | None = None,
    words: Sequence[str] = (),
) -> Shown:
    """Numbers that the page computes for complete settings.

    Args:
        settings: from ``coefdyn.widgets.settings.validate``.
        source: given dynamics of one head, ``(L, n)``, with readout and normalizer as chosen;
            None for the explorer's own tokens.
        words: of the given dynamics, one per token, or none.
    """
    if source is None and is_between(settings):
        return _between(settings)
    dynamics = build_dynamics(settings) if source is None else source
    return Shown(
        settings=settings,
        alpha=dynamics.coefficients(),
        weights=dynamics.coefficients(normalized=True),
        carrier=dynamics,
        readouts=((dynamics.readout, 1.0),),
        combination=combination_class(dynamics).value,
        is_given=source is not None,
        given_words=tuple(words),
    )


def _between(settings: Mapping[str, Any]) -> Shown:
    morph = build_morph(settings)
    alpha, eta = morph.coefficients(), morph.eta()[:, None]
    first, last = (end.readout for end in morph.ends)
    mixed = ((first, 1 - morph.share), (last, morph.share))
    return Shown(
        settings=settings,
        alpha=alpha,
        weights=_divide(alpha, eta),
        carrier=morph.with_readout(first),
        readouts=mixed if first is not last else ((first, 1.0),),
        combination=_common_class(
            [combination_class(end).value for end in morph.ends], morph.share
        ),
    )


def _divide(alpha: Tensor, eta: Tensor) -> Tensor:
    """Divide alpha by eta; a zero row sum gives a zero row, and inf over inf stays infinite."""
    plain = torch.where(eta == 0, torch.zeros_like(alpha), alpha / eta)
    return torch.where(alpha.isinf() & eta.isinf(), alpha, plain)


def _common_class(names: list[str], share: float) -> str:
    """Class that both designs guarantee."""
    if share == 1 or names[0] == names[1]:
        return names[1]
    return "conical" if all(name in _NONNEGATIVE for name in names) else "linear"


def _nice_ceiling(x: float) -> float:
    """The next of 1, 2, 5, 10, 20, 50, ..."""
    power = 10.0 ** math.floor(math.log10(x))
    return power * next(step for step in (1, 2, 5, 10) if x <= step * power * (1 + 1e-12))
