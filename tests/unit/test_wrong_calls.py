"""Calls a newcomer gets wrong: each error says what was asked, what came, and what to do."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from coefdyn import CoefficientDynamics, evolution, mask, normalizer, readout
from coefdyn.mixers import GLA

LENGTH, WIDTH, VALUES = 6, 4, 3


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def design(length: int = LENGTH, **changed: object) -> CoefficientDynamics:
    whole = {
        "q": normal(length, WIDTH),
        "k": normal(length, WIDTH),
        "evolution": evolution.Identity(),
        "scaling": 1.0,
        "readout": readout.identity,
        "normalizer": normalizer.One(),
    }
    return CoefficientDynamics(**{**whole, **changed})


V = normal(LENGTH, VALUES)
DECAY = evolution.Scalar(log_decay=-normal(LENGTH).abs())
WIDE = {"q": normal(LENGTH, 5), "k": normal(LENGTH, 5)}
MIXER = GLA(d_model=4, n_heads=1)
LONG = {"q": normal(80, 5), "k": normal(80, 5)}


def rank_one(**changed: torch.Tensor) -> evolution.DiagonalPlusRankOne:
    whole = {name: normal(LENGTH, WIDTH) for name in ("log_decay", "left", "right")}
    return evolution.DiagonalPlusRankOne(**{**whole, **changed})


PAIRS = torch.ones(6, 6, dtype=torch.bool)


def masked(pairs: mask.Mask) -> CoefficientDynamics:
    return design(readout=readout.exp, mask=pairs)


def after(**changed: object) -> object:
    """The state that some other design leaves behind."""
    return design(**changed).extend(V)[1]


#: call -> (what the message says came, the remedy it names)
CALLS: dict[str, tuple[Callable[[], object], str, str]] = {
    "numpy": (lambda: design(q=normal(6, 4).numpy()), "got ndarray", "as_tensor"),
    "integers": (lambda: design(q=torch.ones(6, 4).long()), "int64", r"\.float\(\)"),
    "one axis": (lambda: design(q=normal(4)), r"got \(4,\)", r"\(\.\.\., L, n\)"),
    "no token": (lambda: design(length=0), r"got \(0, 4\)", "L >= 1"),
    "short keys": (lambda: design(k=normal(5, 4)), r"got \(5, 4\)", "L=6, n=4"),
    "two dtypes": (lambda: design(k=normal(6, 4).double()), "float64", r"k\.to\(q\)"),
    "two devices": (lambda: design(k=normal(6, 4).to("meta")), "on meta", r"k\.to\(q\)"),
    "some leading axes": (
        lambda: design(q=normal(2, 3, 6, 4), k=normal(3, 6, 4)),
        r"k \(3,\)",
        "size 1 where it broadcasts",
    ),
    "NaN": (lambda: design(q=normal(6, 4) * math.nan), "24 value", "isfinite"),
    "gate of -inf": (
        lambda: design(evolution=evolution.Scalar(log_decay=torch.full((6,), -math.inf))),
        "infinite",
        "-1e4",
    ),
    "gate without L": (
        lambda: design(evolution=evolution.Diagonal(log_decay=normal(4))),
        r"got \(4,\)",
        "expand",
    ),
    "sign of 0": (
        lambda: design(evolution=evolution.Scalar(log_decay=normal(6), sign=torch.zeros(6))),
        "sign",
        "magnitudes belong in log_decay",
    ),
    "left of another width": (
        lambda: design(evolution=rank_one(left=normal(6, 3))),
        r"evolution\.left.*got \(6, 3\)",
        "n=4",
    ),
    "right of another length": (
        lambda: design(evolution=rank_one(right=normal(5, 4))),
        r"evolution\.right.*got \(5, 4\)",
        "L=6",
    ),
    "sink of a linear readout": (
        lambda: design(normalizer=normalizer.RowSum(sink=0.0)),
        "linear readout",
        r"readout\.exp",
    ),
    "mask by name": (lambda: design(mask="window"), "'window'", r"coefdyn\.mask"),
    "window of no token": (lambda: mask.Window(0), "got 0", "at least 1"),
    "class": (lambda: design(normalizer=normalizer.RowSum), "RowSum", "not the class"),
    "name": (
        lambda: design(evolution="diagonal_plus_rank_one"),
        "'diagonal_plus",
        r"\.DiagonalPlusRankOne",
    ),
    "name of phi": (lambda: design(readout="exp"), "'exp'", r"readout\.exp"),
    "tensor for A": (lambda: design(evolution=normal(6, 4)), r"a tensor \(6, 4\)", "Diagonal"),
    "torch function": (lambda: design(readout=torch.exp), "exp", r"readout\.Pointwise"),
    "math function": (lambda: readout.Pointwise(math.exp), "'exp' failed", r"torch\.exp"),
    "softmax": (lambda: readout.Pointwise(lambda s: s.softmax(-1)), "depends", "RowSum"),
    "no number": (lambda: design(scaling=None), "got None", r"1\.0"),
    "number without a float": (lambda: design(scaling=10**400), "got 1000", "finite"),
    "NaN for b": (lambda: design(scaling=math.nan), "got nan", "a number"),
    "eta of 0": (
        lambda: design(normalizer=normalizer.Given(torch.zeros(6))),
        "6 zero",
        r"One\(\)",
    ),
    "negative floor": (lambda: normalizer.FlooredRowSum(-1.0), r"-1\.0", r"RowSum\(\)"),
    "floor of text": (lambda: normalizer.FlooredRowSum("1"), "'1'", r"RowSum\(\)"),
    "floor per token": (lambda: normalizer.FlooredRowSum(torch.ones(6)), "tensor", "a number"),
    "values too long": (lambda: design().apply(normal(7, 3)), r"got \(7, 3\)", "L=6"),
    "integer values": (lambda: design().apply(V.long()), "int64", r"\.float\(\)"),
    "method": (lambda: design().apply(V, "chunk"), "'chunk'", "auto, reference, recurrent"),
    "no such state": (
        lambda: design(readout=readout.exp).apply(V, "recurrent"),
        r"Pointwise\(exp\)",
        "Use method='parallel'",
    ),
    "no GPU": (lambda: design().apply(V, "triton"), "device 'cpu'", "Use method='chunked'"),
    "no matrix": (lambda: design().coefficients(method="chunked"), "'chunked'", "'parallel'"),
    "no such matrix": (
        lambda: design().coefficients(method="refrence"),
        "got 'refrence'",
        "'reference' or",
    ),
    "position": (lambda: design().states(6), "got 6", "0 <= j < L = 6"),
    "position by name": (lambda: design().states("a"), "got 'a'", "0 <= j < L = 6"),
    "half a position": (lambda: design().states(1.5), r"got 1\.5", "0 <= j < L = 6"),
    "a step of many tokens": (lambda: design().step(V), "L=6", r"extend\(v, state\)"),
    "a step of no token": (lambda: design(length=1).step(1.0), r"got 1\.0", r"extend\(v, state\)"),
    "state of another n": (lambda: design(**WIDE).extend(V, after()), r"\(4, 3\)", "state=None"),
    "long prompt, another n": (
        lambda: design(**LONG).extend(normal(80, 3), after()),
        r"\(4, 3\)",
        "state=None",
    ),
    "state of another d_v": (
        lambda: design().extend(normal(6, 5), after()),
        r"\(4, 3\).*\(4, 5\)",
        "state=None",
    ),
    "state of other heads": (
        lambda: design(q=normal(3, 6, 4)).extend(V, after(q=normal(2, 6, 4))),
        r"axes \(2,\)",
        "state=None",
    ),
    "state without a row sum": (
        lambda: design(normalizer=normalizer.RowSum()).extend(V, after()),
        r"= \(4, 3\)",
        "state=None",
    ),
    "state in float64": (
        lambda: design().extend(V, design().to(torch.float64).extend(V.double())[1]),
        "float64",
        "state=None",
    ),
    "state without weights": (
        lambda: design(evolution=DECAY, normalizer=normalizer.RowSum()).extend(
            V, after(normalizer=normalizer.RowSum())
        ),
        "without a decay",
        "state=None",
    ),
    "cache without weights": (
        lambda: design(evolution=DECAY, readout=readout.exp).extend(V, after(readout=readout.exp)),
        "without a decay",
        "state=None",
    ),
    "cache of another n": (
        lambda: design(**WIDE, readout=readout.exp).extend(V, after(readout=readout.exp)),
        r"\(4, 3\)",
        "state=None",
    ),
    "token ids": (lambda: MIXER(torch.ones(6, 4).long()), "int64", "embedding"),
    "array for x": (lambda: MIXER(normal(6, 4).numpy()), "ndarray", "floating-point tensor"),
    "mixer's state": (lambda: MIXER.step(normal(4), after()), "LinearState", "it is None"),
    "state without an outer decay": (
        lambda: design(readout=readout.exp, outer_log_decay=-normal(6).abs()).extend(
            V, after(readout=readout.exp)
        ),
        "made without an outer_log_decay, this design has one",
        "all zeros",
    ),
    "state with an outer decay": (
        lambda: design(readout=readout.exp).extend(
            V, after(readout=readout.exp, outer_log_decay=-normal(6).abs())
        ),
        "made with an outer_log_decay, this design has none",
        "state=None",
    ),
    "given mask without its position": (
        lambda: mask.Given(torch.ones(6, 12, dtype=torch.bool)),
        "needs 6 columns.*got 12",
        "position=p",
    ),
    "given mask of the wrong tokens": (
        lambda: masked(mask.Given(PAIRS)).extend(V, masked(mask.Given(PAIRS)).extend(V)[1]),
        "before token 6, and .* begins at position 0",
        "position=6",
    ),
    "blocks without their position": (
        lambda: masked(mask.Blocks(4)).extend(V, masked(mask.Blocks(4)).extend(V)[1]),
        "before token 6, and .* begins at position 0",
        r"mask\.narrow",
    ),
    "window beyond all numbers": (lambda: mask.Window(10**30), "10{30}", "at most"),
    "blocks beyond all numbers": (lambda: mask.Blocks(10**400), "1329 bits", "at most"),
    "sink beyond all numbers": (lambda: normalizer.RowSum(10**400), "1329 bits", "None for no"),
    "floor of True": (lambda: normalizer.FlooredRowSum(True), "got True", "RowSum"),
    "floor beyond all numbers": (lambda: normalizer.FlooredRowSum(10**5000), "bits", "RowSum"),
    "state of another kind": (
        lambda: design(readout=readout.exp).extend(V, after()),
        "got a LinearState",
        "state=None",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_error_says_what_came_and_what_to_do(no_shape_checks: None, name: str) -> None:
    call, received, remedy = CALLS[name]
    with pytest.raises(ValueError, match=received) as caught:
        call()
    caught.match(remedy)
