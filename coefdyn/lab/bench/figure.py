"""The picture of trials: accuracy and loss of all, and the matrix of one."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from coefdyn.lab.bench.trial import Trial
from coefdyn.lab.experiments.figures import PALETTE, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["trial_figure", "trial_png"]


def trial_figure(trials: Sequence[Trial], *, layer: int = 1, head: int = 1) -> Figure:
    """Curves of every trial, and alpha / eta of the last one's latest frame.

    Args:
        trials: in the order of starting; curves so far are drawn.
        layer, head: of the matrix, from 1; a number too large shows the last one.
    """
    figure, (accuracy, loss, matrix) = new_figure(columns=3, width=3.6, height=3.0)
    for place, trial in enumerate(trials):
        color, last = PALETTE[place % len(PALETTE)], trial is trials[-1]
        style = {"color": color, "linewidth": 2.2 if last else 1.2}
        count = len(trial.accuracy)
        accuracy.plot(trial.steps[:count], trial.accuracy[:count], label=f"{place + 1}", **style)
        accuracy.plot(trial.steps[count - 1 : count], trial.accuracy[-1:], "o", color=color)
        loss.plot(trial.steps[:count], trial.loss[:count], **style)
    accuracy.set(title="test accuracy", ylim=(0, 1.02), xlabel="training step")
    loss.set(title="test loss, nats", xlabel="training step")
    if trials:
        accuracy.legend(title="trial", loc="upper left", frameon=False)
        _matrix(matrix, trials[-1], layer, head)
    else:
        matrix.axis("off")
    return figure


def _matrix(axes: Axes, trial: Trial, layer: int, head: int) -> None:
    """alpha / eta in blue; where some are negative, green above zero and brown below."""
    if trial.coefficients is None:
        axes.axis("off")
        return
    alpha = trial.coefficients
    layer, head = min(layer, alpha.shape[0]), min(head, alpha.shape[1])
    shown = alpha[layer - 1, head - 1]
    top = float(shown.abs().max()) or 1.0
    signed = float(shown.min()) < 0
    edges = (0.5, alpha.shape[-1] + 0.5)  # positions count from 1
    axes.imshow(
        shown.numpy(),
        cmap="BrBG" if signed else "Blues",
        vmin=-top if signed else 0.0,
        vmax=top,
        extent=(*edges, *reversed(edges)),
    )
    axes.set(
        title=f"α/η, step {trial.steps[-1]}, layer {layer}, head {head}", xlabel="j", ylabel="i"
    )


def trial_png(trials: Sequence[Trial], *, layer: int = 1, head: int = 1) -> bytes:
    """``trial_figure`` as a PNG image."""
    buffer = io.BytesIO()
    trial_figure(trials, layer=layer, head=head).savefig(buffer, format="png", dpi=90)
    return buffer.getvalue()
