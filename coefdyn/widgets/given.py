"""An explorer on explicit arrays: heads of any dynamics, such as a trained mixer's.

The page gets q, k, A_t and b of each head as numbers, and a selector where there are several;
readout and normalizer stay choices.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from coefdyn import CoefficientDynamics, mask, normalizer
from coefdyn.dynamics.coefficients import with_tensors
from coefdyn.dynamics.evolution import (
    Diagonal,
    Evolution,
    Householder,
    Identity,
    Scalar,
)
from coefdyn.dynamics.normalizer import FlooredRowSum, Given, Normalizer, One, RowSum
from coefdyn.dynamics.readout import FeatureMap, Readout
from coefdyn.shapes import Tensor
from coefdyn.widgets.ingredients import READOUTS, dynamics_from
from coefdyn.widgets.settings import schema

__all__ = ["arrays_of", "from_arrays", "pick_heads", "rebuild", "settings_of"]

#: what the page can draw from its parameters; any other A_t it gets as a matrix
STRUCTURES = (Identity, Scalar, Diagonal, Householder)

Index = tuple[int, ...]


def pick_heads(
    dynamics: CoefficientDynamics, index: Index | None
) -> dict[Index, CoefficientDynamics]:
    """Elements of the leading axes by their full index, in float64, on the CPU, without gradient.

    Args:
        dynamics: any, with L up to 64.
        index: one number per leading axis for one head; fewer leave the rest to the reader.

    Raises:
        ValueError: if ``index`` does not fit, L is too long, or more heads than a page can hold.
    """
    batch = dynamics.batch_shape
    start = () if index is None else tuple(index)
    fits = len(start) <= len(batch)
    if not fits or not all(-m <= x < m for x, m in zip(start, batch, strict=False)):
        raise ValueError(
            f"index must have one number for each leading axis of {tuple(batch)}, or fewer to let "
            f"the reader choose the rest; got {start}."
        )
    limits = schema()["integers"]
    longest, most = limits["length"]["max"], limits["head"]["max"]
    if dynamics.length > longest:
        raise ValueError(
            f"an explorer shows at most {longest} tokens, got L = {dynamics.length}; "
            f"cut with dynamics.narrow(start, {longest})."
        )
    if 0 in batch:
        raise ValueError(
            f"an explorer shows one head at a time, and the leading axes {tuple(batch)} hold none; "
            "give at least one sequence and one head."
        )
    rest = batch[len(start) :]
    places = [start + place for place in itertools.product(*map(range, rest))]
    if len(places) > most:
        raise ValueError(
            f"an explorer offers at most {most} heads, got {len(places)} in the leading axes "
            f"{tuple(batch)}; name some with index, such as index={(0,) * (len(start) + 1)}."
        )
    return {place: _one_head(dynamics, place) for place in places}


def _one_head(dynamics: CoefficientDynamics, at: Index) -> CoefficientDynamics:
    batch = dynamics.batch_shape

    def head(name: str, axes: str, value: Tensor) -> Tensor:
        leading = value.ndim - len(axes)
        if leading:
            value = value.expand(*batch, *value.shape[leading:])[at]
        return value.detach().to("cpu", torch.float64)

    pairs = dynamics.mask
    if isinstance(pairs, mask.Given):
        allowed = pairs.allowed.expand(*batch, *pairs.allowed.shape[-2:])[at]
        pairs = replace(pairs, allowed=allowed.to("cpu"))
    return with_tensors(dynamics, head, mask=pairs)


def arrays_of(dynamics: CoefficientDynamics) -> dict[str, Any]:
    """Data of one head for the page: lists of numbers, None where a structure has none."""
    length, width = dynamics.q.shape
    a = dynamics.evolution
    eta = dynamics.normalizer
    b = torch.as_tensor(dynamics.scaling, dtype=torch.float64).expand(length)
    if dynamics.log_scaling is not None:
        b = b * dynamics.log_scaling.exp()
    parts = a.tensors() if type(a) in STRUCTURES else {}
    arrays: dict[str, Any] = {
        "structure": structure_of(a),
        "q": dynamics.q.tolist(),
        "k": dynamics.k.tolist(),
        "decay": _decay_of(a, length, width).tolist()
        if {"log_decay", "sign"} & parts.keys()
        else None,
        "beta": parts["beta"].tolist() if "beta" in parts else None,
        "direction": parts["direction"].tolist() if "direction" in parts else None,
        "scaling": b.tolist(),
        "given": eta.eta.tolist() if isinstance(eta, Given) else None,
        **_beside(dynamics),
    }
    if type(a) not in STRUCTURES:  # a matrix per token, which is all that the page needs
        tokens = range(length)
        matrix = torch.stack([a.dense(t, width, dtype=dynamics.dtype) for t in tokens])
        arrays["matrix"] = matrix.flatten(-2).tolist()
        arrays["eigenvalues"] = torch.view_as_real(torch.linalg.eigvals(matrix) + 0j).tolist()
    return arrays


def _decay_of(a: Scalar | Diagonal | Householder, length: int, width: int) -> Tensor:
    """s_t a_t of every channel, ``(L, n)``, of a structure that has a decay or a sign."""
    one = a.beta if isinstance(a, Householder) else a.log_decay
    signed = torch.ones_like(one) if a.log_decay is None else a.log_decay.exp()
    signed = signed if a.sign is None else a.sign * signed
    return signed if isinstance(a, Diagonal) else signed[:, None].expand(length, width)


def _beside(dynamics: CoefficientDynamics) -> dict[str, Any]:
    """Additions to the four ingredients; empty where there are none."""
    length, found = dynamics.length, {}
    if dynamics.own is not None:
        found["own"] = dynamics.own.tolist()
    if dynamics.outer_log_decay is not None:
        found["fade"] = dynamics.outer_log_decay.cumsum(-1).tolist()
    if dynamics.mask is not None:
        rows = dynamics.mask.rows(0, length, 0, dynamics.device)
        found["hidden"] = (~rows).tril().int().tolist()
    sink = getattr(dynamics.normalizer, "sink", None)
    if sink is not None:
        found["sink"] = torch.as_tensor(sink, dtype=torch.float64).expand(length).tolist()
    return found


def from_arrays(arrays: Mapping[str, Any]) -> CoefficientDynamics:
    """The head that ``arrays_of`` wrote down, with phi = identity and eta = 1.

    A sink needs a readout that is not linear; both are chosen by the settings.
    """
    sunk = arrays.get("sink") is not None
    made = {
        **arrays,
        "L": len(arrays["q"]),
        "n": len(arrays["q"][0]),
        "z": arrays["direction"],
        "b": arrays["scaling"],
        "readout": "exp" if sunk else "identity",
        "normalizer": "row_sum" if sunk else "one" if arrays["given"] is None else "gate",
    }
    return dynamics_from(made)


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
    structure = structure_of(dynamics.evolution)
    if structure in schema()["choices"]["structure"]["options"]:
        chosen["structure"] = structure
    if isinstance(eta, FlooredRowSum):
        chosen["floor"] = eta.floor
    return chosen


def structure_of(evolution: Evolution) -> str:
    """The page's name: a Householder step with a decay or a sign has one of its own there."""
    plain = not isinstance(evolution, Householder) or {"direction", "beta"} == set(
        evolution.tensors()
    )
    return evolution.structure if plain else f"scaled_{evolution.structure}"


def _readout_name(phi: Readout) -> str:
    """Name of the page's readout that gives the same numbers."""
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
    """The head with the readout and normalizer that the page shows now.

    A sink stays with the row sum of every readout that is not linear.
    """
    name = settings["normalizer"]
    given = source.normalizer
    if name == "gate" and not isinstance(given, Given):
        given = Given(torch.ones(source.length, dtype=torch.float64))
    chosen = READOUTS[settings["readout"]]
    sink = None if chosen.is_linear else getattr(source.normalizer, "sink", None)
    powers = float(settings["base"]) * torch.ones(source.length, dtype=torch.float64)
    rules: dict[str, Normalizer] = {
        "one": normalizer.One(),
        "row_sum": normalizer.RowSum(sink),
        "floored": normalizer.FlooredRowSum(floor=float(settings["floor"])),
        "geometric": Given(powers.cumprod(0)),
        "gate": given,
    }
    return replace(source, readout=chosen, normalizer=rules[name])
