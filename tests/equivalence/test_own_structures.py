"""An evolution or a readout of one's own works wherever a built-in one does, or is told why not."""

from __future__ import annotations

import pytest
import torch
from designs import Inputs
from own_structures import Reversed, Rotation, Shift
from tolerances import assert_agree, relative_error, tolerance
from torch import nn

from coefdyn import CoefficientDynamics, analysis, evolution, normalizer, readout
from coefdyn.mixers import Mixer, check_mixer
from coefdyn.widgets import Explorer

F64 = torch.float64
OWN = ("rotation", "shift", "reversed")


def own(name: str, inputs: Inputs) -> evolution.Evolution:
    gate = inputs.leaves["log_decay"]
    if name == "rotation":
        return Rotation(angle=inputs.leaves["scaling"])
    return Shift() if name == "shift" else Reversed(log_decay=gate)


def design(name: str, inputs: Inputs, phi=readout.identity, eta=None) -> CoefficientDynamics:
    return CoefficientDynamics(
        q=inputs.leaves["q"],
        k=inputs.leaves["k"],
        evolution=own(name, inputs),
        scaling=0.7,
        readout=phi,
        normalizer=eta or normalizer.One(),
    )


def gradients(y: torch.Tensor, inputs: Inputs) -> dict[str, torch.Tensor]:
    probe = torch.randn(y.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = torch.autograd.grad(y, list(inputs.leaves.values()), probe, allow_unused=True)
    return {n: g for n, g in zip(inputs.leaves, found, strict=True) if g is not None}


@pytest.mark.parametrize("phi", ["identity", "exp", "softplus"])
@pytest.mark.parametrize("length", [9, 140])
@pytest.mark.parametrize("name", OWN)
def test_every_method_that_can_agrees_with_the_reference(name, length, phi) -> None:
    inputs = Inputs.draw(length=length, n=4, batch=(2,) if length < 20 else ())
    d = design(
        name, inputs, getattr(readout, phi), normalizer.RowSum() if phi != "identity" else None
    )
    want = d.apply(inputs.v, "reference")
    slopes = gradients(want, inputs)
    for method in ("auto", "parallel", *(["recurrent"] if phi == "identity" else [])):
        y = d.apply(inputs.v, method)
        assert_agree(y, want, method="parallel", dtype=F64, quantity="output")
        for leaf, got in gradients(y, inputs).items():
            assert_agree(got, slopes[leaf], method="parallel", dtype=F64, quantity="gradient")
    with torch.no_grad():
        first, state = d.narrow(0, 5).extend(inputs.v[..., :5, :])
        rest, _ = d.narrow(5, length - 5).extend(inputs.v[..., 5:, :], state)
    whole = torch.cat([first, rest], -2)
    assert_agree(whole, want, method="recurrent", dtype=F64, quantity="step")


def test_a_subclass_is_not_run_by_the_algorithm_of_its_base() -> None:
    inputs = Inputs.draw(length=12, n=4, batch=())
    d = design("reversed", inputs)
    matrices = evolution.Dense(matrix=torch.stack([d.evolution.dense(t, 4) for t in range(12)]))
    want = CoefficientDynamics(
        q=d.q, k=d.k, evolution=matrices, scaling=0.7, readout=d.readout, normalizer=d.normalizer
    )
    assert relative_error(d.apply(inputs.v), want.apply(inputs.v, "reference")) < tolerance(
        "reference", F64, "output"
    )
    for method in ("chunked", "triton"):
        with pytest.raises(ValueError, match=rf"method='{method}'.*Reversed"):
            d.apply(inputs.v, method)


@pytest.mark.parametrize("name", OWN)
def test_analysis_and_the_explorer_take_it(name: str) -> None:
    inputs = Inputs.draw(length=8, n=4, batch=())
    d = design(name, inputs)
    with torch.no_grad():
        moduli = analysis.spectrum(d).eigenvalues.abs()
        lengths = torch.linalg.svdvals(
            torch.stack([d.evolution.dense(t, 4, F64) for t in range(8)])
        )
        assert torch.allclose(moduli.sort(-1)[0], lengths.sort(-1)[0])  # normal matrices, all three
        said = analysis.report(d)
        assert said.evolves
        assert said.has_finite_state
        alpha = torch.as_tensor(Explorer.from_dynamics(d).coefficients(), dtype=F64)
        assert torch.allclose(alpha, d.coefficients(), atol=1e-6)


class Turning(Mixer):
    """A layer with an evolution of its own."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model=d_model, n_heads=2, key_dim=4, value_dim=3)
        self.angle = nn.Linear(d_model, 2)

    def build(self, tokens) -> CoefficientDynamics:
        return CoefficientDynamics(
            q=tokens.q,
            k=tokens.k,
            evolution=Rotation(angle=self.angle(tokens.x).mT),
            scaling=0.5,
            readout=readout.identity,
            normalizer=normalizer.One(),
        )


def test_a_mixer_with_it_keeps_the_contract() -> None:
    torch.manual_seed(0)
    found = check_mixer(Turning(8), torch.randn(2, 12, 8))
    assert found.holds, str(found)
    assert set(found.outputs) >= {"parallel", "recurrent"}


class Sloped(nn.Module):
    """max(s, slope s), one slope per head."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.linspace(0.1, 0.4, heads, dtype=F64)[:, None, None])

    def forward(self, s: torch.Tensor) -> torch.Tensor:
        return torch.maximum(s, self.slope * s)


@pytest.mark.parametrize("structure", ["identity", "scalar", "diagonal", "householder", "dense"])
@pytest.mark.parametrize("length", [7, 200])
def test_a_slope_per_head_is_trained_by_every_method(structure: str, length: int) -> None:
    inputs, phi = Inputs.draw(batch=(1, 3), length=length, seed=3), Sloped(3)
    d = inputs.dynamics(structure, "identity", "given")
    d = CoefficientDynamics(**{**vars(d), "readout": readout.Pointwise(phi, name="sloped")})
    probe = torch.randn(1, 3, length, 3, generator=torch.Generator().manual_seed(2), dtype=F64)
    wanted = [phi.slope, inputs.leaves["q"], inputs.leaves["eta"]]
    expected = d.apply(inputs.v, "parallel" if length > 100 else "reference")
    slopes = torch.autograd.grad(expected, wanted, probe)
    for method in ("auto", "parallel", *(["chunked"] if structure != "dense" else [])):
        y = d.apply(inputs.v, method)
        assert_agree(y, expected, method="chunked", dtype=F64, quantity="output")
        for got, want in zip(torch.autograd.grad(y, wanted, probe), slopes, strict=True):
            assert_agree(got, want, method="chunked", dtype=F64, quantity="gradient")


def test_a_readout_on_another_device_is_accepted() -> None:
    phi = readout.Pointwise(Sloped(2).to("meta"), name="sloped")
    q = torch.empty(2, 6, 4, device="meta", dtype=F64)
    d = CoefficientDynamics(
        q=q,
        k=q,
        evolution=evolution.Identity(),
        scaling=1.0,
        readout=phi,
        normalizer=normalizer.One(),
    )
    for method in ("auto", "parallel", "chunked"):
        assert d.apply(q, method).shape == q.shape


@pytest.mark.parametrize(
    "phi",
    [
        lambda s: (s > 0).to(s.dtype),
        torch.ones_like,
        lambda s: s.tanh_(),
        nn.LeakyReLU(0.2, inplace=True),
    ],
)
@pytest.mark.parametrize("length", [128, 129])
def test_steps_constants_and_in_place_readouts_on_both_sides(length, phi) -> None:
    inputs = Inputs.draw(batch=(), length=length)
    d = inputs.dynamics("identity", "identity", "one")
    d = CoefficientDynamics(**{**vars(d), "readout": readout.Pointwise(phi, name="own")})
    leaves = [inputs.leaves["q"], inputs.leaves["v"]]

    def slopes(method: str) -> tuple[torch.Tensor, ...]:
        total = d.apply(inputs.v, method).sum()
        return torch.autograd.grad(total, leaves, allow_unused=True, materialize_grads=True)

    expected = slopes("reference")
    for method in ("auto", "parallel", "chunked"):
        for got, want in zip(slopes(method), expected, strict=True):
            assert_agree(got, want, method="chunked", dtype=F64, quantity="gradient", what=method)


def test_a_feature_map_that_mixes_tokens_is_refused() -> None:
    q = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    parts = {"q": q, "k": q, "evolution": evolution.Identity(), "scaling": 1.0}
    eta = normalizer.RowSum()
    with pytest.raises(ValueError, match="mixes tokens"):
        CoefficientDynamics(
            **parts, readout=readout.FeatureMap(lambda x: x.softmax(-2)), normalizer=eta
        )
    for psi in (lambda x: 1.0, lambda x: x.double(), lambda x: x > 0):
        with pytest.raises(ValueError, match="psi must return"):
            CoefficientDynamics(**parts, readout=readout.FeatureMap(psi), normalizer=eta).apply(q)
