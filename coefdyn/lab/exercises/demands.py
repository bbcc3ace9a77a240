"""Checks of how a function computes: no loop, one pass, no eigensolver, no large matrix.

They look at the operations that torch is asked for, which are the same in every run and on every
machine, unlike a time. Work on plain Python numbers or numpy arrays is not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from coefdyn.lab.exercises.exercise import Demand, Function
from coefdyn.shapes import Tensor

__all__ = ["no_eigensolver", "no_large_tensor", "no_loop", "one_pass"]

Inputs = Callable[[int], dict[str, Any]]

#: numbers of tokens at which operations are counted
FEW, MANY = 32, 64


class _Recorder(TorchDispatchMode):
    """Names of the operations that torch is asked for, and their results."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.results: list[Any] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        found = func(*args, **(kwargs or {}))
        self.names.append(func.overloadpacket.__name__)
        self.results.append(found.detach().clone() if isinstance(found, Tensor) else found)
        return found


def _record(function: Function, arguments: dict[str, Any]) -> _Recorder:
    with _Recorder() as seen:
        function(**arguments)
    return seen


def no_loop(inputs: Inputs) -> Demand:
    """Demand that twice as many tokens take no further operation per token.

    Args:
        inputs: number of tokens to arguments.
    """

    def check(function: Function) -> str | None:
        few, many = (len(_record(function, inputs(length)).names) for length in (FEW, MANY))
        if many - few < MANY - FEW:
            return None
        return (
            f"it asks torch for {few} operations with {FEW} tokens and for {many} with {MANY}, so "
            "it loops over tokens; write it with matrices."
        )

    return check


def one_pass(inputs: Inputs, last: str) -> Demand:
    """Demand that most results do not depend on the last token, as in a single pass.

    Args:
        inputs: number of tokens to arguments.
        last: the argument whose last entry is changed; it becomes the largest.
    """

    def check(function: Function) -> str | None:
        before, after = inputs(MANY), inputs(MANY)
        after[last][-1] = after[last].max() + 1
        one, two = (_record(function, arguments).results for arguments in (before, after))
        changed = sum(not _equal(a, b) for a, b in zip(one, two, strict=False))
        if changed <= len(one) / 2:
            return None
        return (
            f"with another last number {changed} of {len(one)} intermediate results change, so the "
            "row is read as a whole, or twice; keep a running maximum and go through it once."
        )

    return check


def _equal(one: Any, two: Any) -> bool:
    if isinstance(one, Tensor) and isinstance(two, Tensor):
        return one.shape == two.shape and torch.allclose(one, two, equal_nan=True)
    if isinstance(one, (tuple, list)):
        return all(_equal(a, b) for a, b in zip(one, two, strict=False))
    return bool(one == two)


def no_eigensolver(inputs: Inputs) -> Demand:
    """Demand that no eigenvalues or singular values are computed."""

    def check(function: Function) -> str | None:
        names = _record(function, inputs(MANY)).names
        found = next((name for name in names if "eig" in name or "svd" in name), None)
        return None if found is None else f"it calls {found.lstrip('_')}, an eigensolver."

    return check


def no_large_tensor(inputs: Inputs, most: int) -> Demand:
    """Demand that no intermediate result has more than ``most`` numbers with 64 tokens."""

    def check(function: Function) -> str | None:
        results = _record(function, inputs(MANY)).results
        largest = max((one.numel() for one in results if isinstance(one, Tensor)), default=0)
        if largest <= most:
            return None
        return (
            f"with {MANY} tokens it computes a tensor of {largest} numbers, and {most} suffice; go "
            "from token to token."
        )

    return check
