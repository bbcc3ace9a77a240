"""Every execution method against the equation, written here once more and literally."""

from __future__ import annotations

import pytest
import torch
from designs import NORMALIZERS, READOUTS, STRUCTURES, Inputs
from tolerances import relative_error, tolerance

from coefdyn import CoefficientDynamics, readout

OUTPUT, GRADIENT, STEP = (
    tolerance("reference", torch.float64, quantity) for quantity in ("output", "gradient", "step")
)


def literal(d: CoefficientDynamics, v: torch.Tensor) -> torch.Tensor:
    """y from eq. 2-4 with dense matrices and three loops; no code shared with the library."""
    n, length = d.key_dim, d.length
    outputs = []
    for i in range(length):
        alphas = []
        for j in range(i + 1):
            b = d.scaling[..., j] if torch.is_tensor(d.scaling) else d.scaling
            if d.log_scaling is not None:
                b = b * d.log_scaling[..., j].exp()
            h = b[..., None] * d.k[..., j, :]
            for t in range(j + 1, i + 1):
                h = (dense(d, t, n) @ h[..., None])[..., 0]
            q = d.q[..., i, :]
            if isinstance(d.readout, readout.FeatureMap):
                alphas.append((d.readout.fn(q) * d.readout.fn(h)).sum(-1))
            else:
                alphas.append(d.readout.fn((q * h).sum(-1)))
        alpha = torch.stack(alphas, -1)
        eta = {
            "One": lambda a=alpha: torch.ones_like(a[..., 0]),
            "RowSum": lambda a=alpha: a.sum(-1),
            "FlooredRowSum": lambda a=alpha: a.sum(-1).abs().clamp(min=1.0),
            "Given": lambda i=i: d.normalizer.eta[..., i],
        }[d.normalizer.name]()
        weights = torch.where(eta[..., None] == 0, 0.0, alpha / eta[..., None])  # empty ReLU rows
        outputs.append((weights[..., None] * v[..., : i + 1, :]).sum(-2))
    return torch.stack(outputs, -2)


def dense(d: CoefficientDynamics, t: int, n: int) -> torch.Tensor:
    """A_t written out from its parameters."""
    e, eye = d.evolution, torch.eye(n, dtype=d.dtype)
    if e.structure == "identity":
        return eye
    if e.structure == "dense":
        return e.matrix[..., t, :, :]
    if e.structure == "diagonal":
        return torch.diag_embed(e.log_decay[..., t, :].exp() * e.sign[..., t, :])
    if e.structure == "diagonal_plus_rank_one":
        diagonal = torch.diag_embed(e.log_decay[..., t, :].exp() * e.sign[..., t, :])
        return diagonal - e.left[..., t, :, None] * e.right[..., t, None, :]
    scale = torch.ones((), dtype=d.dtype)
    if e.structure in ("scalar", "householder") and e.log_decay is not None:
        scale = e.log_decay[..., t].exp() * (1.0 if e.sign is None else e.sign[..., t])
    if e.structure == "scalar":
        return scale[..., None, None] * eye
    z = e.direction[..., t, :]
    reflect = eye - e.beta[..., t, None, None] * z[..., :, None] * z[..., None, :]
    return scale[..., None, None] * reflect


@pytest.mark.parametrize("eta", NORMALIZERS)
@pytest.mark.parametrize("phi", READOUTS)
@pytest.mark.parametrize("structure", STRUCTURES)
def test_reference_is_the_literal_equation(structure: str, phi: str, eta: str) -> None:
    inputs = Inputs.draw(length=7, n=3, dv=2, seed=1)
    d = inputs.dynamics(structure, phi, eta, log_scaled=True)
    with torch.no_grad():
        assert relative_error(d.apply(inputs.v, "reference"), literal(d, inputs.v)) < OUTPUT


@pytest.mark.parametrize("log_scaled", [False, True])
@pytest.mark.parametrize("phi", ["identity", "exp", "softplus", "tanh", "elu1"])
@pytest.mark.parametrize("structure", STRUCTURES)
def test_gradients_of_keys_of_length_zero(structure: str, phi: str, log_scaled: bool) -> None:
    """Of a key written as 0 and of one erased to 0, in the reference, ``auto`` and ``extend``."""
    inputs = Inputs.draw(length=12, n=3, dv=2, seed=8).with_zero_keys()
    d = inputs.dynamics(structure, phi, "row_sum" if phi == "exp" else "one", log_scaled)
    expected = literal(d, inputs.v)
    probe = torch.randn(expected.shape, generator=torch.Generator().manual_seed(3)).double()
    names = [name for name in inputs.leaves if name != "eta"]
    leaves = [inputs.leaves[name] for name in names]
    slopes = torch.autograd.grad(expected, leaves, probe, allow_unused=True)
    for method in ("reference", "auto", "extend"):
        y = d.extend(inputs.v)[0] if method == "extend" else d.apply(inputs.v, method)
        found = torch.autograd.grad(y, leaves, probe, allow_unused=True)
        for name, got, want in zip(names, found, slopes, strict=True):
            if want is not None:
                assert relative_error(got, want) < GRADIENT, (method, name)


@pytest.mark.parametrize("phi", READOUTS)
@pytest.mark.parametrize("structure", STRUCTURES)
def test_coefficients_and_states(structure: str, phi: str) -> None:
    inputs = Inputs.draw(seed=4)
    d = inputs.dynamics(structure, phi, "row_sum", log_scaled=True)
    with torch.no_grad():
        alpha = d.coefficients()
        assert relative_error(alpha, d.coefficients(method="reference")) < OUTPUT
        assert (alpha.triu(1) == 0).all()
        y = d.coefficients(normalized=True) @ inputs.v
        assert relative_error(y, d.apply(inputs.v, "reference")) < OUTPUT
        if phi in ("exp", "tanh"):
            h = d.states(4)
            column = READOUTS[phi]((d.q[..., 4:, :] * h).sum(-1))
            assert relative_error(alpha[..., 4:, 4], column) < OUTPUT
