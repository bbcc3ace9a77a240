"""Pointwise readouts inside a kernel: phi and its derivative, and the registration of others.

A readout of your own takes two ``@triton.jit`` functions of a block of float32 scores:

    @triton.jit
    def value(s):
        return tl.maximum(s, 0.0) * tl.maximum(s, 0.0)

    @triton.jit
    def rate(s):
        return 2.0 * tl.maximum(s, 0.0)

    squared = readout.Pointwise(lambda s: s.relu() ** 2, name="squared_relu")
    register(squared, phi=value, slope=rate)

From then on ``method="triton"`` runs it with every structure that has a pointwise kernel. An
operator carries a readout as a string; the string of a readout of one's own ends in a digest of its
two functions, so a kernel compiled for an older version of them is never taken for the new one.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable

import triton
import triton.language as tl
from triton.runtime.jit import KernelInterface

from coefdyn.dynamics import readout as readouts
from coefdyn.dynamics.readout import Pointwise, Readout

__all__ = ["key_of", "names", "phi", "register", "slope"]

_BUILT_IN = (readouts.identity, readouts.exp, readouts.relu, readouts.softplus)
#: readout -> the string that stands for it in an operator
_KEYS: dict[Readout, str] = {known: known.name for known in _BUILT_IN}
#: that string -> (phi, phi') of a readout of one's own
_WRITTEN: dict[str, tuple[KernelInterface, KernelInterface]] = {}


def register(readout: Readout, *, phi: Callable, slope: Callable) -> Readout:
    """Give a readout its kernel code; registering it again replaces the code.

    Args:
        readout: a ``Pointwise`` readout; its ``fn`` is what the other methods compute.
        phi: ``@triton.jit`` function, phi of a block of scores in float32, elementwise.
        slope: ``@triton.jit`` function, phi' of the same scores. Both must be finite for every
            finite score, as masked scores are evaluated too.

    Returns:
        The same readout.

    Raises:
        ValueError: for a built-in readout, a feature map, or a function that is not
            ``@triton.jit`` with one argument.
    """
    if not isinstance(readout, Pointwise) or any(readout.same_as(known) for known in _BUILT_IN):
        raise ValueError(
            f"register needs a Pointwise readout of your own, got {readout!r}; a feature map is "
            "computed outside the kernels, and the built-in readouts have their code."
        )
    for name, function in (("phi", phi), ("slope", slope)):
        if not isinstance(function, KernelInterface) or len(function.arg_names) != 1:
            raise ValueError(
                f"register needs {name} as a @triton.jit function of one argument, the scores; "
                f"got {function!r}. Write '@triton.jit' above 'def {name}(s):'."
            )
    text = "".join(_source(function) for function in (phi, slope))
    key = f"{readout.name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    _WRITTEN[key] = (phi, slope)
    _KEYS[readout] = key
    return readout


def _source(function: KernelInterface) -> str:
    """Source of the function and of everything it calls, for the key of the compiled kernel."""
    return getattr(function, "cache_key", None) or inspect.getsource(function.fn)


def key_of(readout: Readout) -> str | None:
    """The string of a readout that the kernels know, else None."""
    ours = (known.name for known in _BUILT_IN if readout.same_as(known))
    return _KEYS.get(readout) or next(ours, None)


def names() -> tuple[str, ...]:
    """The readouts that the kernels know."""
    return tuple(known.name for known in _KEYS)


@triton.constexpr_function
def written(key, place):
    """phi (place 0) or phi' (place 1) of a registered readout, looked up at compile time."""
    from coefdyn.execution.triton import readouts as here

    return here._WRITTEN[key][place]


@triton.jit
def phi(s, PHI: tl.constexpr):
    """phi(s), elementwise in float32."""
    if PHI == "identity":
        out = s
    elif PHI == "exp":
        out = tl.exp(s)
    elif PHI == "relu":
        out = tl.maximum(s, 0.0)
    elif PHI == "softplus":
        # max(s, 0) + log1p(e^-|s|); the quotient restores what 1 + x has rounded away
        x = tl.exp(-tl.abs(s))
        u = 1.0 + x
        tail = tl.where(u == 1.0, x, tl.log(u) * x / tl.where(u == 1.0, 1.0, u - 1.0))
        out = tl.maximum(s, 0.0) + tail
    else:
        out = written(PHI, 0)(s)
    return out


@triton.jit
def slope(s, PHI: tl.constexpr):
    """phi'(s)."""
    if PHI == "identity":
        out = s * 0.0 + 1.0
    elif PHI == "exp":
        out = tl.exp(s)
    elif PHI == "relu":
        out = tl.where(s > 0.0, 1.0, 0.0)
    elif PHI == "softplus":
        out = 1.0 / (1.0 + tl.exp(-s))
    else:
        out = written(PHI, 1)(s)
    return out
