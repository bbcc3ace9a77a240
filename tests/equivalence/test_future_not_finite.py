"""One input that is not finite leaves every row before it as it is, in every method on a CPU."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from designs import STRUCTURES, Inputs
from methods import cpu_methods
from tolerances import relative_error

from coefdyn import CoefficientDynamics, mask, normalizer, readout

BAD = 40  # the first token that is not finite, of 70: the first tile of most methods holds it


def spoilt(d: CoefficientDynamics, name: str, value: float) -> CoefficientDynamics:
    """The same design with one number of one tensor of the last batch entry replaced."""

    def put(x: torch.Tensor) -> torch.Tensor:
        x = x.detach().clone()
        x[-1, BAD].view(-1)[-1] = value
        return x

    if name in d.evolution.tensors():
        changed = put(d.evolution.tensors()[name])
        return replace(d, evolution=replace(d.evolution, **{name: changed}))
    return replace(d, **{name: put(getattr(d, name))})


def applied(d: CoefficientDynamics, v: torch.Tensor, method: str) -> torch.Tensor:
    return d.extend(v)[0] if method == "extend" else d.apply(v, method)


def designs() -> list[tuple[str, str, str]]:
    """(structure, readout, normalizer), and a few with a mask or an outer decay."""
    return [
        (s, phi, eta) for s in STRUCTURES for phi, eta in (("identity", "one"), ("exp", "row_sum"))
    ]


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize(("structure", "phi", "eta"), designs())
def test_rows_before_stay_finite(structure: str, phi: str, eta: str, value: float) -> None:
    inputs = Inputs.draw(length=70, n=4, dv=4)
    with torch.no_grad():
        d = inputs.dynamics(structure, phi, eta)
        v = inputs.v.detach()
        methods = ("auto", *cpu_methods(d), "extend")
        want = {method: applied(d, v, method) for method in methods}
        names = [n for n in d.evolution.tensors() if n != "sign"]
        for name in ("q", "k", "scaling", *names):
            worse = spoilt(d, name, value)
            for method in methods:
                y = applied(worse, v, method)
                rows = (slice(None), slice(BAD))
                assert relative_error(y[rows], want[method][rows]) < 1e-11, (name, method)
                assert relative_error(y[0], want[method][0]) < 1e-11, (name, method, "other")
                assert not torch.isfinite(y[1, BAD:]).all() or value == math.inf, (name, method)
        alpha = spoilt(d, "k", value).coefficients(normalized=True)
        assert torch.isfinite(alpha[:, :BAD]).all()


@pytest.mark.parametrize("extra", ["mask", "outer", "value"])
@pytest.mark.parametrize("length", [70, 200])
def test_rows_before_stay_finite_beside_restrictions(extra: str, length: int) -> None:
    inputs = Inputs.draw(length=length, n=4, dv=4)
    with torch.no_grad():
        d, v = inputs.dynamics("identity", "exp", "row_sum"), inputs.v.detach().clone()
        if extra == "mask":
            d = replace(d, mask=mask.Window(9))
        if extra == "outer":
            d = replace(d, outer_log_decay=inputs.leaves["log_decay"].detach())
        want = d.apply(v, "reference")
        if extra == "value":
            v[1, BAD, 0] = math.nan
        else:
            d = spoilt(d, "k", math.nan)
        for method in ("auto", *cpu_methods(d)):
            y = d.apply(v, method)
            assert relative_error(y[:, :BAD], want[:, :BAD]) < 1e-11, method
            assert torch.isnan(y[1, -1]).any() or extra == "mask", method


def test_an_overflow_of_the_rows_themselves_stays() -> None:
    """Inputs that are finite, outputs that are not: nothing to keep apart."""
    x = torch.full((3, 1), 1e30)
    d = CoefficientDynamics(
        q=x,
        k=x,
        evolution=Inputs.draw().evolution("identity"),
        scaling=1.0,
        readout=readout.identity,
        normalizer=normalizer.One(),
    )
    assert not torch.isfinite(d.apply(x, "parallel")).any()
