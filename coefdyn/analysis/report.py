"""The design report: the six principles checked for one design on one input."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from coefdyn.analysis.classes import CombinationClass, combination_class, observed_class
from coefdyn.analysis.common import check_not_empty, widened
from coefdyn.analysis.selectivity import Selectivity, selectivity
from coefdyn.analysis.stability import Stability, stability
from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.dynamics.evolution import Identity
from coefdyn.execution.state import has_finite_state

__all__ = ["DesignReport", "report"]


@dataclass(frozen=True, kw_only=True)
class DesignReport:
    """Facts about a design, by principle.

    Attributes:
        design: the four ingredients in words.
        has_finite_state: whether a recurrent form with a state of fixed size exists (Principle 1).
        guaranteed_class: what phi and eta guarantee.
        observed_class: what this input showed.
        selectivity: near-zero and large fractions (Principle 2).
        evolves: whether A_t differs from I, or an outer decay stands beside it (Principle 3).
        score_variance: sample variance of the scores q^T h at i = j (Principle 5).
        stability: norms, growth and overflow horizon (Principle 6).
        empty_rows: rows without any coefficient other than 0, over all leading axes: their output
            and their gradient are zero.
        masked: whether a mask says which pairs may meet; that tells positions apart, too.
    """

    design: str
    has_finite_state: bool
    guaranteed_class: CombinationClass
    observed_class: CombinationClass
    selectivity: Selectivity
    evolves: bool
    score_variance: float
    stability: Stability
    empty_rows: int = 0
    masked: bool = False

    def __str__(self) -> str:
        s = self.stability
        lines = [
            self.design,
            f"1   recurrent form with a finite state: {'yes' if self.has_finite_state else 'no'}",
            f"2   near-zero coefficients (<= {self.selectivity.epsilon:g}): "
            f"{self.selectivity.near_zero_fraction:.3f}",
            f"3   position from the evolution: {self._position()}",
            f"5   variance of q^T b k: {self.score_variance:.3f}",
            f"6   largest |A_t|: {s.largest_norm:.3f}; growth {s.growth_nats:.2f} nats; "
            f"float32 horizon {s.horizon_tokens:.0f} tokens",
            f"A   combination: {self.guaranteed_class.value} guaranteed, "
            f"{self.observed_class.value} observed",
        ]
        if self.empty_rows:
            lines.append(f"!   {self.empty_rows} row(s) are empty: zero output, zero gradient")
        return "\n".join(lines)

    def _position(self) -> str:
        if self.evolves:
            return "yes"
        return "no (A_t = I), from the mask" if self.masked else "no (A_t = I)"


def report(dynamics: CoefficientDynamics) -> DesignReport:
    """Check the principles for one design on one input: an observation on that input, not a proof.

    Computed in float64 where the readout allows that.

    Raises:
        ValueError: for a batch without sequences.
    """
    check_not_empty("report", dynamics.batch_shape)
    wide = widened(dynamics)
    keys = wide.scaled_keys()
    if wide.log_scaling is not None:
        keys = keys * wide.log_scaling.exp()[..., None]
    scores = (wide.q * keys).sum(-1)
    many = scores.numel() > 1
    normalized = wide.coefficients(normalized=True)
    tolerance = max(1e-6, 100 * torch.finfo(wide.dtype).eps)
    return DesignReport(
        design=repr(dynamics),
        has_finite_state=has_finite_state(dynamics),
        guaranteed_class=combination_class(dynamics),
        observed_class=observed_class(normalized, tolerance),
        selectivity=selectivity(wide),
        evolves=type(dynamics.evolution) is not Identity or dynamics.outer_log_decay is not None,
        score_variance=scores.var().item() if many else float("nan"),
        stability=stability(dynamics),
        empty_rows=int((normalized == 0).all(-1).sum()),
        masked=dynamics.mask is not None,
    )
