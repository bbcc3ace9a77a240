"""Readout maps phi: from stored keys to coefficients.

    alpha_{i,j} = phi(q_i^T h_{i,j})                    (paper, eq. 3c)

A pointwise readout sees only the score q^T h. A feature map reads alpha = psi(q)^T psi(h), the
linear-attention row of Table 1; with A_t = I it is a linear readout in the space of psi.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CellType

import torch
from torch import nn
from torch.nn import functional

from coefdyn.shapes import Float, Tensor

__all__ = ["FeatureMap", "Pointwise", "Readout", "exp", "identity", "relu", "softplus"]


@dataclass(frozen=True, eq=False)
class Readout:
    """Base of all readouts."""

    fn: Callable[[Tensor], Tensor]
    name: str = ""

    def same_as(self, other: Readout) -> bool:
        """Return whether both are of one kind and have one function.

        Compared by ``fn``, not by object: torch.compile watches an attribute that is read, while
        ``self is other`` would be decided once and then hold for every readout.
        """
        return self.fn is other.fn and type(self) is type(other)

    @property
    def is_linear(self) -> bool:
        """True if phi is the identity, so that one state can hold the sum over j (Lemma 1)."""
        return False

    @property
    def is_homogeneous(self) -> bool:
        """True if phi(c s) = c phi(s) for every c > 0: a scale can then be taken out of the row."""
        return False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"


@dataclass(frozen=True, eq=False, repr=False)
class Pointwise(Readout):
    """alpha = phi(s), one score at a time.

    Args:
        fn: phi, a torch function that maps a tensor elementwise to one of the same shape. It may
            hold parameters, also one per head: tensors that broadcast with ``(..., L, L)``, such as
            ``(heads, 1, 1)``.
        name: how it is shown; the function's own name when empty.

    Raises:
        ValueError: if fn changes the shape, or an element's value depends on its neighbours
            (a softmax, a sort, a normalisation): that is a normaliser, not a readout.
    """

    def __post_init__(self) -> None:
        if not callable(self.fn):
            raise ValueError(
                f"Pointwise needs a function of a tensor, got {type(self.fn).__name__}."
            )
        if not self.name:
            object.__setattr__(self, "name", getattr(self.fn, "__name__", "phi"))
        _check_elementwise(self.fn, self.name)

    def __call__(self, scores: Float[Tensor, "*any"]) -> Float[Tensor, "*out"]:
        return self.fn(scores)

    @property
    def is_linear(self) -> bool:
        return self.same_as(identity)

    @property
    def is_homogeneous(self) -> bool:
        return self.same_as(identity) or self.same_as(relu)


@dataclass(frozen=True, eq=False, repr=False)
class FeatureMap(Readout):
    """alpha = psi(q)^T psi(h): psi maps the last axis n to m features (linear attention, eq. 6).

    b_j and the evolution sit *inside* psi: alpha_{i,j} = psi(q_i)^T psi(A_i ... A_{j+1} b_j k_j).

    Args:
        fn: psi, maps ``(..., n)`` to ``(..., m)``.
        name: how it is shown; the function's own name when empty.

    Raises:
        ValueError: for something that is no function.
    """

    def __post_init__(self) -> None:
        if not callable(self.fn):
            raise ValueError(
                f"FeatureMap needs a function of a tensor, got {type(self.fn).__name__}."
            )
        if not self.name:
            object.__setattr__(self, "name", getattr(self.fn, "__name__", "psi"))

    def features(self, x: Float[Tensor, "*any n"]) -> Float[Tensor, "*any m"]:
        """psi applied to queries or to stored keys.

        Raises:
            ValueError: if psi changes more than the last axis.
        """
        mapped = self.fn(x)
        if not isinstance(mapped, Tensor) or mapped.dtype != x.dtype:
            got = mapped.dtype if isinstance(mapped, Tensor) else type(mapped).__name__
            raise ValueError(
                f"the feature map '{self.name}' turned a tensor of {x.dtype} into {got}: psi must "
                "return a tensor of the dtype it was given."
            )
        if mapped.shape[:-1] != x.shape[:-1]:
            raise ValueError(
                f"the feature map '{self.name}' turned shape {tuple(x.shape)} into "
                f"{tuple(mapped.shape)}: psi may change the last axis only."
            )
        return mapped

    def check_tokenwise(self, x: Float[Tensor, "*batch L n"]) -> None:
        """Check that the features of a token depend on that token alone.

        Raises:
            ValueError: for a psi that mixes tokens (a softmax over them, a batch norm).
        """
        with torch.no_grad():
            some = x[..., :3, :]
            together = self.features(some)
            alone = torch.cat([self.features(one) for one in some.split(1, -2)], -2)
        if not torch.allclose(together, alone, 1e-3, 1e-5, equal_nan=True):
            raise ValueError(
                f"the feature map '{self.name}' mixes tokens: the features of one change with what "
                "stands beside it, so that later tokens would reach earlier outputs. psi acts on "
                "the last axis only."
            )


def _check_elementwise(fn: Callable[[Tensor], Tensor], name: str) -> None:
    """Raise unless fn of a block equals fn of its elements one by one.

    A function with tensors of its own is asked on their device, and may add leading axes.
    """
    device = next((held.device for held in _held_tensors(fn)), torch.device("cpu"))
    probe = torch.tensor([[-1.3, -0.2, 0.0], [0.4, 1.1, 2.7]], dtype=torch.float64, device=device)
    with torch.no_grad():
        try:
            together = fn(probe.clone())
        except Exception as error:
            raise ValueError(
                f"the readout '{name}' failed on a tensor of shape {tuple(probe.shape)}: {error}. "
                "Write it with torch functions (torch.exp, not math.exp)."
            ) from error
        if not isinstance(together, Tensor) or together.shape[-2:] != probe.shape:
            got = tuple(together.shape) if isinstance(together, Tensor) else type(together).__name__
            raise ValueError(
                f"the readout '{name}' is not elementwise: for shape {tuple(probe.shape)} it gave "
                f"{got}. A readout maps each score on its own."
            )
        if device.type == "meta":
            return
        alone = [fn(value.reshape(1, 1).clone())[..., 0, 0] for value in probe.flatten()]
    together, one_by_one = together.flatten(-2), torch.stack(alone, -1)
    if not torch.allclose(together, one_by_one.expand_as(together), 1e-9, 1e-12, equal_nan=True):
        raise ValueError(
            f"the readout '{name}' is not elementwise: its value for one score depends on the "
            "others. Use an elementwise phi and put the rest into the normalizer (RowSum)."
        )


def _held_tensors(fn: object) -> Iterator[Tensor]:
    """Tensors that a function holds: a module's parameters, a closure's cells, a partial's."""
    if isinstance(fn, nn.Module):
        yield from (*fn.parameters(), *fn.buffers())
        return
    cells = getattr(fn, "__closure__", None) or ()
    found = [cell.cell_contents for cell in cells if _is_filled(cell)]
    found += [*getattr(fn, "args", ()), *getattr(fn, "keywords", {}).values()]
    found += [getattr(fn, "__self__", None), *(getattr(fn, "__defaults__", None) or ())]
    for held in found:
        if isinstance(held, Tensor):
            yield held
        elif isinstance(held, nn.Module):
            yield from (*held.parameters(), *held.buffers())


def _is_filled(cell: CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def _identity(scores: Tensor) -> Tensor:
    return scores


#: phi(s) = s: the only readout with a finite state (Lemma 1).
identity = Pointwise(_identity, name="identity")
#: phi(s) = exp(s): softmax attention's readout; its near-zero set is s < log epsilon.
exp = Pointwise(torch.exp, name="exp")
#: phi(s) = max(s, 0): half of the line is the zero set (Principle 2).
relu = Pointwise(torch.relu, name="relu")
#: phi(s) = log(1 + exp(s)).
softplus = Pointwise(functional.softplus, name="softplus")
