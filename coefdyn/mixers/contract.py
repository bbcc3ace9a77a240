"""The contract of every mixer, checked on one input; also for a mixer of one's own."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from coefdyn.dynamics.documents import NoDocuments
from coefdyn.execution.apply import METHODS, resolve
from coefdyn.mixers.base import Mixer
from coefdyn.shapes import Float, Tensor

__all__ = ["Contract", "check_mixer"]

#: float64 rounding of sums of a few hundred terms in another order, and of their gradients
LIMIT = 1e-9


#: bfloat16 keeps 8 bits of a number; a layer rounds some ten times on the way
HALF = 0.1
#: what a line says besides its error
REMEDIES = {
    "causal": "an output reads a later token: look for a sum, a mean or a norm over all tokens",
    "token by token = whole": "a sum or a shift over tokens in build() starts anew with each "
    "piece: carry it in tokens(), see coefdyn.mixers.running_sum",
    "pieces = whole": "what tokens() returns as past has to hold all that the next piece needs",
    "packed = each document alone": "a sum or a shift over tokens reads the document before: begin "
    "it anew where documents.starts says so, see coefdyn.mixers.running_sum",
    "padded on the left = alone": "padding counts as tokens: begin sums and positions anew where "
    "documents.starts says so, see coefdyn.mixers.running_sum",
    "padded on the right = alone": "an output reads tokens after it",
    "rows of a batch apart": "a reduction runs over the batch: reduce over a row's tokens only",
    "bfloat16 = float64": "keep sums and exponents in float32, and name decays in keep_float32",
}


@dataclass(frozen=True, kw_only=True)
class Contract:
    """Largest relative errors in float64.

    Attributes:
        future: change of earlier outputs when later tokens change (causality).
        steps: token by token against the whole sequence.
        outputs: by method, against the reference.
        gradients: by method, of x and all parameters, against the reference.
        without_gradient: parameters that no output depends on.
        others: by property: pieces of a sequence, packed and padded documents, rows of a batch,
            and bfloat16 (with weights that it holds).
        refused: what the mixer said where it refused a property, or failed at it.
    """

    future: float
    steps: float
    outputs: dict[str, float]
    gradients: dict[str, float]
    without_gradient: tuple[str, ...]
    others: dict[str, float] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        """True if all errors are within 1e-9 (bfloat16: 0.1) and all parameters get gradients."""
        errors = [self.future, self.steps, *self.outputs.values(), *self.gradients.values()]
        kept = all(error <= limit_of(name) for name, error in self.others.items())
        return kept and all(error <= LIMIT for error in errors) and not self.without_gradient

    def __str__(self) -> str:
        def line(name: str, error: float) -> str:
            found = f"{name:<34} {'ok' if error <= limit_of(name) else f'error {error:.1e}'}"
            remedy = REMEDIES.get(name)
            return found if error <= limit_of(name) or remedy is None else f"{found}\n    {remedy}"

        lines = [line("causal", self.future), line("token by token = whole", self.steps)]
        kept = {name: error for name, error in self.others.items() if name not in self.refused}
        lines += [line(name, error) for name, error in kept.items()]
        lines += [f"{name:<34} {why}" for name, why in self.refused.items()]
        for method, error in self.outputs.items():
            worst = max(error, self.gradients[method])
            lines.append(line(f"{method} = reference, gradients too", worst))
        if self.without_gradient:
            names = ", ".join(self.without_gradient)
            lines.append(
                f"no gradient: {names}\n    no output depends on it: use it, or leave it out"
            )
        return "\n".join(lines)


def limit_of(name: str) -> float:
    """The largest admitted error of a property."""
    return HALF if name.startswith("bfloat16") else LIMIT


def check_mixer(mixer: Mixer, x: Float[Tensor, "*batch L d"]) -> Contract:
    """Check what every mixer of the package keeps, in float64 against the reference.

    Causality, token by token and in pieces, packed and padded documents, rows of a batch apart,
    bfloat16, every method that runs here, and gradients. The mixer itself is left as it is. A few
    dozen random tokens are enough, and quick. Causality is tried at several cuts: every token from
    there on is replaced by a random one, and the outputs before must not change. Gradients are
    compared relative to their own size, or to a thousandth of the largest one where they are
    smaller (the gradient of a key's bias under softmax is 0).

    Args:
        mixer: any mixer, on the CPU or a GPU.
        x: an input of at least 2 tokens that differ, ``(..., L, d_model)``, of at least one
            sequence.

    Returns:
        errors by property; printed, a line that fails says what to do.

    Raises:
        ValueError: for an input, or a mixer, with which no mistake could be found.
    """
    _check_arguments(mixer, x)
    given, mixer, x = mixer, copy.deepcopy(mixer).double(), x.detach().double()
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
    others, refused = _others(mixer, x, want)
    others["bfloat16 = float64"] = _half(given, x)
    return Contract(
        future=_future(mixer, x),
        steps=_error(_stepwise(mixer, x), want),
        outputs=outputs,
        gradients=gradients,
        without_gradient=tuple(name for name, slope in slopes.items() if slope is None),
        others=others,
        refused=refused,
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
def _others(mixer: Mixer, x: Tensor, want: Tensor) -> tuple[dict[str, float], dict[str, str]]:
    """Errors of what concerns pieces, documents and rows; and what the mixer refuses."""
    errors: dict[str, float] = {}
    refused: dict[str, str] = {}
    length = x.shape[-2]
    rows, early = x.reshape(-1, *x.shape[-2:]), max(1, length // 3)
    two = rows[:1].expand(2, -1, -1).contiguous()
    real = torch.ones(2, length, dtype=torch.int64, device=x.device)
    real[0, :early] = 0
    bounds = torch.tensor([0, early, early, length], device=x.device)
    late = length - early

    def alone(start: int, stop: int) -> Tensor:
        return mixer(rows[:1, start:stop])

    tried: dict[str, Callable[[], tuple[Tensor, Tensor]]] = {
        "pieces = whole": lambda: (_in_pieces(mixer, x), want),
        "packed = each document alone": lambda: (
            mixer(rows[:1], cu_seqlens=bounds),
            torch.cat([alone(0, early), alone(early, length)], 1),
        ),
        "padded on the left = alone": lambda: (
            mixer(two, attention_mask=real)[:1, early:],
            alone(early, length),
        ),
        "padded on the right = alone": lambda: (
            mixer(two, attention_mask=real.flip(-1))[:1, :late],
            alone(0, late),
        ),
    }
    for name, both in tried.items():
        _tried(name, both, errors, refused)
    other = torch.cat([rows[:1], rows[:1].flip(-2)])
    errors["rows of a batch apart"] = _error(mixer(other)[:1], mixer(rows[:1]))
    return errors, refused


def _tried(
    name: str,
    both: Callable[[], tuple[Tensor, Tensor]],
    errors: dict[str, float],
    refused: dict[str, str],
) -> None:
    """The error of one property, which a mixer without documents refuses; exceptions are errors."""
    try:
        errors[name] = _error(*both())
    except NoDocuments as error:
        refused[name] = f"refused: {error}"
    except Exception as error:
        errors[name] = float("inf")
        refused[name] = f"fails with {type(error).__name__}: {error}"


def _in_pieces(mixer: Mixer, x: Tensor) -> Tensor:
    """The outputs of four pieces, one of them without tokens."""
    length, state, outputs = x.shape[-2], None, []
    cuts = [0, max(1, length // 3), max(1, length // 3), max(1, 2 * length // 3), length]
    for start, stop in itertools.pairwise(cuts):
        y, state = mixer.extend(x[..., start:stop, :], state)
        outputs.append(y)
    return torch.cat(outputs, dim=-2)


@torch.no_grad()
def _half(mixer: Mixer, x: Tensor) -> float:
    """Error in bfloat16, of weights and an input that it holds."""
    low = copy.deepcopy(mixer).float()
    exempt = low.float32_names()
    for name, parameter in low.named_parameters():
        if name not in exempt:
            parameter.data = parameter.data.bfloat16()
    x = x.bfloat16()
    return _error(low(x).double(), copy.deepcopy(low).double()(x.double()))


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
