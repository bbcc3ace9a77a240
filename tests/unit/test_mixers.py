"""Parts and options of the mixers: what they compute, how they start, what they refuse."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch
from mixer_cases import CASES, tokens
from mixer_cases import SIZES as CASE_SIZES
from passed import MODELS
from tolerances import assert_agree, relative_error

from coefdyn import mixers, readout
from coefdyn.mixers import (
    GLA,
    MIXERS,
    MLSTM,
    DeltaNet,
    DesignMixer,
    GatedDeltaNet,
    LinearAttention,
    Mamba2,
    Mixer,
    NormalizedAttention,
    SoftmaxAttention,
)
from coefdyn.mixers.gates import LowRankDecay, TimestepDecay
from coefdyn.mixers.projections import (
    OutputStage,
    ShortConvolution,
    l2_normalize,
    rotate_positions,
)
from coefdyn.options import check_count, check_flag

F64 = torch.float64
SIZES = {"d_model": 12, "n_heads": 3}
INITIAL = Path(__file__).parents[1] / "golden" / "initial_weights.json"


def test_short_convolution_is_a_causal_conv1d() -> None:
    layer, x = ShortConvolution(channels=5, width=4, bias=True).double(), tokens(2, 9, d_model=5)
    with torch.no_grad():
        y, past = layer(x)
        weight = layer.weight.flip(0).T[:, None, :]
        padded = torch.nn.functional.pad(x.transpose(1, 2), (3, 0))
        expected = torch.nn.functional.conv1d(padded, weight, layer.bias, groups=5)
        expected = torch.nn.functional.silu(expected).transpose(1, 2)
    assert_agree(y, expected, method="mixer", dtype=F64, quantity="output")
    assert torch.equal(past, x[:, -3:])


def test_rotary_scores_depend_on_distance_only() -> None:
    q, k = tokens(1, d_model=8).expand(20, 8), tokens(1, d_model=8, seed=2).expand(20, 8)
    scores = rotate_positions(q, 0) @ rotate_positions(k, 0).T
    for distance in (0, 3, 11):
        diagonal = scores.diagonal(-distance)
        assert relative_error(diagonal, diagonal[:1].expand_as(diagonal)) < 1e-12
    assert_agree(
        rotate_positions(q, 0)[7:], rotate_positions(q[7:], 7), method="mixer", dtype=F64,
        quantity="output",
    )  # fmt: skip


def test_l2_norm_of_zero_has_no_nan() -> None:
    x = torch.zeros(3, 4, dtype=F64, requires_grad=True)
    y = l2_normalize(x)
    y.sum().backward()
    assert torch.isfinite(x.grad).all()
    assert torch.equal(y.detach(), torch.zeros(3, 4, dtype=F64))


def test_mamba2_starts_with_its_authors_time_steps() -> None:
    decay = TimestepDecay(d_model=8, n_heads=500)
    delta = torch.nn.functional.softplus(decay.delta_bias)
    assert delta.min() > 0.000999
    assert delta.max() < 0.1001
    assert abs(delta.log().mean() - torch.tensor([0.001, 0.1]).log().mean()) < 0.3
    assert decay.log_a.min() >= 0
    assert decay.log_a.exp().max() <= 16.0001


def test_gla_starts_with_slow_decays() -> None:
    decay = LowRankDecay(d_model=8, n_heads=2, width=6)
    log_decay = decay(torch.zeros(5, 8)).exp()
    assert log_decay.shape == (2, 5, 6)
    assert log_decay.min() > 0.94
    assert log_decay.max() < 0.98


def test_mlstm_starts_remembering() -> None:
    mixer = MLSTM(d_model=16, n_heads=4)
    assert torch.equal(mixer.forget_bias, torch.linspace(3.0, 6.0, 4))
    assert mixer.forget_weight.abs().sum() == 0
    forget, _ = mixer.gates(mixer.tokens(torch.zeros(3, 16))[0])
    assert forget.exp().min() > 0.95


@pytest.mark.parametrize(
    ("mixer", "count"),
    [
        (SoftmaxAttention(**SIZES), 4 * 12 * 12),
        (SoftmaxAttention(**SIZES, bias=True), 4 * 12 * 12 + 4 * 12),
        (NormalizedAttention(**SIZES), 4 * 12 * 12 + 3 * 12),
        (GLA(**SIZES), 5 * 12 * 12 + 2 * 12 * 16 + 12 + 4),
        (DeltaNet(**SIZES), 4 * 12 * 12 + 3 * 4 * 12 + 3 * 12 + 4),
        (GatedDeltaNet(**SIZES), 5 * 12 * 12 + 3 * 4 * 12 + 2 * 3 * 12 + 2 * 3 + 4),
        (Mamba2(**SIZES), 3 * 144 + 2 * 48 + (12 + 8) * 5 + 36 + 3 * 3 + 12),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Mixer) else None,
)
def test_parameter_counts(mixer: Mixer, count: int) -> None:
    assert sum(parameter.numel() for parameter in mixer.parameters()) == count


def test_parameters_without_weight_decay() -> None:
    assert Mamba2(**SIZES).no_weight_decay_names() == {"decay.log_a", "decay.delta_bias", "skip"}
    learned = SoftmaxAttention(**SIZES, position="learned", max_length=5)
    assert learned.no_weight_decay_names() == {"position_table"}
    assert SoftmaxAttention(**SIZES).no_weight_decay_names() == set()


@pytest.mark.parametrize(
    ("name", "options", "design"),
    [
        ("SoftmaxAttention", {}, {}),
        ("LinearAttention", {}, {"readout": "psi_elu1"}),
        ("NormalizedAttention", {}, {"readout": "identity", "normalizer": "exp"}),
        (
            "GLA",
            {"output_gate": "none", "output_norm": "none"},
            {"evolution": "diagonal", "decay": "gla", "readout": "identity", "normalizer": "one"},
        ),
        (
            "Mamba2",
            {"n_groups": 2, "skip": False, "output_gate": "none", "output_norm": "none"}
            | {"short_convolution": 0},
            {"evolution": "scalar", "scaling": "delta", "readout": "identity", "normalizer": "one"},
        ),
    ],
)
def test_a_design_reaches_the_rows(name: str, options: dict, design: dict) -> None:
    sizes = {"d_model": 12, "n_heads": 2}
    row = MIXERS[name](**sizes, **options).double()
    free = DesignMixer(**sizes, **design).double()
    free.load_state_dict(row.state_dict())
    x = tokens(2, 15)
    assert_agree(free(x), row(x), method="mixer", dtype=F64, quantity="output")


def test_a_design_takes_a_readout_of_ones_own() -> None:
    square = readout.Pointwise(torch.square, name="square")
    mixer = DesignMixer(**SIZES, readout=square).double()
    dynamics, _ = mixer.dynamics(tokens(5))
    assert dynamics.readout is square
    assert (dynamics.coefficients() >= 0).all()


@pytest.mark.parametrize("constant", [0.95, 1.05, -0.9])
def test_constant_evolution_is_a_power(constant: float) -> None:
    mixer = DesignMixer(
        **SIZES, evolution="constant", constant=constant, readout="identity", normalizer="one"
    ).double()
    still = DesignMixer(**SIZES, readout="identity", normalizer="one").double()
    still.load_state_dict(mixer.state_dict())
    x = tokens(9)
    index = torch.arange(9)
    powers = constant ** (index[:, None] - index).double()
    expected = still.dynamics(x)[0].coefficients() * powers.tril()
    got = mixer.dynamics(x)[0].coefficients()
    assert_agree(got, expected, method="mixer", dtype=F64, quantity="output")


def test_geometric_normaliser_counts_from_one() -> None:
    mixer = DesignMixer(**SIZES, normalizer="geometric", ratio=1.05).double()
    eta = mixer.dynamics(tokens(4))[0].normalizer.eta
    assert_agree(
        eta, 1.05 ** torch.arange(1, 5, dtype=F64), method="mixer", dtype=F64, quantity="output"
    )


def test_fixed_beta_reflects() -> None:
    mixer = DesignMixer(**SIZES, evolution="householder_learned", beta="fixed").double()
    dynamics, _ = mixer.dynamics(tokens(6))
    eigenvalues = torch.linalg.eigvalsh(dynamics.evolution.dense(3, dynamics.key_dim))
    assert torch.allclose(eigenvalues[..., 0], torch.tensor(-1.0, dtype=F64), atol=1e-4)


def test_negative_eigenvalues_reach_below_zero() -> None:
    mixer, x = DeltaNet(**SIZES, negative_eigenvalues=True).double(), 3 * tokens(200)
    beta = mixer.dynamics(x)[0].evolution.beta
    assert beta.max() > 1
    assert beta.min() > 0
    assert beta.max() < 2


@pytest.mark.parametrize("case", CASES)
def test_a_seed_gives_the_weights_that_kept_results_started_from(case: str) -> None:
    """Names, order and values of all parameters, by one number each."""
    kept = json.loads(INITIAL.read_text())[case]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        mixer = CASES[case](**CASE_SIZES)
    found = {}
    for name, parameter in mixer.named_parameters():
        values = parameter.detach().double().flatten()
        weights = torch.linspace(1, 2, len(values), dtype=F64)
        found[name] = pytest.approx((values * weights).sum().item(), abs=2e-6)
    assert list(kept) == list(found)
    assert kept == found


@pytest.mark.parametrize("size", [1e-3, 1.0, 200.0, 3e4])
def test_norms_of_half_precision_have_the_range_of_float32(size: float) -> None:
    """Squares of float16 leave its range beyond 255, and 1e-5 is hardly in it."""
    x = (size * tokens(5)).half().clamp(-6e4, 6e4).requires_grad_()
    exact = x.detach().double().requires_grad_()
    stages = {
        kind: OutputStage(d_model=8, n_heads=3, value_dim=4, norm=kind)._norm
        for kind in ("rms", "layer")
    }
    for norm in (l2_normalize, *stages.values()):
        y, want = norm(x), norm(exact)
        assert y.dtype == torch.float16
        assert_agree(y, want, method="reference", dtype=torch.float16, quantity="output")
        slope, wanted = (
            torch.autograd.grad((one * one.detach().flip(-1)).sum(), source)[0]
            for one, source in ((y, x), (want, exact))
        )
        assert torch.isfinite(slope).all()
        assert (slope - wanted).norm() < 2e-3 * wanted.norm() + 1e-6


@pytest.mark.parametrize(
    ("form", "options", "message"),
    [
        (SoftmaxAttention, {"n_heads": 5}, "not a multiple of n_heads=5.*give key_dim"),
        (SoftmaxAttention, {"n_heads": 0}, "n_heads must be a whole number >= 1, got 0"),
        (SoftmaxAttention, {"position": "rotry"}, "got 'rotry'; did you mean 'rotary'"),
        (SoftmaxAttention, {"position": "rotary", "key_dim": 3}, "key_dim=3 is odd"),
        (SoftmaxAttention, {"position": "learned"}, "needs max_length"),
        (SoftmaxAttention, {"max_length": 9}, "position='none' has no limit"),
        (SoftmaxAttention, {"short_convolution": 1}, "whole number >= 2, got 1"),
        (SoftmaxAttention, {"scaling": "sqrt"}, "scaling must be one of inverse_sqrt, one"),
        (SoftmaxAttention, {"output_gate": "relu"}, "output_gate must be one of none, silu"),
        (LinearAttention, {"feature_map": "softplu"}, "did you mean 'softplus'"),
        (NormalizedAttention, {"eta": "tanh"}, "eta must be one of exp, softplus, sigmoid"),
        (GLA, {"decay_rank": -1}, "decay_rank must be a whole number"),
        (GLA, {"decay_temperature": 0.0}, "temperature must be positive"),
        (Mamba2, {"n_groups": 2}, "n_groups must divide n_heads=3, got 2"),
        (DeltaNet, {"direction": "z"}, "direction must be one of key, learned"),
        (MLSTM, {"gate_input": "q"}, "gate_input must be one of qkv, x"),
        (DesignMixer, {"evolution": "orthogonal"}, "evolution must be one of identity, constant"),
        (DesignMixer, {"readout": "softmax"}, "readout must be one of identity, exp"),
        (DesignMixer, {"normalizer": "sum"}, "normalizer must be one of one, row_sum"),
        (DesignMixer, {"constant": 0.0}, "constant must be finite and not 0"),
        (DesignMixer, {"ratio": -1.0}, "ratio must be positive"),
        (SoftmaxAttention, {"value_dim": 1, "output_norm": "layer"}, "over one channel is 0"),
    ],
)
def test_options_that_do_not_fit(form: type[Mixer], options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        form(**{**SIZES, **options})


def test_options_of_the_wrong_type() -> None:
    with pytest.raises(ValueError, match="d_model must be a whole number >= 1, got 12"):
        check_count("d_model", 12.0)
    with pytest.raises(ValueError, match="d_model must be a whole number >= 1, got True"):
        check_count("d_model", True)
    with pytest.raises(ValueError, match="bias must be True or False, got 1"):
        check_flag("bias", 1)


def test_input_that_does_not_fit() -> None:
    mixer = SoftmaxAttention(**SIZES, position="learned", max_length=4)
    with pytest.raises(ValueError, match="d_model=12, got \\(3, 5\\)"):
        mixer(torch.zeros(3, 5))
    with pytest.raises(ValueError, match="holds max_length=4 positions, but token 5"):
        mixer(torch.zeros(5, 12))
    state = None
    for _ in range(4):
        _, state = mixer.step(torch.zeros(12), state)
    with pytest.raises(ValueError, match="token 5 was asked for"):
        mixer.step(torch.zeros(12), state)
    with pytest.raises(ValueError, match="method must be one of"):
        mixer(torch.zeros(3, 12), method="fast")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("QLSTM", {"n_heads": 2}, "QLSTM has no option 'n_heads'. It takes bias, channels"),
        ("LRU", {"n_heads": 2}, "LRU has no option 'n_heads'. It takes bias, d_model"),
        ("S4D", {"state_dims": 2}, "no option 'state_dims'; did you mean 'state_dim'?"),
        ("S6", {"n_heads": 2}, "S6 has no option 'n_heads'"),
        ("RGLRU", {"key_dim": 2}, "RGLRU has no option 'key_dim'"),
        ("SinkAttention", {"sink": False}, "SinkAttention has no option 'sink'"),
        ("SoftmaxAttention", {"learned_direction": True}, "no option 'learned_direction'"),
        ("RetNet", {"writes": 2}, "RetNet has no option 'writes'"),
        ("GatedDeltaProduct", {"writes": 1}, "GatedDeltaProduct has no option 'writes'"),
        ("GatedDeltaNet", {"query_key_norm": True}, "settles query_key_norm=True; leave it out"),
        ("GatedDeltaNet", {"n_head": 2}, "no option 'n_head'; did you mean 'n_heads'?"),
        ("SoftmaxAttention", {}, "SoftmaxAttention needs n_heads"),
    ],
)
def test_an_option_that_a_class_fills_itself_is_told_in_words(
    name: str, options: dict, message: str
) -> None:
    with pytest.raises(TypeError, match=re.escape(message)):
        getattr(mixers, name)(d_model=8, **options)


def test_a_class_derived_from_a_row_offers_the_rows_options() -> None:
    class Mine(DeltaNet):
        def __init__(self, *, extra: int = 1, **heads: object) -> None:
            super().__init__(**heads)
            self.extra = extra

    assert Mine(**SIZES, direction="learned", extra=2).extra == 2


def exported(name: str) -> tuple[mixers.Mixer, torch.export.ExportedProgram]:
    """A layer, and its graph for any number of tokens."""
    mixer = getattr(mixers, name)(d_model=8, n_heads=2)
    free = ({1: torch.export.Dim("L", min=2, max=4096)},)
    with torch.no_grad():
        x = torch.randn(2, 64, 8)
        return mixer, torch.export.export(mixer, (x,), dynamic_shapes=free, strict=False)


@pytest.mark.compile
@pytest.mark.reads(MODELS)
@pytest.mark.parametrize("name", ["SoftmaxAttention", "GatedDeltaNet", "Mamba2", "RetNet"])
def test_a_graph_serves_any_length(name: str) -> None:
    mixer, program = exported(name)
    for length in (2, 65, 300):
        x = torch.randn(2, length, 8)
        torch.testing.assert_close(program.module()(x), mixer(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["GLA", "KDA"])
def test_a_graph_of_one_length_says_so(name: str) -> None:
    with pytest.raises(ValueError, match=r"records one length for Diagonal.*free length is for"):
        exported(name)
