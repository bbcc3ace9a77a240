"""Whom the contract is asked: every mixer with its options, and every structure with every readout.

A subject has tensors that may have gradients (its ``leaves``, the input first), and ways to run
the same sequence: at once by a method, token by token, in pieces, with other tokens at its end, and
as documents of a packed or padded batch. :func:`subject` makes one by its name.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Protocol

import torch
from designs import NORMALIZERS, READOUTS, STRUCTURES, Inputs
from methods import cpu_methods
from mixer_cases import CASES, build, tokens
from torch import Tensor

from coefdyn import CoefficientDynamics
from coefdyn.dynamics.documents import apart, packed, padded
from coefdyn.execution.state import has_finite_state

__all__ = ["DESIGNS", "MIXERS", "SUBJECTS", "Subject", "subject"]

#: what each structure is made of
PARTS: dict[str, tuple[str, ...]] = {
    "identity": (),
    "scalar": ("log_decay",),
    "diagonal": ("channel_decay",),
    "householder": ("direction", "beta"),
    "scaled_householder": ("direction", "beta", "log_decay"),
    "diagonal_plus_rank_one": ("channel_decay", "left", "right"),
    "dense": ("matrix",),
}
#: readouts of both signs, whose row sum may pass zero: no number of digits is left of it
SIGNED = ("identity", "tanh")


class Subject(Protocol):
    """A mixer, or a design with its values, on one sequence or a batch of them."""

    leaves: dict[str, Tensor]

    def methods(self) -> list[str]: ...
    def apply(self, method: str = "auto") -> Tensor: ...
    def at(self, leaves: dict[str, Tensor]) -> Tensor: ...
    def changed(self, at: int) -> Tensor: ...
    def steps(self) -> Tensor: ...
    def pieces(self, *cuts: int) -> tuple[Tensor, Any]: ...
    def packed(self, lengths: Sequence[int], method: str = "auto") -> Tensor: ...
    def alone(self, lengths: Sequence[int]) -> Tensor: ...
    def padded(self, mask: Tensor) -> tuple[Tensor, Tensor]: ...
    def exact(self) -> Subject: ...
    def has_finite_state(self) -> bool: ...


class Layer:
    """A mixer and its input; the leaves are the input and the parameters."""

    def __init__(self, mixer: Any, x: Tensor) -> None:
        self.mixer, self.x = mixer, x.requires_grad_()
        self.leaves = {"x": self.x, **dict(mixer.named_parameters())}

    def methods(self) -> list[str]:
        with torch.no_grad():
            return cpu_methods(self.mixer.dynamics(self.x)[0])

    def has_finite_state(self) -> bool:
        with torch.no_grad():
            return has_finite_state(self.mixer.dynamics(self.x)[0])

    def apply(self, method: str = "auto") -> Tensor:
        return self.mixer(self.x, method=method)

    def at(self, leaves: dict[str, Tensor]) -> Tensor:
        parameters = {name: value for name, value in leaves.items() if name != "x"}
        return torch.func.functional_call(self.mixer, parameters, (leaves["x"],))

    def changed(self, at: int) -> Tensor:
        other = tokens(*self.x.shape[:-1], seed=9)
        return self.mixer(torch.cat([self.x[..., :at, :], other[..., at:, :]], -2))

    def steps(self) -> Tensor:
        state, outputs = None, []
        for t in range(self.x.shape[-2]):
            y, state = self.mixer.step(self.x[..., t, :], state)
            outputs.append(y)
        return torch.stack(outputs, -2)

    def pieces(self, *cuts: int) -> tuple[Tensor, Any]:
        state, outputs = None, []
        for x in self.x.tensor_split(cuts, -2):
            y, state = self.mixer(x, state=state, return_state=True)
            outputs.append(y)
        return torch.cat(outputs, -2), state

    def packed(self, lengths: Sequence[int], method: str = "auto") -> Tensor:
        bounds = torch.tensor([0, *lengths]).cumsum(0)
        return self.mixer(self.x, method, cu_seqlens=bounds)

    def alone(self, lengths: Sequence[int]) -> Tensor:
        return torch.cat([self.mixer(part) for part in self.x.split(list(lengths))])

    def padded(self, mask: Tensor) -> tuple[Tensor, Tensor]:
        alone = [self.mixer(x[real]) for x, real in zip(self.x, mask, strict=True)]
        return self.mixer(self.x, attention_mask=mask)[mask], torch.cat(alone)

    def exact(self) -> Layer:
        return Layer(copy.deepcopy(self.mixer).double(), self.x.detach().double())


class Design:
    """A structure with a readout; the normalizers and the log scaling take turns."""

    def __init__(self, name: str, inputs: Inputs) -> None:
        structure, phi = name.split(", ")
        turn = STRUCTURES.index(structure) + list(READOUTS).index(phi)
        etas = [eta for eta in NORMALIZERS if eta != "row_sum" or phi not in SIGNED]
        eta, log_scaled = etas[turn % len(etas)], turn % 2 == 0
        self.name, self.inputs = name, inputs
        self.choice = (structure, phi, eta, log_scaled)
        names = ["q", "k", "v", "scaling", *PARTS[structure]]
        names += ["eta"] if eta == "given" else []
        names += ["log_scaling"] if log_scaled else []
        self.leaves = {one: inputs.leaves[one] for one in names}

    @property
    def dynamics(self) -> CoefficientDynamics:
        return self.inputs.dynamics(*self.choice)

    def methods(self) -> list[str]:
        return cpu_methods(self.dynamics)

    def has_finite_state(self) -> bool:
        return has_finite_state(self.dynamics)

    def apply(self, method: str = "auto") -> Tensor:
        return self.dynamics.apply(self.inputs.v, method)

    def at(self, leaves: dict[str, Tensor]) -> Tensor:
        inputs = replace(self.inputs, leaves={**self.inputs.leaves, **leaves})
        return Design(self.name, inputs).apply()

    def changed(self, at: int) -> Tensor:
        batch, length = self.inputs.v.shape[:-2], self.inputs.v.shape[-2]
        other = Inputs.draw(batch=tuple(batch), length=length, seed=9)
        axis = len(batch)

        def join(mine: Tensor, theirs: Tensor) -> Tensor:
            return torch.cat([mine.narrow(axis, 0, at), theirs.narrow(axis, at, length - at)], axis)

        leaves = {name: join(x, other.leaves[name]) for name, x in self.inputs.leaves.items()}
        signs = {name: join(x, other.signs[name]) for name, x in self.inputs.signs.items()}
        return Design(self.name, Inputs(leaves, signs)).apply()

    def steps(self) -> Tensor:
        d, state, outputs = self.dynamics, None, []
        for t in range(d.length):
            y, state = d.narrow(t, 1).step(self.inputs.v[..., t, :], state)
            outputs.append(y)
        return torch.stack(outputs, -2)

    def pieces(self, *cuts: int) -> tuple[Tensor, Any]:
        d, state, outputs, start = self.dynamics, None, [], 0
        for v in self.inputs.v.tensor_split(cuts, -2):
            part = d.narrow(start, v.shape[-2])
            y, state = part.apply(v, state=state, return_state=True)
            outputs.append(y)
            start += v.shape[-2]
        return torch.cat(outputs, -2), state

    def _alone(self, start: int, stop: int, row: int | None = None) -> Tensor:
        inputs = self.inputs
        if row is not None:
            inputs = Inputs(
                {name: x[row] for name, x in inputs.leaves.items()},
                {name: x[row] for name, x in inputs.signs.items()},
            )
        d = inputs.dynamics(*self.choice).narrow(start, stop - start)
        return d.apply(inputs.v[..., start:stop, :], "reference")

    def packed(self, lengths: Sequence[int], method: str = "auto") -> Tensor:
        bounds = torch.tensor([0, *lengths]).cumsum(0)
        kept = apart(self.dynamics, packed(bounds, int(bounds[-1])).starts)
        return kept.apply(self.inputs.v, method)

    def alone(self, lengths: Sequence[int]) -> Tensor:
        bounds = torch.tensor([0, *lengths]).cumsum(0).tolist()
        return torch.cat([self._alone(*ends) for ends in pairwise(bounds)], -2)

    def padded(self, mask: Tensor) -> tuple[Tensor, Tensor]:
        kept = apart(self.dynamics, padded(mask).starts)
        ends = [torch.nonzero(row).flatten() for row in mask]
        alone = [self._alone(int(at[0]), int(at[-1]) + 1, row) for row, at in enumerate(ends)]
        return kept.apply(self.inputs.v)[mask], torch.cat(alone)

    def exact(self) -> Design:
        leaves = {n: x.detach().double().requires_grad_() for n, x in self.inputs.leaves.items()}
        signs = {n: x.double() for n, x in self.inputs.signs.items()}
        return Design(self.name, replace(self.inputs, leaves=leaves, signs=signs))


MIXERS = list(CASES)
DESIGNS = [f"{structure}, {phi}" for structure in STRUCTURES for phi in READOUTS]
SUBJECTS = [*MIXERS, *DESIGNS]


def subject(
    name: str,
    length: int,
    batch: tuple[int, ...] = (),
    dtype: torch.dtype = torch.float64,
    **sizes: int,
) -> Subject:
    """A subject by its name, with random numbers that are the same in each call.

    Args:
        name: one of ``SUBJECTS``.
        length: of the sequence, in tokens.
        batch: leading axes of the sequence.
        dtype: of all its tensors.
        sizes: other sizes than usual: d_model, n_heads, key_dim and value_dim of a mixer, n and dv
            of a design.
    """
    if name in CASES:
        width = {"d_model": sizes["d_model"]} if "d_model" in sizes else {}
        return Layer(build(name, **sizes).to(dtype), tokens(*batch, length, **width).to(dtype))
    return Design(name, Inputs.draw(batch=batch, length=length, dtype=dtype, seed=2, **sizes))
