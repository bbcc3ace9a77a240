"""The contract of every mixer: what a caller may rely on, whichever architecture it is."""

from __future__ import annotations

import copy

import pytest
import torch
from methods import cpu_methods
from mixer_cases import CASES, build, tokens
from tolerances import assert_agree

from coefdyn.execution.state import has_finite_state
from coefdyn.mixers import Mixer

F64 = torch.float64
#: a single token, and more than one chunk; tests/equivalence has every length per structure
LENGTHS = (1, 65)
#: several chunks and several tiles of rows, neither of them filled
MANY = 520


@pytest.fixture(params=CASES, scope="module")
def case(request: pytest.FixtureRequest) -> str:
    return request.param


def output_and_gradients(
    mixer: Mixer, x: torch.Tensor, method: str
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """y; and the gradients of x and of every parameter, of a loss with no symmetry."""
    x = x.clone().requires_grad_()
    y = mixer(x, method=method)
    weights = torch.linspace(-1.0, 2.0, y.numel(), dtype=torch.float64).reshape(y.shape)
    named = {"x": x, **dict(mixer.named_parameters())}
    values = torch.autograd.grad((y * weights.to(y)).sum(), list(named.values()))
    return y.detach(), dict(zip(named, values, strict=True))


def gradients(mixer: Mixer, x: torch.Tensor, method: str) -> dict[str, torch.Tensor]:
    return output_and_gradients(mixer, x, method)[1]


def stepwise(mixer: Mixer, x: torch.Tensor) -> torch.Tensor:
    """y by ``step``, one token after the other."""
    state, outputs = None, []
    for t in range(x.shape[-2]):
        y_t, state = mixer.step(x[..., t, :], state)
        outputs.append(y_t)
    return torch.stack(outputs, dim=-2)


def test_dynamics_are_heads_of_the_input(case: str) -> None:
    mixer, x = build(case), tokens(3, 7)
    dynamics, v = mixer.dynamics(x)
    assert v.shape == (*dynamics.batch_shape, dynamics.length, mixer.value_dim)
    assert dynamics.batch_shape[0] == 3
    assert dynamics.key_dim == mixer.key_dim
    assert mixer.collect(v).shape == (3, mixer.n_heads, 7, mixer.value_dim)
    assert mixer(x).shape == x.shape


def test_later_tokens_change_nothing_earlier(case: str) -> None:
    mixer, x = build(case), tokens(40)
    changed = x.clone()
    changed[23:] = tokens(17, seed=9)
    y, other = mixer(x), mixer(changed)
    assert_agree(other[:23], y[:23], method="mixer", dtype=F64, quantity="future")
    assert not torch.allclose(other[23:], y[23:])


def test_steps_are_the_scan(case: str) -> None:
    mixer, x = build(case), tokens(2, 21)
    with torch.no_grad():
        assert_agree(stepwise(mixer, x), mixer(x), method="mixer", dtype=F64, quantity="step")


def test_pieces_are_the_whole(case: str) -> None:
    mixer, x = build(case), tokens(24)
    with torch.no_grad():
        first, state = mixer.extend(x[:15])
        second, state = mixer.extend(x[15:], state)
        got = torch.cat([first, second])
        assert_agree(got, mixer(x), method="mixer", dtype=F64, quantity="step")
    assert state.position == 24


def test_state_size_is_what_a_step_keeps(case: str) -> None:
    mixer, x = build(case), tokens(2, 9)
    with torch.no_grad():
        state = mixer.extend(x)[1]
    per_sequence = state.numbers() / 2
    fixed = has_finite_state(mixer.dynamics(x)[0])
    assert (mixer.state_size() is not None) == fixed
    if fixed:
        assert per_sequence == mixer.state_size()
        assert mixer.state_growth() == 0
    else:
        with torch.no_grad():
            one = mixer.extend(x[0, :1])[1].numbers()
        assert per_sequence == one + 8 * mixer.state_growth()


def test_every_gradient_arrives(case: str) -> None:
    mixer = build(case)
    for name, gradient in gradients(mixer, tokens(17), "auto").items():
        assert torch.isfinite(gradient).all(), name
        assert gradient.norm() > 0, name


def test_gradcheck(case: str) -> None:
    mixer = build(case, d_model=3, n_heads=2, key_dim=2, value_dim=2)
    x = tokens(4, d_model=3).requires_grad_()
    names = [name for name, _ in mixer.named_parameters() if name != "position_table"]
    values = [dict(mixer.named_parameters())[name] for name in names]

    def run(x: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
        replaced = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(mixer, replaced, (x,))

    assert torch.autograd.gradcheck(run, (x, *values), fast_mode=True)


@pytest.mark.parametrize("length", LENGTHS)
def test_methods_agree(case: str, length: int) -> None:
    mixer, x = build(case), tokens(length)
    with torch.no_grad():
        dynamics, _ = mixer.dynamics(x)
        available = cpu_methods(dynamics)
        assert ("recurrent" in available) == has_finite_state(dynamics)
        expected = mixer(x, method="reference")
        for method in ("auto", *available[1:]):
            got = mixer(x, method=method)
            assert_agree(got, expected, method="mixer", dtype=F64, quantity="output", what=method)


def test_methods_agree_in_every_gradient(case: str) -> None:
    mixer, x = build(case), tokens(21)
    expected = gradients(mixer, x, "reference")
    for method in cpu_methods(mixer.dynamics(x)[0])[1:]:
        for name, got in gradients(mixer, x, method).items():
            what = f"{method}, gradient of {name}"
            assert_agree(
                got, expected[name], method="mixer", dtype=F64, quantity="gradient", what=what
            )


def test_methods_agree_in_every_gradient_of_many_chunks(case: str) -> None:
    mixer, x = build(case), tokens(131)
    expected = gradients(mixer, x, "parallel")
    for method in cpu_methods(mixer.dynamics(x)[0]):
        if method in ("reference", "parallel"):
            continue  # compared above, token by token
        for name, got in gradients(mixer, x, method).items():
            what = f"{method}, gradient of {name}"
            assert_agree(
                got, expected[name], method="mixer", dtype=F64, quantity="gradient", what=what
            )


def test_many_tokens(case: str) -> None:
    mixer, x = build(case), tokens(MANY)
    with torch.no_grad():
        y = mixer(x)
        for method in cpu_methods(mixer.dynamics(x)[0]):
            if method != "reference":
                got = mixer(x, method=method)
                assert_agree(got, y, method="mixer", dtype=F64, quantity="output", what=method)


@pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.bfloat16, torch.float16],
    ids=["float32", "bfloat16", "float16"],
)
def test_lower_precision(case: str, dtype: torch.dtype) -> None:
    rounded, x = build(case).to(dtype), tokens(2, 33).to(dtype)
    exact = copy.deepcopy(rounded).double()
    with torch.no_grad():
        available = cpu_methods(rounded.dynamics(x)[0])
    expected, wanted = output_and_gradients(exact, x.double(), "auto")
    for method in available:
        y, found = output_and_gradients(rounded, x, method)
        assert y.dtype == dtype
        assert_agree(y, expected, method="mixer", dtype=dtype, quantity="output", what=method)
        for name, value in found.items():
            assert value.dtype == dtype, name
            assert torch.isfinite(value).all(), name
            if name == "x":
                assert_agree(value, wanted["x"], method="mixer", dtype=dtype, quantity="gradient")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bfloat16", "float16"])
def test_half_precision_beside_what_stays_in_float32(case: str, dtype: torch.dtype) -> None:
    mixer, x = build(case).float(), tokens(2, 33).to(dtype)
    kept = mixer.float32_names()
    for name, parameter in mixer.named_parameters():
        if name not in kept:
            parameter.data = parameter.data.to(dtype)
    expected = copy.deepcopy(mixer).double()(x.double())
    y, found = output_and_gradients(mixer, x, "auto")
    assert y.dtype == dtype
    assert_agree(y, expected, method="mixer", dtype=dtype, quantity="output")
    for name, value in found.items():
        assert value.dtype == (torch.float32 if name in kept else dtype), name
        assert torch.isfinite(value).all(), name


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bfloat16", "float16"])
def test_autocast(case: str, dtype: torch.dtype) -> None:
    """The output is near that of float32, and every gradient is finite."""
    mixer, x = build(case).float(), tokens(2, 70).float()
    with torch.autocast("cpu", dtype=dtype):
        y = mixer(x)
        slopes = torch.autograd.grad(y.float().sum(), list(mixer.parameters()))
    assert all(torch.isfinite(slope).all() for slope in slopes)
    assert_agree(y, mixer(x), method="mixer", dtype=dtype, quantity="output")


def test_leading_axes_do_not_mix(case: str) -> None:
    mixer, x = build(case), tokens(2, 3, 11)
    y = mixer(x)
    for r in range(2):
        for b in range(3):
            alone = mixer(x[r, b])
            assert_agree(y[r, b], alone, method="mixer", dtype=F64, quantity="output")


def test_state_dict_round_trip(case: str) -> None:
    mixer, other, x = build(case), build(case, seed=5), tokens(13)
    assert not torch.equal(other(x), mixer(x))
    other.load_state_dict(mixer.state_dict())
    assert torch.equal(other(x), mixer(x))


def test_replicas_in_one_vmap(case: str) -> None:
    replicas = [build(case, seed=seed) for seed in range(3)]
    parameters, buffers = torch.func.stack_module_state(replicas)
    x, shape = tokens(2, 9), replicas[0]
    available = cpu_methods(shape.dynamics(x)[0])
    ys = [replica(x, method="parallel") for replica in replicas]
    expected = [
        torch.autograd.grad(y.square().sum(), list(replica.parameters()))
        for y, replica in zip(ys, replicas, strict=True)
    ]
    for method in (name for name in available if name in ("parallel", "chunked")):

        def loss(parameters: dict, buffers: dict, method: str = method) -> tuple:
            y = torch.func.functional_call(shape, (parameters, buffers), (x, method))
            return y.square().sum(), y

        run = torch.func.vmap(torch.func.grad(loss, has_aux=True))
        slopes, together = run(parameters, buffers)
        about = {"method": "mixer", "dtype": F64}
        for index, replica in enumerate(replicas):
            assert_agree(together[index], ys[index], quantity="output", what=method, **about)
            for (name, _), alone in zip(replica.named_parameters(), expected[index], strict=True):
                what, got = f"{method}: {name}", slopes[name][index]
                assert_agree(got, alone, quantity="gradient", what=what, **about)
