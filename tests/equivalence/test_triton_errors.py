"""Errors of method='triton' for unsupported designs name a method that works."""

from __future__ import annotations

import importlib.metadata

import pytest
import torch

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.execution.triton import dispatch

L, N = 6, 4


def design(**given) -> CoefficientDynamics:
    generator = torch.Generator().manual_seed(0)
    dtype = given.pop("dtype", torch.float32)
    n = given.pop("n", N)
    q, k = (torch.randn(L, n, generator=generator, dtype=dtype) for _ in range(2))
    parts = {
        "evolution": evolution.Identity(),
        "scaling": 0.5,
        "readout": readout.exp,
        "normalizer": normalizer.RowSum(),
    }
    return CoefficientDynamics(q=q, k=k, **(parts | given))


def refused(dynamics: CoefficientDynamics) -> str:
    with pytest.raises(ValueError, match="method='triton'") as found:
        dynamics.apply(torch.zeros(L, 3, dtype=dynamics.dtype), method="triton")
    return str(found.value)


householder = evolution.Householder(direction=torch.ones(L, N), beta=torch.ones(L))
diagonal = evolution.Diagonal(log_decay=torch.zeros(L, N))
rank_one = evolution.DiagonalPlusRankOne(
    log_decay=torch.zeros(L, N), left=torch.zeros(L, N), right=torch.zeros(L, N)
)
linear = {"readout": readout.identity, "normalizer": normalizer.One()}
cube = readout.Pointwise(lambda s: s**3, name="cube")
square = readout.FeatureMap(torch.square, name="square")
dense = evolution.Dense(matrix=torch.zeros(L, N, N))


@pytest.mark.parametrize(
    ("given", "what", "remedy"),
    [
        ({}, "CUDA device", "chunked"),
        ({"dtype": torch.float64}, "float64", "chunked"),
        ({"n": 300}, "300", "chunked"),
        ({"evolution": householder, **linear}, "CUDA device", "chunked"),
        ({"evolution": diagonal, **linear}, "CUDA device", "chunked"),
        ({"evolution": rank_one, **linear}, "CUDA device", "chunked"),
        ({"evolution": rank_one}, "exp) with DiagonalPlusRankOne", "chunked"),
        ({"evolution": householder}, "exp) with Householder", "chunked"),
        ({"evolution": diagonal}, "exp) with Diagonal", "chunked"),
        ({"readout": square, "evolution": diagonal}, "square", "parallel"),
        ({"evolution": dense}, "Dense", "parallel"),
    ],
)
def test_a_request_that_cannot_be_met_names_the_alternative(given, what, remedy, monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(dispatch, "_lacks_triton", lambda: None)
    monkeypatch.setattr(dispatch, "_check_pointwise_readout", lambda phi: None)
    message = refused(design(**given))
    assert what in message
    assert remedy in message


def test_a_readout_without_code_for_the_kernels_is_refused_with_the_function_to_call():
    pytest.importorskip("triton", "3.5", reason="the kernels need triton 3.5, a Linux package")
    message = refused(design(readout=cube))
    assert "cube" in message and "readouts.register" in message


def _version(found):
    def answer(name):
        if found is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return found

    return answer


@pytest.mark.parametrize(
    ("found", "said"), [(None, "Linux only"), ("3.2.0", ">= 3.5"), ("3.10.1", "CUDA device")]
)
def test_a_missing_and_an_old_triton_are_named(found, said, monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(importlib.metadata, "version", _version(found))
    dispatch._lacks_triton.cache_clear()
    try:
        assert said in refused(design(**linear, evolution=diagonal))
    finally:
        dispatch._lacks_triton.cache_clear()
