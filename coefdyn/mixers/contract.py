"""What every mixer promises, checked on one input: for a mixer of one's own."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch

from coefdyn.execution.apply import METHODS, resolve
from coefdyn.mixers.base import Mixer
from coefdyn.shapes import Float, Tensor

__all__ = ["Contract", "check_mixer"]

#: in float64: sums of a few hundred terms in another order, there and through the chain rule
LIMIT = 1e-9


@dataclass(frozen=True, kw_only=True)
class Contract:
    """Largest relative errors in float64.

    Attributes:
        future: change of earlier outputs when later tokens change (causality).
        steps: token by token against the whole sequence.
        outputs: by method, against the reference.
        gradients: by method, of x and all parameters, against the reference.
        without_gradient: parameters that no output depends on.
    """

    future: float
    steps: float
    outputs: dict[str, float]
    gradients: dict[str, float]
    without_gradient: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether every error is within 1e-9 and every parameter gets a gradient."""
        errors = [self.future, self.steps, *self.outputs.values(), *self.gradients.values()]
        return all(error <= LIMIT for error in errors) and not self.without_gradient

    def __str__(self) -> str:
        def line(name: str, error: float) -> str:
            return f"{name:<34} {'ok' if error <= LIMIT else f'error {error:.1e}'}"

        lines = [line("causal", self.future), line("token by token = whole", self.steps)]
        for method, error in self.outputs.items():
            worst = max(error, self.gradients[method])
            lines.append(line(f"{method} = reference, gradients too", worst))
        if self.without_gradient:
            lines.append("no gradient: " + ", ".join(self.without_gradient))
        return "\n".join(lines)


def check_mixer(mixer: Mixer, x: Float[Tensor, "*batch L d"]) -> Contract:
    """Causality, steps, and every method that runs here, in float64 against the reference.

    The mixer itself is left as it is. A few dozen tokens are enough, and quick.

    Args:
        mixer: any mixer, on the CPU or a GPU.
        x: an input of at least 2 tokens, ``(..., L, d_model)``.

    Raises:
        ValueError: for fewer than 2 tokens.
    """
    if x.shape[-2] < 2:
        raise ValueError(f"check_mixer needs at least 2 tokens, got {x.shape[-2]}.")
    mixer, x = copy.deepcopy(mixer).double(), x.detach().double()
    want, slopes = _both(mixer, x, "reference")
    outputs, gradients = {}, {}
    for method in _methods(mixer, x):
        y, found = _both(mixer, x, method)
        outputs[method] = _error(y, want)
        gradients[method] = max(
            _error(found[name], slope) for name, slope in slopes.items() if slope is not None
        )
    return Contract(
        future=_future(mixer, x),
        steps=_error(_stepwise(mixer, x), want),
        outputs=outputs,
        gradients=gradients,
        without_gradient=tuple(name for name, slope in slopes.items() if slope is None),
    )


def _methods(mixer: Mixer, x: Tensor) -> list[str]:
    """The methods besides the reference that compute this design here."""
    with torch.no_grad():
        dynamics = mixer.dynamics(x)[0]
    found = []
    for method in METHODS:
        try:
            resolve(dynamics, method)
        except ValueError:
            continue
        found.append(method)
    return [method for method in found if method not in ("auto", "reference")]


def _both(mixer: Mixer, x: Tensor, method: str) -> tuple[Tensor, dict[str, Tensor | None]]:
    """The output, and the gradients of a loss without symmetry."""
    x = x.clone().requires_grad_()
    y = mixer(x, method=method)
    weights = torch.linspace(-1.0, 2.0, y.numel(), dtype=y.dtype, device=y.device)
    named = {"x": x, **dict(mixer.named_parameters())}
    loss = (y.flatten() * weights).sum()
    slopes = torch.autograd.grad(loss, list(named.values()), allow_unused=True)
    return y.detach(), dict(zip(named, slopes, strict=True))


@torch.no_grad()
def _future(mixer: Mixer, x: Tensor) -> float:
    middle = x.shape[-2] // 2
    changed = torch.cat([x[..., :middle, :], -x[..., middle:, :] + 1.0], dim=-2)
    return _error(mixer(changed)[..., :middle, :], mixer(x)[..., :middle, :])


@torch.no_grad()
def _stepwise(mixer: Mixer, x: Tensor) -> Tensor:
    state, outputs = None, []
    for t in range(x.shape[-2]):
        y, state = mixer.step(x[..., t, :], state)
        outputs.append(y)
    return torch.stack(outputs, dim=-2)


def _error(got: Tensor | None, want: Tensor) -> float:
    """|got - want| / |want|; infinite for a missing or non-finite number."""
    if got is None or not torch.isfinite(got).all():
        return float("inf")
    scale = want.norm().item()
    return (got - want).norm().item() / (scale or 1.0)
