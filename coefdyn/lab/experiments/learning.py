"""Figures of how designs learn and how far it carries, from the curves that every run keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from coefdyn.lab.experiments.baselines import baseline
from coefdyn.lab.experiments.figures import (
    PALETTE,
    draw_curve,
    empty_figure,
    legend_below,
    new_figure,
)
from coefdyn.lab.experiments.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["beyond_figure", "seeds_figure"]


def beyond_figure(result: Result) -> Figure:
    """Parity, position by position, on texts four times as long as those of the training.

    Per design the mean over the seeds and its interval; Householder-like ones solid, the others
    dashed.
    """
    found = [one for one in result.find(task="parity") if one is not None]
    if not found:
        return empty_figure("parity has not been run")
    drawn, (axes,) = new_figure(width=5.8, height=4.4)
    for color, outcome in zip(PALETTE, found, strict=False):
        rows = [record["diagnostics"]["longer"]["by_position"] for record in outcome.records]
        name = outcome.variant.facets["design"]
        draw_curve(axes, range(1, len(rows[0]) + 1), rows, color, name)
    trained = found[0].variant.task.seq_len
    axes.axvline(trained, color="0.6", lw=0.8)
    axes.annotate(
        "trained up to here", (trained, 0.41), xytext=(4, 0), textcoords="offset points", fontsize=9
    )
    axes.axhline(0.5, color="0.6", lw=0.8, ls=":")
    axes.set(xlabel="position", ylabel="share of right answers", ylim=(0.38, 1.02))
    legend_below(drawn, [axes], 2, frameon=False, fontsize=None)
    return drawn


def seeds_figure(
    result: Result,
    *,
    groups: Mapping[str, Mapping[str, str]],
    series: Mapping[str, Mapping[str, str]],
    pilot_steps: int,
    steps: int,
) -> Figure:
    """Validation accuracy of the judged runs on noisy recall, a panel per group, a line per seed.

    The dotted line is where the runs that chose the learning rate ended. Runs that turned NaN have
    no line; a run that has solved its task ends early.

    Args:
        result: whose runs.
        groups: title -> its facets.
        series: word in the legend -> its facets.
        pilot_steps: of the runs that chose the learning rate.
        steps: of the judged ones.
    """
    drawn, panels = new_figure(len(groups), width=2.7, height=3.4)
    guess, _ = baseline(result.variants[0].task)
    for axes, (title, facets) in zip(panels, groups.items(), strict=True):
        for color, (words, own) in zip(PALETTE, series.items(), strict=False):
            axes.plot([], [], color=color, label=words)
            outcome = result.one(**facets, **own)
            for record in outcome.records if outcome else []:
                if record["diverged_at"] is None:
                    metrics = record["metrics"]
                    axes.plot(metrics["step"], metrics["accuracy"], color=color, lw=1.2, alpha=0.85)
        axes.axhline(guess, color="0.55", lw=0.8, ls="--", label="most frequent value")
        axes.axvline(pilot_steps, color="0.55", lw=0.8, ls=":", label="end of the shorter runs")
        axes.set(xlabel="steps", xlim=(0, steps), ylim=(0, 1.02))
        axes.set_xticks([0, pilot_steps, 2 * pilot_steps, steps])
        axes.set_title(title, loc="left")
    panels[0].set_ylabel("validation accuracy")
    legend_below(drawn, panels[:1], 3, frameon=False, fontsize=None)
    return drawn
