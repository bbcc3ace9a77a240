"""The probe: coefficients of any map from its response to the identity, and maps without any."""

from __future__ import annotations

import pytest
import torch
from designs import Inputs
from torch.nn import functional

from coefdyn.analysis import probe

LENGTH, N, DV = 12, 6, 5


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


V = draw(LENGTH, DV, seed=3)


def stick_breaking(v: torch.Tensor) -> torch.Tensor:
    """alpha_ij = sigma(s_ij) prod_{j < l <= i} (1 - sigma(s_il)) (arXiv 2410.17980)."""
    return sticks() @ v


def sticks(change: float = 0.0) -> torch.Tensor:
    """Its coefficients; ``change`` is added to the score (8, 6)."""
    scores = draw(LENGTH, N, seed=1) @ draw(LENGTH, N, seed=2).T / N**0.5
    scores[8, 6] += change
    alpha = torch.zeros(LENGTH, LENGTH, dtype=torch.float64)
    for i in range(LENGTH):
        rest = 1.0
        for j in range(i, -1, -1):
            alpha[i, j] = torch.sigmoid(scores[i, j]) * rest
            rest = rest * (1 - torch.sigmoid(scores[i, j]))
    return alpha


def test_time_training_with_a_norm(v: torch.Tensor) -> torch.Tensor:
    """W_t = W_{t-1} - 0.1 grad |LayerNorm(W k_t) - v_t|^2 / 2, y_t = W_t q_t (arXiv 2407.04620)."""
    q, k = draw(LENGTH, N, seed=1), functional.normalize(draw(LENGTH, N, seed=2), dim=-1)
    w, outputs = 0.3 * draw(v.shape[-1], N, seed=4), []
    for t in range(LENGTH):
        with torch.enable_grad():
            leaf = w.detach().requires_grad_()
            guess = functional.layer_norm(leaf @ k[t], (v.shape[-1],))
            loss = 0.5 * (guess - v[t]).square().sum()
            (gradient,) = torch.autograd.grad(loss, leaf)
        w = w - 0.1 * gradient
        outputs.append(w @ q[t])
    return torch.stack(outputs)


test_time_training_with_a_norm.__test__ = False


def slstm(v: torch.Tensor) -> torch.Tensor:
    """One scalar memory per channel whose gates read the last output (xLSTM, arXiv 2405.04517)."""
    cell = total = output = torch.zeros(v.shape[-1], dtype=v.dtype)
    outputs = []
    for t in range(LENGTH):
        write, keep = torch.exp(0.5 * output), torch.sigmoid(1.0 + output)
        cell, total = keep * cell + write * torch.tanh(v[t]), keep * total + write
        output = cell / total
        outputs.append(output)
    return torch.stack(outputs)


@pytest.mark.parametrize(
    ("structure", "phi", "eta"),
    [
        ("identity", "exp", "row_sum"),
        ("scalar", "identity", "floored"),
        ("diagonal", "identity", "one"),
        ("householder", "exp", "row_sum"),
        ("scaled_householder", "softplus", "given"),
        ("dense", "tanh", "one"),
        ("identity", "elu1", "row_sum"),
    ],
)
def test_designs_have_the_coefficients_that_they_name(structure: str, phi: str, eta: str) -> None:
    inputs = Inputs.draw(length=LENGTH)
    d = inputs.dynamics(structure, phi, eta)
    found = probe(d.apply, inputs.v.detach())
    assert found.has_coefficients(1e-10), str(found)
    want = d.coefficients(normalized=True).detach()
    torch.testing.assert_close(found.coefficients, want, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("columns", [None, 1, 4, LENGTH, 50])
def test_the_width_of_a_block_does_not_matter(columns: int | None) -> None:
    inputs = Inputs.draw(batch=(2, 3), length=LENGTH)
    d = inputs.dynamics("scalar", "identity", "one")
    found = probe(d.apply, inputs.v.detach(), columns=columns)
    want = d.coefficients(normalized=True).detach()
    torch.testing.assert_close(found.coefficients, want, rtol=1e-10, atol=1e-12)


def test_stick_breaking_is_linear_but_couples_its_row() -> None:
    found = probe(stick_breaking, V)
    assert found.has_coefficients(1e-12)
    torch.testing.assert_close(found.coefficients, sticks(), rtol=1e-12, atol=1e-14)
    moved = (sticks(change=1.0) - sticks()).abs()
    assert moved[8, 5] > 0.005, "a score of token 6 moves the coefficient of token 5"
    assert (moved[8, 7:] == 0).all() and (moved[:8] == 0).all()


def test_a_layer_norm_inside_the_memory_is_not_linear() -> None:
    found = probe(test_time_training_with_a_norm, V)
    assert not found.has_coefficients(1e-3), str(found)
    assert found.deviation > 0.1
    assert found.future == 0


def test_gates_that_read_the_output_are_not_linear() -> None:
    found = probe(slstm, V)
    assert found.deviation > 0.1
    assert "has no coefficients" in str(found)


def test_each_way_to_fail_is_told_apart() -> None:
    alpha = draw(LENGTH, LENGTH, seed=5).tril()
    mix = draw(DV, DV, seed=6)
    affine = probe(lambda v: alpha @ v + 1.0, V)
    assert affine.deviation < 1e-12 < 0.1 < affine.offset
    torch.testing.assert_close(affine.coefficients, alpha)
    mixed = probe(lambda v: alpha @ v @ mix, V)
    assert mixed.deviation < 1e-12 < 0.1 < mixed.residual
    seen = probe(lambda v: alpha.T @ v, V)
    assert seen.deviation < 1e-12 < 0.1 < min(seen.future, seen.residual)
    near = torch.diag(torch.ones(LENGTH - 1, dtype=torch.float64), 1)
    near[LENGTH // 2 - 1] = 0  # looks one token ahead, but never across the middle
    peeks = probe(lambda v: near @ v, V)
    assert peeks.future == 0 < 0.1 < peeks.residual
    assert not any(p.has_coefficients() for p in (affine, mixed, seen))
    assert not probe(lambda v: v * torch.nan, V).has_coefficients()
    assert probe(lambda v: 0 * v, V).has_coefficients()


def test_wrong_calls_are_answered_in_words() -> None:
    with pytest.raises(ValueError, match=r"\(\.\.\., L, d_v\), got \(0, 3\)"):
        probe(lambda v: v, torch.ones(0, 3))
    with pytest.raises(ValueError, match="all zero"):
        probe(lambda v: v, torch.zeros(3, 2))
    with pytest.raises(ValueError, match="at least 1 or None, got 0"):
        probe(lambda v: v, V, columns=0)
    with pytest.raises(ValueError, match=r"shape of v, \(12, 5\), got \(12, 4\)"):
        probe(lambda v: v[..., 1:], V)
