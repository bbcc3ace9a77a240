"""The numbers that an explorer shows, as its own JavaScript computes them (``js/model.js``)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from coefdyn.dynamics.readout import Readout
from coefdyn.shapes import Float, Tensor
from coefdyn.widgets.ingredients import READOUTS
from coefdyn.widgets.interpreter import ask
from coefdyn.widgets.settings import schema

__all__ = ["Shown", "shown_at"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Shown:
    """One state of an explorer, computed in float64. Positions in ``settings`` count from 1.

    Attributes:
        settings: complete settings.
        model: everything that the page computes of them; arrays are flat lists.
        is_given: whether the dynamics were handed in, rather than made from the settings.
    """

    settings: Mapping[str, Any]
    model: Mapping[str, Any]
    is_given: bool = False

    @property
    def row(self) -> int:
        """i of the chosen output, from 0."""
        return self.model["row"]

    @property
    def column(self) -> int:
        """j of the chosen token, from 0."""
        return self.model["column"]

    def _square(self, name: str) -> Float[Tensor, "L L"]:
        length = self.model["g"]["L"]
        return torch.tensor(self.model[name], dtype=torch.float64).reshape(length, length)

    @cached_property
    def alpha(self) -> Float[Tensor, "L L"]:
        """Coefficients, ``(L, L)``, zeros above the diagonal."""
        return self._square("alpha")

    @cached_property
    def weights(self) -> Float[Tensor, "L L"]:
        """alpha / eta, ``(L, L)``."""
        return self._square("weights")

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
        return self.model["g"]["words"]

    @property
    def answer(self) -> dict[str, float]:
        """y_i of the chosen output: how much of each word it holds, in the order of the words."""
        return {word: float(share) for word, share in self.model["answer"]}

    @property
    def query(self) -> Float[Tensor, " n"]:
        """q_i of the chosen output, ``(n,)``."""
        width = self.model["g"]["n"]
        values = self.model["g"]["q"][self.row * width : (self.row + 1) * width]
        return torch.tensor(values, dtype=torch.float64)

    @property
    def path(self) -> Float[Tensor, "m n"]:
        """States h_{i,j} of token j for i >= j, ``(L - j, n)``."""
        width = self.model["g"]["n"]
        return torch.tensor(self.model["path"], dtype=torch.float64).reshape(-1, width)

    @property
    def readouts(self) -> tuple[tuple[Readout, float], ...]:
        """phi, or the two that are mixed, each with its share in [0, 1]."""
        made = self.model["g"]
        if "blend" not in made:
            return ((READOUTS[made["readout"]], 1.0),)
        share = made["blend"]["t"]
        first, last = (READOUTS[made["blend"][end]["readout"]] for end in ("from", "to"))
        return ((first, 1.0),) if first is last else ((first, 1 - share), (last, share))

    @property
    def is_feature_map(self) -> bool:
        """True if every displayed readout is a feature map, which has no score to read."""
        return self.model["isFeature"]

    def curve(self, scores: Float[Tensor, " p"]) -> Float[Tensor, " p"]:
        """phi, or one coordinate of psi, at scores ``(p,)``; a mixture between two designs."""
        parts = [share * phi.fn(scores[:, None]).squeeze(-1) for phi, share in self.readouts]
        return torch.stack(parts).sum(0)

    @property
    def readout_range(self) -> tuple[float, float, float, float]:
        """Range in which phi is drawn: scores from, to, values from, to."""
        first, last, low, high = (
            float(self.model["range"][end]) for end in ("x0", "x1", "y0", "y1")
        )
        return (first, last, low, high)

    @property
    def near_zero_fraction(self) -> float:
        """Share of coefficients with a size of at most epsilon, of the pairs that a mask admits."""
        return float(self.model["nearZero"])

    @property
    def row_sum(self) -> float:
        """Sum of alpha over row i."""
        return float(self.model["sums"][self.row])

    @property
    def eigenvalues(self) -> list[complex]:
        """Eigenvalues of A_t at the chosen output."""
        return [complex(*point) for point in self.model["spectrum"]]

    @property
    def combination(self) -> str:
        """Class that the design guarantees: convex, conical, affine or linear."""
        return self.model["className"]

    @property
    def growth_nats(self) -> float:
        """The largest mean growth of log |h_{i,j}| per token, over the keys of the first half."""
        return float(self.model["rate"])

    @property
    def overflow_tokens(self) -> float:
        """Tokens until a coefficient leaves float32 at this growth; infinite when it never does."""
        return float(self.model["horizon"])

    @property
    def title(self) -> str:
        """Name of the design."""
        s, rows = self.settings, schema()["rows"]
        if self.is_given:
            return "Given dynamics"
        name = rows[s["preset"]]["label"] if s["preset"] in rows else "Own design"
        if "blend" not in self.model["g"]:
            return name
        return f"{s['morph']:.0%} of the way from {name} to {rows[s['morph_to']]['label']}"

    def words(self) -> str:
        """The design, its settings and the numbers on show, in a few sentences."""
        i, j = self.row, self.column
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
            f"{self.near_zero_fraction:.1%} of the coefficients {self.model['symbol']} are near "
            f"zero (at most {self.settings['epsilon']:g}); row {i + 1} sums to {self.row_sum:.3g}; "
            f"{self.combination} combinations; float32 {never}.{reads}"
        )

    def _settings_words(self) -> list[str]:
        found = [f"{self.model['g']['L']} tokens of width {self.model['g']['n']}"]
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


def shown_at(settings: Mapping[str, Any], data: Mapping[str, Any] | None = None) -> Shown:
    """Numbers that the page computes for complete settings.

    Args:
        settings: from ``coefdyn.widgets.settings.validate``.
        data: of given dynamics, as ``given.arrays_of`` has them; none for own tokens.

    Raises:
        ImportError: without mini-racer.
    """
    return Shown(settings=settings, model=ask("model", settings, data or {}), is_given=bool(data))
