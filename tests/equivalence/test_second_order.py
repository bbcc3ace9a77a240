"""Second derivatives and transforms of every path: right, or refused in the library's words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import torch
from designs import STRUCTURES, Inputs
from methods import cpu_methods
from tolerances import assert_agree, relative_error

from coefdyn import CoefficientDynamics, evolution, mask, normalizer, readout
from coefdyn.execution.policy import PARALLEL_UP_TO
from coefdyn.execution.twice import TWICE_UP_TO

F64 = torch.float64
#: both sides of every length at which "auto" changes its method
LIMITS = {n for row in PARALLEL_UP_TO.values() for n in row.values() if n} | {TWICE_UP_TO}
LENGTHS = sorted(n + more for n in LIMITS for more in (0, 1))
REFUSED = r"(second|forward-mode) derivative .* method='parallel'"
KINDS = ("linear", "exp", "softmax", "window", "faded", "sink", "elu1")
Tensors = dict[str, torch.Tensor]


def drawn(structure: str, length: int) -> Tensors:
    """Small inputs, so that softmax keeps a gradient at every token."""
    x = {name: value.detach() for name, value in Inputs.draw((2,), length, 3, 3).leaves.items()}
    x["outer"], x["sink"] = x["log_decay"].clone(), x["log_scaling"].clone()
    return {name: 0.5 * value if name in "qk" else value for name, value in x.items()}


def design(x: Tensors, structure: str, kind: str) -> CoefficientDynamics:
    inputs = Inputs(x, {"sign": torch.ones(()), "channel_sign": torch.ones(())})
    inputs.signs["sign"] = torch.ones_like(x["log_decay"])
    inputs.signs["channel_sign"] = torch.ones_like(x["channel_decay"])
    phi = {"linear": "identity", "elu1": "elu1"}.get(kind, "exp")
    d = inputs.dynamics(structure, phi, "one" if kind in ("linear", "exp") else "row_sum")
    match kind:
        case "window":
            return replace(d, mask=mask.Window(5))
        case "faded":
            return replace(d, outer_log_decay=x["outer"])
        case "sink":
            return replace(d, normalizer=normalizer.RowSum(x["sink"]))
    return d


def loss_of(structure: str, kind: str, method: str) -> Callable[[Tensors], torch.Tensor]:
    def loss(x: Tensors) -> torch.Tensor:
        y = design(x, structure, kind).apply(x["v"], method)
        weights = torch.linspace(-1, 1, y.numel(), dtype=F64).view_as(y)
        return (y * weights).sum() + y.square().sum()

    return loss


def used(structure: str, kind: str) -> list[str]:
    """The tensors that a design reads."""
    names = {"diagonal_plus_rank_one": ["channel_decay", "left", "right"], "dense": ["matrix"]}
    names |= {"householder": ["direction", "beta"], "scalar": ["log_decay"]}
    names |= {"scaled_householder": ["direction", "beta", "log_decay"]}
    more = names.get(structure, ["channel_decay"] if structure == "diagonal" else [])
    extra = {"faded": ["outer"], "sink": ["sink"]}.get(kind, [])
    return ["q", "k", "v", "scaling", *more, *extra]


def twice(loss, x: Tensors, name: str) -> torch.Tensor:
    """H u by autograd.grad with inputs, u a fixed direction."""
    leaf = x[name].clone().requires_grad_()
    (slope,) = torch.autograd.grad(loss({**x, name: leaf}), leaf, create_graph=True)
    u = torch.linspace(1, 2, slope.numel(), dtype=F64).view_as(slope)
    (found,) = torch.autograd.grad((slope * u).sum(), leaf, allow_unused=True)
    return torch.zeros_like(leaf) if found is None else found


def checked(
    run: Callable[[], torch.Tensor], want: torch.Tensor, what: str, may_refuse: bool = False
) -> None:
    """Compare the result of ``run`` with ``want``; a refusal in the library's words is allowed."""
    try:
        got = run()
    except RuntimeError as error:
        words = "derivative" in str(error) and "method='parallel'" in str(error)
        assert may_refuse and words, what
        return
    if want.norm() > 1e-9:
        assert_agree(got, want, method="parallel", dtype=F64, quantity="gradient", what=what)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("structure", STRUCTURES)
def test_every_input_twice(structure: str, kind: str) -> None:
    x = drawn(structure, 9)
    for name in used(structure, kind):
        want = twice(loss_of(structure, kind, "reference"), x, name)
        for method in ("auto", *cpu_methods(design(x, structure, kind))[1:]):
            run = partial(twice, loss_of(structure, kind, method), x, name)
            checked(run, want, f"{structure} {kind} {name} {method}", method == "chunked")


@pytest.mark.parametrize("length", [1, *LENGTHS])
@pytest.mark.parametrize("kind", ["linear", "softmax", "window", "faded", "elu1"])
@pytest.mark.parametrize(
    "structure", ["identity", "diagonal", "householder", "diagonal_plus_rank_one"]
)
def test_auto_on_both_sides_of_every_change(structure: str, kind: str, length: int) -> None:
    x = drawn(structure, length)
    for name in ("q", "v", used(structure, kind)[-1]):
        want = twice(loss_of(structure, kind, "parallel"), x, name)
        run = partial(twice, loss_of(structure, kind, "auto"), x, name)
        checked(run, want, f"{structure} {kind} {name} {length}", length > TWICE_UP_TO)


@pytest.mark.parametrize("length", [40, 150])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("structure", ["identity", "scalar", "diagonal", "scaled_householder"])
def test_each_tensor_wrapped_alone(structure: str, kind: str, length: int) -> None:
    """func.grad, vmap and vmap(grad) of one tensor at a time; nested ones up to 128 tokens."""
    x = drawn(structure, length)
    plain, loss = loss_of(structure, kind, "parallel"), loss_of(structure, kind, "auto")

    def of(f: Callable[[Tensors], torch.Tensor], name: str, t: torch.Tensor) -> torch.Tensor:
        return f({**x, name: t})

    for name in used(structure, kind):
        what = f"{structure} {kind} {name} {length}"
        leaf, both = x[name].clone().requires_grad_(), torch.stack([x[name], 0.9 * x[name]])
        (want,) = torch.autograd.grad(of(plain, name, leaf), leaf)
        values = torch.stack([of(plain, name, t) for t in both])
        alone = partial(of, loss, name)
        checked(partial(torch.func.grad(alone), x[name]), want, what)
        checked(partial(torch.func.vmap(alone), both), values, what)
        slopes = torch.func.vmap(torch.func.grad(alone))(both)
        assert_agree(slopes[0], want, method="parallel", dtype=F64, quantity="gradient", what=what)
    u = torch.linspace(1, 2, x["q"].numel(), dtype=F64).view_as(x["q"])
    slope = torch.func.grad(partial(of, loss, "q"))
    nested = torch.func.grad(lambda t: (slope(t) * u).sum())
    want = twice(plain, x, "q")
    checked(partial(nested, x["q"]), want, "nested", length > TWICE_UP_TO)


def test_hvp_and_hessian_of_a_window() -> None:
    q, k, v = Inputs.draw((), 7, 2, 2).leaves["q"].detach(), *torch.randn(2, 7, 2).double()

    def loss(q: torch.Tensor, method: str) -> torch.Tensor:
        d = CoefficientDynamics(
            q=q,
            k=k,
            evolution=evolution.Identity(),
            scaling=0.5,
            readout=readout.exp,
            normalizer=normalizer.RowSum(),
            mask=mask.Window(3),
        )
        return d.apply(v, method).square().sum()

    auto, hessian = partial(loss, method="auto"), torch.autograd.functional.hessian
    want = hessian(partial(loss, method="reference"), q)
    assert relative_error(hessian(auto, q), want) < 1e-10
    assert relative_error(torch.func.hessian(auto)(q), want) < 1e-10
    with pytest.raises(RuntimeError, match=REFUSED):
        torch.autograd.functional.hvp(partial(loss, method="chunked"), q, torch.ones_like(q))


def test_one_input_made_of_another_counts_once() -> None:
    """The plain gradient of "auto" stops at what the design was given."""
    inputs = Inputs.draw((), 100, 3, 3)
    x = inputs.leaves

    def loss(method: str) -> torch.Tensor:
        left = x["beta"][..., None] * x["direction"]
        a = evolution.DiagonalPlusRankOne(
            log_decay=x["channel_decay"], left=left, right=x["direction"]
        )
        d = CoefficientDynamics(
            q=x["q"],
            k=x["direction"],
            evolution=a,
            scaling=x["beta"],
            readout=readout.identity,
            normalizer=normalizer.One(),
        )
        return d.apply(x["v"], method).square().sum()

    leaves = [x[name] for name in ("beta", "direction", "q", "v")]
    found = {
        method: torch.autograd.grad(loss(method), leaves, create_graph=True)
        for method in ("auto", "parallel")
    }
    for got, want in zip(found["auto"], found["parallel"], strict=True):
        assert relative_error(got, want) < 1e-10


@pytest.mark.parametrize("method", ["auto", "parallel", "chunked"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("length", [40, 150])
def test_a_change_in_place_before_the_backward_pass(length: int, kind: str, method: str) -> None:
    """It raises, unless the gradient is that of the old numbers; most of these raise."""
    x = drawn("identity", length)
    v, q = x["v"].clone(), x["q"].requires_grad_()
    y = design(x, "identity", kind).apply(v, method)
    (want,) = torch.autograd.grad(y.sum(), q, retain_graph=True)
    v.mul_(2.0)
    copied = kind == "linear" or (method != "parallel" and kind in ("elu1", "faded"))
    try:
        (got,) = torch.autograd.grad(y.sum(), q)
    except RuntimeError as error:
        assert "in place" in str(error) or "inplace" in str(error)  # noqa: PT017
    else:
        assert copied, "the change went unnoticed"
        assert torch.equal(got, want)
