"""torch.compile tells designs apart that differ in their readout or normalizer alone."""

from __future__ import annotations

import pytest
import torch
from passed import CORE
from torch import nn

from coefdyn import CoefficientDynamics, evolution, normalizer, readout

pytestmark = [
    pytest.mark.compile,
    pytest.mark.dear("torch.compile traces and lowers each graph"),
    pytest.mark.reads(CORE),
]


def sharper(factor: float) -> readout.Pointwise:
    """The same code for every factor: only what the function closes over differs."""

    def fn(s: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(factor * s)

    return readout.Pointwise(fn)


NIGHTLY = pytest.mark.nightly("the same with gradients")
READOUTS = (readout.exp, readout.relu, readout.softplus, sharper(1.0), sharper(3.0))
NORMALIZERS = (
    normalizer.RowSum(),
    normalizer.FlooredRowSum(floor=1.0),
    normalizer.FlooredRowSum(floor=0.1),
    normalizer.One(),
)
#: any two readouts under one normalizer, and any two normalizers under one readout
ALONE = [(phi, NORMALIZERS[0]) for phi in READOUTS] + [
    (READOUTS[0], eta) for eta in NORMALIZERS[1:]
]


class Design(nn.Module):
    def __init__(self, phi: readout.Readout, eta: normalizer.Normalizer, method: str) -> None:
        super().__init__()
        self.phi, self.eta, self.method = phi, eta, method

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        d = CoefficientDynamics(
            q=q,
            k=k,
            evolution=evolution.Identity(),
            scaling=0.5,
            readout=self.phi,
            normalizer=self.eta,
        )
        return d.apply(v, method=self.method)


@pytest.mark.parametrize(
    ("method", "trained"),
    [
        ("parallel", True),
        ("chunked", True),
        pytest.param("parallel", False, marks=NIGHTLY),
        pytest.param("chunked", False, marks=NIGHTLY),
    ],
)
def test_one_graph_is_not_taken_for_another(method: str, trained: bool) -> None:
    torch._dynamo.reset()
    generator = torch.Generator().manual_seed(0)
    inputs = [
        torch.randn(2, 12, 4, generator=generator, dtype=torch.float64).requires_grad_(trained)
        for _ in range(3)
    ]
    with torch._dynamo.config.patch(recompile_limit=64):
        for phi, eta in ALONE:
            design = Design(phi, eta, method)
            got, want = torch.compile(design, backend="eager")(*inputs), design(*inputs)
            torch.testing.assert_close(got, want, rtol=1e-11, atol=1e-12)
