"""Normalizers eta_i: the divisor of each row of coefficients.

    y_i = (1/eta_i) sum_j alpha_{i,j} v_j               (paper, eq. 2)

Only four kinds occur in Table 1: none, the row sum, a floored absolute row sum (mLSTM), and a
function of the current input. A row sum of exactly zero (a ReLU row with no positive score) gives
zero output and zero gradient.
"""

from __future__ import annotations

from dataclasses import dataclass

from coefdyn.options import is_finite_number, shown
from coefdyn.shapes import Float, Tensor

__all__ = ["FlooredRowSum", "Given", "Normalizer", "One", "RowSum"]


@dataclass(frozen=True, eq=False)
class Normalizer:
    """Base of all normalizers."""

    @property
    def cancels_scale(self) -> bool:
        """True if a factor common to a row of coefficients drops out (or can be tracked) in eta."""
        return False

    @property
    def name(self) -> str:
        return type(self).__name__

    def tensors(self) -> dict[str, Tensor]:
        """The parameters, by name."""
        return {}

    def narrow(self, start: int, length: int) -> Normalizer:
        """The same normalizer restricted to positions start .. start + length - 1."""
        return self


@dataclass(frozen=True, eq=False)
class One(Normalizer):
    """eta_i = 1."""


@dataclass(frozen=True, eq=False)
class RowSum(Normalizer):
    """eta_i = sum_{j <= i} alpha_{i,j} + exp(sink_i) (softmax and linear attention).

    Coefficients lie in [0, 1] only if every alpha >= 0 (Corollary 6.1); with readouts of both signs
    the sum can cross zero and the output blows up.

    Args:
        sink: in nats, ``(..., L)``, or a number; None for no sink. A row then sums to less than 1:
            the rest goes to a token that has no value (attention sinks; GPT-OSS). A sink per head
            has all leading axes of q, as every tensor of a design: for q ``(heads, L, n)`` it is
            ``sink[:, None].expand(heads, L)``, in a mixer ``.expand(batch, heads, L)``. Not for
            linear readouts, whose sums have any sign.

    Raises:
        ValueError: for a sink that is neither.
    """

    sink: Float[Tensor, "*#batch L"] | float | None = None

    def __post_init__(self) -> None:
        sink = self.sink
        if sink is None or isinstance(sink, Tensor):
            return
        if not is_finite_number(sink):
            raise ValueError(
                "RowSum(sink=) takes a tensor (..., L) or a finite number, in nats, got "
                f"{shown(sink)}; "
                "use None for no sink."
            )

    @property
    def cancels_scale(self) -> bool:
        return True

    def tensors(self) -> dict[str, Tensor]:
        return {"sink": self.sink} if isinstance(self.sink, Tensor) else {}

    def narrow(self, start: int, length: int) -> RowSum:
        sink = self.sink
        return RowSum(sink.narrow(-1, start, length)) if isinstance(sink, Tensor) else self


@dataclass(frozen=True, eq=False)
class FlooredRowSum(Normalizer):
    """eta_i = max(|sum_{j <= i} alpha_{i,j}|, floor) (mLSTM; Table 1).

    Args:
        floor: a positive number.

    Raises:
        ValueError: for anything else.
    """

    floor: float = 1.0

    def __post_init__(self) -> None:
        if not is_finite_number(self.floor) or self.floor <= 0:
            raise ValueError(
                f"FlooredRowSum needs a number floor > 0, got {shown(self.floor)}; for no floor "
                "use RowSum()."
            )

    @property
    def cancels_scale(self) -> bool:
        return True


@dataclass(frozen=True, eq=False)
class Given(Normalizer):
    """Given eta_i: any function of x_i or of i (normalized attention; 1.05^i in Principle 6).

    Args:
        eta: ``(..., L)``, nonzero of either sign (the dynamics that take it raise on zeros).
    """

    eta: Float[Tensor, "*#batch L"]

    def tensors(self) -> dict[str, Tensor]:
        """The parameters, by name."""
        return {"eta": self.eta}

    def narrow(self, start: int, length: int) -> Given:
        return Given(self.eta.narrow(-1, start, length))

    def __repr__(self) -> str:
        return f"Given(eta={tuple(self.eta.shape)})"
