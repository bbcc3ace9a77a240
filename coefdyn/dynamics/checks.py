"""Input checks of CoefficientDynamics. Messages state the request, the value and the remedy."""

from __future__ import annotations

import sys

import torch

from coefdyn.shapes import Tensor, broadcast_shapes

__all__ = ["can_read", "check_finite", "check_tensor", "common_batch"]


def check_tensor(name: str, value: object, like: Tensor | None = None) -> Tensor:
    """Raise unless the value is a real floating tensor with the dtype and device of ``like``."""
    if not isinstance(value, Tensor):
        raise ValueError(
            f"{name} must be a torch.Tensor, got {type(value).__name__}; "
            "convert it, for example with torch.as_tensor(..., dtype=torch.float64)."
        )
    if not value.is_floating_point():
        raise ValueError(
            f"{name} must be real floating point, got {value.dtype}; "
            "convert it, for example with .float() (complex keys are not supported)."
        )
    if like is not None and (value.dtype != like.dtype or value.device != like.device):
        raise ValueError(
            f"{name} has dtype {value.dtype} on {value.device}, but q has {like.dtype} on "
            f"{like.device}; convert it with {name}.to(q)."
        )
    return value


def wrong_kind(name: str, value: object, kind: type) -> str:
    """Message for a value that is not an evolution, readout or normalizer; ``name`` says which."""
    module = sys.modules[kind.__module__]
    known = [word for word in module.__all__ if word != kind.__name__]
    named = {word.lower(): word for word in known}
    if isinstance(value, type):
        hint = f"{value.__name__}(), an object and not the class"
    elif isinstance(value, str) and value.replace("_", "").lower() in named:
        hint = f"coefdyn.{name}.{named[value.replace('_', '').lower()]}"
    elif name == "readout" and callable(value):
        hint = "coefdyn.readout.Pointwise(function)"
    else:
        hint = f"one of {', '.join(known)}"
    shown = f"a tensor {tuple(value.shape)}" if isinstance(value, Tensor) else repr(value)
    return f"{name} must be one of coefdyn.{name}, got {shown}; did you mean {hint}?"


def check_axes(name: str, value: Tensor, axes: str, sizes: dict[str, int]) -> None:
    """Raise unless the trailing axes of ``value`` have exactly the sizes that ``axes`` names."""
    expected = tuple(sizes[axis] for axis in axes)
    got = tuple(value.shape)
    if got[len(got) - len(axes) :] != expected:
        legend = ", ".join(f"{axis}={size}" for axis, size in sizes.items())
        raise ValueError(
            f"{name} must have shape (..., {', '.join(axes)}) with {legend}, got {got}. "
            "Trailing axes are not broadcast; use .expand if one value is meant for all."
        )


def common_batch(shapes: dict[str, tuple[int, ...]]) -> tuple[int, ...]:
    """Broadcast of all leading shapes: each has every leading axis (1 broadcasts) or none.

    Raises:
        ValueError: for a tensor with only some of the leading axes, since torch would align them
            from the right, silently and often wrongly (batch against heads).
    """
    rank = max(len(shape) for shape in shapes.values())
    listing = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
    for name, shape in shapes.items():
        if len(shape) not in (0, rank):
            raise ValueError(
                f"the leading axes of {name} are {shape}, those of others have {rank} axes "
                f"({listing}). Give all of them, with size 1 where it broadcasts, or none."
            )
    try:
        return broadcast_shapes(*shapes.values())
    except ValueError as error:
        raise ValueError(f"the leading axes do not broadcast together: {listing}.") from error


def can_read(value: Tensor) -> bool:
    """Return whether values of a tensor can be read now: no graph is being recorded."""
    if torch.compiler.is_compiling() or value.device.type == "meta":
        return False
    if torch._C._functorch.is_functorch_wrapped_tensor(value):
        return False
    return value.device.type != "cuda" or not torch.cuda.is_current_stream_capturing()


def can_look_at(value: Tensor) -> bool:
    """Return whether reading the values costs nothing: a plain CPU tensor, outside training.

    Training is left alone on purpose: a run that turns NaN is a result there, not a mistake.
    """
    return (
        value.device.type == "cpu"
        and torch.is_grad_enabled()
        and not value.requires_grad
        and can_read(value)
        and type(value) in (torch.Tensor, torch.nn.Parameter)
    )


def check_finite(name: str, value: Tensor) -> None:
    """Raise on NaN or infinity, where reading the values costs nothing (see ``can_look_at``)."""
    if can_look_at(value) and not bool(torch.isfinite(value).all()):
        bad = int((~torch.isfinite(value)).sum())
        raise ValueError(
            f"{name} holds {bad} value(s) that are NaN or infinite out of {value.numel()}; "
            "find where they arise (torch.isfinite), or for a full reset use a log_decay of -1e4."
        )


def check_nonzero(name: str, value: Tensor) -> None:
    """Raise if an element is 0, since it is used as a divisor."""
    if can_look_at(value) and not bool((value != 0).all()):
        raise ValueError(
            f"{name} holds {int((value == 0).sum())} zero(s), and rows are divided by it; "
            "use normalizer.One() for no division, or keep eta away from 0."
        )


def check_sign(name: str, value: Tensor) -> None:
    """Raise unless every element is +1 or -1."""
    if can_look_at(value) and not bool((value.abs() == 1).all()):
        raise ValueError(f"{name} must hold only +1 and -1; magnitudes belong in log_decay.")
