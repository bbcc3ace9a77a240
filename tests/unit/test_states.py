"""States: what they hold, what continues them, and batches and prompts at their edges."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from designs import NORMALIZERS, READOUTS, STRUCTURES, Inputs
from methods import cpu_methods

from coefdyn import CoefficientDynamics, State, evolution, mask, normalizer, readout
from coefdyn.execution.state import LinearState, MixerState, ModelState
from coefdyn.mixers import GatedDeltaNet, SoftmaxAttention
from coefdyn.models import ModelConfig, SequenceModel

F64 = torch.float64


def pieces(d: CoefficientDynamics, v: torch.Tensor, cuts: tuple[int, ...]) -> torch.Tensor:
    """y, the sequence given piece by piece."""
    state, found = None, []
    for start, stop in zip((0, *cuts), (*cuts, d.length), strict=True):
        y, state = d.narrow(start, stop - start).extend(v[..., start:stop, :], state)
        found.append(y)
    return torch.cat(found, -2)


@pytest.mark.parametrize("kind", ["given", "blocks", "begun blocks"])
def test_masks_continue_by_their_position(kind: str) -> None:
    inputs = Inputs.draw(length=20)
    generator = torch.Generator().manual_seed(1)
    allowed = torch.rand(20, 20, generator=generator) < 0.6
    pairs = {
        "given": mask.Given(allowed),
        "blocks": mask.Blocks(6),
        "begun blocks": mask.Blocks(6, position=4),
    }[kind]
    d = replace(inputs.dynamics("identity", "exp", "row_sum"), mask=pairs)
    torch.testing.assert_close(pieces(d, inputs.v, (7, 8)), d.apply(inputs.v, method="reference"))
    state = d.narrow(0, 7).extend(inputs.v[..., :7, :])[1]
    later = d.narrow(9, 5)
    with pytest.raises(ValueError, match="begins at position"):
        later.extend(inputs.v[..., 9:14, :], state)


def test_a_narrowed_given_mask_keeps_the_columns_of_its_rows() -> None:
    pairs = mask.Given(torch.ones(9, 9, dtype=torch.bool)).narrow(2, 4).narrow(1, 2)
    assert tuple(pairs.allowed.shape) == (2, 5) and pairs.position == 3


@pytest.mark.parametrize("length", [5, 100, 200])
@pytest.mark.parametrize("structure", STRUCTURES)
def test_no_sequences_give_no_outputs(structure: str, length: int) -> None:
    """Methods that go token by token do so at any length; each readout has one of the extras."""
    inputs = Inputs.draw(batch=(0,), length=length)
    c = torch.zeros(0, length, dtype=F64)
    extras = ({}, {"outer_log_decay": c}, {"log_scaling": c})
    for turn, phi in enumerate(READOUTS):
        eta = NORMALIZERS[turn % len(NORMALIZERS)]
        d = replace(inputs.dynamics(structure, phi, eta), **extras[turn % len(extras)])
        every = cpu_methods(d) if length == 5 else ["parallel", "chunked"]
        for method in ("auto", *(one for one in cpu_methods(d) if one in every)):
            y = d.apply(inputs.v, method=method)
            assert y.shape == (0, length, 3)
            assert torch.autograd.grad(y.sum(), inputs.v)[0].shape == (0, length, 3)
        assert d.extend(inputs.v)[0].shape == (0, length, 3)
        assert d.coefficients().shape == (0, length, length)


def test_no_sequences_of_a_window() -> None:
    q = torch.zeros(0, 200, 4)
    d = CoefficientDynamics(
        q=q,
        k=q,
        evolution=evolution.Identity(),
        scaling=1.0,
        readout=readout.exp,
        normalizer=normalizer.RowSum(),
        mask=mask.Window(3),
    )
    assert d.apply(q).shape == d.apply(q, method="chunked").shape == (0, 200, 4)


def linear(**changed: object) -> CoefficientDynamics:
    inputs = Inputs.draw(length=20)
    return replace(inputs.dynamics("scaled_householder", "identity", "one"), **changed)


@pytest.mark.parametrize("method", ["parallel", "reference", "triton", "nonsense"])
def test_methods_without_a_state_say_which_have_one(method: str) -> None:
    d, v = linear(), Inputs.draw(length=20).v
    state = d.apply(v, return_state=True)[1]
    for given in ({"return_state": True}, {"state": state}):
        with pytest.raises(ValueError, match="one of auto, recurrent, chunked where a state"):
            d.apply(v, method, **given)


def test_a_design_that_keeps_every_key_takes_any_method_up_to_its_first_state() -> None:
    inputs = Inputs.draw(length=20)
    d = inputs.dynamics("householder", "softplus", "row_sum")
    want, states = d.apply(inputs.v, "reference"), []
    for method in ("auto", "reference", "parallel", "chunked"):
        y, state = d.apply(inputs.v, method, return_state=True)
        torch.testing.assert_close(y, want)
        states.append(state)
    for state in states[1:]:
        assert state.values.equal(states[0].values)
        with pytest.raises(ValueError, match=r"continues no state that keeps every key.*'auto' or"):
            d.apply(inputs.v, "parallel", state=state)
        torch.testing.assert_close(
            d.apply(inputs.v, "reference", state=state), d.apply(inputs.v, state=states[0])
        )


def test_second_derivatives_through_a_state_are_right_or_refused() -> None:
    inputs = Inputs.draw(length=80)
    d = inputs.dynamics("scalar", "identity", "one")

    def second(method: str) -> torch.Tensor:
        state = d.apply(inputs.v, method, return_state=True)[1]
        y = d.apply(inputs.v, method, state=state)
        (g,) = torch.autograd.grad(y.square().sum(), inputs.leaves["k"], create_graph=True)
        return torch.autograd.grad(g.square().sum(), inputs.leaves["k"])[0]

    with pytest.raises(RuntimeError, match=r"second derivative.*method='parallel' or 'recurrent'"):
        second("auto")
    twice = torch.cat([inputs.v, inputs.v], -2)
    whole = replace(
        d,
        q=torch.cat([d.q, d.q], -2),
        k=torch.cat([d.k, d.k], -2),
        scaling=torch.cat([d.scaling] * 2, -1),
        evolution=evolution.Scalar(
            log_decay=torch.cat([d.evolution.log_decay] * 2, -1),
            sign=torch.cat([d.evolution.sign] * 2, -1),
        ),
    )
    y = whole.apply(twice, "reference")[..., 80:, :]
    (g,) = torch.autograd.grad(y.square().sum(), inputs.leaves["k"], create_graph=True)
    want = torch.autograd.grad(g.square().sum(), inputs.leaves["k"])[0]
    torch.testing.assert_close(second("recurrent"), want)


def test_a_learned_first_state_gets_its_gradient() -> None:
    """Not one that a call returned: a parameter, in the shape that the reference documents."""
    inputs = Inputs.draw(batch=(2,), length=70, n=5, dv=3)
    d = inputs.dynamics("identity", "identity", "one")
    learned = torch.zeros(2, 3, 5, dtype=F64, requires_grad=True)
    y = d.apply(inputs.v, state=LinearState(learned, None))
    weights = torch.linspace(-1.0, 2.0, y.numel(), dtype=F64).view(y.shape)
    (got,) = torch.autograd.grad((y * weights).sum(), learned)
    torch.testing.assert_close(got, weights.mT @ d.q)


def test_a_state_in_another_dtype_or_on_another_device() -> None:
    mixer = GatedDeltaNet(d_model=8, n_heads=2)
    state = mixer(torch.randn(2, 9, 8), return_state=True, attention_mask=torch.ones(2, 9))[1]
    wide = state.to(F64)
    assert {x.dtype for x in wide.tensors()} == {F64, torch.int64}
    assert mixer.double()(torch.randn(2, 3, 8, dtype=F64), state=wide).dtype == F64
    assert {x.device.type for x in state.to("meta").tensors()} == {"meta"}
    with pytest.raises(ValueError, match=r"the state has dtype torch\.float32"):
        mixer(torch.randn(2, 3, 8, dtype=F64), state=state)


def test_no_gradient_flows_through_a_detached_state() -> None:
    mixer, x = SoftmaxAttention(d_model=8, n_heads=2), torch.randn(2, 9, 8, requires_grad=True)
    state = mixer(x, return_state=True)[1]
    assert all(one.requires_grad for one in state.tensors())
    cut = state.detach()
    assert not any(one.requires_grad for one in cut.tensors()) and cut.position == 9
    y = mixer(x[:, :1].detach(), state=cut)
    with pytest.raises(RuntimeError, match="not have been used"):
        torch.autograd.grad(y.sum(), x)


def test_rows_that_do_not_exist() -> None:
    state = linear().apply(Inputs.draw(length=20).v, return_state=True)[1]
    assert state.index(torch.tensor([1, 1, 0], dtype=torch.int32)).batch_shape == (3,)
    assert state.index([]).batch_shape == (0,)
    for rows, words in (
        ([0, 2], r"0 .. 1, since the state holds 2 sequences; got 0 .. 2"),
        ([-1], r"got -1 .. -1"),
        ([True, False], r"boolean mask are mask.nonzero"),
        ([[0]], r"whole numbers \(rows,\)"),
        ([0.0], "float32"),
    ):
        with pytest.raises(ValueError, match=words):
            state.index(rows)


def test_files_hold_states(tmp_path) -> None:
    model, path = small_model(), tmp_path / "state.pt"
    ids = torch.randint(0, 11, (3, 12))
    state = model(ids[:, :9], return_state=True)[1]
    state.save(path)
    found = ModelState.load(path, device="cpu")
    assert isinstance(found, ModelState) and found.position == 9
    torch.testing.assert_close(model(ids[:, 9:], state=found), model(ids)[:, 9:])
    torch.save({"state": state.detach(), "step": 3}, path)  # inside a checkpoint
    found = torch.load(path, weights_only=True)["state"]
    torch.testing.assert_close(model(ids[:, 9:], state=found), model(ids)[:, 9:])
    with pytest.raises(ValueError, match="holds a dict, and not a MixerState"):
        MixerState.load(path)


def test_a_file_is_as_small_as_its_numbers(tmp_path) -> None:
    """A state of a slice of a batch does not take the whole batch along."""
    x = torch.randn(64, 8, 8)
    state = SoftmaxAttention(d_model=8, n_heads=2)(x, return_state=True)[1]
    state.map(lambda one: one[:1]).save(tmp_path / "one.pt")
    assert (tmp_path / "one.pt").stat().st_size < 4 * state.numbers() / 64 + 5_000


def small_model() -> SequenceModel:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = ModelConfig(width=16, mixer=("GatedDeltaNet", "SoftmaxAttention"))
        config = replace(config, options={"n_heads": 2}, position="learned")
        return SequenceModel(config, vocab=11, length=32).double()


def test_a_model_in_pieces_has_values_and_gradients_of_the_whole() -> None:
    model, ids = small_model(), torch.randint(0, 11, (2, 20))
    first, state = model(ids[:, :12], return_state=True)
    got = torch.cat([first, model(ids[:, 12:], state=state)], 1)
    want = model(ids)
    torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-10)
    weights = torch.linspace(-1.0, 2.0, want.numel(), dtype=F64).view(want.shape)
    slopes = [
        torch.autograd.grad((y * weights).sum(), list(model.parameters())) for y in (got, want)
    ]
    for found, wanted in zip(*slopes, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-11)
    beams = state.index([1, 1, 0])
    torch.testing.assert_close(model(ids[[1, 1, 0], 12:], state=beams), want[[1, 1, 0], 12:])


def test_truncated_backpropagation_as_the_reference_shows_it() -> None:
    """The page's own lines: with a rate of 0 the last piece has the logits of one pass."""
    page = Path(__file__).parents[2] / "book" / "api" / "mixers.md"
    (lines,) = (
        block
        for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
        if "state.detach()" in block
    )
    model, ids = small_model(), torch.randint(0, 11, (2, 31))
    found = {"model": model, "ids": ids, "torch": torch}
    found["optimizer"] = torch.optim.SGD(model.parameters(), lr=0.0)
    exec(lines.replace("256", "8"), found)
    want = model(ids[:, :-1])[:, 24:]
    torch.testing.assert_close(found["logits"], want)
    assert found["state"].position == 30
    assert not any(one.requires_grad for one in found["state"].tensors())
    loss = torch.nn.functional.cross_entropy(want.flatten(0, 1), ids[:, 25:].flatten())
    model.zero_grad()
    loss.backward()
    whole = model.embedding.weight.grad.norm()
    exec(lines.replace("256", "8"), found)
    assert (model.embedding.weight.grad.norm() - whole).abs() > 1e-3 * whole  # truncated


@pytest.mark.parametrize("phi", ["identity", "exp"])
def test_torch_func_differentiates_with_respect_to_a_state(phi: str) -> None:
    """A state is a pytree: its gradient is a state, its tangent a directional derivative."""
    inputs = Inputs.draw(length=9)
    d = inputs.dynamics("scaled_householder", phi, "given").narrow(0, 9)
    v = inputs.v.detach()
    first = d.apply(v, return_state=True)[1].detach()

    def loss(state: State) -> torch.Tensor:
        return d.apply(v, state=state).square().sum()

    slope = torch.func.grad(loss)(first)
    assert type(slope) is type(first)
    held = first.map(lambda x: x.clone().requires_grad_())
    want = torch.autograd.grad(loss(held), held.tensors())
    for got, wanted in zip(slope.tensors(), want, strict=True):
        torch.testing.assert_close(got, wanted)
    along = torch.func.jvp(loss, (first,), (first,))[1]
    pairs = zip(want, first.tensors(), strict=True)
    torch.testing.assert_close(along, sum((a * b).sum() for a, b in pairs))
