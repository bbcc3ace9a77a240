"""States of layers: pieces of a sequence, rows of a batch, files, and torch's own tools."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from mixer_cases import CASES, build, tokens
from tolerances import assert_agree

from coefdyn import State
from coefdyn.mixers import MesaNet, Mixer, MixerState

F64 = torch.float64


@pytest.fixture(params=CASES, scope="module")
def case(request: pytest.FixtureRequest) -> str:
    return request.param


def slopes(mixer: Mixer, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
    """Gradients of x and of every parameter, of a loss with no symmetry."""
    weights = torch.linspace(-1.0, 2.0, y.numel(), dtype=F64).reshape(y.shape).to(y)
    named = {"x": x, **dict(mixer.named_parameters())}
    found = torch.autograd.grad((y * weights).sum(), list(named.values()))
    return dict(zip(named, found, strict=True))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
def test_pieces_have_values_and_gradients_of_the_whole(case: str, dtype: torch.dtype) -> None:
    mixer, x = build(case).to(dtype), tokens(2, 24).to(dtype).requires_grad_()
    exact, source = copy.deepcopy(mixer).double(), x.detach().double().requires_grad_()
    first, state = mixer(x[:, :9], return_state=True)
    second, state = mixer(x[:, 9:10], state=state, return_state=True)
    third = mixer(x[:, 10:], state=state)
    got, want = torch.cat([first, second, third], 1), exact(source)
    assert_agree(got, want, method="mixer", dtype=dtype, quantity="output")
    found, wanted = slopes(mixer, x, got), slopes(exact, source, want)
    for name in wanted if dtype == F64 else ("x",):
        assert_agree(
            found[name], wanted[name], method="mixer", dtype=dtype, quantity="gradient", what=name
        )


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
