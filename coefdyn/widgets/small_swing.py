"""A smaller figure about time: a swing, its samples, and the rule between two of them."""

from __future__ import annotations

from typing import ClassVar

from coefdyn.widgets.small import Limits, Real, SmallFigure

__all__ = ["SampledSwing"]


class SampledSwing(SmallFigure):
    """A swing let go at place 1 and photographed every step, and what a rule makes of it.

        h'' = -omega^2 h - 2 gamma h',  omega = 2;   lambda = -gamma +- i sqrt(omega^2 - gamma^2)
        tangent: 1 + Delta lambda     hold: exp(Delta lambda)
        bilinear: (1 + Delta lambda / 2) / (1 - Delta lambda / 2)

    Args:
        step: Delta in seconds, 0.02 to 1.5.
        friction: gamma per second, 0 to 1.
        rule: "tangent", "bilinear" or "hold".
        controls, caption: as for ``SmallFigure``.

    Raises:
        ValueError: for a value out of range or an unknown rule.
    """

    _figure = "swing"
    _numbers: ClassVar[tuple[str, ...]] = (
        "swing-kept",
        "swing-true",
        "swing-angle",
        "swing-true-angle",
    )
    _limits: ClassVar[dict[str, Limits]] = {"step": (0.02, 1.5), "friction": (0.0, 1.0)}
    _choices: ClassVar[dict[str, tuple[str, ...]]] = {"rule": ("tangent", "bilinear", "hold")}
    _start: ClassVar[dict[str, Real | str]] = {"step": 0.2, "friction": 0.1, "rule": "tangent"}

    def words(self) -> str:
        """Description of the figure in words, for paper and where no script runs."""
        shown = self.shown()
        return (
            f"A swing with a photograph every {self.settings['step']:g} seconds. By the rule named "
            f"{self.settings['rule']} each step keeps {shown['swing-kept']:.4f} of it, in truth "
            f"{shown['swing-true']:.4f}."
        )
