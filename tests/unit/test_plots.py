"""Every view draws the numbers it was given."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest
from designs import Inputs

from coefdyn import analysis, plots, readout

mpl.use("Agg")


@pytest.fixture
def axis():
    """A fresh axis, closed afterwards."""
    from matplotlib import pyplot

    plots.use_style()
    figure, one = pyplot.subplots()
    yield one
    pyplot.close(figure)


def test_matrix_is_the_coefficients(axis) -> None:
    d = Inputs.draw(batch=(2, 3)).dynamics("scaled_householder", "softplus", "row_sum")
    image = plots.plot_coefficients(axis, d.coefficients())
    shown = np.asarray(image.get_array().filled(0.0))
    assert np.allclose(shown, d.coefficients()[0, 0].detach().numpy())
    assert image.norm.vmin == -image.norm.vmax


def test_impulse_response_and_path(axis) -> None:
    d = Inputs.draw(batch=()).dynamics("diagonal", "identity", "one")
    plots.plot_impulse_response(axis, d, 3)
    column = axis.lines[-1].get_ydata()
    assert np.allclose(column, d.coefficients()[3:, 3].detach().numpy())
    plots.plot_state_path(axis, d, 3)
    assert np.allclose(axis.lines[-2].get_xdata(), d.states(3)[:, 0].detach().numpy())


def test_readout_spectrum_variance(axis) -> None:
    found = analysis.near_zero_set(readout.relu)
    plots.plot_readout(axis, found, "ReLU")
    assert "10" in axis.get_title(loc="left")
    d = Inputs.draw(batch=()).dynamics("householder", "identity", "one")
    plots.plot_eigenvalues(axis, analysis.spectrum(d))
    assert len(axis.collections[-1].get_offsets()) == (d.length - 1) * d.key_dim
    plots.plot_variance(axis, analysis.score_variance(lambda n: 1.0, samples=500), "b = 1")
    assert "slope" in axis.lines[-1].get_label()
