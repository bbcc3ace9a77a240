"""The still picture shows the explorer's own numbers."""

from __future__ import annotations

import matplotlib

matplotlib.use("Agg")

import pytest
import torch
from matplotlib import pyplot as plt

from coefdyn.plots.explorer_still import explorer_still
from coefdyn.widgets import Explorer
from coefdyn.widgets.settings import ROWS


@pytest.mark.parametrize("row", ROWS)
def test_still_draws_every_row_of_table_1(row: str) -> None:
    explorer = Explorer(row, length=8)
    figure = explorer_still(explorer)
    figure.canvas.draw()
    shown = torch.tensor(figure.axes[0].images[0].get_array().filled(0.0))
    want = explorer.coefficients(normalized=explorer.settings["view"] == "normalized")
    torch.testing.assert_close(shown.double(), want)
    plt.close(figure)


@pytest.mark.parametrize(
    ("parts", "axes"),
    [
        (("readout", "numbers", "card-readout"), 1),
        (("matrix", "numbers"), 2),
        (("matrix", "impulse", "plane"), 5 - 1),
        (("numbers",), 6),
    ],
)
def test_still_has_the_views_that_the_explorer_has(parts: tuple[str, ...], axes: int) -> None:
    """A scale comes with the matrix and a second axis with the impulse response."""
    figure = explorer_still(Explorer("mamba2", length=6, parts=list(parts)))
    figure.canvas.draw()
    drawn = len(figure.axes) + sum(len(axis.child_axes) for axis in figure.axes)
    assert drawn == axes + ("impulse" in parts)
    plt.close(figure)


def test_still_is_drawn_between_two_designs() -> None:
    explorer = Explorer("softmax_attention", morph_to="linear_attention", morph=0.4, length=8)
    shown = explorer.shown()
    figure = explorer_still(explorer)
    drawn = torch.tensor(figure.axes[0].images[0].get_array().filled(0.0))
    torch.testing.assert_close(drawn.double(), explorer.coefficients(normalized=True))
    summary = figure.get_supxlabel().replace("\n", " ")
    assert summary.startswith("40% of the way from Softmax attention to Linear attention")
    assert f"row {shown.row + 1} sums to {shown.row_sum:.3g}" in summary
    plt.close(figure)


def test_a_text_stands_along_both_axes_of_its_still() -> None:
    explorer = Explorer("gated_deltanet")
    figure = explorer_still(explorer)
    matrix = figure.axes[0]
    words = explorer.shown().labels
    assert [label.get_text() for label in matrix.get_xticklabels()] == words
    assert [label.get_text() for label in matrix.get_yticklabels()] == words
    plt.close(figure)
    numbered = explorer_still(Explorer("gla", length=8))
    assert len(numbered.axes[0].get_xticklabels()) == 1, "tokens that are no text have no words"
    plt.close(numbered)


def test_still_counts_positions_like_the_explorer() -> None:
    explorer = Explorer("gla", length=8, column=3, row=5)
    shown = explorer.shown()
    assert (shown.column, shown.row) == (2, 4)
    torch.testing.assert_close(shown.path, explorer.dynamics().states(2))
