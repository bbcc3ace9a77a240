"""The explorer: A_t, b_j, phi and eta_i under the reader's fingers, each row of Table 1 a preset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anywidget
import traitlets

from coefdyn import CoefficientDynamics
from coefdyn.widgets import settings as rules
from coefdyn.widgets.source import module_source, style_source
from coefdyn.widgets.tokens import build_dynamics

__all__ = ["PARTS", "Explorer"]

PARTS: tuple[str, ...] = (
    "presets",
    "equation",
    "matrix",
    "impulse",
    "plane",
    "readout",
    "numbers",
    "controls",
    "tokens",
    "panels",
)
"""What an explorer can show, from top to bottom."""


class Explorer(anywidget.AnyWidget):
    """One interactive figure of coefficient dynamics (paper, eq. 2-4 and Table 1).

    It computes in the browser, so it is alive in the built book without a kernel; in JupyterLab its
    settings go both ways: ``e.settings = {"decay": 0.9}`` moves the slider, ``e.observe`` hears it.

    Args:
        preset: a row of Table 1, such as "gated_deltanet" (``coefdyn.widgets.settings.ROWS``).
        parts: which parts to show, from ``PARTS``; None for all.
        name: what the page's address calls this explorer; empty for the first of the page.
        **settings: any other setting, such as ``length=24``; ``coefdyn.widgets.settings.schema()``
            lists them. Positions ``column`` (j) and ``row`` (i) count from 1, as in the paper.

    Raises:
        ValueError: for an unknown setting, choice or part (the message names the nearest known
            one), or a number out of range.
    """

    _esm = module_source()
    _css = style_source()

    settings = traitlets.Dict().tag(sync=True)
    data = traitlets.Dict().tag(sync=True)
    parts = traitlets.List(traitlets.Unicode()).tag(sync=True)
    name = traitlets.Unicode("").tag(sync=True)

    def __init__(
        self,
        preset: str = "gated_deltanet",
        *,
        parts: Sequence[str] | None = None,
        name: str = "",
        **settings: Any,
    ) -> None:
        chosen = list(PARTS if parts is None else parts)
        for part in chosen:
            rules.check_name("part", part, PARTS)
        complete = rules.validate({"preset": preset, **settings})
        super().__init__(settings=complete, parts=chosen, name=name)

    @traitlets.validate("settings")
    def _complete(self, proposal: traitlets.Bunch) -> dict[str, Any]:
        """Named settings change, the others stay as they are."""
        return rules.validate(proposal["value"], base=self.settings or None)

    def dynamics(self) -> CoefficientDynamics:
        """What the page shows now, rebuilt in float64 with shapes ``(L, n)``."""
        return build_dynamics(self.settings)

    def link(self) -> str:
        """The address fragment that opens a page of the book at these settings."""
        return rules.address(self.settings, self.name)

    def __repr__(self) -> str:
        changed = rules.changes(self.settings)
        listed = ", ".join(f"{key}={value!r}" for key, value in changed.items())
        return f"Explorer({listed})"
