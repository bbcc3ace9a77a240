"""Annotations of shapes are checked while tests run, and nothing else is wrapped."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("beartype")
jaxtyping = pytest.importorskip("jaxtyping")

import shape_checks  # noqa: E402

SOURCE = '''"""A module with a docstring."""

from __future__ import annotations

from dataclasses import dataclass

from coefdyn.shapes import Float, Tensor


def doubled(x: Float[Tensor, "L n"]) -> Float[Tensor, "L n"]:
    return 2 * x


def first(x: Tensor) -> Float[Tensor, " n"]:
    return x[0]


def paired(q: Float[Tensor, "L n"], k: Float[Tensor, "L n"] | None = None, *rest: int) -> int:
    return len(rest)


def plain(x: Tensor, times: int = 2) -> Tensor:
    return times * x


class Mixer:
    @staticmethod
    def of_rows(x: Float[Tensor, "L n"]) -> int:
        return len(x)

    def call(self, x: Float[Tensor, "L n"]) -> int:
        return len(x)


@dataclass(frozen=True)
class Kept:
    q: Float[Tensor, "L n"]
'''


@pytest.fixture
def checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "package_with_shapes.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    shape_checks.check_shapes_of("package_with_shapes")
    yield importlib.import_module("package_with_shapes")
    sys.modules.pop("package_with_shapes")


def test_wrong_shapes_are_refused_wherever_they_are_written(checked) -> None:
    right, wrong = torch.ones(3, 2), torch.ones(3)
    assert checked.doubled(right).shape == right.shape
    calls = (
        lambda: checked.doubled(wrong),
        lambda: checked.first(torch.ones(3, 2, 2)),
        lambda: checked.paired(right, torch.ones(4, 2)),
        lambda: checked.Mixer.of_rows(wrong),
        lambda: checked.Mixer().call(wrong),
        lambda: checked.Kept(wrong),
    )
    for call in calls:
        with pytest.raises(jaxtyping.TypeCheckError):
            call()
    assert checked.Kept(right).q is right
    assert checked.paired(right, right, 1, 2) == 2


def test_the_library_is_checked() -> None:
    """In this very run: `tests/conftest.py` asks for it."""
    from coefdyn.dynamics import CoefficientDynamics, evolution, normalizer, readout

    q, rest = torch.ones(4, 2), (evolution.Identity(), readout.exp, normalizer.RowSum())

    def dynamics(k: torch.Tensor) -> CoefficientDynamics:
        names = ("evolution", "readout", "normalizer")
        return CoefficientDynamics(q=q, k=k, scaling=1.0, **dict(zip(names, rest, strict=True)))

    assert dynamics(q).length == 4
    with pytest.raises(jaxtyping.TypeCheckError):
        dynamics(torch.ones(5, 2))
