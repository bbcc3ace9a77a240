"""Annotations of shapes are checked while tests run, and nothing else is wrapped."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("beartype")
jaxtyping = pytest.importorskip("jaxtyping")


def test_the_library_is_checked() -> None:
    """In this very run, as `tests/conftest.py` asks: a class, a function and a method."""
    from coefdyn.dynamics import CoefficientDynamics, evolution, normalizer, readout
    from coefdyn.mixers import SoftmaxAttention
    from coefdyn.mixers.projections import split_heads

    q, rest = torch.ones(4, 2), (evolution.Identity(), readout.exp, normalizer.RowSum())

    def dynamics(k: torch.Tensor) -> CoefficientDynamics:
        names = ("evolution", "readout", "normalizer")
        return CoefficientDynamics(q=q, k=k, scaling=1.0, **dict(zip(names, rest, strict=True)))

    assert dynamics(q).length == 4
    mixer = SoftmaxAttention(d_model=4, n_heads=2)
    for wrong in (
        lambda: dynamics(torch.ones(5, 2)),
        lambda: split_heads(torch.ones(4), 2),
        lambda: mixer.step(torch.ones(4).long()),
    ):
        with pytest.raises(jaxtyping.TypeCheckError):
            wrong()
