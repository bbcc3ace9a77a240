"""method="chunked" against the float64 reference: outputs and every gradient."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from chunked_cases import agrees_with_reference, draw_rounded, in_chunks, own_key
from designs import NORMALIZERS, STRUCTURES, Inputs

from coefdyn import CoefficientDynamics

#: around one chunk of 64 tokens, and three chunks; around one tile of 128 rows, and three tiles
LENGTHS, ROWS = (1, 63, 64, 65, 150), (1, 65, 128, 129, 300)
LINEAR = tuple(structure for structure in STRUCTURES if structure != "dense")
OWN_KEY = ("householder", "scaled_householder")


def chunked(d: CoefficientDynamics, v: torch.Tensor) -> torch.Tensor:
    return d.apply(v, method="chunked")


def in_tiles(d: CoefficientDynamics, v: torch.Tensor) -> torch.Tensor:
    """With several tiles even for a short sequence."""
    return in_chunks(d, v, chunk_size=16)


def check(build, run=chunked, may_cancel: bool = False, **sizes: object) -> None:
    """float64 and float32 against one reference, on numbers that float32 can hold.

    ``may_cancel``: a row sum of coefficients of both signs can come close to zero, and dividing by
    it magnifies any rounding without bound. Such designs are compared in float64 only.
    """
    narrow, wide = draw_rounded(torch.float32, **sizes)
    expected = agrees_with_reference(run, build, wide)
    if not may_cancel:
        agrees_with_reference(run, build, narrow, expected)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("structure", LINEAR)
def test_linear_readout(structure: str, length: int) -> None:
    check(lambda x: x.dynamics(structure, "identity", "given"), length=length)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("structure", OWN_KEY)
def test_erasing_the_key_itself(structure: str, length: int) -> None:
    check(lambda x: own_key(x.dynamics(structure, "identity", "one")), length=length)


@pytest.mark.parametrize("method", ["chunked", "parallel", "recurrent"])
@pytest.mark.parametrize("own", [False, True])
def test_a_householder_step_that_flips_and_has_no_decay(own: bool, method: str) -> None:
    def build(x: Inputs) -> CoefficientDynamics:
        d = x.dynamics("householder", "identity", "one")
        d = replace(d, evolution=replace(d.evolution, sign=x.signs["sign"]))
        return own_key(d) if own else d

    check(build, lambda d, v: d.apply(v, method=method), length=70)


@pytest.mark.parametrize("eta", NORMALIZERS)
@pytest.mark.parametrize("structure", LINEAR)
def test_every_normalizer(structure: str, eta: str) -> None:
    """Half of the pairs with a log scaling: every structure and every eta meets both."""
    log_scaled = (LINEAR.index(structure) + NORMALIZERS.index(eta)) % 2 == 0

    def build(x: Inputs) -> CoefficientDynamics:
        return x.dynamics(structure, "identity", eta, log_scaled)

    check(build, run=in_tiles, may_cancel=eta == "row_sum", length=35)


@pytest.mark.parametrize("length", ROWS)
@pytest.mark.parametrize("structure", LINEAR)
def test_pointwise_readout(structure: str, length: int) -> None:
    eta = "given" if length == 1 else "row_sum"  # alpha / alpha has no gradient to compare
    check(lambda x: x.dynamics(structure, "softplus", eta), length=length)


@pytest.mark.parametrize("eta", NORMALIZERS)
@pytest.mark.parametrize("phi", ["exp", "relu", "tanh"])
@pytest.mark.parametrize("structure", LINEAR)
def test_pointwise_normalizers_with_log_scaling(structure: str, phi: str, eta: str) -> None:
    def build(x: Inputs) -> CoefficientDynamics:
        return x.dynamics(structure, phi, eta, log_scaled=True)

    check(build, run=in_tiles, may_cancel=(phi, eta) == ("tanh", "row_sum"), length=27)


@pytest.mark.parametrize("phi", ["identity", "softplus"])
@pytest.mark.parametrize("structure", LINEAR)
def test_result_does_not_depend_on_the_chunk_size(structure: str, phi: str) -> None:
    inputs = Inputs.draw(length=50, seed=3)
    d = inputs.dynamics(structure, phi, "row_sum", log_scaled=True)
    with torch.no_grad():
        whole = in_chunks(d, inputs.v, chunk_size=64)
        for chunk in (1, 7, 16, 49):
            torch.testing.assert_close(
                in_chunks(d, inputs.v, chunk_size=chunk), whole, rtol=1e-9, atol=1e-11
            )


def test_leading_axes_broadcast_and_may_be_missing() -> None:
    one, many = Inputs.draw(batch=(), length=20), Inputs.draw(batch=(2, 3), length=20)
    for phi in ("identity", "exp", "softplus"):
        d = one.dynamics("scalar", phi, "row_sum")
        y = d.apply(many.v, method="chunked")
        torch.testing.assert_close(y, d.apply(many.v, method="parallel"), rtol=1e-9, atol=1e-10)
        alone = d.apply(one.v, method="chunked")
        assert alone.shape == one.v.shape
        torch.testing.assert_close(alone, d.apply(one.v, method="reference"), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("dv", [1, 9])
def test_softmax_attention_with_any_value_size(dv: int) -> None:
    check(lambda x: x.dynamics("identity", "exp", "row_sum"), length=40, dv=dv)
    check(lambda x: x.dynamics("identity", "exp", "row_sum"), length=40, n=dv, dv=dv)
