"""Training in the page: the reader chooses a design and a task and watches the training."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import anywidget
import traitlets

from coefdyn.lab.contest.catalogue import TASKS
from coefdyn.lab.train.kept_runs import kept_run
from coefdyn.lab.train.offers import (
    CHAPTERS,
    CHOICES,
    MOST_CONSTANT,
    POSITIONS,
    RATES,
    ROWS,
    SEQUENCES,
    SIZE,
    SPEEDS,
    contests,
    design_words,
    offered,
)
from coefdyn.lab.train.source import page_source
from coefdyn.options import check_choice
from coefdyn.widgets.settings import check_name, check_whole
from coefdyn.widgets.source import style_source

__all__ = ["PageTraining"]

Design = str | Mapping[str, Any]
_FOUR = ("evolution", "readout", "normalizer", "scaling")


class PageTraining(anywidget.AnyWidget):
    """A two-layer model trained in the reader's browser, without kernel, server or network.

    Tasks, model, gradient and AdamW are plain JavaScript in a worker of the page. From the same
    seed it draws the sequences of ``coefdyn.lab.tasks`` and trains ``coefdyn.models.SequenceModel``
    at width 32, two layers of four heads, batch 16.

    Args:
        left: the design: a row such as "softmax_attention" (``coefdyn.lab.train.offers.ROWS``), or
            one's own, a dict with "evolution", "readout", "normalizer", "scaling" as in
            ``coefdyn.mixers.design.DesignMixer``, and "constant", lambda of A_t = lambda I, in
            magnitude at most 1.2 and not 0.
        right: a second design beside it, from the same seed; None for none.
        task: one of ``coefdyn.lab.contest.TASKS``.
        learning_rate: of AdamW, constant after 20 steps: 1e-3, 3e-3, 1e-2 or 3e-2.
        seed: of sequences, weights and order, 0 to 9999.
        positions: "none", "rotary" or "learned".
        name: what the page's address calls this figure: ``#cd-train?...`` for "train".
        **settings: where it looks: ``layer``, ``head``, ``sequence`` (from 1), and ``speed``.

    Raises:
        ValueError: for an unknown choice, naming the nearest one, or a number out of range.
    """

    _esm = page_source(json.dumps(offered(), ensure_ascii=False))
    _css = style_source()

    settings = traitlets.Dict().tag(sync=True)
    contests = traitlets.Dict().tag(sync=True)
    name = traitlets.Unicode("train").tag(sync=True)

    def __init__(
        self,
        left: Design = "softmax_attention",
        right: Design | None = None,
        *,
        task: str = "selective-copying",
        learning_rate: float = 1e-2,
        seed: int = 0,
        positions: str = "none",
        name: str = "train",
        **settings: Any,
    ) -> None:
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", name):
            raise ValueError(
                f"name {name!r} cannot stand in an address; use letters, digits, - and _, "
                "a letter first."
            )
        look = {"layer": 1, "head": 1, "sequence": 1, "speed": "full"}
        for key in settings:
            check_name("setting", key, tuple(look))
        first = {"task": task, "rate": learning_rate, "seed": seed, "positions": positions}
        designs = {"left": _design(left), "right": None if right is None else _design(right)}
        super().__init__(
            settings={**first, **designs, **look, **settings}, contests=contests(), name=name
        )

    @classmethod
    def contest(cls, chapter: str) -> PageTraining:
        """Build the figure that a chapter opens, one of ``coefdyn.lab.train.offers.CHAPTERS``.

        Raises:
            ValueError: for a chapter without one, naming the nearest.
        """
        check_name("chapter", chapter, tuple(CHAPTERS))
        return cls(**CHAPTERS[chapter])

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> PageTraining:
        """Restore the figure of a saved page or notebook from its synced traits."""
        given = dict(state["settings"])
        rate = given.pop("rate")
        return cls(learning_rate=rate, name=state["name"], **given)

    @traitlets.validate("settings")
    def _complete(self, proposal: traitlets.Bunch) -> dict[str, Any]:
        """Complete settings: named ones change, the others stay as they are."""
        settings = {**self.settings, **proposal["value"]}
        known = ("task", "left", "right", "rate", "seed", "positions")
        for key in settings:
            check_name("setting", key, (*known, "layer", "head", "sequence", "speed"))
        check_choice("task", settings["task"], tuple(TASKS))
        check_choice("positions", settings["positions"], tuple(POSITIONS))
        check_choice("speed", settings["speed"], tuple(SPEEDS))
        if settings["rate"] not in RATES:
            listed = ", ".join(f"{rate:g}" for rate in RATES)
            raise ValueError(f"learning_rate must be one of {listed}; got {settings['rate']!r}.")
        check_whole("seed", settings["seed"], 0, 9999)
        for key, most in (("layer", "layers"), ("head", "heads")):
            check_whole(key, settings[key], 1, SIZE[most])
        check_whole("sequence", settings["sequence"], 1, SEQUENCES)
        settings["left"] = _design(settings["left"])
        settings["right"] = None if settings["right"] is None else _design(settings["right"])
        return settings

    def link(self) -> str:
        """The address fragment that opens a page's figure of this name at these settings."""
        parts = []
        for key, value in self.settings.items():
            text = _design_text(value) if key in ("left", "right") else _plain(value)
            parts.append(f"{key}={quote(text, safe='')}")
        return f"#cd-{self.name}?" + "&".join(parts)

    def words(self) -> str:
        """Description of the figure in words, for paper and where no script runs."""
        s, kept = self.settings, kept_run(self.settings)
        designs = [design_words(s[side]) for side in ("left", "right") if s[side]]
        base = self.contests[s["task"]]["base"]
        return (
            f"A figure that trains in the page: {' beside '.join(designs)}, on "
            f"{TASKS[s['task']].label.lower()}, seed {s['seed']}, learning rate {s['rate']:g}. "
            f"A guess scores {base:.2f}. {kept.words() if kept else ''}"
            "The figure needs a screen and JavaScript."
        )

    def __repr__(self) -> str:
        listed = ", ".join(f"{key}={value!r}" for key, value in self.settings.items())
        return f"PageTraining({listed})"


def _design(value: Any) -> dict[str, Any]:
    """A design in the page's form: {"preset": row}, or "own" with its ingredients."""
    if isinstance(value, str):
        check_name("row", value, tuple(ROWS))
        return {"preset": value}
    if not isinstance(value, Mapping):
        raise ValueError(f"a design is the name of a row or a dict of ingredients; got {value!r}.")
    if value.get("preset", "own") != "own":
        return _design(value["preset"])
    for key in value:
        check_name("ingredient", key, (*_FOUR, "constant", "preset"))
    start = {**ROWS["softmax_attention"]["options"], "constant": 0.7}
    design = {key: value.get(key, start[key]) for key in (*_FOUR, "constant")}
    for key in _FOUR:
        check_choice(key, design[key], tuple(CHOICES[key]))
    constant = design["constant"]
    number = isinstance(constant, (int, float)) and not isinstance(constant, bool)
    if not number or not 0 < abs(constant) <= MOST_CONSTANT:
        raise ValueError(
            f"constant, lambda of A_t = lambda I, must lie within {-MOST_CONSTANT} and "
            f"{MOST_CONSTANT} and not be 0; got {constant!r}."
        )
    return {"preset": "own", **design}


def _plain(value: Any) -> str:
    """Format a number as JavaScript writes it, or a text."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def _design_text(design: dict[str, Any] | None) -> str:
    if design is None:
        return "none"
    if design["preset"] != "own":
        return str(design["preset"])
    keys = ("preset", "evolution", "constant", "readout", "normalizer", "scaling")
    return ",".join(_plain(design[key]) for key in keys)
