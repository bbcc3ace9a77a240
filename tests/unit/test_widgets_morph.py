"""Between two designs: the explorer's Python side has an answer at every setting."""

from __future__ import annotations

import itertools

import pytest
import torch

from coefdyn.widgets import Explorer
from coefdyn.widgets.settings import ROWS

#: each pair once, every second one from its later row to its earlier
PAIRS = [
    (ROWS[b], ROWS[a]) if (a + b) % 2 else (ROWS[a], ROWS[b])
    for a, b in itertools.combinations(range(len(ROWS)), 2)
]
SMALL = {"length": 6, "width": 3}


def _explorer(start: str, end: str, share: float) -> Explorer:
    return Explorer(start, morph_to=end, morph=share, **SMALL)


@pytest.mark.parametrize(("start", "end"), PAIRS)
def test_every_pair_has_numbers_and_most_have_dynamics(start: str, end: str) -> None:
    explorer = _explorer(start, end, 0.35)
    alpha, weights = explorer.coefficients(), explorer.coefficients(normalized=True)
    assert bool(alpha.isfinite().all() and weights.isfinite().all())
    row_sum = alpha[explorer.settings["row"] - 1].sum().item()
    assert explorer.shown().row_sum == pytest.approx(row_sum, rel=1e-12, abs=1e-12)
    if {Explorer(name).settings["readout"] for name in (start, end)} == {"exp", "feature_elu"}:
        with pytest.raises(ValueError, match=r"35% of the way .* explorer.coefficients\(\)"):
            explorer.dynamics()
        return
    dynamics = explorer.dynamics()
    torch.testing.assert_close(dynamics.coefficients(), alpha, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(
        dynamics.coefficients(normalized=True), weights, rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize(("start", "end"), [("softmax_attention", "linear_attention"), *PAIRS[:3]])
def test_the_ends_are_the_designs_themselves(start: str, end: str) -> None:
    for share, row in ((0, start), (1, end)):
        explorer = _explorer(start, end, share)
        want = Explorer(row, **SMALL).dynamics().coefficients(normalized=True)
        torch.testing.assert_close(explorer.coefficients(normalized=True), want)
        torch.testing.assert_close(explorer.dynamics().coefficients(normalized=True), want)


def test_an_end_that_overflows_does_not_count_at_the_other() -> None:
    explorer = Explorer(
        "softmax_attention", scale=6.0, scaling="one", structure="scalar", decay=1.25,
        length=64, width=16, morph_to="gla", morph=1.0,
    )  # fmt: skip
    assert bool(explorer.coefficients().isfinite().all())


def test_a_sink_keeps_its_digits_halfway() -> None:
    """Halfway between a row sum with a sink and no division, eta is the mean of the two."""
    chosen = {"readout": "relu", "normalizer": "row_sum", "beside": "sink", "sink": -1.759}
    explorer = Explorer(**chosen, morph_to="gla", morph=0.5, **SMALL)
    alpha, weights = explorer.coefficients(), explorer.coefficients(normalized=True)
    sums = alpha.sum(-1)
    eta = sums / weights.sum(-1)
    sunk = sums + torch.tensor(-1.759, dtype=alpha.dtype).exp()
    torch.testing.assert_close(eta, (sunk + 1) / 2, rtol=1e-12, atol=0)
