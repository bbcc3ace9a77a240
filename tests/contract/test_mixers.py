"""What a layer has beside the contract: states of its batch, files, autocast, torch's own tools."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from methods import cpu_methods
from mixer_cases import CASES, build, tokens
from tolerances import assert_agree

from coefdyn import State, mixers
from coefdyn.execution.state import has_finite_state
from coefdyn.mixers import MesaNet, Mixer, MixerState
from coefdyn.mixers.offered import offered
from coefdyn.models.names import own_mixer

F64 = torch.float64


@pytest.fixture(params=CASES, scope="module")
def case(request: pytest.FixtureRequest) -> str:
    return request.param


def slopes(mixer: Mixer, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
    """Gradients of x and of every parameter, of a loss with no symmetry."""
    weights = torch.linspace(-1.0, 2.0, y.shape[-1], dtype=F64).to(y)
    named = {"x": x, **dict(mixer.named_parameters())}
    found = torch.autograd.grad((y.square() * weights).sum(), list(named.values()))
    return dict(zip(named, found, strict=True))


def test_dynamics_are_heads_of_the_input(case: str) -> None:
    mixer, x = build(case), tokens(3, 7)
    dynamics, v = mixer.dynamics(x)
    assert v.shape == (*dynamics.batch_shape, dynamics.length, mixer.value_dim)
    assert dynamics.batch_shape[0] == 3
    assert dynamics.key_dim == mixer.key_dim
    assert mixer.collect(v).shape == (3, mixer.n_heads, 7, mixer.value_dim)
    assert mixer(x).shape == x.shape


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


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bfloat16", "float16"])
def test_half_precision_beside_what_stays_in_float32(case: str, dtype: torch.dtype) -> None:
    mixer, x = build(case).float(), tokens(2, 33).div(2).to(dtype)  # float16 holds the gradients
    kept = mixer.float32_names()
    for name, parameter in mixer.named_parameters():
        if name not in kept:
            parameter.data = parameter.data.to(dtype)
    expected = copy.deepcopy(mixer).double()(x.double())
    y = mixer(x)
    found = slopes(mixer, x.requires_grad_(), mixer(x))
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


def test_packed_documents_in_pieces(case: str) -> None:
    """A document that the cut divides, and one after it: values and gradients of one pass."""
    mixer, x = build(case), tokens(24).requires_grad_()
    want = mixer(x, cu_seqlens=torch.tensor([0, 5, 17, 24]))
    first, state = mixer(x[:11], cu_seqlens=torch.tensor([0, 5, 11]), return_state=True)
    second = mixer(x[11:], cu_seqlens=torch.tensor([0, 6, 13]), state=state)
    got = torch.cat([first, second])
    assert_agree(got, want, method="mixer", dtype=F64, quantity="output")
    found, wanted = slopes(mixer, x, got), slopes(mixer, x, want)
    for name, one in wanted.items():
        assert_agree(found[name], one, method="mixer", dtype=F64, quantity="gradient", what=name)


@torch.no_grad()
def test_rows_of_a_state_are_those_of_the_sequences(case: str, tmp_path: Path) -> None:
    """Beams: chosen and repeated rows go on as if their sequences had been computed; so does a
    state from a file."""
    mixer, x, parents = build(case), tokens(3, 12), [2, 0, 0, 2]
    masks = {"attention_mask": torch.ones(3, 9)}
    for given in ({}, masks):
        state = mixer(x[:, :9], return_state=True, **given)[1]
        state.save(tmp_path / "state.pt")
        state = State.load(tmp_path / "state.pt")
        beams = state.index(parents)
        assert beams.batch_shape == (4,) and beams.numbers() * 3 == state.numbers() * 4
        got, after = mixer(x[parents, 9:], state=beams, return_state=True)
        want = mixer(x)[parents, 9:]
        assert_agree(got, want, method="mixer", dtype=F64, quantity="step")
        torch.testing.assert_close(torch.as_tensor(after.position).expand(4), torch.full((4,), 12))
    with pytest.raises(ValueError, match="has no axis to choose rows from"):
        mixer(x[0], return_state=True)[1].index([0])


@pytest.mark.parametrize(("name", "first", "size"), [("GSA", 2000, 8), ("MesaNet", 1, 1)])
@torch.no_grad()
def test_states_of_half_precision_are_summed_in_float32(name: str, first: int, size: int) -> None:
    """A long first piece with more after it, and many small pieces of a slowly fading past."""
    mixer, length = build(name), first + 8 if first > 1 else 500
    if isinstance(mixer, MesaNet):
        mixer.decay.linear.bias.add_(7)
    else:
        mixer.project["query"].linear.weight.mul_(8)
    mixer, x = mixer.bfloat16(), tokens(length).bfloat16()
    want = copy.deepcopy(mixer).double()(x.double())[-8:]
    found, state = mixer.extend(x[:first])
    for start in range(first, length, size):
        y, state = mixer.extend(x[start : start + size], state)
        found = torch.cat([found, y])
    assert (found[-8:] - want).norm() < 0.01 * want.norm()


@torch.no_grad()
def test_a_state_of_another_dtype_is_refused(case: str) -> None:
    mixer, x = build(case), tokens(2, 9)
    wide = mixer.extend(x)[1]
    mixer, x = mixer.float(), x.float()
    with pytest.raises(ValueError, match=r"the state has dtype torch\.float64"):
        mixer.extend(x, wide)
    state = mixer.extend(x)[1]
    with pytest.raises(ValueError, match=r"the state has dtype torch\.float32"):
        mixer.double().extend(x.double(), state)
    want = mixer.float()(torch.cat([x, x], 1))[:, 9:]
    with torch.autocast("cpu", torch.bfloat16):
        mixed = mixer.extend(x)[1]
        found = [mixer.extend(x, mixed)[0], mixer.extend(x, state)[0]]
    for got in (*found, mixer.extend(x, mixed)[0]):
        assert (got.float() - want).norm() < 0.1 * want.norm()


@torch.no_grad()
def test_a_state_holds_no_more_memory_than_its_numbers(case: str) -> None:
    """No view keeps the tokens alive that it was cut from."""
    mixer, x = build(case), tokens(1, 100)
    state = mixer(x, return_state=True)[1]
    if mixer.state_size() is None:
        return  # keeps every token
    held = {one.untyped_storage().data_ptr(): one.untyped_storage() for one in state.tensors()}
    assert sum(one.nbytes() for one in held.values()) == 8 * state.numbers()


@torch.no_grad()
def test_vmap_takes_and_gives_states(case: str) -> None:
    mixer, x = build(case), tokens(3, 2, 12)

    def two(x: torch.Tensor) -> tuple[torch.Tensor, MixerState]:
        return mixer(x[:, :9], return_state=True)

    first, states = torch.func.vmap(two)(x)
    assert isinstance(states, MixerState) and states.position == 9
    rest = torch.func.vmap(lambda x, state: mixer(x[:, 9:], state=state))(x, states)
    got, want = torch.cat([first, rest], 2), torch.stack([mixer(one) for one in x])
    assert_agree(got, want, method="mixer", dtype=F64, quantity="step")


@torch.no_grad()
def test_a_prompt_that_is_padded_on_the_left_is_continued(case: str) -> None:
    """Pieces that hold padding only, padding and tokens, and tokens only; then single tokens."""
    lengths, most = (12, 30, 14), 30
    mixer, x = build(case), tokens(len(lengths), most)
    mask = torch.stack([(torch.arange(most) < length).flip(0) for length in lengths])
    state, found = None, []
    for start, stop in ((0, 4), (4, 20), (20, 26)):
        given = mask[:, start:stop] if start < 20 else None
        y, state = mixer.extend(x[:, start:stop], state, attention_mask=given)
        found.append(y)
    for t in range(26, most):
        y, state = mixer.step(x[:, t], state)
        found.append(y[:, None])
    got, want = torch.cat(found, 1), [mixer(x[i, mask[i]]) for i in range(len(lengths))]
    assert_agree(got[mask], torch.cat(want), method="mixer", dtype=F64, quantity="step")
    assert state.position.tolist() == list(lengths)


@torch.no_grad()
def test_bounds_of_a_batch_of_one_and_masks_of_whole_numbers(case: str) -> None:
    mixer, x, bounds = build(case), tokens(1, 12), torch.tensor([0, 5, 12])
    got = mixer(x, cu_seqlens=bounds)[0]
    assert_agree(got, mixer(x[0], cu_seqlens=bounds), method="mixer", dtype=F64, quantity="output")
    mask = torch.arange(12)[None] >= 4
    assert torch.equal(mixer(x, attention_mask=mask.long()), mixer(x, attention_mask=mask))


@torch.no_grad()
def test_the_coefficients_of_documents_are_blocks(case: str) -> None:
    mixer, x = build(case), tokens(17)
    dynamics = mixer.dynamics(x, cu_seqlens=torch.tensor([0, 5, 17]))[0]
    alpha = dynamics.coefficients()
    rows = dynamics.length // 17
    assert alpha[..., 5 * rows :, : 5 * rows].abs().max() == 0
    assert alpha[..., : 5 * rows, : 5 * rows].abs().max() > 0


@torch.no_grad()
def test_shapes_are_known_without_numbers(case: str) -> None:
    """On the meta device, with a state, padding and packed documents too."""
    mixer, x = build(case).to("meta"), torch.empty(2, 9, 12, dtype=F64, device="meta")
    whole = torch.ones(2, 9, dtype=torch.int64, device="meta")
    y, state = mixer.extend(x)
    assert y.shape == mixer.extend(x, state)[0].shape == x.shape
    assert mixer(x, attention_mask=whole).shape == x.shape
    assert mixer(x[:1], cu_seqlens=torch.empty(3, dtype=torch.int64, device="meta")).shape[1] == 9


#: options that bring parameters, or change which of them are read
OPTIONS: list[dict[str, object]] = [
    {"bias": True}, {"short_convolution": 3}, {"output_gate": "silu"}, {"output_norm": "rms"},
    {"query_key_norm": True}, {"position": "rotary"}, {"position": "learned", "max_length": 9},
    {"learned_direction": True}, {"key_heads": 1}, {"convolution_bias": True},
]  # fmt: skip


@pytest.mark.parametrize("kind", [one for one in map(own_mixer, mixers.__all__) if one])
def test_every_parameter_of_an_option_gets_a_gradient(kind: type[Mixer]) -> None:
    sizes = {"d_model": 8, "n_heads": 2}
    for option in OPTIONS:
        if not set(option) <= offered(kind) - set(getattr(kind, "settled", {})):
            continue
        given = {name: size for name, size in sizes.items() if name in offered(kind)}
        mixer = kind(**given, **option)
        y = mixer(torch.randn(2, 7, 8, generator=torch.Generator().manual_seed(0)))
        (y * torch.linspace(-1.0, 2.0, y.shape[-1])).sum().backward()
        assert not [name for name, one in mixer.named_parameters() if one.grad is None], option
    with pytest.raises(TypeError, match="no option 'learned_direction'"):
        mixers.ALiBiAttention(**sizes, learned_direction=True)
