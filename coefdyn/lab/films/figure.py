"""A film on paper: a few frames of one head side by side, for print and pages without script."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from coefdyn.lab.films.film import Film
from coefdyn.plots.style import COEFFICIENT_CMAP, centered_norm

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["film_still"]


def film_still(
    film: Film, *, run: int = 0, layer: int = 1, head: int = 1, frames: Sequence[int] | None = None
) -> Figure:
    """Matrices alpha / eta at some training steps, on one colour scale.

    Args:
        film: such as ``Film.load("principle-3")``.
        run: from 0; layer, head: from 1, as in ``coefdyn.lab.films.TrainingFilm``.
        frames: which ones, from 0; None for the first, the last and two between.

    Raises:
        IndexError: for a run, layer, head or frame that the film does not have.
    """
    from matplotlib.figure import Figure as MakeFigure

    last = len(film.steps) - 1
    chosen = (
        list(dict.fromkeys(round(last * part / 3) for part in range(4)))
        if frames is None
        else list(frames)
    )
    shown = film.coefficients(run)[chosen, layer - 1, head - 1]
    figure = MakeFigure(figsize=(2.6 * len(chosen), 2.9), layout="constrained")
    norm = centered_norm(float(shown.abs().max()) or 1.0)
    low, high = 0.5, film.length + 0.5  # positions count from 1
    for place, (frame, matrix) in enumerate(zip(chosen, shown, strict=True)):
        axes = figure.add_subplot(1, len(chosen), place + 1)
        extent = (low, high, high, low)
        axes.imshow(matrix.numpy(), cmap=COEFFICIENT_CMAP, norm=norm, extent=extent)
        axes.set_title(f"step {film.steps[frame]}, accuracy {film.runs[run].accuracy[frame]:.3f}")
        axes.set(xlabel="j", ylabel="i" if place == 0 else "")
    figure.suptitle(f"{film.runs[run].name}: layer {layer}, head {head}")
    return figure
