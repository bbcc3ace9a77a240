"""Smaller figures about one row of coefficients: its reads, its weights, its size.

FactsView        three facts and a question: the row of a design, and its answer
EmptyRowView     a query that fits nothing, under four readouts and normalizers
CombinationView  where an output of two values can lie
ReadoutView      the scores that a readout sends near zero
GrowthView       a growing key against its divisor
CapacityView     the error of an answer against the number of facts in a state
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from coefdyn.widgets.settings import ROWS, default_settings, schema, with_preset
from coefdyn.widgets.small import Limits, Real, SmallFigure

__all__ = [
    "CapacityView",
    "CombinationView",
    "EmptyRowView",
    "FactsView",
    "GrowthView",
    "ReadoutView",
]

_FACT_KEYS = ("decay", "beta", "spread", "scale", "floor")


def _range(key: str) -> Limits:
    spec = schema()["ranges"][key]
    return float(spec["min"]), float(spec["max"])


class FactsView(SmallFigure):
    """The row of the question in "the cat is black; the dog is brown; the cat is white".

    Args:
        preset: a row of Table 1, such as "gated_deltanet".
        asked: "cat" or "dog".
        controls, caption: as for ``SmallFigure``; name one or two.
        settings: decay, beta, spread, scale or floor, where they differ from the row's start.

    Raises:
        ValueError: for a value out of range, or an unknown row, setting or control.
    """

    _figure = "facts"
    _numbers: ClassVar[tuple[str, ...]] = ("answer-black", "answer-brown", "answer-white")
    _limits: ClassVar[dict[str, Limits]] = {key: _range(key) for key in _FACT_KEYS}
    _choices: ClassVar[dict[str, tuple[str, ...]]] = {"preset": ROWS, "asked": ("cat", "dog")}

    def __init__(
        self,
        preset: str = "gated_deltanet",
        *,
        asked: str = "cat",
        controls: Sequence[str] = ("decay", "beta"),
        caption: str = "",
        **settings: Real,
    ) -> None:
        start = with_preset(default_settings(), preset)
        chosen = {key: start[key] for key in _FACT_KEYS}
        super().__init__(
            controls=controls, caption=caption, preset=preset, asked=asked, **{**chosen, **settings}
        )

    def words(self) -> str:
        """Description of the figure in words, for paper and where no script runs."""
        shown = self.shown()
        words = ("black", "brown", "white")
        parts = ", ".join(f"{word} {shown[f'answer-{word}']:.2f}" for word in words)
        label = schema()["rows"][self.settings["preset"]]["label"]
        return f"{label}, asked for “{self.settings['asked']}” after three facts: {parts}."


class EmptyRowView(SmallFigure):
    """Weights of a row of five scores that are all moved up or down.

    Args:
        shift: added to every score, -8 to 2.
        kind: "softmax" (exp, row sum), "floored" (exp, row sum of at least 1), "relu" (ReLU, row
            sum) or "identity" (identity, eta = 1).
        controls, caption: as for ``SmallFigure``.

    Raises:
        ValueError: for a value out of range or an unknown kind.
    """

    _figure = "empty-row"
    _numbers: ClassVar[tuple[str, ...]] = ("weight-sum", "largest-weight")
    _limits: ClassVar[dict[str, Limits]] = {"shift": (-8.0, 2.0)}
    _choices: ClassVar[dict[str, tuple[str, ...]]] = {
        "kind": ("softmax", "floored", "relu", "identity")
    }
    _start: ClassVar[dict[str, Real | str]] = {"shift": 0, "kind": "softmax"}

    def words(self) -> str:
        """Description of the figure in words, for paper and where no script runs."""
        shown = self.shown()
        return (
            f"Five scores of {shown['scores'][-1]:g} to {shown['scores'][0]:g}, "
            f"{self.settings['kind']}: the weights of the row sum to {shown['weight-sum']:.3g}."
        )


class CombinationView(SmallFigure):
    """Position of y = w_1 v_1 + w_2 v_2 in the plane while the query turns.

    Args:
        angle: of the query in degrees, 0 to 355.
        kind: "convex" (exp, row sum), "conical" (ReLU), "affine" (identity, row sum) or "linear".
        controls, caption: as for ``SmallFigure``.

    Raises:
        ValueError: for a value out of range or an unknown kind.
    """

    _figure = "combination"
    _numbers: ClassVar[tuple[str, ...]] = ("weight-first", "weight-second", "weight-sum")
    _limits: ClassVar[dict[str, Limits]] = {"angle": (0, 355)}
    _choices: ClassVar[dict[str, tuple[str, ...]]] = {
        "kind": ("convex", "conical", "affine", "linear")
    }
    _start: ClassVar[dict[str, Real | str]] = {"angle": 60, "kind": "convex"}

    def words(self) -> str:
        """Description of the figure in words, for paper and where no script runs."""
        shown = self.shown()
        return (
            f"A {self.settings['kind']} combination of two values, query at "
            f"{self.settings['angle']}°: {shown['weight-first']:.3g} of the first and "
            f"{shown['weight-second']:.3g} of the second."
        )


class ReadoutView(SmallFigure):
    """phi with the scores it sends within epsilon of zero, over normal scores.

    Args:
        readout: "identity", "exp", "relu" or "softplus".
        spread: standard deviation of the scores, 0.1 to 4.
        power: log10 of epsilon, -6 to -1.
        controls, caption: as for ``SmallFigure``.

    Raises:
        ValueError: for a value out of range or an unknown readout.
    """

    _figure = "readout"
    _numbers: ClassVar[tuple[str, ...]] = ("near-zero-share",)
    _limits: ClassVar[dict[str, Limits]] = {"spread": (0.1, 4.0), "power": (-6, -1)}
    _choices: ClassVar[dict[str, tuple[str, ...]]] = {
        "readout": ("identity", "exp", "relu", "softplus")
    }
    _start: ClassVar[dict[str, Real | str]] = {"readout": "exp", "spread": 1, "power": -2}
    _moved: ClassVar[tuple[str, ...]] = ("readout", "spread")

    def words(self) -> str:
        """Description of the figure in words, for paper and where no script runs."""
        return (
            f"Readout {self.settings['readout']}, normal scores with spread "
            f"{self.settings['spread']:g}: {self.shown()['near-zero-share']:.1%} of them give a "
            f"coefficient within {10.0 ** self.settings['power']:g} of zero."
        )


class GrowthView(SmallFigure):
    """The coefficient of the first token, phi(a^(i-1)), and its divisor against i up to 64.

    Args:
        keep: a, 0.9 to 1.2.
        kind: readout and normalizer: "identity" or "exp", then "-one", "-geometric" (a^i) or
            "-row_sum" (every token written with score 1).
        controls, caption: as for ``SmallFigure``.

    Raises:
        ValueError: for a value out of range or an unknown kind.
    """

    _figure = "growth"
    _numbers: ClassVar[tuple[str, ...]] = ("first-overflow", "alpha-power", "weight-power")
    _limits: ClassVar[dict[str, Limits]] = {"keep": (0.9, 1.2)}
    _choices: ClassVar[dict[str, tuple[str, ...]]] = {
        "kind": (
            "identity-one",
            "identity-geometric",
            "identity-row_sum",
            "exp-one",
            "exp-geometric",
            "exp-row_sum",
        )
    }
    _start: ClassVar[dict[str, Real | str]] = {"keep": 1.05, "kind": "exp-geometric"}

    def words(self) -> str:
        """Description of the figure in words, for paper and where no script runs."""
        shown = self.shown()
        return (
            f"Keys that keep {self.settings['keep']:g} of their length a step, "
            f"{self.settings['kind'].replace('-', ' over ')}: at token 64 the "
            f"coefficient of the first token is about 10 to the {shown['alpha-power']:.3g}, and "
            f"divided 10 to the {shown['weight-power']:.3g}."
        )


class CapacityView(SmallFigure):
    """The squared error of an answer against the number of facts in one state.

    The keys have length one and random directions, the values are orthonormal. Summed, the expected
    error is (m - 1) / n for m facts; the delta rule with beta = 1 writes over what stands under a
    key.

    Args:
        facts: m, 1 to 32.
        width: n, 2 to 64.
        seed: of the drawn keys, 0 to 999.
        controls, caption: as for ``SmallFigure``.

    Raises:
        ValueError: for a value out of range.
    """

    _figure = "capacity"
    _numbers: ClassVar[tuple[str, ...]] = ("error-sum", "error-delta", "error-theory")
    _limits: ClassVar[dict[str, Limits]] = {"facts": (1, 32), "width": (2, 64), "seed": (0, 999)}
    _start: ClassVar[dict[str, Real | str]] = {"facts": 12, "width": 16, "seed": 7}
    _moved: ClassVar[tuple[str, ...]] = ("facts", "width")

    def words(self) -> str:
        """Description of the figure in words, for paper and where no script runs."""
        facts, width = self.settings["facts"], self.settings["width"]
        return (
            f"{facts} facts in a state of width {width}. When keys are summed, the squared error "
            f"of an answer is about (m − 1)/n = {self.shown()['error-theory']:.3g}."
        )
