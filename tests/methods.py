"""Execution methods that a test can request on a CPU."""

from __future__ import annotations

from coefdyn import CoefficientDynamics
from coefdyn.execution.apply import resolve

__all__ = ["cpu_methods"]

ON_A_CPU = ("reference", "recurrent", "parallel", "chunked")


def cpu_methods(dynamics: CoefficientDynamics) -> list[str]:
    """The explicit methods that can compute this design on a CPU, the reference first."""
    available = []
    for method in ON_A_CPU:
        try:
            resolve(dynamics, method)
        except ValueError:
            continue
        available.append(method)
    assert {"reference", "parallel"} <= set(available)
    return available
