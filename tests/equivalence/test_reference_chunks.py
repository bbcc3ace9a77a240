"""The readable chunked form against the token-by-token reference, and a wrong call of it."""

from __future__ import annotations

import pytest
import torch
from designs import Inputs
from tolerances import relative_error

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.execution.reference_chunks import reference_chunks


@pytest.mark.parametrize("decayed", [False, True])
@pytest.mark.parametrize("batch", [(), (2, 3)])
@pytest.mark.parametrize("chunk", [1, 7, 16, 64])
def test_chunks_are_the_recurrence(chunk: int, batch: tuple[int, ...], decayed: bool) -> None:
    inputs = Inputs.draw(batch=batch, length=50)
    x, k = inputs.leaves, inputs.leaves["direction"]
    g = x["log_decay"] if decayed else torch.zeros_like(x["log_decay"])
    d = CoefficientDynamics(
        q=x["q"],
        k=k,
        evolution=evolution.Householder(direction=k, beta=x["beta"], log_decay=g),
        scaling=x["scaling"],
        readout=readout.identity,
        normalizer=normalizer.One(),
    )
    got = reference_chunks(x["q"], k, x["v"], x["beta"], x["scaling"], g, chunk)
    want = d.apply(x["v"], "reference")
    assert relative_error(got, want) < 1e-12
    leaves = [x[name] for name in ("q", "direction", "v", "beta", "scaling")]
    probe = torch.randn(want.shape, generator=torch.Generator().manual_seed(3)).double()
    for a, b in zip(*(torch.autograd.grad(y, leaves, probe) for y in (got, want)), strict=True):
        assert relative_error(a, b) < 1e-12


def test_a_chunk_of_no_tokens_is_refused() -> None:
    x = torch.ones(3, 2)
    with pytest.raises(ValueError, match="chunk must be at least 1 token, got 0"):
        reference_chunks(x, x, x, x[:, 0], x[:, 0], x[:, 0], 0)
