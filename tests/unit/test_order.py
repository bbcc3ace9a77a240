"""No test depends on what another left behind, so each may run first, last or alone."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable

import matplotlib
import numpy as np
import pytest
import torch
from global_state import seed_all
from matplotlib import pyplot

from coefdyn.lab.tasks import TASKS
from coefdyn.mixers import SoftmaxAttention, register_mixer
from coefdyn.plots import use_style

NAME = "COEFDYN_LEFT_BEHIND"

#: what a test may do -> (how it is done, what it changes)
DEEDS: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
    "style": (use_style, lambda: matplotlib.rcParams["axes.titlelocation"]),
    "figure": (pyplot.figure, pyplot.get_fignums),
    "dtype": (lambda: torch.set_default_dtype(torch.float64), torch.get_default_dtype),
    "device": (lambda: torch.set_default_device("meta"), torch.get_default_device),
    "threads": (lambda: torch.set_num_threads(2), torch.get_num_threads),
    "products": (
        lambda: torch.set_float32_matmul_precision("high"),
        torch.get_float32_matmul_precision,
    ),
    "gradients": (lambda: torch.set_grad_enabled(False), torch.is_grad_enabled),
    "environment": (lambda: os.environ.update({NAME: "1"}), lambda: os.environ.get(NAME)),
    "folder": (lambda: os.chdir("/"), os.getcwd),
    "path": (lambda: sys.path.insert(0, "/nowhere"), lambda: list(sys.path)),
    "task": (lambda: TASKS.pop("mqar"), lambda: sorted(TASKS)),
    "mixer": (
        lambda: register_mixer(type("LeftBehind", (SoftmaxAttention,), {})),
        lambda: "LeftBehind" in sys.modules["coefdyn.mixers.registry"].REGISTERED,
    ),
}
SEEN: dict[str, object] = {}
DRAWN: set[tuple[float, ...]] = set()


@pytest.mark.parametrize("visit", [1, 2])
@pytest.mark.parametrize("deed", DEEDS)
def test_what_a_test_does_is_undone(deed: str, visit: int) -> None:
    """Whichever of the two comes second finds what the first one found."""
    do, look = DEEDS[deed]
    assert SEEN.setdefault(deed, look()) == look()
    do()
    assert look() != SEEN[deed]


@pytest.mark.parametrize("visit", [1, 2])
def test_draws_are_a_tests_own(visit: int, request: pytest.FixtureRequest) -> None:
    """Global generators start from the test's name: the same alone and in any order."""
    drawn = draw()
    seed_all(request.node.nodeid)
    assert draw() == drawn
    assert drawn not in DRAWN
    DRAWN.add(drawn)


def draw() -> tuple[float, ...]:
    return random.random(), float(np.random.rand()), torch.rand(1).item()
