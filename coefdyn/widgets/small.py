"""Base of the smaller interactive figures, and three of them. They run in the page, too.

    ScoreVariance   variance of q^T (b k) against n for three scalings (Principle 5)
    ChunkView       the same output token by token, at once, or chunk by chunk (Principle 1)
    CostView        a lower bound on the time against L, at once and in chunks (Principle 1)

A small figure stands beside the sentence it shows: one idea, one or two controls. More of them are
in ``small_states.py`` and ``small_rows.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import Parameter, Signature
from typing import Any, ClassVar

import anywidget
import traitlets

from coefdyn.widgets.interpreter import ask
from coefdyn.widgets.questions import check_question
from coefdyn.widgets.settings import check_name, check_real, check_whole
from coefdyn.widgets.source import figures_source, style_source

__all__ = ["ChunkView", "CostView", "ScoreVariance", "SmallFigure"]

Real = int | float
Limits = tuple[int, int] | tuple[float, float]


class SmallFigure(anywidget.AnyWidget):
    """Base of the smaller figures: checked settings, synced both ways; few controls.

    Args:
        controls: settings that the reader may move; empty for all that the figure has, None for
            those that it starts with.
        caption: the figure's title; empty for its own.
        settings: the figure's settings, as far as they differ from its start; whole numbers where
            both limits are whole.

    Raises:
        ValueError: for a value out of range, or an unknown choice, setting or control.
    """

    _esm = figures_source()
    _css = style_source()
    _figure: ClassVar[str] = ""
    _limits: ClassVar[dict[str, Limits]] = {}
    _choices: ClassVar[dict[str, tuple[str, ...]]] = {}
    _numbers: ClassVar[tuple[str, ...]] = ()
    _start: ClassVar[dict[str, Real | str]] = {}
    _moved: ClassVar[tuple[str, ...]] = ()

    settings = traitlets.Dict().tag(sync=True)
    figure = traitlets.Unicode().tag(sync=True)
    controls = traitlets.List(traitlets.Unicode()).tag(sync=True)
    caption = traitlets.Unicode("").tag(sync=True)
    predict = traitlets.Dict().tag(sync=True)

    def __init_subclass__(cls, **options: Any) -> None:
        """What a figure starts with is its signature, too."""
        super().__init_subclass__(**options)
        if "__init__" in vars(cls):
            return
        given = {**cls._start, "controls": cls._moved, "caption": ""}
        cls.__signature__ = Signature(  # type: ignore[attr-defined]
            Parameter(name, Parameter.KEYWORD_ONLY, default=start) for name, start in given.items()
        )

    def __init__(
        self, *, controls: Sequence[str] | None = None, caption: str = "", **settings: Real | str
    ) -> None:
        moved = self._moved if controls is None else controls
        for name in moved:
            check_name("control", name, (*self._limits, *self._choices))
        super().__init__(
            settings={**self._start, **settings},
            figure=self._figure,
            controls=list(moved),
            caption=caption,
        )

    def asking(self, question: Mapping[str, str]) -> SmallFigure:
        """Copy of the figure that asks a question before it can be moved.

        Args:
            question: as ``Explorer``'s ``predict``; its number is one of the figure's own, its
                control a slider.

        Raises:
            ValueError: for a missing or an unknown key, number, control or direction.
        """
        self.predict = check_question(question, self._numbers, tuple(self._limits))
        return self

    @traitlets.validate("settings")
    def _check(self, proposal: traitlets.Bunch) -> dict[str, Any]:
        known = (*self._limits, *self._choices)
        for key, value in proposal["value"].items():
            check_name("setting", key, known)
            if key in self._choices:
                check_name(key, value, self._choices[key])
            elif all(isinstance(limit, int) for limit in self._limits[key]):
                check_whole(key, value, *self._limits[key])
            else:
                check_real(key, value, *self._limits[key])
        return {**self.settings, **proposal["value"]}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> SmallFigure:
        """The figure that a saved page or notebook holds, from its synced traits."""
        kept = {"controls": state.get("controls", []), "caption": state.get("caption", "")}
        figure = cls(**kept, **state["settings"])
        return figure.asking(state.get("predict") or {})

    def shown(self) -> dict[str, Any]:
        """The numbers of the figure, as the page computes them.

        Raises:
            ImportError: without mini-racer, which runs the page's arithmetic.
        """
        return ask("figure", self.figure, self.settings)

    def words(self) -> str:
        """Description of the figure in words, for paper and where no script runs."""
        raise NotImplementedError

    def __repr__(self) -> str:
        listed = ", ".join(f"{key}={value!r}" for key, value in self.settings.items())
        return f"{type(self).__name__}({listed})"


class ScoreVariance(SmallFigure):
    """Variance of the score q^T (b k) against the width n, measured on 400 pairs, beside n b^2.

    Args:
        width: n, 1 to 128.
        scaling: "one", "inverse_sqrt_n" or "inverse_n".
        seed: of the drawn q and k, 0 to 999.
        controls, caption: as for ``SmallFigure``.

    Raises:
        ValueError: for a value out of range or an unknown scaling.
    """

    _figure = "variance"
    _numbers: ClassVar[tuple[str, ...]] = ("score-variance", "variance-theory", "largest-weight")
    _limits: ClassVar[dict[str, Limits]] = {"width": (1, 128), "seed": (0, 999)}
    _choices: ClassVar[dict[str, tuple[str, ...]]] = {
        "scaling": ("one", "inverse_sqrt_n", "inverse_n")
    }
    _start: ClassVar[dict[str, Real | str]] = {"width": 16, "scaling": "one", "seed": 7}

    def words(self) -> str:
        """Description of the figure in words, for paper and where no script runs."""
        shown = self.shown()
        return (
            f"Variance of the score q\u1d40 (b k) against the width n. At n = "
            f"{self.settings['width']} with b = {shown['scaling']:.3g} it is n b\u00b2 = "
            f"{shown['variance-theory']:.3g} in theory."
        )


class ChunkView(SmallFigure):
    """Coefficients that a chunk forms at once, the part carried by the state, and the cost.

    Multiplications per head: 2 n for each coefficient inside a chunk, n d_v for each token that
    reads the state and for each that is written into it; here n = d_v.

    Args:
        length: L, 4 to 48.
        chunk: C, 1 (token by token) to 48 (from L on: all at once).
        width: n = d_v, 2 to 64.
        step: chunks already done, 0 for all.
        controls, caption: as for ``SmallFigure``.

    Raises:
        ValueError: for a value out of range.
    """

    _figure = "chunks"
    _numbers: ClassVar[tuple[str, ...]] = ("sequential-steps", "inside-entries", "multiplications")
    _limits: ClassVar[dict[str, Limits]] = {
        "length": (4, 48),
        "chunk": (1, 48),
        "width": (2, 64),
        "step": (0, 48),
    }
    _start: ClassVar[dict[str, Real | str]] = {"length": 24, "chunk": 6, "width": 16, "step": 0}

    def words(self) -> str:
        """Description of the figure in words, for paper and where no script runs."""
        length, shown = self.settings["length"], self.shown()
        return (
            f"{length} tokens in chunks of {min(self.settings['chunk'], length)}: "
            f"{shown['sequential-steps']} steps one after another, {shown['inside-entries']} "
            f"coefficients formed, {shown['multiplications']} multiplications per head."
        )


class CostView(SmallFigure):
    """Roofline bound on the time of one head against L: all at once, and in chunks.

    Operations: two per multiplication that ``ChunkView`` counts. Bytes: q, k, v and y once, two
    bytes a number; per chunk the state out and in, four bytes a number. The bound is the larger of
    operations / peak and bytes / bandwidth; it knows nothing of launch times or of latency.

    Args:
        power: log2 of L, 6 to 20.
        width: n = d_v, 16 to 256.
        chunk: C, 16 to 256.
        machine: "h200" or "a100" (data sheet: dense bf16 peak, memory bandwidth), or "laptop"
            (1 TFLOP/s and 60 GB/s, an order of magnitude).
        controls, caption: as for ``SmallFigure``.

    Raises:
        ValueError: for a value out of range or an unknown machine.
    """

    _figure = "cost"
    _numbers: ClassVar[tuple[str, ...]] = (
        "cost-at-once",
        "cost-in-chunks",
        "cost-ratio",
        "steps-in-chunks",
        "cost-intensity",
    )
    _limits: ClassVar[dict[str, Limits]] = {
        "power": (6, 20),
        "width": (16, 256),
        "chunk": (16, 256),
    }
    _choices: ClassVar[dict[str, tuple[str, ...]]] = {"machine": ("h200", "a100", "laptop")}
    _start: ClassVar[dict[str, Real | str]] = {
        "power": 12,
        "width": 128,
        "chunk": 64,
        "machine": "h200",
    }

    def words(self) -> str:
        """Description of the figure in words, for paper and where no script runs."""
        length = 2 ** self.settings["power"]
        chunk = min(self.settings["chunk"], length)
        return (
            f"Lower bound on the time per head against L, on {self.settings['machine']}. At "
            f"L = {length} with n = {self.settings['width']}: {self.shown()['steps-in-chunks']} "
            f"chunks of {chunk}, one after another, instead of the whole matrix at once."
        )
