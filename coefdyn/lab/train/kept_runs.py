"""Kept runs of the figure that trains in the page, for paper and where no script runs.

``tests/browser/record_train.py`` makes them in a browser, with the very worker of the page.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from coefdyn.lab.places import data_folder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["DECIDES", "KeptRun", "kept_run", "kept_still"]

#: the settings that identify a run
DECIDES = ("task", "left", "right", "rate", "seed", "positions")
_COLORS = ("#0072B2", "#D55E00")


@dataclass(frozen=True, kw_only=True)
class KeptRun:
    """One or two designs that were trained in a browser.

    Args:
        settings: those of ``DECIDES``.
        base: accuracy of the best simple guess.
        tokens, targets: the first test sequence; "" where nothing is asked.
        runs: per design its name, "steps", "loss", "accuracy", "matrix" (alpha / eta of the second
            layer's first head on that sequence), and "stopped", the step at which a number left the
            range of float32, or None.
    """

    settings: dict[str, Any]
    base: float
    tokens: list[str]
    targets: list[str]
    runs: list[dict[str, Any]]

    def words(self) -> str:
        """Result in one sentence for each design."""
        told = []
        for run in self.runs:
            if run["stopped"]:
                end = f"a number left the range of float32 at step {run['stopped']}"
            else:
                end = f"test accuracy {run['accuracy'][-1]:.2f} after {run['steps'][-1]} steps"
            told.append(f"A kept run of {run['name']}: {end}. ")
        return "".join(told)


def kept_run(settings: Mapping[str, Any]) -> KeptRun | None:
    """The kept run of these settings, if there is one."""
    for path in sorted((data_folder() / "trained").glob("*.json")):
        kept = json.loads(path.read_text(encoding="utf-8"))
        if all(kept["settings"][key] == settings[key] for key in DECIDES):
            return KeptRun(**kept)
    return None


def kept_still(kept: KeptRun) -> Figure:
    """Draw accuracy during training, and each design's final matrix, if it has one."""
    from matplotlib.figure import Figure as MakeFigure

    from coefdyn.plots.style import COEFFICIENT_CMAP, centered_norm

    shown = [run for run in kept.runs if run["matrix"] is not None]
    figure = MakeFigure(figsize=(3.4 + 2.6 * len(shown), 2.9), layout="constrained")
    columns = figure.subplots(1, 1 + len(shown), width_ratios=[1.3, *(1 for _ in shown)])
    panels = list(columns) if shown else [columns]
    axes = panels[0]
    axes.axhline(kept.base, color="#4A4A4A", linestyle=":", label="base rate")
    for place, run in enumerate(kept.runs):
        style = {"color": _COLORS[place], "linestyle": ("-", "--")[place], "marker": "os"[place]}
        axes.plot(run["steps"], run["accuracy"], label=run["name"], markersize=3, **style)
        if run["stopped"]:
            axes.axvline(run["stopped"], color=_COLORS[place], linewidth=1)
    axes.set(ylim=(0, 1.03), xlabel="training step", ylabel="test accuracy")
    axes.legend(fontsize="x-small", loc="best")
    for axes, run in zip(panels[1:], shown, strict=True):
        top = float(max(abs(x) for row in run["matrix"] for x in row)) or 1.0
        axes.imshow(run["matrix"], cmap=COEFFICIENT_CMAP, norm=centered_norm(top))
        places = range(len(kept.tokens))
        axes.set_xticks(places, kept.tokens, rotation=90, fontsize="xx-small")
        asked = [f"{t} ({a})" if a else t for t, a in zip(kept.tokens, kept.targets, strict=True)]
        axes.set_yticks(places, asked, fontsize="xx-small")
        axes.set_title(run["name"], fontsize="small")
    return figure
