"""An explorer on explicit arrays: one head of any dynamics, such as a trained mixer's.

The page gets q, k, A_t and b as numbers; readout and normalizer stay choices.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from coefdyn import CoefficientDynamics, normalizer
from coefdyn.dynamics.evolution import Dense
from coefdyn.dynamics.normalizer import FlooredRowSum, Given, Normalizer, One, RowSum
from coefdyn.dynamics.readout import FeatureMap, Readout
from coefdyn.shapes import Tensor
from coefdyn.widgets.settings import schema
from coefdyn.widgets.tokens import READOUTS, decay_of

__all__ = ["arrays_of", "pick_head", "rebuild", "settings_of"]


def pick_head(dynamics: CoefficientDynamics, index: tuple[int, ...] | None) -> CoefficientDynamics:
    """One element of the leading axes, in float64 and on the CPU, without gradient.

    Raises:
        ValueError: if ``index`` does not have one number per leading axis, or L is too long.
    """
    batch = dynamics.batch_shape
    at = (0,) * len(batch) if index is None else tuple(index)
    fits = len(at) == len(batch) and all(-m <= x < m for x, m in zip(at, batch, strict=True))
    if not fits:
        raise ValueError(
            f"index must have one number for each leading axis of {tuple(batch)}, got {at}."
        )
    longest = schema()["integers"]["length"]["max"]
    if dynamics.length > longest:
        raise ValueError(
            f"an explorer shows at most {longest} tokens, got L = {dynamics.length}; "
            f"cut with dynamics.narrow(start, {longest})."
        )

    def head(value: Tensor, axes: int) -> Tensor:
        if value.ndim > axes:
            leading = value.ndim - axes
            value = value.expand(*batch, *value.shape[leading:])[at]
        return value.detach().to("cpu", torch.float64)

    evolution = dynamics.evolution
    named = {name: head(x, len(evolution.axes[name])) for name, x in evolution.tensors().items()}
    eta = dynamics.normalizer
    scaling = dynamics.scaling
    return CoefficientDynamics(
        q=head(dynamics.q, 2),
        k=head(dynamics.k, 2),
        evolution=replace(evolution, **named),
        scaling=head(scaling, 1) if isinstance(scaling, Tensor) else scaling,
        log_scaling=None if dynamics.log_scaling is None else head(dynamics.log_scaling, 1),
        readout=dynamics.readout,
        normalizer=Given(head(eta.eta, 1)) if isinstance(eta, Given) else eta,
    )


def arrays_of(dynamics: CoefficientDynamics) -> dict[str, Any]:
    """What the page needs of one head: lists of numbers, None where a structure has none."""
    length, width = dynamics.q.shape
    a = dynamics.evolution
    eta = dynamics.normalizer
    b = torch.as_tensor(dynamics.scaling, dtype=torch.float64).expand(length)
    if dynamics.log_scaling is not None:
        b = b * dynamics.log_scaling.exp()
    arrays: dict[str, Any] = {
        "structure": a.structure,
        "q": dynamics.q.tolist(),
        "k": dynamics.k.tolist(),
        "decay": decay_of(a, length, width).tolist() if hasattr(a, "log_decay") else None,
        "beta": a.beta.tolist() if hasattr(a, "beta") else None,
        "direction": a.direction.tolist() if hasattr(a, "direction") else None,
        "scaling": b.tolist(),
        "given": eta.eta.tolist() if isinstance(eta, Given) else None,
    }
    if isinstance(a, Dense):
        arrays["matrix"] = a.matrix.flatten(-2).tolist()
        arrays["moduli"] = torch.linalg.eigvals(a.matrix).abs().tolist()
    return arrays


def settings_of(dynamics: CoefficientDynamics) -> dict[str, Any]:
    """Readout, normalizer, structure and sizes as settings.

    Raises:
        ValueError: for a readout that the page cannot compute.
    """
    eta = dynamics.normalizer
    chosen: dict[str, Any] = {
        "readout": _readout_name(dynamics.readout),
        "normalizer": _normalizer_name(eta),
        "length": max(dynamics.length, 2),
        "width": min(max(dynamics.key_dim, 2), 16),
    }
    if dynamics.evolution.structure in schema()["choices"]["structure"]["options"]:
        chosen["structure"] = dynamics.evolution.structure
    if isinstance(eta, FlooredRowSum):
        chosen["floor"] = eta.floor
    return chosen


def _readout_name(phi: Readout) -> str:
    """The page's readout that gives the same numbers."""
    probe = torch.linspace(-6, 6, 49, dtype=torch.float64)[:, None].expand(-1, 2)
    for name, ours in READOUTS.items():
        if isinstance(phi, FeatureMap) is not isinstance(ours, FeatureMap):
            continue
        got, want = phi.fn(probe), ours.fn(probe)
        if got.shape == want.shape and torch.allclose(got, want, rtol=1e-12, atol=1e-12):
            return name
    raise ValueError(
        f"the page cannot compute the readout {phi.name!r}; it knows {', '.join(READOUTS)}. "
        "Replace it with one of these, or plot the coefficients with coefdyn.plots."
    )


def _normalizer_name(eta: Normalizer) -> str:
    kinds = {One: "one", RowSum: "row_sum", FlooredRowSum: "floored", Given: "gate"}
    return kinds[type(eta)]


def rebuild(source: CoefficientDynamics, settings: dict[str, Any]) -> CoefficientDynamics:
    """The head with the readout and normalizer that the page shows now."""
    name = settings["normalizer"]
    given = source.normalizer
    if name == "gate" and not isinstance(given, Given):
        given = Given(torch.ones(source.length, dtype=torch.float64))
    powers = float(settings["base"]) * torch.ones(source.length, dtype=torch.float64)
    rules: dict[str, Normalizer] = {
        "one": normalizer.One(),
        "row_sum": normalizer.RowSum(),
        "floored": normalizer.FlooredRowSum(floor=float(settings["floor"])),
        "geometric": Given(powers.cumprod(0)),
        "gate": given,
    }
    return replace(source, readout=READOUTS[settings["readout"]], normalizer=rules[name])
