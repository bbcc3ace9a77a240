"""Global state that one test may change for later ones: saved before each test, restored after."""

from __future__ import annotations

import os
import random
import sys
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

__all__ = ["give_back", "seed_all", "take"]

#: dictionaries that a call of the library adds to: module, attribute
REGISTRIES = (("coefdyn.mixers.registry", "REGISTERED"), ("coefdyn.lab.tasks.base", "TASKS"))
#: pytest's own, different in each phase of a test
PYTEST = "PYTEST_CURRENT_TEST"

#: state of torch that a getter reads and a setter takes
TORCH: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "default device": (torch.get_default_device, torch.set_default_device),
    "threads": (torch.get_num_threads, torch.set_num_threads),
    "float32 products": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    "gradients": (torch.is_grad_enabled, torch.set_grad_enabled),
    "deterministic": (
        torch.are_deterministic_algorithms_enabled,
        torch.use_deterministic_algorithms,
    ),
}


def seed_all(name: str) -> None:
    """Seed every global generator by a name, so that draws depend on nothing that ran before."""
    seed = zlib.crc32(name.encode())
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def take() -> dict[str, Any]:
    """The state that all tests of a process share."""
    state: dict[str, Any] = {name: get() for name, (get, _) in TORCH.items()}
    state["environment"] = _environment()
    state["folder"] = os.getcwd()
    state["path"] = list(sys.path)
    state["style"] = _style("rcParams")
    for module, name in REGISTRIES:
        if module in sys.modules:
            state[module] = dict(getattr(sys.modules[module], name))
    return state


def give_back(state: dict[str, Any]) -> None:
    """Undo what changed since ``take``; figures left open are closed."""
    for name, (get, put) in TORCH.items():
        if get() != state[name]:
            put(state[name])
    now, before = _environment(), state["environment"]
    for name in now.keys() - before.keys():
        del os.environ[name]
    os.environ.update({k: v for k, v in before.items() if now.get(k) != v})
    os.chdir(state["folder"])
    sys.path[:] = state["path"]
    _give_back_style(state["style"] or _style("rcParamsOrig"))
    for module, name in REGISTRIES:
        registry = getattr(sys.modules.get(module), name, None)
        if module in state and registry != state[module]:
            registry.clear()
            registry.update(state[module])


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != PYTEST}


def _style(which: str) -> dict[str, Any]:
    """matplotlib's parameters, empty as long as nothing imported it.

    The backend is loaded once per process, at the first look at it, and is no matter of style.
    """
    if "matplotlib" not in sys.modules:
        return {}
    parameters = getattr(sys.modules["matplotlib"], which)
    return {name: parameters[name] for name in parameters if name != "backend"}


def _give_back_style(wanted: dict[str, Any]) -> None:
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
    changed = {name: v for name, v in _style("rcParams").items() if v != wanted[name]}
    if changed:
        sys.modules["matplotlib"].rcParams.update({name: wanted[name] for name in changed})
