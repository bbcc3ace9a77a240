"""Packed and padded documents: every mixer gives each of them what it would give it alone."""

from __future__ import annotations

import copy

import pytest
import torch
from mixer_cases import CASES, build, tokens
from tolerances import assert_agree

from coefdyn.mixers import Mixer

F64 = torch.float64
#: a document of one token, one shorter than a convolution, and some of more than a chunk
LENGTHS = (1, 3, 30, 70, 19)
BOUNDS = torch.tensor([0, *LENGTHS]).cumsum(0)


@pytest.fixture(params=CASES, scope="module")
def case(request: pytest.FixtureRequest) -> str:
    return request.param


def slopes(mixer: Mixer, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
    """Gradients of x and of every parameter, of a loss with no symmetry."""
    weights = torch.linspace(-1.0, 2.0, y.shape[-1], dtype=F64).to(y)
    named = {"x": x, **dict(mixer.named_parameters())}
    found = torch.autograd.grad((y.square() * weights).sum(), list(named.values()))
    return dict(zip(named, found, strict=True))


def agree(got: dict[str, torch.Tensor], want: dict[str, torch.Tensor], dtype: torch.dtype) -> None:
    for name, value in want.items():
        assert_agree(got[name], value, method="mixer", dtype=dtype, quantity="gradient", what=name)


def alone(mixer: Mixer, x: torch.Tensor, lengths: tuple[int, ...]) -> torch.Tensor:
    """The documents of a packed sequence, each by itself."""
    return torch.cat([mixer(part) for part in x.split(lengths)])


def row(length: int, most: int, side: str) -> torch.Tensor:
    """The mask of one padded row."""
    real = torch.arange(most) < length
    return real if side == "right" else real.flip(0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
def test_a_packed_sequence_is_its_documents(case: str, dtype: torch.dtype) -> None:
    mixer, x = build(case).to(dtype), tokens(sum(LENGTHS)).to(dtype).requires_grad_()
    exact, source = copy.deepcopy(mixer).double(), x.detach().double().requires_grad_()
    want, got = alone(exact, source, LENGTHS), mixer(x, cu_seqlens=BOUNDS)
    assert_agree(got, want, method="mixer", dtype=dtype, quantity="output")
    found, wanted = slopes(mixer, x, got), slopes(exact, source, want)
    assert all(torch.isfinite(value).all() for value in found.values())
    agree(found, wanted if dtype == F64 else {"x": wanted["x"]}, dtype)
    batch = mixer(x[None], cu_seqlens=BOUNDS)
    assert_agree(batch[0], got, method="mixer", dtype=dtype, quantity="output")


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_changes_nothing(case: str, side: str) -> None:
    lengths, most = (5, 33, 71, 2), 71
    mixer, x = build(case), tokens(len(lengths), most).requires_grad_()
    mask = torch.stack([row(length, most, side) for length in lengths])
    want = torch.cat([mixer(x[i, mask[i]]) for i in range(len(lengths))])
    got = mixer(x, attention_mask=mask)[mask]
    assert_agree(got, want, method="mixer", dtype=F64, quantity="output")
    agree(slopes(mixer, x, got), slopes(mixer, x, want), F64)
    assert torch.isfinite(mixer(x, attention_mask=mask.long())).all()


@torch.no_grad()
def test_a_prompt_that_is_padded_on_the_left_is_continued(case: str) -> None:
    """Pieces that hold padding only, padding and tokens, and tokens only; then single tokens."""
    lengths, most = (12, 30, 14), 30
    mixer, x = build(case), tokens(len(lengths), most)
    mask = torch.stack([row(length, most, "left") for length in lengths])
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
def test_packed_documents_are_continued(case: str) -> None:
    mixer, x, lengths = build(case), tokens(60), (10, 25, 25)
    first, state = mixer.extend(x[:20], cu_seqlens=torch.tensor([0, 10, 20]))
    second, state = mixer.extend(x[20:], state, cu_seqlens=torch.tensor([0, 15, 40]))
    want = alone(mixer, x, lengths)
    got = torch.cat([first, second])
    assert_agree(got, want, method="mixer", dtype=F64, quantity="step")


@torch.no_grad()
def test_the_coefficients_of_documents_are_blocks(case: str) -> None:
    mixer, x = build(case), tokens(17)
    dynamics = mixer.dynamics(x, cu_seqlens=torch.tensor([0, 5, 17]))[0]
    alpha = dynamics.coefficients()
    rows = dynamics.length // 17
    assert alpha[..., 5 * rows :, : 5 * rows].abs().max() == 0
    assert alpha[..., : 5 * rows, : 5 * rows].abs().max() > 0
