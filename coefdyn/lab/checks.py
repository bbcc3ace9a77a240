"""Checks that apply to every row alike: its methods, its state and the path of its keys.

from coefdyn.lab.checks import check_row

print(check_row(dynamics, v, theirs))
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from coefdyn import CoefficientDynamics
from coefdyn.analysis import positional_information, stability
from coefdyn.dynamics.readout import FeatureMap, Pointwise
from coefdyn.execution.state import CacheState, LinearState, State
from coefdyn.shapes import Float, Tensor

__all__ = ["EXACT", "RowChecks", "check_row", "defined"]

METHODS = ("reference", "recurrent", "parallel", "chunked")
#: rounding of float64 sums with a few dozen terms
EXACT = 1e-12


@dataclass(frozen=True, kw_only=True)
class RowChecks:
    """Results of ``check_row``; every equality in it has been asserted.

    Args:
        methods: that gave the expected outputs.
        state_numbers: numbers in the state after each token, stepped one by one.
        grows: whether that state grows.
        separated: whether two copies of a token get different coefficients from every later one.
        growth_nats: by how much a stored key can be lengthened at most.
        ingredients: evolution, readout and normalizer by name.
    """

    methods: tuple[str, ...]
    state_numbers: tuple[int, ...]
    grows: bool
    separated: bool
    growth_nats: float
    ingredients: str

    def __str__(self) -> str:
        sizes = sorted(set(self.state_numbers))
        state = (
            f"{sizes[0]} to {sizes[-1]}, growing" if self.grows else f"{sizes[-1]} at every step"
        )
        return "\n".join(
            [
                f"ingredients: {self.ingredients}",
                f"the authors' outputs = the definition = {' = '.join(self.methods)}",
                f"numbers in the state: {state}",
                f"two copies of a token told apart: {'yes' if self.separated else 'no'}",
                f"growth of a stored key, at most: {self.growth_nats:.1f} nats",
            ]
        )


def check_row(
    dynamics: CoefficientDynamics, v: Float[Tensor, "L d_v"], expected: Float[Tensor, "L d_v"]
) -> RowChecks:
    """Check a design against its authors' outputs by every method that can compute it.

    Args:
        dynamics: the four ingredients, float64, no leading axes.
        v: values.
        expected: outputs of the authors' own recurrence or formula.

    Raises:
        AssertionError: where one of them differs by more than rounding.
    """
    alpha = defined(dynamics)
    torch.testing.assert_close(dynamics.coefficients(), alpha, rtol=EXACT, atol=EXACT)
    methods = [method for method in METHODS if _agrees(dynamics, v, expected, method)]
    sizes, state = [], None
    for t in range(dynamics.length):
        y, state = dynamics.narrow(t, 1).step(v[t], state)
        torch.testing.assert_close(y, expected[t], rtol=EXACT, atol=EXACT)
        sizes.append(_numbers(state))
    middle = dynamics.length // 2
    return RowChecks(
        methods=tuple(methods),
        state_numbers=tuple(sizes),
        grows=sizes[-1] > sizes[0],
        separated=bool(positional_information(dynamics, j=1, later=middle).separated),
        growth_nats=float(stability(dynamics).growth_nats),
        ingredients=(
            f"A_t {type(dynamics.evolution).__name__}, phi {dynamics.readout.name}, "
            f"eta {type(dynamics.normalizer).__name__}"
        ),
    )


def defined(dynamics: CoefficientDynamics) -> Float[Tensor, "L L"]:
    """Coefficients alpha by definition: each key moved by one matrix after another, then read."""
    L, n = dynamics.q.shape
    alpha, keys, phi = dynamics.q.new_zeros(L, L), dynamics.scaled_keys(), dynamics.readout
    if dynamics.log_scaling is not None:
        keys = keys * dynamics.log_scaling.exp()[:, None]
    for j in range(L):
        state = keys[j]
        for i in range(j, L):
            state = dynamics.evolution.dense(i, n).to(state) @ state if i > j else state
            if isinstance(phi, FeatureMap):
                alpha[i, j] = phi.features(dynamics.q[i]) @ phi.features(state)
            else:
                assert isinstance(phi, Pointwise), f"unknown readout {phi!r}"
                alpha[i, j] = phi(dynamics.q[i] @ state)
    return alpha


def _agrees(dynamics: CoefficientDynamics, v: Tensor, expected: Tensor, method: str) -> bool:
    """Return whether a method can compute the design, after asserting that it does so correctly."""
    try:
        ours = dynamics.apply(v, method=method)
    except ValueError:
        return False
    torch.testing.assert_close(ours, expected, rtol=EXACT, atol=EXACT)
    return True


def _numbers(state: State) -> int:
    """Number of values kept until the next token."""
    if isinstance(state, LinearState):
        return state.matrix.numel()
    assert isinstance(state, CacheState), f"a state of no known kind: {state!r}"
    return state.stored.vectors.numel() + state.values.numel()
