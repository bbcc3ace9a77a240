"""Masks in the tiled kernel: right over several tiles, and read no further than they reach."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch
from chunked_cases import agrees_with_reference, in_chunks
from designs import STRUCTURES, Inputs

from coefdyn import CoefficientDynamics, mask, normalizer
from coefdyn.execution.chunked import pointwise
from coefdyn.execution.policy import choose

F64, F32 = torch.float64, torch.float32
LENGTH = 90
KNOWN = [name for name in STRUCTURES if name != "dense"]


def any_pairs() -> torch.Tensor:
    """One mask for each batch entry; some rows have no pair, others lack their own."""
    generator = torch.Generator().manual_seed(5)
    allowed = torch.rand(2, LENGTH, LENGTH, generator=generator) > 0.5
    allowed[:, 40] = False
    return allowed


MASKS = {
    "window": mask.Window(21),
    "blocks": mask.Blocks(10, before=1, position=3),
    "given": mask.Given(any_pairs()),
}


def masked(inputs: Inputs, structure: str, phi: str, name: str) -> CoefficientDynamics:
    """Positive row sums, and a sink where the readout may have one."""
    eta = normalizer.RowSum(sink=0.3) if phi in ("exp", "softplus") else normalizer.One()
    d = inputs.dynamics(structure, phi, "one")
    return replace(d, normalizer=eta, mask=MASKS[name])


@pytest.mark.parametrize("dtype", [F64, F32], ids=["float64", "float32"])
@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("phi", ["identity", "exp", "relu", "softplus", "tanh"])
@pytest.mark.parametrize("structure", KNOWN)
def test_outputs_and_gradients(structure: str, phi: str, name: str, dtype: torch.dtype) -> None:
    inputs = Inputs.draw(length=LENGTH, dtype=dtype)
    run = partial(in_chunks, chunk_size=16)
    agrees_with_reference(run, partial(masked, structure=structure, phi=phi, name=name), inputs)


@pytest.mark.parametrize("phi", ["identity", "exp"])
@pytest.mark.parametrize("structure", KNOWN)
def test_keys_behind_a_window_are_not_touched(
    structure: str, phi: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, int]] = []
    make = pointwise._scores

    def spy(*args: object) -> object:
        scores = make(*args)
        raw = scores.raw

        def watched(start: int, stop: int, first: int) -> torch.Tensor:
            found = raw(start, stop, first)
            seen.append((stop - start, found.shape[-1]))
            return found

        monkeypatch.setattr(scores, "raw", watched)
        return scores

    monkeypatch.setattr(pointwise, "_scores", spy)
    inputs = Inputs.draw(length=700)
    with torch.no_grad():
        inputs.leaves["channel_decay"].clamp_(max=-0.5)  # growth is run token by token
    d = replace(inputs.dynamics(structure, phi, "one"), mask=mask.Window(50))
    d.apply(inputs.v, method="chunked")
    rows = max(size for size, _ in seen)
    assert rows <= 64
    assert max(columns for _, columns in seen) <= 50 + 2 * rows


@pytest.mark.parametrize("structure", ["householder", "scaled_householder"])
def test_short_windows_take_the_tiles_where_the_whole_matrix_is_slower(structure: str) -> None:
    d = Inputs.draw(length=100).dynamics(structure, "exp", "one")
    assert choose(d) == "parallel"
    assert choose(replace(d, mask=mask.Window(9))) == "chunked"


def refuse(*args: object) -> torch.Tensor:
    raise AssertionError("the rows were computed a second time")


@pytest.mark.parametrize("dtype", [F64, F32], ids=["float64", "float32"])
@pytest.mark.parametrize("given", ["log_decay", "outer", "log_scaling"])
def test_rows_that_leave_the_range_are_divided_in_their_tile(
    given: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row 60 has one positive score, 100 or 900 nats away; a first try of it is out of range."""
    monkeypatch.setattr(pointwise, "apply_rows", refuse)
    nats = 900.0 if dtype is F64 else 100.0

    def build(inputs: Inputs) -> CoefficientDynamics:
        x = inputs.leaves
        d = inputs.dynamics("identity", "relu", "row_sum")
        far = torch.zeros(LENGTH, dtype=x["q"].dtype)
        far[30 if given == "log_scaling" else 50] = -nats
        if given == "log_scaling":
            return replace(d, log_scaling=x["log_scaling"] + far)
        if given == "outer":
            return replace(d, outer_log_decay=x["log_decay"] + far)
        return replace(d, evolution=inputs.evolution("scalar"), outer_log_decay=far.expand(2, -1))

    inputs = Inputs.draw(length=LENGTH, dtype=dtype)
    with torch.no_grad():
        inputs.leaves["k"][:, 31:61] = -inputs.leaves["q"][:, 60:61]
        inputs.leaves["k"][:, 30] = inputs.leaves["q"][:, 60]
    run = partial(in_chunks, chunk_size=16)
    found = agrees_with_reference(run, build, inputs)
    assert bool((found["output"][:, 60] != 0).all())


@pytest.mark.parametrize("phi", ["exp", "relu", "softplus", "identity"])
@pytest.mark.parametrize("structure", ["identity", "scalar", "scaled_householder"])
def test_an_outer_reset_takes_no_digits(structure: str, phi: str) -> None:
    """Documents kept apart by -1e9: sums of them would leave nothing of the other decays."""

    def build(inputs: Inputs) -> CoefficientDynamics:
        x = inputs.leaves
        apart = torch.zeros(LENGTH, dtype=x["q"].dtype)
        apart[[20, 41, 42, 77]] = -1e9
        d = inputs.dynamics(structure, phi, "one")
        eta = normalizer.One() if phi == "identity" else normalizer.RowSum()
        restricted = mask.Window(30) if phi == "identity" else None
        return replace(d, normalizer=eta, outer_log_decay=x["log_decay"] + apart, mask=restricted)

    inputs = Inputs.draw(length=LENGTH, n=3)
    agrees_with_reference(partial(in_chunks, chunk_size=16), build, inputs)


def test_every_path_is_taken() -> None:
    """The first path of the table that takes a design is the one it was made for."""
    inputs = Inputs.draw(length=30, n=3)
    plain = inputs.dynamics("identity", "exp", "row_sum")
    d = replace(plain, scaling=1.0)
    grown = inputs.dynamics("householder", "exp", "one")
    grown = replace(grown, evolution=replace(grown.evolution, beta=20 * grown.evolution.beta))
    heads = replace(d.readout, fn=lambda s: s * torch.ones(2, 1, 1, dtype=F64), name="heads")
    designs = [
        replace(d, q=1e6 * d.q),
        d,
        replace(d, mask=mask.Window(3)),
        grown,
        replace(d, readout=heads, normalizer=normalizer.One()),
        replace(d, normalizer=normalizer.One()),
    ]
    for path, example in zip(pointwise.PATHS, designs, strict=True):
        taken = next(p for p in pointwise.PATHS if p.takes(example, inputs.v))
        assert taken is path
