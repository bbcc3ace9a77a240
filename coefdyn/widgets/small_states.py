"""Smaller figures about one stored key: the effect of an evolution, step after step.

TurningView     a state that turns and shrinks; its eigenvalue is taken in hand
StringView      a plucked string: eight such states at once
ErasingView     one step I - beta z z^T in the plane
EigenvalueView  both eigenvalues of a (I - beta z z^T) and what they leave
MemoryView      half-lives of the channels of a diagonal A
DistanceView    the coefficient of one token, by how far back it stands
StepView        a = exp(-Delta) and b = Delta: keeping and writing by one number
"""

from __future__ import annotations

from typing import ClassVar

from coefdyn.widgets.small import Limits, Real, SmallFigure

__all__ = [
    "DistanceView",
    "EigenvalueView",
    "ErasingView",
    "MemoryView",
    "StepView",
    "StringView",
    "TurningView",
]


class TurningView(SmallFigure):
    """h_t = (a R(theta))^t h_0 in the plane, and its first coordinate against t.

    Args:
        angle: theta in degrees, 0 to 180.
        keep: a, 0.5 to 1.05.
        controls, caption: as for ``SmallFigure``.

    Raises:
        ValueError: for a value out of range.
    """

    _figure = "turning"
    _numbers: ClassVar[tuple[str, ...]] = ("eigenvalue", "half-life", "left-at-end")
    _limits: ClassVar[dict[str, Limits]] = {"angle": (0, 180), "keep": (0.5, 1.05)}
    _start: ClassVar[dict[str, Real | str]] = {"angle": 24, "keep": 0.95}

    def words(self) -> str:
        """Description of the figure in words, for paper and where no script runs."""
        angle, keep = self.settings["angle"], self.settings["keep"]
        return (
            f"A state that turns by {angle}° and keeps {keep:g} of its length at every step. After "
            f"32 steps {self.shown()['left-at-end']:.3g} of it is left."
        )


class StringView(SmallFigure):
    """A string plucked at one place: mode m keeps a^m of itself a step and turns by 9 m degrees.

    Args:
        place: where it is plucked, 0.1 to 0.5 of its length.
        time: steps since the pluck, 0 to 80.
        keep: a of the first mode, 0.9 to 1.
        controls, caption: as for ``SmallFigure``.

    Raises:
        ValueError: for a value out of range.
    """

    _figure = "string"
    _numbers: ClassVar[tuple[str, ...]] = ("first-mode", "fastest-mode", "energy")
    _limits: ClassVar[dict[str, Limits]] = {
        "place": (0.1, 0.5),
        "time": (0, 80),
        "keep": (0.9, 1.0),
    }
    _start: ClassVar[dict[str, Real | str]] = {"place": 0.2, "time": 0, "keep": 0.98}
    _moved: ClassVar[tuple[str, ...]] = ("place", "time")

    def words(self) -> str:
        """Description of the figure in words, for paper and where no script runs."""
        return (
            f"A string plucked at {self.settings['place']:g} of its length, "
            f"{self.settings['time']} steps later: {self.shown()['energy']:.1%} of the squared "
            "sizes of its 8 states is left."
        )


class ErasingView(SmallFigure):
    """h - beta z z^T h for |h| = |z| = 1 in the plane.

    Args:
        beta: 0 to 2.
        angle: from h to z in degrees, 0 to 90.
        controls, caption: as for ``SmallFigure``.

    Raises:
        ValueError: for a value out of range.
    """

    _figure = "erasing"
    _numbers: ClassVar[tuple[str, ...]] = ("along", "length-after", "turned")
    _limits: ClassVar[dict[str, Limits]] = {"beta": (0.0, 2.0), "angle": (0, 90)}
    _start: ClassVar[dict[str, Real | str]] = {"beta": 1, "angle": 40}

    def words(self) -> str:
        """Description of the figure in words, for paper and where no script runs."""
        beta = self.settings["beta"]
        return (
            f"A state of length 1, a direction z at {self.settings['angle']}° to it, and "
            f"β = {beta:g}: the part along z is multiplied by {1 - beta:.3g}, and the length is "
            f"{self.shown()['length-after']:.3g} after the step."
        )


class EigenvalueView(SmallFigure):
    """Both eigenvalues of a (I - beta z z^T) with |z| = 1, and what they leave over 16 steps.

    Args:
        keep: a, 0.5 to 1.1.
        beta: 0 to 2.
        controls, caption: as for ``SmallFigure``.

    Raises:
        ValueError: for a value out of range.
    """

    _figure = "eigenvalues"
    _numbers: ClassVar[tuple[str, ...]] = ("along-eigenvalue", "across-eigenvalue")
    _limits: ClassVar[dict[str, Limits]] = {"keep": (0.5, 1.1), "beta": (0.0, 2.0)}
    _start: ClassVar[dict[str, Real | str]] = {"keep": 0.95, "beta": 0.5}

    def words(self) -> str:
        """Description of the figure in words, for paper and where no script runs."""
        keep, beta, shown = self.settings["keep"], self.settings["beta"], self.shown()
        return (
            f"With a = {keep:g} and β = {beta:g} the eigenvalue along z is "
            f"{shown['along-eigenvalue']:.3g} and across it {shown['across-eigenvalue']:g}."
        )


class MemoryView(SmallFigure):
    """a_c^t for four channels of a diagonal A, and the tokens until half is left.

    Args:
        keep: a of the middle, 0.5 to 0.99.
        spread: 0 (all channels alike) to 1.
        controls, caption: as for ``SmallFigure``.

    Raises:
        ValueError: for a value out of range.
    """

    _figure = "memory"
    _numbers: ClassVar[tuple[str, ...]] = ("longest", "shortest")
    _limits: ClassVar[dict[str, Limits]] = {"keep": (0.5, 0.99), "spread": (0.0, 1.0)}
    _start: ClassVar[dict[str, Real | str]] = {"keep": 0.9, "spread": 0.8}

    def words(self) -> str:
        """Description of the figure in words, for paper and where no script runs."""
        shown = self.shown()
        return (
            f"Four channels of a diagonal A: half of a token is left after "
            f"{shown['shortest']:.3g} to {shown['longest']:.3g} tokens."
        )


class DistanceView(SmallFigure):
    """a^d cos(theta d): the coefficient of one token against its distance d, A = a R(theta).

    Args:
        keep: a, 0.5 to 1.
        angle: theta in degrees, 0 to 180.
        controls, caption: as for ``SmallFigure``.

    Raises:
        ValueError: for a value out of range.
    """

    _figure = "distance"
    _numbers: ClassVar[tuple[str, ...]] = ("near", "far")
    _limits: ClassVar[dict[str, Limits]] = {"keep": (0.5, 1.0), "angle": (0, 180)}
    _start: ClassVar[dict[str, Real | str]] = {"keep": 1, "angle": 0}

    def words(self) -> str:
        """Description of the figure in words, for paper and where no script runs."""
        shown = self.shown()
        return (
            f"One token has the coefficient {shown['near']:.3g} three tokens back and "
            f"{shown['far']:.3g} nine tokens back, with a = {self.settings['keep']:g} and a "
            f"turn of {self.settings['angle']}° a step."
        )


class StepView(SmallFigure):
    """h_t = exp(-Delta) h_{t-1} + b x_t for a word that is there for twelve steps.

    Args:
        step: Delta, 0.02 to 3.
        writing: b as "tied" (Delta), "exact" (1 - exp(-Delta)) or "one" (1).
        controls, caption: as for ``SmallFigure``.

    Raises:
        ValueError: for a value out of range or an unknown writing.
    """

    _figure = "step"
    _numbers: ClassVar[tuple[str, ...]] = ("kept", "written", "level")
    _limits: ClassVar[dict[str, Limits]] = {"step": (0.02, 3.0)}
    _choices: ClassVar[dict[str, tuple[str, ...]]] = {"writing": ("tied", "exact", "one")}
    _start: ClassVar[dict[str, Real | str]] = {"step": 0.3, "writing": "tied"}

    def words(self) -> str:
        """Description of the figure in words, for paper and where no script runs."""
        shown = self.shown()
        return (
            f"With Δ = {self.settings['step']:g} the state keeps {shown['kept']:.3g} of the past "
            f"and writes {shown['written']:.3g} of the new word."
        )
