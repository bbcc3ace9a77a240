"""A readout that the library does not have runs through every pointwise kernel once registered."""

from __future__ import annotations

import pytest
import torch

from coefdyn import CoefficientDynamics, evolution, normalizer, readout

pytest.importorskip("triton", "3.5", reason="the kernels need triton 3.5, a Linux package")

from gpu.own_readouts import KEY, rate, squared_relu, value
from gpu.processes import assert_interpreted, assert_small
from passed import KERNELS

from coefdyn.execution.triton.readouts import key_of, names, register

pytestmark = [
    pytest.mark.dear("an interpreter, or the compiler, runs a kernel in a process of its own"),
    pytest.mark.reads(KERNELS),
]


def test_interpreted_kernels_agree_with_float64():
    assert_interpreted({"own_readout": 4})


@pytest.mark.nightly("the interpreter runs it, and other kernels are compiled")
def test_its_code_compiles_into_a_kernel():
    assert_small(90, 64, ["own_readout"])


def test_its_key_follows_its_code():
    same = register(readout.Pointwise(torch.square, name="squared_relu"), phi=value, slope=rate)
    other = register(readout.Pointwise(torch.square, name="squared_relu"), phi=rate, slope=value)
    assert key_of(same) == key_of(squared_relu) == KEY
    assert key_of(other) != KEY
    assert "squared_relu" in names()


def test_the_function_of_a_built_in_readout_needs_no_code():
    assert key_of(readout.Pointwise(torch.relu)) == key_of(readout.relu) == "relu"
    with pytest.raises(ValueError, match="the built-in readouts have their code"):
        register(readout.Pointwise(torch.relu), phi=value, slope=rate)


def test_a_readout_that_is_not_registered_is_refused_with_the_function_to_call():
    cube = readout.Pointwise(lambda s: s**3, name="cube")
    q = torch.zeros(3, 4)
    design = CoefficientDynamics(
        q=q,
        k=q,
        evolution=evolution.Scalar(log_decay=q[:, 0]),
        scaling=1.0,
        readout=cube,
        normalizer=normalizer.One(),
    )
    with pytest.raises(ValueError, match=r"cube.*triton\.readouts\.register\(readout, phi="):
        design.apply(torch.zeros(3, 2), method="triton")


@pytest.mark.parametrize(
    ("given", "phi", "slope", "what"),
    [
        (readout.exp, value, rate, "exp"),
        (readout.FeatureMap(torch.square, name="square"), value, rate, "square"),
        (readout.Pointwise(torch.square), value, lambda s: 2 * s, "slope"),
        (readout.Pointwise(torch.square), torch.square, rate, "phi"),
    ],
)
def test_what_cannot_be_registered_is_refused(given, phi, slope, what):
    with pytest.raises(ValueError, match=f"register needs .*{what}"):
        register(given, phi=phi, slope=slope)
