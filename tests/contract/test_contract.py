"""The contract: one list of properties, asked of one list of mixers and structures.

This file is the documentation of what a caller may rely on, whichever paper a layer comes from and
whichever structure and readout a design has: it is causal; pieces are the whole; documents that are
packed or padded are as if alone; all methods agree, in every gradient too; gradients are those of
finite differences; second derivatives are right or refused in words; half precision is near.
`subjects.py` is the list of who is asked. What only a layer has (sizes of states, autocast, state
dicts) stands in test_mixers.py, and that one graph of torch.compile holds it in
test_mixers_compile.py.
"""

from __future__ import annotations

import pytest
import torch
from contract.subjects import DESIGNS, MIXERS, SUBJECTS, Subject, subject
from tolerances import assert_agree

F64, F32 = torch.float64, torch.float32
DTYPES = {"float32": F32, "bfloat16": torch.bfloat16, "float16": torch.float16}
#: documents of one token, shorter than a convolution, and longer than a chunk
DOCUMENTS = (1, 3, 30, 70, 19)
#: several chunks and several tiles of rows, neither of them filled
MANY = 520

every = pytest.mark.parametrize("name", SUBJECTS)


def slopes(one: Subject, y: torch.Tensor) -> dict[str, torch.Tensor]:
    """Gradients of every leaf, of a loss with no symmetry."""
    weights = torch.linspace(-1.0, 2.0, y.numel(), dtype=F64).reshape(y.shape).to(y)
    found = torch.autograd.grad((y * weights).sum(), list(one.leaves.values()))
    return dict(zip(one.leaves, found, strict=True))


def agree(
    got: torch.Tensor,
    want: torch.Tensor,
    quantity: str,
    name: str,
    dtype: torch.dtype = F64,
    what: str = "",
) -> None:
    """Within the table: a layer is rounded more often than a design."""
    method = "mixer" if name in MIXERS or quantity == "future" else "parallel"
    assert_agree(got, want, method=method, dtype=dtype, quantity=quantity, what=what)


def agree_in_gradients(
    got: dict[str, torch.Tensor],
    want: dict[str, torch.Tensor],
    name: str,
    dtype: torch.dtype = F64,
    what: str = "",
) -> None:
    """In float64 of every leaf; below that of the input, which the layer rounds least often."""
    for leaf in want if dtype == F64 else list(want)[:1]:
        agree(got[leaf], want[leaf], "gradient", name, dtype, f"{what} gradient of {leaf}".strip())


@every
@torch.no_grad()
def test_causal(name: str) -> None:
    """Later tokens change nothing earlier."""
    one = subject(name, 40)
    y, other = one.apply(), one.changed(23)
    agree(other[:23], y[:23], "future", name)
    assert not torch.allclose(other[23:], y[23:])


@every
@torch.no_grad()
def test_steps_are_the_whole(name: str) -> None:
    one = subject(name, 21, (2,))
    agree(one.steps(), one.apply(), "step", name)


@pytest.mark.parametrize("dtype", [F64, F32], ids=["float64", "float32"])
@every
def test_pieces_are_the_whole(name: str, dtype: torch.dtype) -> None:
    """Values and gradients, through the states between the pieces."""
    one = subject(name, 24, (2,), dtype)
    exact = one.exact()
    got, state = one.pieces(9, 10)
    assert name in DESIGNS or state.position == 24
    want = exact.apply("reference")
    agree(got, want, "output", name, dtype)
    agree_in_gradients(slopes(one, got), slopes(exact, want), name, dtype)


@pytest.mark.parametrize("dtype", [F64, F32], ids=["float64", "float32"])
@every
def test_packed_documents_are_apart(name: str, dtype: torch.dtype) -> None:
    one = subject(name, sum(DOCUMENTS), (), dtype)
    exact = one.exact()
    got, want = one.packed(DOCUMENTS), exact.alone(DOCUMENTS)
    agree(got, want, "output", name, dtype)
    for method in one.methods() if dtype == F64 else ():
        agree(one.packed(DOCUMENTS, method), want, "output", name, what=method)
    found = slopes(one, got)
    assert all(torch.isfinite(value).all() for value in found.values())
    agree_in_gradients(found, slopes(exact, want), name, dtype)


@pytest.mark.parametrize("side", ["left", "right"])
@every
def test_padded_documents_are_apart(name: str, side: str) -> None:
    lengths, most = (5, 33, 71, 2), 71
    mask = torch.stack([torch.arange(most) < length for length in lengths])
    mask = mask if side == "right" else mask.flip(1)
    one = subject(name, most, (len(lengths),))
    got, want = one.padded(mask)
    agree(got, want, "output", name)
    agree_in_gradients(slopes(one, got), slopes(one, want), name)


@pytest.mark.parametrize("length", [1, 65, MANY])
@every
@torch.no_grad()
def test_methods_agree(name: str, length: int) -> None:
    """Of a single token, of more than one chunk, and of many chunks and tiles."""
    one = subject(name, length)
    available = one.methods()
    assert ("recurrent" in available) == one.has_finite_state()
    if length == MANY:
        available.remove("reference")  # compared below, token by token
    want = one.apply(available[0])
    for method in ("auto", *available[1:]):
        agree(one.apply(method), want, "output", name, what=method)


@pytest.mark.parametrize("length", [21, 131])
@every
def test_methods_agree_in_every_gradient(name: str, length: int) -> None:
    """Of one chunk by the reference; of many by the whole matrix."""
    one = subject(name, length)
    available = one.methods()
    if length > 21:
        available = ["parallel", *(m for m in available if m not in ("reference", "parallel"))]
    want = slopes(one, one.apply(available[0]))
    for leaf, gradient in want.items():
        assert torch.isfinite(gradient).all() and gradient.norm() > 0, leaf
    for method in available[1:]:
        agree_in_gradients(slopes(one, one.apply(method)), want, name, what=method)


@every
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    sizes = {"d_model": 3, "n_heads": 2, "key_dim": 2, "value_dim": 2}
    one = subject(name, 4, **(sizes if name in MIXERS else {"n": 3, "dv": 2}))
    held = {leaf: x for leaf, x in one.leaves.items() if leaf != "position_table"}

    def run(*values: torch.Tensor) -> torch.Tensor:
        return one.at(dict(zip(held, values, strict=True)))

    assert torch.autograd.gradcheck(run, tuple(held.values()), fast_mode=True)


@every
def test_second_derivatives_are_right_or_refused(name: str) -> None:
    one = subject(name, 9)
    first = next(iter(one.leaves.values()))

    def twice(method: str) -> torch.Tensor:
        y = one.apply(method)
        weights = torch.linspace(-1, 1, y.numel(), dtype=F64).view_as(y)
        loss = (y * weights).sum() + y.square().sum()
        (slope,) = torch.autograd.grad(loss, first, create_graph=True)
        u = torch.linspace(1, 2, slope.numel(), dtype=F64).view_as(slope)
        return torch.autograd.grad((slope * u).sum(), first)[0]

    want = twice("reference")
    for method in ("auto", *one.methods()[1:]):
        refused = ""
        try:
            agree(twice(method), want, "gradient", name, what=method)
        except RuntimeError as error:
            refused = str(error)
        if refused:
            assert method == "chunked", refused
            assert "derivative" in refused and "method='parallel'" in refused


@pytest.mark.parametrize("dtype", DTYPES)
@every
def test_lower_precision(name: str, dtype: str) -> None:
    """Near the same numbers in float64, by every method; gradients have the leaves' dtype."""
    one = subject(name, 33, (2,), DTYPES[dtype])
    exact = one.exact()
    want = exact.apply()
    wanted = slopes(exact, want)
    for method in one.methods():
        y = one.apply(method)
        assert y.dtype == DTYPES[dtype]
        agree(y, want, "output", name, y.dtype, method)
        found = slopes(one, y)
        for leaf, value in found.items():
            held = wanted[leaf].abs() < torch.finfo(y.dtype).max
            assert value.dtype == y.dtype and torch.isfinite(value[held]).all(), leaf
        agree_in_gradients(found, wanted, name, y.dtype, method)
