"""Hard cases of chunked algorithms: dependent keys, strong or growing decays, huge gates."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from chunked_cases import agrees_with_reference, in_chunks, in_float64, own_key
from designs import Inputs
from torch.nn import functional

from coefdyn import CoefficientDynamics, normalizer, readout

HOUSEHOLDER = ("householder", "scaled_householder")
DECAYING = ("scalar", "diagonal", "scaled_householder", "diagonal_plus_rank_one")


def chunked(d: CoefficientDynamics, v: torch.Tensor) -> torch.Tensor:
    return d.apply(v, method="chunked")


def with_leaves(inputs: Inputs, **changed: torch.Tensor) -> Inputs:
    """The same problem with some leaves replaced, rounded to float32."""
    leaves = {**inputs.leaves, **changed}
    return Inputs(
        {name: x.detach().float().requires_grad_() for name, x in leaves.items()},
        {name: x.float() for name, x in inputs.signs.items()},
    )


def both_precisions(build, inputs: Inputs, run=chunked) -> None:
    expected = agrees_with_reference(run, build, in_float64(inputs))
    agrees_with_reference(run, build, inputs, expected)


def keys(kind: str, inputs: Inputs) -> tuple[torch.Tensor, torch.Tensor]:
    """(unit directions, beta) that make I + tril(beta Z Z^T, -1) hard to invert."""
    z, ones = inputs.leaves["direction"].detach(), torch.ones_like(inputs.leaves["beta"])
    if kind == "correlated":
        return functional.normalize(z[..., :1, :] + 0.05 * z, dim=-1), 0.99 * ones
    if kind == "repeated":
        return z[..., :3, :].repeat_interleave(40, -2)[..., : z.shape[-2], :], ones
    return functional.normalize(z[..., :1, :] + 0.3 * z, dim=-1), 1.999 * ones  # near reflections


@pytest.mark.parametrize("phi", ["identity", "softplus"])
@pytest.mark.parametrize("kind", ["correlated", "repeated", "reflecting"])
@pytest.mark.parametrize("structure", HOUSEHOLDER)
def test_dependent_keys(structure: str, kind: str, phi: str) -> None:
    inputs = Inputs.draw(length=100, n=8, seed=11)
    z, beta = keys(kind, inputs)
    both_precisions(
        lambda x: own_key(x.dynamics(structure, phi, "one")),
        with_leaves(inputs, direction=z, beta=beta),
    )


@pytest.mark.parametrize("phi", ["identity", "softplus"])
@pytest.mark.parametrize("nats", [1.4, 6.0, 40.0, 1000.0])
@pytest.mark.parametrize("structure", DECAYING)
def test_strong_decays(structure: str, nats: float, phi: str) -> None:
    inputs = Inputs.draw(length=80, seed=12)
    spread = inputs.leaves["channel_decay"].detach().abs()
    both_precisions(
        lambda x: x.dynamics(structure, phi, "one"),
        with_leaves(inputs, log_decay=-nats * spread[..., 0], channel_decay=-nats * spread),
        run=lambda d, v: in_chunks(d, v, chunk_size=64),
    )


@pytest.mark.parametrize("phi", ["identity", "exp", "softplus"])
@pytest.mark.parametrize("structure", [*DECAYING, "own_key"])
def test_gradient_of_a_decay_that_leaves_almost_nothing(structure: str, phi: str) -> None:
    """It is e^-8 and less of what a token says about itself, and equal to the last digits."""
    inputs = Inputs.draw(length=40, seed=27)
    strong = {
        name: -8 - 30 * inputs.leaves[name].detach().abs()
        for name in ("log_decay", "channel_decay")
    }

    def build(x: Inputs) -> CoefficientDynamics:
        if structure == "own_key":
            return own_key(x.dynamics("scaled_householder", phi, "one"))
        return x.dynamics(structure, phi, "one")

    inputs = with_leaves(inputs, **strong)
    both_precisions(build, inputs)
    agrees_with_reference(lambda d, v: d.apply(v, method="parallel"), build, inputs)


@pytest.mark.parametrize("phi", ["identity", "relu"])
@pytest.mark.parametrize("structure", DECAYING)
def test_growth(structure: str, phi: str) -> None:
    inputs = Inputs.draw(length=80, n=16, seed=13)
    rate = inputs.leaves["channel_decay"].detach()
    growing = with_leaves(
        inputs, log_decay=0.4 + 0.2 * rate[..., 0], channel_decay=0.4 + 0.2 * rate
    )
    both_precisions(lambda x: x.dynamics(structure, phi, "one"), growing)


def test_complete_resets() -> None:
    inputs = Inputs.draw(length=70, seed=14)
    resets = torch.where(torch.arange(70) % 9 == 4, -1e4, -0.1).expand(2, 70)
    inputs = with_leaves(
        inputs, log_decay=resets, channel_decay=resets[..., None].expand(2, 70, 5).contiguous()
    )
    for structure in DECAYING:
        for phi in ("identity", "softplus"):
            both_precisions(lambda x, s=structure, p=phi: x.dynamics(s, p, "one"), inputs)


def mlstm_gates(length: int, noise: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(log decay, log scaling): input gates swing from -200 to 200, forget gates jump as far."""
    t = torch.arange(length)
    swing = 200 * torch.sin(2 * torch.pi * t / length) + noise
    jumps = 200.0 * (t % 31 == 7) - 200.0 * (t % 23 == 11)
    return jumps - 0.1 * noise.abs(), swing


@pytest.mark.parametrize("phi", ["identity", "relu"])
@pytest.mark.parametrize("eta", ["row_sum", "floored"])
@pytest.mark.parametrize("structure", ["identity", "scalar", "diagonal", "scaled_householder"])
def test_gates_of_200_nats(structure: str, eta: str, phi: str) -> None:
    """mLSTM's exponential gates: finite in float32 and equal to float64."""
    if (structure, phi) == ("diagonal", "relu"):
        phi = "identity"  # without a common decay there is no common scale to take out of phi
    inputs = Inputs.draw(length=90, n=4, seed=15)
    x = {name: value.detach() for name, value in inputs.leaves.items()}
    log_decay, log_scaling = mlstm_gates(90, x["log_scaling"])
    gates = with_leaves(
        inputs,
        q=x["q"].abs(),
        k=x["k"].abs(),
        log_scaling=log_scaling,
        log_decay=log_decay,
        beta=0.05 * x["beta"],  # scores stay positive: a row sum that cancels is no fair question
    )
    gates = Inputs(gates.leaves, {name: s.abs() for name, s in gates.signs.items()})

    def build(x: Inputs) -> CoefficientDynamics:
        return x.dynamics(structure, phi, eta, log_scaled=True)

    if (structure, phi) == ("scaled_householder", "identity"):  # chunks do not see such growth
        both_precisions(build, gates, run=lambda d, v: d.apply(v))
        with pytest.raises(ValueError, match=r"for the first \d+ of 90 tokens"):
            in_chunks(build(gates), gates.v, None)
    else:
        both_precisions(build, gates)


@pytest.mark.parametrize("eta", ["row_sum", "floored"])
@pytest.mark.parametrize("own", [True, False])
def test_gates_of_200_nats_while_erasing(own: bool, eta: str) -> None:
    """All weights fall by 400 nats and rise again, so that every token keeps its share.

    Scores stay positive, as above.
    """
    inputs = Inputs.draw(length=90, n=6, seed=15)
    x = {name: value.detach() for name, value in inputs.leaves.items()}
    t = torch.arange(90)
    jumps = 200.0 * ((t == 60) | (t == 61)) - 200.0 * ((t == 30) | (t == 31))
    gates = with_leaves(
        inputs,
        q=x["q"].abs(),
        k=x["k"].abs(),
        direction=x["direction"].abs(),
        beta=0.25 * x["beta"],
        log_decay=jumps - 0.1 * x["log_decay"].abs(),
        log_scaling=200.0 + jumps.cumsum(0) + x["log_scaling"],
    )
    gates = Inputs(gates.leaves, {name: s.abs() for name, s in gates.signs.items()})

    def build(x: Inputs) -> CoefficientDynamics:
        d = x.dynamics("scaled_householder", "identity", eta, log_scaled=True)
        return own_key(d) if own else d

    both_precisions(build, gates, run=lambda d, v: in_chunks(d, v, chunk_size=16))


def test_floored_rows_of_huge_scale_without_any_positive_score() -> None:
    """Input gates of 200 nats and no positive score: 0 / 1, not 0 / 0."""
    inputs = Inputs.draw(length=20, seed=19)
    x = {name: value.detach() for name, value in inputs.leaves.items()}
    negative = with_leaves(
        inputs, q=-x["q"].abs(), k=x["k"].abs(), log_scaling=200 + x["log_scaling"]
    )
    y = negative.dynamics("identity", "relu", "floored", log_scaled=True).apply(
        negative.v, method="chunked"
    )
    assert (y == 0).all()


def test_scores_of_hundreds_stay_finite_under_exp() -> None:
    inputs = Inputs.draw(length=70, seed=16)
    hot = with_leaves(inputs, q=60 * inputs.leaves["q"])
    for structure in ("identity", "scalar", "diagonal", "householder", "diagonal_plus_rank_one"):
        both_precisions(
            lambda x, s=structure: replace(
                x.dynamics(s, "exp", "row_sum"), normalizer=normalizer.RowSum()
            ),
            hot,
            run=lambda d, v: in_chunks(d, v, chunk_size=32),
        )


def test_large_scores_under_softplus() -> None:
    inputs = Inputs.draw(length=70, seed=17)
    for factor in (100.0, -100.0):
        x = with_leaves(inputs, q=factor * inputs.leaves["q"].abs(), k=inputs.leaves["k"].abs())
        both_precisions(lambda x: x.dynamics("identity", "softplus", "one"), x)


def test_softplus_just_above_twenty_in_float64() -> None:
    """torch takes s for log(1 + e^s) there, 2e-9 away; so does every method."""
    inputs = Inputs.draw(length=30, seed=28)
    x = {name: value.detach() for name, value in inputs.leaves.items()}
    q, k = x["q"].abs() + 3, x["k"].abs() + 3
    scaled = Inputs(
        {**inputs.leaves, "q": q.requires_grad_(), "k": k.requires_grad_()}, inputs.signs
    )
    agrees_with_reference(
        chunked, lambda x: replace(x.dynamics("identity", "softplus", "one"), scaling=0.5), scaled
    )


def test_readout_of_ones_own() -> None:
    """A readout without a hand-written derivative, through every structure."""
    cubic = readout.Pointwise(lambda s: s + 0.1 * s**3, name="cubic")
    for structure in ("identity", "householder", *DECAYING):
        inputs = with_leaves(Inputs.draw(length=40, seed=18))
        both_precisions(
            lambda x, s=structure: replace(x.dynamics(s, "tanh", "one"), readout=cubic),
            inputs,
            run=lambda d, v: in_chunks(d, v, chunk_size=16),
        )
