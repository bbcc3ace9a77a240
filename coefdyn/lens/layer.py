"""One mixer of somebody's model on one input."""

from __future__ import annotations

from dataclasses import dataclass

from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.shapes import Float

__all__ = ["LayerTrace"]


@dataclass(frozen=True, kw_only=True, eq=False)
class LayerTrace:
    """One mixer of a model on one input, with the error of what is shown.

    Attributes:
        name: the module's name in the model; a module that ran again has " (2)" and so on behind.
        mechanism: such as "gated deltanet".
        dynamics: batch shape ``(B, H)``, H the heads of the values (grouped keys are repeated). In
            float32 for a model in half precision.
        values: v, ``(B, H, L, d_v)``.
        output: y as the model's own operation returned it, ``(B, H, L, d_v)``.
        error: max abs(dynamics.apply(values) - output) / max abs(output), over the queries that
            may read at least one token.
        outside: what of this layer lies outside alpha.
        probe_error: largest abs(alpha/eta - probe) / max abs(probe), where the probe is the
            model's own operation on v = I; None where it was not asked for.
    """

    name: str
    mechanism: str
    dynamics: CoefficientDynamics
    values: Float[Tensor, "B H L dv"]
    output: Float[Tensor, "B H L dv"]
    error: float
    outside: str
    probe_error: float | None = None

    @property
    def heads(self) -> int:
        """H."""
        return self.dynamics.batch_shape[1]

    def __repr__(self) -> str:
        batch, heads = self.dynamics.batch_shape
        return (
            f"LayerTrace({self.name}: {self.mechanism}, B={batch}, H={heads}, "
            f"L={self.dynamics.length}, error={self.error:.1e})"
        )
