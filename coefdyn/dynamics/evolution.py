"""Evolution matrices A_t: what happens to a stored key between its writing and its reading.

    h_{i,j} = A_i A_{i-1} ... A_{j+1} b_j k_j          (paper, eq. 3-4; later matrices on the left)

Algorithms exist per *structure* of A_t, so each class here is one structure and holds only its
parameters. Position t = 0 of every parameter exists but is never used: the product that leads to
h_{i,j} starts at j + 1.

Every evolution separates a growth common to all n directions, kept as a logarithm, from the rest:
A_t = exp(g_t) R_t. ``common_log_decay`` is g_t, ``rotate`` applies R_t. Keeping g_t in the log is
what lets very long products stay finite.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import ClassVar

import torch

from coefdyn.shapes import Float, Tensor

__all__ = [
    "Dense",
    "Diagonal",
    "DiagonalPlusRankOne",
    "Evolution",
    "Householder",
    "Identity",
    "Scalar",
]


@dataclass(frozen=True, kw_only=True, eq=False)
class Evolution(ABC):
    """Base of all structures. Subclasses are frozen and hold tensors only.

    A structure of one's own names itself (``structure``), its tensors with their trailing axes
    (``axes``), and says what A_t does to a vector (``rotate``). "reference", "parallel", "auto",
    ``step`` and, with a linear readout, "recurrent" then compute it. The faster methods know the
    classes of this module, and each of them exactly: a subclass of one with another ``rotate`` is
    a structure of its own.
    """

    #: the structure's name, such as "scalar"; every subclass gives one
    structure: ClassVar[str]
    #: parameter name -> its trailing axes, a string of "L" and "n"
    axes: ClassVar[dict[str, str]] = {}

    def tensors(self) -> dict[str, Tensor]:
        """The parameters that are set, by name."""
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in named.items() if value is not None}

    @property
    def common_log_decay(self) -> Float[Tensor, "*#batch L"] | None:
        """g_t in A_t = exp(g_t) R_t, in nats per token; None when it is zero."""
        return None

    @abstractmethod
    def rotate(self, h: Float[Tensor, "*batch m n"], t: int) -> Float[Tensor, "*batch m n"]:
        """R_t applied to each of m stored vectors (the last axis), t a position."""

    def dense(
        self, t: int, n: int, dtype: torch.dtype | None = None
    ) -> Float[Tensor, "*batch n n"]:
        """A_t as a dense n x n matrix, for looking at; no algorithm needs it.

        ``dtype`` is for a structure without tensors; others have their own.
        """
        like = next(iter(self.tensors().values()), torch.empty(0, dtype=dtype))
        eye = torch.eye(n, dtype=like.dtype, device=like.device)
        columns = self.rotate(eye, t)  # row m of the result is R_t e_m
        g = self.common_log_decay
        if g is not None:
            columns = g[..., t, None, None].exp() * columns
        return columns.transpose(-1, -2)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name}={tuple(value.shape)}" for name, value in self.tensors().items())
        return f"{type(self).__name__}({shapes})"


def _signed(h: Tensor, sign: Tensor | None, t: int) -> Tensor:
    return h if sign is None else sign[..., t, None, None] * h


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Identity(Evolution):
    """A_t = I. Keys are kept as they were written (softmax, linear and normalized attention)."""

    structure: ClassVar[str] = "identity"

    def rotate(self, h: Tensor, t: int) -> Tensor:
        return h


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Scalar(Evolution):
    """A_t = s_t exp(g_t) I (Mamba-2, mLSTM; Table 1).

    Args:
        log_decay: g, ``(..., L)``, nats per token, finite; negative decays, positive grows.
        sign: s, ``(..., L)`` of +1 and -1, or None for +1: a flip cannot be written as exp.
    """

    structure: ClassVar[str] = "scalar"
    axes: ClassVar[dict[str, str]] = {"log_decay": "L", "sign": "L"}
    log_decay: Float[Tensor, "*#batch L"]
    sign: Float[Tensor, "*#batch L"] | None = None

    @property
    def common_log_decay(self) -> Tensor:
        return self.log_decay

    def rotate(self, h: Tensor, t: int) -> Tensor:
        return _signed(h, self.sign, t)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Diagonal(Evolution):
    """A_t = diag(s_t exp(g_t)) (GLA, S6; Table 1).

    Args:
        log_decay: g, ``(..., L, n)``, nats per token and channel, finite, either sign.
        sign: s, ``(..., L, n)`` of +1 and -1, or None for +1.
    """

    structure: ClassVar[str] = "diagonal"
    axes: ClassVar[dict[str, str]] = {"log_decay": "Ln", "sign": "Ln"}
    log_decay: Float[Tensor, "*#batch L n"]
    sign: Float[Tensor, "*#batch L n"] | None = None

    def rotate(self, h: Tensor, t: int) -> Tensor:
        growth = self.log_decay[..., t, None, :].exp()
        return h * (growth if self.sign is None else growth * self.sign[..., t, None, :])


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Householder(Evolution):
    """A_t = s_t exp(g_t) (I - beta_t z_t z_t^T) (DeltaNet, Gated DeltaNet; Table 1, Lemmas 12, 13).

    Without a decay, I - beta z z^T: its eigenvalue along z is 1 - beta |z|^2, a contraction for
    beta |z|^2 in (0, 1), a projection at 1, a reflection at 2 (only there a Householder matrix in
    the strict sense), unstable beyond.

    Args:
        direction: z, ``(..., L, n)``, used as given. Any direction, not only the key; normalise
            it yourself (DeltaNet uses the L2-normalised key).
        beta: ``(..., L)``, usually in (0, 1), or (0, 2) to allow negative eigenvalues.
        log_decay: g, ``(..., L)``, nats per token, finite, either sign; None for 0, pure erasure.
        sign: s, ``(..., L)`` of +1 and -1, or None for +1.
    """

    structure: ClassVar[str] = "householder"
    axes: ClassVar[dict[str, str]] = {
        "direction": "Ln",
        "beta": "L",
        "log_decay": "L",
        "sign": "L",
    }
    direction: Float[Tensor, "*#batch L n"]
    beta: Float[Tensor, "*#batch L"]
    log_decay: Float[Tensor, "*#batch L"] | None = None
    sign: Float[Tensor, "*#batch L"] | None = None

    @property
    def common_log_decay(self) -> Tensor | None:
        return self.log_decay

    def rotate(self, h: Tensor, t: int) -> Tensor:
        """(I - beta z z^T) h for each stored vector, with its sign."""
        z = self.direction[..., t, :]
        along = (h @ z[..., :, None]) * self.beta[..., t, None, None]
        return _signed(h - along * z[..., None, :], self.sign, t)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DiagonalPlusRankOne(Evolution):
    r"""A_t = diag(s_t exp(g_t)) - left_t right_t^T (Kimi delta attention, RWKV-7, Comba).

    Every channel forgets at its own rate, and one direction is read (``right``) and erased along
    another (``left``). A Householder-like A_t is the case left = beta z, right = z (times exp(g)
    where it is scaled); those structures keep faster algorithms of their own.

        KDA     (I - beta k k^T) diag(a):        left = beta k,     right = a * k
        RWKV-7  diag(w) - (eta * kappa) kappa^T:  left = eta * kappa, right = kappa

    Args:
        log_decay: g, ``(..., L, n)``, nats per token and channel, finite, either sign.
        left: ``(..., L, n)``, the direction that is taken from a stored key.
        right: ``(..., L, n)``; right^T h says how much of it.
        sign: s, ``(..., L, n)`` of +1 and -1, or None for +1.
    """

    structure: ClassVar[str] = "diagonal_plus_rank_one"
    axes: ClassVar[dict[str, str]] = {
        "log_decay": "Ln",
        "left": "Ln",
        "right": "Ln",
        "sign": "Ln",
    }
    log_decay: Float[Tensor, "*#batch L n"]
    left: Float[Tensor, "*#batch L n"]
    right: Float[Tensor, "*#batch L n"]
    sign: Float[Tensor, "*#batch L n"] | None = None

    def rotate(self, h: Tensor, t: int) -> Tensor:
        growth = self.log_decay[..., t, None, :].exp()
        kept = h * (growth if self.sign is None else growth * self.sign[..., t, None, :])
        return kept - (h @ self.right[..., t, :, None]) * self.left[..., t, None, :]

    def diagonal_part(self) -> Diagonal:
        """diag(s_t exp(g_t))."""
        return Diagonal(log_decay=self.log_decay, sign=self.sign)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Dense(Evolution):
    """A_t any matrix: the reference case, with no fast algorithm.

    Args:
        matrix: A, ``(..., L, n, n)``.
    """

    structure: ClassVar[str] = "dense"
    axes: ClassVar[dict[str, str]] = {"matrix": "Lnn"}
    matrix: Float[Tensor, "*#batch L n n"]

    def rotate(self, h: Tensor, t: int) -> Tensor:
        return h @ self.matrix[..., t, :, :].transpose(-1, -2)
