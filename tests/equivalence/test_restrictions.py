"""Own terms, outer decays, masks and sinks: every method against the equation, written out here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
import torch
from chunked_cases import in_chunks
from designs import READOUTS, STRUCTURES, Inputs
from methods import cpu_methods
from tolerances import assert_agree, relative_error, tolerance

from coefdyn import CoefficientDynamics, mask, normalizer
from coefdyn.analysis import combination_class, report
from coefdyn.analysis.classes import CombinationClass
from coefdyn.execution.state import has_finite_state

F64 = torch.float64
LENGTH = 13


def draw(name: str, *shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(len(name))
    return torch.randn(2, *shape, generator=generator, dtype=F64)


def leaves_of(length: int) -> dict[str, torch.Tensor]:
    """own, outer and sink, each (2, L), with gradients."""
    return {
        "own": draw("own", length).requires_grad_(),
        "outer": (-0.3 * draw("outer", length).abs()).requires_grad_(),
        "sink": draw("sinks", length).requires_grad_(),
    }


def some_pairs(length: int) -> torch.Tensor:
    """Random pairs; row 4 has none."""
    allowed = draw("pairs", length, length) > -0.3
    allowed[:, 4] = False
    return allowed


MASKS: dict[str, Callable[[int], mask.Mask]] = {
    "window": lambda length: mask.Window(5),
    "window-one": lambda length: mask.Window(1),
    "blocks": lambda length: mask.Blocks(6),
    "blocks-before": lambda length: mask.Blocks(4, before=1),
    "given": lambda length: mask.Given(some_pairs(length)),
}
#: name -> what is added to a design
ADDED: dict[str, Callable[[dict, int], dict[str, object]]] = {
    "own": lambda x, length: {"own": x["own"]},
    "outer": lambda x, length: {"outer_log_decay": x["outer"]},
    **{name: lambda x, length, make=make: {"mask": make(length)} for name, make in MASKS.items()},
    "all": lambda x, length: {
        "own": x["own"],
        "outer_log_decay": x["outer"],
        "mask": mask.Window(5),
    },
}


def alpha_of(d: CoefficientDynamics) -> torch.Tensor:
    """alpha from that of the plain design, pair by pair."""
    plain = replace(d, own=None, outer_log_decay=None, mask=None)
    alpha = replace(plain, normalizer=normalizer.One()).coefficients(method="reference").clone()
    rows = []
    for i in range(d.length):
        row = []
        for j in range(d.length):
            value = alpha[..., i, j]
            if d.outer_log_decay is not None and j < i:
                value = value * d.outer_log_decay[..., j + 1 : i + 1].sum(-1).exp()
            if d.own is not None and i == j:
                value = value + d.own[..., i]
            row.append(value if seen(d, i, j) is None else value * seen(d, i, j))
        rows.append(torch.stack(row, -1))
    return torch.stack(rows, -2)


def seen(d: CoefficientDynamics, i: int, j: int) -> torch.Tensor | float | None:
    match d.mask:
        case mask.Window(size=size):
            return float(i - j < size)
        case mask.Blocks(size=size, before=before):
            return float(i // size - j // size <= before)
        case mask.Given(allowed=allowed):
            return allowed[..., i, j].double()
    return None


def literal(d: CoefficientDynamics, v: torch.Tensor) -> torch.Tensor:
    """y by the definitions of the four normalizers."""
    alpha = alpha_of(d)
    total = alpha.sum(-1)
    sink = getattr(d.normalizer, "sink", None)
    eta = {
        "One": lambda: torch.ones_like(total),
        "RowSum": lambda: total if sink is None else total + sink.exp(),
        "FlooredRowSum": lambda: total.abs().clamp(min=1.0),
        "Given": lambda: d.normalizer.eta,
    }[d.normalizer.name]()
    weights = alpha / eta.masked_fill(eta == 0, 1.0)[..., None]
    return weights @ v


def design(
    structure: str, phi: str, eta: str, added: str, length: int = LENGTH
) -> tuple[CoefficientDynamics, torch.Tensor, list[torch.Tensor]]:
    inputs, x = Inputs.draw(length=length, n=4, seed=3), leaves_of(length)
    d = inputs.dynamics(structure, phi, "row_sum" if eta == "sink" else eta)
    if eta == "sink":
        d = replace(d, normalizer=normalizer.RowSum(sink=x["sink"]))
    d = replace(d, **ADDED[added](x, length)) if added else d
    return d, inputs.v, [*inputs.leaves.values(), *x.values()]


def gradients(y: torch.Tensor, leaves: list[torch.Tensor]) -> list[torch.Tensor | None]:
    weights = torch.linspace(-1, 2, y.numel(), dtype=F64).reshape(y.shape)
    return torch.autograd.grad((y * weights).sum(), leaves, allow_unused=True, retain_graph=True)


@dataclass(frozen=True)
class Wanted:
    """y, and its gradient by every leaf, computed once for all methods."""

    y: torch.Tensor
    slopes: list[torch.Tensor | None]


def wanted(y: torch.Tensor, leaves: list[torch.Tensor]) -> Wanted:
    return Wanted(y.detach(), gradients(y, leaves))


def agrees(d, v, leaves, want: Wanted, method: str, run=None) -> None:
    """Output and every gradient."""
    y = d.apply(v, method=method) if run is None else run(d, v)
    assert_agree(y, want.y, method=method, dtype=F64, quantity="output", what=method)
    for got, expected in zip(gradients(y, leaves), want.slopes, strict=True):
        if expected is None or not expected.abs().max() > 0:
            assert got is None or not got.abs().max() > 1e-12
        else:
            assert_agree(got, expected, method=method, dtype=F64, quantity="gradient", what=method)


def every_method(d, v, leaves) -> None:
    want, methods = wanted(literal(d, v), leaves), cpu_methods(d)
    for method in methods:
        agrees(d, v, leaves, want, method)
    if "chunked" in methods:
        tiles = lambda d, v: in_chunks(d, v, chunk_size=4)  # noqa: E731
        agrees(d, v, leaves, want, "chunked", tiles)


def grid() -> list[tuple[str, str, str]]:
    """Every structure with every readout, and with each: every addition, but masks of a rule.

    Those go round, so that every structure and every readout meets each of them: they differ in
    which pairs they leave out, and a mask of any pairs is in every cell.
    """
    rules = [name for name in MASKS if name != "given"]
    return [
        (structure, phi, added)
        for s, structure in enumerate(STRUCTURES)
        for p, phi in enumerate(READOUTS)
        for added in ("own", "outer", "given", "all", rules[(s + p) % len(rules)])
    ]


@pytest.mark.parametrize(("structure", "phi", "added"), grid())
def test_every_structure_and_readout(structure: str, phi: str, added: str) -> None:
    every_method(*design(structure, phi, "given", added))


def test_every_structure_and_every_readout_meets_every_addition() -> None:
    for place, names in ((0, STRUCTURES), (1, READOUTS)):
        met = {(case[place], case[2]) for case in grid()}
        assert met == {(name, added) for name in names for added in ADDED}


@pytest.mark.parametrize("added", ["own", "outer", "window", "given", "all"])
@pytest.mark.parametrize("eta", ["one", "row_sum", "floored"])
@pytest.mark.parametrize("phi", ["identity", "exp", "softplus", "relu", "elu1"])
def test_every_normalizer(phi: str, eta: str, added: str) -> None:
    for structure in ("identity", "scalar"):
        d, v, leaves = design(structure, phi, eta, added)
        if phi == "identity" and eta == "row_sum":
            d = replace(d, q=d.q.abs(), k=d.k.abs())  # a sum that cancels is no fair question
        if d.own is not None:
            d = replace(d, own=d.own.abs())
        every_method(d, v, leaves)


@pytest.mark.parametrize("added", ["", "own", "outer", "window", "given", "all"])
@pytest.mark.parametrize("phi", ["exp", "softplus", "relu", "elu1"])
def test_a_sink_takes_its_share(phi: str, added: str) -> None:
    for structure in ("identity", "householder", "diagonal_plus_rank_one"):
        every_method(*design(structure, phi, "sink", added))


@pytest.mark.parametrize("phi", ["exp", "softplus", "elu1"])
def test_a_sink_may_be_one_number(phi: str) -> None:
    d, v, leaves = design("scalar", phi, "row_sum", "")
    same = torch.full((2, LENGTH), 1.5, dtype=F64)
    want = wanted(literal(replace(d, normalizer=normalizer.RowSum(sink=same)), v), leaves)
    d = replace(d, normalizer=normalizer.RowSum(sink=1.5))
    for method in cpu_methods(d):
        agrees(d, v, leaves, want, method)


@pytest.mark.parametrize("added", ["own", "outer", "blocks-before", "given", "all"])
@pytest.mark.parametrize("phi", ["identity", "exp", "softplus", "elu1"])
@pytest.mark.parametrize("structure", ["identity", "scaled_householder"])
def test_step_continues_a_sequence(structure: str, phi: str, added: str) -> None:
    d, v, _ = design(structure, phi, "sink" if phi == "exp" else "given", added, length=90)
    with torch.no_grad():
        want, state, outputs = d.apply(v, method="parallel"), None, []
        for start, size in ((0, 1), (1, 70), (71, 3), (74, 16)):
            y, state = d.narrow(start, size).extend(v.narrow(-2, start, size), state)
            outputs.append(y)
    got = torch.cat(outputs, -2)
    assert relative_error(got, want) < tolerance("recurrent", F64, "step")


def test_outer_decays_and_sinks_of_200_nats_in_float32() -> None:
    """Rows whose largest coefficient is e^200 or e^-200, and a sink of the same size."""
    d, v, _ = design("identity", "exp", "sink", "outer", length=70)
    swing = 200 * torch.sin(torch.arange(70) / 9.0)
    c = torch.diff(swing, prepend=swing[:1]).expand(2, 70)
    hot = replace(d, q=30 * d.q, outer_log_decay=c.double())
    for sink in (swing.expand(2, 70), torch.full((2, 70), 200.0), torch.full((2, 70), -200.0)):
        exact = replace(hot, normalizer=normalizer.RowSum(sink=sink.double())).to(torch.float32)
        with torch.no_grad():
            want = exact.to(F64).apply(v.float().double(), method="reference")
            for method in ("parallel", "chunked"):
                y = exact.apply(v.float(), method=method)
                assert_agree(y, want, method=method, dtype=torch.float32, quantity="output")


@pytest.mark.parametrize("phi", ["identity", "exp", "softplus"])
def test_an_empty_row_is_zero_and_has_no_gradient(phi: str) -> None:
    d, v, leaves = design("identity", phi, "row_sum", "given")
    for method in cpu_methods(d):
        y = d.apply(v, method=method)
        assert (y[:, 4] == 0).all()
        for gradient in torch.autograd.grad(y[:, 4].sum(), leaves, allow_unused=True):
            assert gradient is None or (gradient == 0).all()
    assert "2 row(s) are empty" in str(report(d.to(torch.float32)))


def test_masked_pairs_are_exact_zeros() -> None:
    d, _, _ = design("scalar", "softplus", "row_sum", "given")
    alpha = d.coefficients(normalized=True)
    assert (alpha.masked_select(~some_pairs(LENGTH)) == 0).all()
    filled = [i for i in range(LENGTH) if bool((alpha[:, i] != 0).any())]
    assert 4 not in filled
    torch.testing.assert_close(alpha.sum(-1)[:, filled], torch.ones(2, len(filled), dtype=F64))


def test_what_a_class_guarantees() -> None:
    sunk = design("identity", "exp", "sink", "")[0]
    assert combination_class(sunk) is CombinationClass.CONICAL
    negative = design("identity", "exp", "row_sum", "own")[0]
    assert combination_class(negative) is CombinationClass.AFFINE


def test_refusals_say_what_would_work(no_shape_checks: None) -> None:
    d, v, _ = design("scalar", "identity", "one", "window")
    assert not has_finite_state(d)
    with pytest.raises(ValueError, match=r"cannot leave pairs out.*Use method='chunked'"):
        d.apply(v, method="recurrent")
    with pytest.raises(ValueError, match=r"a linear readout have any sign|readout have any sign"):
        replace(d, normalizer=normalizer.RowSum(sink=0.0))
    with pytest.raises(ValueError, match=r"mask must be one of coefdyn\.mask, got 'window'"):
        replace(d, mask="window")
    with pytest.raises(ValueError, match=r"has 3 rows, got L=13"):
        replace(d, mask=mask.Given(torch.ones(3, 3, dtype=torch.bool)))
    with pytest.raises(ValueError, match=r"boolean tensor \(\.\.\., L, L\)"):
        mask.Given(torch.ones(3, 3))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least 1, got 0"):
        mask.Window(0)
    with pytest.raises(ValueError, match=r"own must have shape \(\.\.\., L\)"):
        replace(d, own=torch.ones(2, 3, dtype=F64))
    with pytest.raises(ValueError, match="finite number, in nats"):
        normalizer.RowSum(sink=float("inf"))
    exp, v, _ = design("identity", "exp", "row_sum", "outer")
    with pytest.raises(ValueError, match=r"method='triton' has no outer decay"):
        exp.apply(v, method="triton")
    features, v, _ = design("identity", "elu1", "row_sum", "window")
    with pytest.raises(ValueError, match=r"no mask.*Use method='parallel'"):
        features.apply(v, method="chunked")
