"""The explorer: interactive A_t, b_j, phi and eta_i, with the rows of Table 1 as presets."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import anywidget
import traitlets

from coefdyn import CoefficientDynamics
from coefdyn.shapes import Float, Tensor
from coefdyn.widgets import given
from coefdyn.widgets import settings as rules
from coefdyn.widgets.alone import page_of
from coefdyn.widgets.ingredients import dynamics_of
from coefdyn.widgets.questions import check_question
from coefdyn.widgets.shown import Shown, shown_at
from coefdyn.widgets.source import packed_source, style_source

__all__ = ["CARDS", "PARTS", "Explorer"]

PARTS: tuple[str, ...] = (
    "presets",
    "path",
    "equation",
    "matrix",
    "answer",
    "impulse",
    "plane",
    "readout",
    "numbers",
    "panels",
    "controls",
    "tokens",
)
"""What an explorer can show, from top to bottom."""

CARDS: tuple[str, ...] = ("card-evolution", "card-scaling", "card-readout", "card-normalizer")
"""Single cards of the controls, for an explorer about one ingredient."""

NUMBERS: tuple[str, ...] = (
    "near-zero-fraction",
    "row-sum",
    "overflow",
    "weight",
    "largest-weight",
)
"""Numbers that a prediction can be about; "weight" is what output i reads of token j."""


_GIVEN_PARTS = tuple(part for part in PARTS if part not in ("presets", "path", "answer", "tokens"))


@runtime_checkable
class _Mixer(Protocol):
    def dynamics(self, x: Tensor) -> tuple[CoefficientDynamics, Tensor]: ...


class Explorer(anywidget.AnyWidget):
    """One interactive figure of coefficient dynamics (paper, eq. 2-4 and Table 1).

    It computes in the browser, so it is alive in the built book without a kernel; in JupyterLab its
    settings go both ways: ``e.settings = {"decay": 0.9}`` moves the slider, ``e.observe`` hears it.

    Args:
        preset: a row of Table 1, such as "gated_deltanet"; an unknown one is told with
            the rows there are.
        view: "first" for the first figure, which has few controls and opens all of them at a
            button, in place and with its state; otherwise what the matrix shows, "raw" or
            "normalized", None for what the row starts with.
        choices: kinds that stay choosable in the first figure, such as ``("readout",
            "normalizer")``; None for the one that the row is about.
        parts: which parts to show, from ``PARTS`` and ``CARDS``; None for all. A figure about one
            ingredient: ``parts=["readout", "numbers", "card-readout"]``.
        name: what the page's address calls this explorer, such as "left". Without one the first
            without is ``#cd?...``, others ``#cd-2?...`` by their place on the page, and so on.
        predict: a question that gates the controls until the reader has answered it, such as
            ``{"id": "decay", "question": "Lower the decay: which way does the share of near-zero
            coefficients move?", "number": "near-zero-fraction", "control": "decay", "direction":
            "down", "why": "Each step keeps less."}``. Only that control is judged, moved that way
            (either way without a ``direction``); ``why`` is then shown. A link with settings opens
            without the question. The answer and its date stay in the reader's browser.
        **settings: any other setting, such as ``length=24``; the keys of
            ``Explorer().settings`` are all of them. Positions ``column`` (j) and ``row`` (i) count
            from 1, as in the paper.

    Raises:
        ValueError: for an unknown setting, choice or part (the message names the nearest known
            one), or a number out of range.
    """

    _esm = packed_source()
    _css = style_source()

    settings = traitlets.Dict().tag(sync=True)
    data = traitlets.Dict().tag(sync=True)
    parts = traitlets.List(traitlets.Unicode()).tag(sync=True)
    name = traitlets.Unicode("").tag(sync=True)
    predict = traitlets.Dict().tag(sync=True)
    first = traitlets.Bool(False).tag(sync=True)
    choices = traitlets.List(traitlets.Unicode()).tag(sync=True)
    _sources: tuple[CoefficientDynamics, ...] = ()

    def __init__(
        self,
        preset: str = "gated_deltanet",
        *,
        view: str | None = None,
        choices: Sequence[str] | None = None,
        parts: Sequence[str] | None = None,
        name: str = "",
        predict: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> None:
        chosen = list(PARTS if parts is None else parts)
        for part in chosen:
            rules.check_name("part", part, PARTS + CARDS)
        question = check_question(predict or {}, NUMBERS, tuple(rules.schema()["ranges"]))
        if view is not None:
            rules.check_name("view", view, ("first", *rules.schema()["choices"]["view"]["options"]))
        first = view == "first"
        shows = {} if first or view is None else {"view": view}
        complete = rules.validate({"preset": preset, **settings, **shows})
        super().__init__(
            settings=complete,
            parts=chosen,
            name=name,
            predict=question,
            first=first,
            choices=_choices(choices, complete["preset"], first=first),
        )

    @classmethod
    def from_dynamics(
        cls,
        dynamics: CoefficientDynamics,
        index: tuple[int, ...] | None = None,
        *,
        words: Sequence[str] | None = None,
        labels: Sequence[str] | None = None,
        parts: Sequence[str] | None = None,
        name: str = "",
        **settings: Any,
    ) -> Explorer:
        """An explorer on given dynamics, head by head; readout and normalizer stay choices.

        Where ``index`` leaves several heads, a selector appears and ``head`` is a setting, from 1.
        Each head adds its numbers to the page, so name one where one is enough.

        Args:
            dynamics: any, with L up to 64; other dtypes are shown in float64.
            index: one number per leading axis for one head, counted from 0; fewer, or None, leave
                the rest to the selector, at most 16 heads.
            words: the tokens as text, one per position; rows, columns and the answer then say them.
            labels: what the selector calls the heads; their indices if None.
            parts, name, settings: as for ``Explorer``; ``readout`` and ``normalizer`` start as the
                dynamics have them.

        Raises:
            ValueError: for an index that does not fit, too many heads or tokens, words or labels
                that do not fit, or a readout that the page cannot compute.
        """
        heads = given.pick_heads(dynamics, index)
        if words is not None and len(words) != dynamics.length:
            raise ValueError(
                f"words must have one text per token, got {len(words)} for L = {dynamics.length}."
            )
        known = _GIVEN_PARTS if words is None else (*_GIVEN_PARTS, "answer")
        if labels is not None and len(labels) != len(heads):
            raise ValueError(
                f"labels must have one text per head, got {len(labels)} for {len(heads)} heads."
            )
        if settings.get("view") == "first":
            raise ValueError(
                "view='first' shows designs of the explorer's own; given dynamics have the lab's "
                "views, so leave view out."
            )
        shown = known if parts is None else parts
        first = next(iter(heads.values()))
        chosen = {"head": settings.pop("head", 1)}
        explorer = cls(
            **{"preset": "own", **given.settings_of(first), **settings}, parts=shown, name=name
        )
        explorer._sources = tuple(heads.values())
        said = {} if words is None else {"words": [str(word) for word in words]}
        if labels is not None and len(heads) > 1:
            said["labels"] = [str(label) for label in labels]
        explorer.data = {**_page_data(heads), **said}
        explorer.settings = chosen
        return explorer

    @classmethod
    def from_mixer(
        cls,
        mixer: _Mixer,
        x: Tensor,
        index: tuple[int, ...] | None = None,
        *,
        parts: Sequence[str] | None = None,
        name: str = "",
        **settings: Any,
    ) -> Explorer:
        """An explorer on what a mixer does with x, ``(..., L, d_model)``; heads are the last of the
        leading axes. Otherwise as ``from_dynamics``."""
        dynamics, _ = mixer.dynamics(x)
        return cls.from_dynamics(dynamics, index, parts=parts, name=name, **settings)

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Explorer:
        """The explorer that a saved page or notebook holds, from its synced traits."""
        settings = dict(state["settings"])
        head = settings.pop("head", 1)
        explorer = cls(
            **settings, parts=state["parts"], name=state["name"], predict=state.get("predict")
        )
        explorer.first = state.get("first", False)
        explorer.choices = state.get("choices", [])
        data = state.get("data") or {}
        arrays = data.get("heads") or ([data] if data else [])
        explorer._sources = tuple(map(given.from_arrays, arrays))
        explorer.data = data
        explorer.settings = {"head": head}
        return explorer

    @traitlets.validate("settings")
    def _complete(self, proposal: traitlets.Bunch) -> dict[str, Any]:
        """Complete settings: named ones change, the others stay as they are."""
        complete = rules.validate(proposal["value"], base=self.settings or None)
        heads = max(1, len(self._sources))
        if complete["head"] > heads:
            raise ValueError(f"head must lie between 1 and {heads}, got {complete['head']!r}.")
        return complete

    @traitlets.validate("name")
    def _addressable(self, proposal: traitlets.Bunch) -> str:
        name = proposal["value"]
        if name and not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", name):
            raise ValueError(
                f"name {name!r} cannot stand in an address; use letters, digits, - and _, "
                "a letter first."
            )
        return name

    def shown(self) -> Shown:
        """The numbers that the page shows now, at every setting, in float64.

        Raises:
            ImportError: without mini-racer, which runs the page's arithmetic.
        """
        return shown_at(self.settings, self.data)

    def coefficients(self, normalized: bool = False) -> Float[Tensor, "L L"]:
        """Coefficients alpha, or alpha / eta, as the page shows them now, ``(L, L)``.

        Raises:
            ImportError: without mini-racer, for designs of the explorer's own.
        """
        source = self._given()
        if source is not None:
            return source.coefficients(normalized=normalized)
        shown = self.shown()
        return shown.weights if normalized else shown.alpha

    def dynamics(self) -> CoefficientDynamics:
        """Dynamics that the page shows now, rebuilt in float64 with shapes ``(L, n)``.

        Tokens and gates of the explorer's own are those that its JavaScript draws.

        Raises:
            ValueError: on the way between a feature map and exp, ReLU or softplus, where no single
                readout has these coefficients; ``coefficients`` and ``shown`` still give them.
            ImportError: without mini-racer, for designs of the explorer's own.
        """
        return self._given() or dynamics_of(self.shown().model)

    def _given(self) -> CoefficientDynamics | None:
        """The chosen head of given dynamics, None where the explorer has tokens of its own."""
        if not self._sources:
            return None
        return given.rebuild(self._sources[self.settings["head"] - 1], self.settings)

    def save(self, path: str | Path, *, title: str = "Coefficient dynamics") -> Path:
        """Write the figure as it is set now to one file, which a browser opens by itself.

        Args:
            path: where to write, such as "page.html"; what is there is replaced.
            title: of the page.

        Returns:
            The path.

        Raises:
            OSError: where the file cannot be written.
        """
        place = Path(path)
        place.write_text(page_of(self, title, self.shown().words()), encoding="utf-8")
        return place

    def link(self) -> str:
        """The address fragment that opens a page of the book at these settings.

        Without a name it speaks to the first explorer of the page that has none.
        """
        return rules.address(self.settings, self.name)

    def __repr__(self) -> str:
        changed = rules.changes(self.settings)
        listed = ", ".join(f"{key}={value!r}" for key, value in changed.items())
        return f"Explorer({listed})"


_KINDS: tuple[str, ...] = ("structure", "scaling", "readout", "normalizer")


def _choices(chosen: Sequence[str] | None, preset: str, *, first: bool) -> list[str]:
    """The kinds that a first figure leaves to choose; none for a lab, which has all."""
    if not first:
        if chosen is not None:
            raise ValueError("choices belong to view='first'; without it every kind can be chosen.")
        return []
    if chosen is None:
        return [rules.schema()["rows"].get(preset, {}).get("about", "readout")]
    for key in chosen:
        rules.check_name("choice", key, _KINDS)
    return list(chosen)


def _page_data(heads: Mapping[given.Index, CoefficientDynamics]) -> dict[str, Any]:
    """The arrays of one head, or those of several with their indices as labels."""
    arrays = [given.arrays_of(head) for head in heads.values()]
    if len(arrays) == 1:
        return arrays[0]
    labels = [f"[{', '.join(map(str, place))}]" for place in heads]
    return {"heads": arrays, "labels": labels}
