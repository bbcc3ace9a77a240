"""Modules through torch.compile; modules of one architecture share the compiled code."""

from __future__ import annotations

import copy
import functools
import os
import shutil
from collections import OrderedDict
from collections.abc import Callable
from types import FunctionType

import torch
from torch import nn
from torch.func import functional_call

from coefdyn.shapes import Tensor

__all__ = ["compiled", "compiler"]

#: modules compiled in this process, the oldest first, and the number that is kept
_COMPILED: OrderedDict[str, Callable[..., Tensor]] = OrderedDict()
KEPT = 48


@functools.cache
def compiler() -> str | None:
    """Path of the C++ compiler that torch.compile would call: ``$CXX``, g++ or clang++, or None."""
    found = (shutil.which(name) for name in (os.environ.get("CXX", ""), "g++", "clang++") if name)
    return next((path for path in found if path), None)


def compiled(module: nn.Module, name: str) -> Callable[..., Tensor]:
    """Wrap ``module`` in torch.compile, which compiles at the first call.

    Parameters are arguments of what is compiled, not constants in it: further modules of the same
    name use it with their own.

    Args:
        module: what is called.
        name: equal for modules that differ in the values of their parameters alone, and are called
            with tensors of the same shapes.
    """
    if name not in _COMPILED:
        _COMPILED[name] = _through_compiler(copy.deepcopy(module))
        if len(_COMPILED) > KEPT:
            _COMPILED.popitem(last=False)
    call = _COMPILED[name]
    return lambda *inputs: call(dict(module.named_parameters()), *inputs)


def _through_compiler(module: nn.Module) -> Callable[..., Tensor]:
    """A function of parameters and inputs, with a code object of its own.

    Torch files what it compiled under the code object, gives up after a few versions of one
    (``recompile_limit``), and does not see that two readouts are different functions.
    """

    def call(parameters: dict[str, Tensor], *inputs: Tensor) -> Tensor:
        return functional_call(module, parameters, inputs)

    code = call.__code__.replace()
    own = FunctionType(code, call.__globals__, call.__name__, None, call.__closure__)
    return torch.compile(own, dynamic=False)
