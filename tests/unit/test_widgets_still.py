"""The still picture shows the explorer's own numbers."""

from __future__ import annotations

import matplotlib

matplotlib.use("Agg")

import pytest
import torch
from matplotlib import pyplot as plt

from coefdyn.plots.explorer_still import explorer_still, take_still
from coefdyn.widgets import Explorer
from coefdyn.widgets.settings import ROWS


@pytest.mark.parametrize("row", ROWS)
def test_still_draws_every_row_of_table_1(row: str) -> None:
    explorer = Explorer(row, length=8)
    figure = explorer_still(explorer)
    figure.canvas.draw()
    shown = torch.tensor(figure.axes[0].images[0].get_array().filled(0.0))
    want = explorer.dynamics().coefficients(normalized=explorer.settings["view"] == "normalized")
    torch.testing.assert_close(shown.double(), want)
    plt.close(figure)


def test_still_counts_positions_like_the_explorer() -> None:
    explorer = Explorer("gla", length=8, column=3, row=5)
    still = take_still(explorer.dynamics(), explorer.settings)
    assert (still.column, still.row) == (2, 4)
    torch.testing.assert_close(still.states, explorer.dynamics().states(2))
