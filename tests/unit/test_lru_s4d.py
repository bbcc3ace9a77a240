"""S4D and LRU against their authors' complex recurrences, and their eigenvalues."""

from __future__ import annotations

import math

import pytest
import torch
from mixer_cases import build, tokens
from widened import agrees_with_peer

from coefdyn import analysis
from coefdyn.mixers import LRU, S4D

F64, C128 = torch.float64, torch.complex128


def lru(mixer: LRU, x: torch.Tensor) -> torch.Tensor:
    """Orvieto et al. (2023), eq. 1 with a complex state, token by token."""
    eigenvalue = torch.exp(torch.complex(-mixer.log_nu.exp(), mixer.log_theta.exp()))
    b = torch.view_as_complex(
        mixer.input.linear.weight.view(mixer.state_dim, 2, -1).mT.contiguous()
    )
    c = mixer.output.projection.weight.view(mixer.d_model, mixer.state_dim, 2)
    c = torch.view_as_complex((c * torch.tensor([1.0, -1.0], dtype=F64)).contiguous())
    h = torch.zeros(mixer.state_dim, dtype=C128)
    ys = []
    for x_t in x:
        h = eigenvalue * h + mixer.log_gamma.exp() * (b @ x_t.to(C128))
        ys.append((c @ h).real + mixer.skip * x_t)
    return torch.stack(ys)


def s4d(mixer: S4D, x: torch.Tensor) -> torch.Tensor:
    """Gu et al. (2022), S4D with zero-order hold: one complex state per channel of x."""
    rate = torch.complex(-mixer.log_real.exp(), mixer.frequency)
    a = torch.exp(mixer.log_delta.exp() * rate)
    b = (a - 1) / rate
    c = torch.view_as_complex(mixer.weight)
    h = torch.zeros_like(a)
    ys = []
    for x_t in x:
        h = a * h + b * x_t[:, None]
        y = 2 * (c * h).sum(-1).real + mixer.skip * x_t
        ys.append(torch.nn.functional.gelu(y) @ mixer.output.projection.weight.T)
    return torch.stack(ys)


@pytest.mark.parametrize(("case", "authors"), [("LRU", lru), ("S4D", s4d)])
def test_the_authors_recurrence(case: str, authors) -> None:
    mixer, x = build(case), tokens(70)
    agrees_with_peer(dict(mixer.named_parameters()), mixer(x), authors(mixer, x))


@pytest.mark.parametrize("case", ["LRU", "S4D"])
def test_the_transition_has_the_eigenvalues_of_the_modes(case: str) -> None:
    mixer = build(case)
    dynamics = mixer.dynamics(tokens(6))[0]
    found = analysis.spectrum(dynamics, angles=mixer.angles())
    expected = mixer.eigenvalues()[:, None, :].expand(-1, 6, -1)
    torch.testing.assert_close(found.eigenvalues, expected)
    torch.testing.assert_close(analysis.spectrum(dynamics).eigenvalues.abs(), expected.abs())
    pairs = expected.real.square() + expected.imag.square()
    assert (pairs < 1).all()


def test_coefficients_depend_on_the_distance_only() -> None:
    alpha = build("S4D").dynamics(tokens(9))[0].coefficients()
    for lag in range(9):
        diagonal = alpha.diagonal(-lag, -2, -1)
        torch.testing.assert_close(diagonal, diagonal[..., :1].expand_as(diagonal))
    other = build("S4D").dynamics(tokens(9, seed=7))[0].coefficients()
    torch.testing.assert_close(alpha, other, rtol=0, atol=0)


def test_initial_eigenvalues() -> None:
    torch.manual_seed(0)
    ring = LRU(d_model=8, state_dim=4000, r_min=0.5, r_max=0.9).eigenvalues().abs()
    assert ring.min() >= 0.5 - 1e-6 and ring.max() <= 0.9 + 1e-6
    squared = ring.square().mean().item()  # uniform between the squares
    assert squared == pytest.approx((0.25 + 0.81) / 2, abs=0.01)
    mixer = S4D(d_model=200, state_dim=4)
    moduli = mixer.eigenvalues().abs()
    assert moduli.min() >= math.exp(-0.05) - 1e-6 and moduli.max() <= math.exp(-0.0005) + 1e-6


@pytest.mark.parametrize(
    ("form", "options", "message"),
    [
        (S4D, {"state_dim": 3}, "must be even, got 3"),
        (S4D, {"state_dim": 0}, "state_dim must be a whole number >= 2"),
        (S4D, {"delta_min": 0.2}, "needs 0 < delta_min < delta_max"),
        (LRU, {"state_dim": 0}, "state_dim must be a whole number >= 1"),
        (LRU, {"r_max": 1.0}, "r_min < r_max < 1"),
        (LRU, {"max_phase": 7.0}, "max_phase <= 2 pi"),
    ],
)
def test_options_that_do_not_fit(form, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        form(d_model=6, **options)
