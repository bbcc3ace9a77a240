"""The contract of every mixer, checked on one input; also for a mixer of one's own."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch

from coefdyn.execution.apply import METHODS, resolve
from coefdyn.mixers.base import Mixer
from coefdyn.shapes import Float, Tensor

__all__ = ["Contract", "check_mixer"]

#: float64 rounding of sums of a few hundred terms in another order, and of their gradients
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
        """True if every error is within 1e-9 and every parameter gets a gradient."""
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
    """Check causality, steps and every method that runs here, in float64 against the reference.

    The mixer itself is left as it is. A few dozen random tokens are enough, and quick. Causality is
    tried at several cuts: every token from there on is replaced by a random one, and the outputs
    before must not change. Gradients are compared relative to their own size, or to a thousandth
    of the largest one where they are smaller (the gradient of a key's bias under softmax is 0).

    Args:
        mixer: any mixer, on the CPU or a GPU.
        x: an input of at least 2 tokens that differ, ``(..., L, d_model)``, of at least one
            sequence.

    Raises:
        ValueError: for an input, or a mixer, with which no mistake could be found.
    """
    _check_arguments(mixer, x)
    mixer, x = copy.deepcopy(mixer).double(), x.detach().double()
    want, slopes = _both(mixer, x, "reference")
    if not want.any():
        raise ValueError(
            "the mixer's output is 0 everywhere, so that nothing could be found wrong; check it "
            "with other weights (an output projection that starts at 0 hides everything)."
        )
    known = {name: slope for name, slope in slopes.items() if slope is not None}
    floor = 1e-3 * max(slope.norm().item() for slope in known.values())
    outputs, gradients = {}, {}
    for method in _methods(mixer, x):
        y, found = _both(mixer, x, method)
        outputs[method] = _error(y, want)
        gradients[method] = max(_error(found[name], known[name], floor) for name in known)
    return Contract(
        future=_future(mixer, x),
        steps=_error(_stepwise(mixer, x), want),
        outputs=outputs,
        gradients=gradients,
        without_gradient=tuple(name for name, slope in slopes.items() if slope is None),
    )


def _check_arguments(mixer: Mixer, x: Tensor) -> None:
    if not isinstance(mixer, Mixer):
        hint = "; give an object, not the class" if isinstance(mixer, type) else ""
        raise ValueError(f"check_mixer checks a coefdyn.mixers.Mixer, got {mixer!r}{hint}.")
    if not isinstance(x, Tensor) or not x.is_floating_point() or x.ndim < 2:
        got = f"{x.dtype} {tuple(x.shape)}" if isinstance(x, Tensor) else type(x).__name__
        raise ValueError(f"x must be a floating-point tensor (..., L, d_model), got {got}.")
    if x.shape[-2] < 2:
        raise ValueError(f"check_mixer needs at least 2 tokens, got {x.shape[-2]}.")
    if x.numel() == 0:
        raise ValueError(f"check_mixer needs at least one sequence, got shape {tuple(x.shape)}.")
    if not torch.isfinite(x).all() or bool((x == x[..., :1, :]).all()):
        raise ValueError(
            "x must be finite, with tokens that differ: equal tokens hide mistakes. Give random "
            "ones, for example torch.randn(2, 20, d_model)."
        )


def _methods(mixer: Mixer, x: Tensor) -> list[str]:
    """Methods besides the reference that compute this design here."""
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
    """Output, and the gradients of a loss without symmetry."""
    x = x.clone().requires_grad_()
    y = mixer(x, method=method)
    weights = torch.linspace(-1.0, 2.0, y.numel(), dtype=y.dtype, device=y.device)
    named = {"x": x, **dict(mixer.named_parameters())}
    loss = (y.flatten() * weights).sum()
    slopes = torch.autograd.grad(loss, list(named.values()), allow_unused=True)
    return y.detach(), dict(zip(named, slopes, strict=True))


@torch.no_grad()
def _future(mixer: Mixer, x: Tensor) -> float:
    """The largest change of earlier outputs, over cuts at and around every small length."""
    length, want = x.shape[-2], mixer(x)
    generator = torch.Generator().manual_seed(0)
    other = torch.randn(x.shape, generator=generator, dtype=x.dtype).to(x.device) * x.std()
    errors = []
    for cut in sorted({*range(1, min(length, 17)), length // 2, length - 1}):
        changed = torch.cat([x[..., :cut, :], other[..., cut:, :]], dim=-2)
        errors.append(_error(mixer(changed)[..., :cut, :], want[..., :cut, :]))
    return max(errors)


@torch.no_grad()
def _stepwise(mixer: Mixer, x: Tensor) -> Tensor:
    state, outputs = None, []
    for t in range(x.shape[-2]):
        y, state = mixer.step(x[..., t, :], state)
        outputs.append(y)
    return torch.stack(outputs, dim=-2)


def _error(got: Tensor | None, want: Tensor, floor: float = 0.0) -> float:
    """|got - want| / max(|want|, floor); infinite for a missing or non-finite number."""
    if got is None or not torch.isfinite(got).all():
        return float("inf")
    scale = max(want.norm().item(), floor)
    return (got - want).norm().item() / (scale or 1.0)
