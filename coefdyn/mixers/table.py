"""Table 1 and later rows, generated from the dynamics that a mixer builds on a probe.

How the authors write an ingredient (``Mixer.symbols``) stands beside the mixer; everything else
here is derived, so that changing a mixer changes its row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from coefdyn import CoefficientDynamics
from coefdyn.analysis import combination_class
from coefdyn.dynamics.evolution import Householder, Identity
from coefdyn.dynamics.normalizer import Normalizer
from coefdyn.execution.state import has_finite_state
from coefdyn.mixers import MIXERS, ROWS_SINCE
from coefdyn.mixers.base import Mixer, Symbols

__all__ = ["Row", "describe", "rows_since", "table1"]

#: sizes (n, d_v) of one head at which the state is counted
SIZES = ((2, 3), (2, 5), (4, 3), (4, 5), (6, 3))


@dataclass(frozen=True, kw_only=True)
class Row:
    """One architecture as four choices and their consequences.

    ``evolution``, ``scaling`` and ``normalizer`` are words, ``readout`` is the library's name;
    ``state`` counts the numbers of one head kept while generating (LaTeX, in n, d_v, L);
    ``recurrent`` says whether that is a fixed size (Principle 1), ``positional`` whether the
    coefficients carry positions without an encoding (Principle 3), ``combination`` is the class.
    ``beside`` names what the row has beside the four choices: an own term, an outer decay, a mask,
    a sink, several steps per token, or a difference of two dynamics; "" for nothing.
    """

    mixer: str
    symbols: Symbols
    evolution: str
    scaling: str
    readout: str
    normalizer: str
    state: str
    recurrent: bool
    positional: bool
    combination: str
    beside: str = ""


def table1() -> list[Row]:
    """The eight rows, in the paper's order."""
    return [describe(name) for name in MIXERS]


def rows_since() -> list[Row]:
    """The rows of ``ROWS_SINCE``, in its order."""
    return [describe(name) for name in ROWS_SINCE]


def describe(name: str) -> Row:
    """The row of one mixer of ``MIXERS`` or ``ROWS_SINCE``, with its default options.

    Raises:
        ValueError: for an unknown name.
    """
    known = MIXERS | ROWS_SINCE
    if name not in known:
        raise ValueError(f"no row {name!r}; known: {', '.join(known)}.")
    form = known[name]
    mixer, dynamics = _probe(form)
    summed = dynamics.batch_shape[-1] > mixer.n_heads
    return Row(
        mixer=name,
        symbols=form.symbols,
        evolution=_evolution(dynamics),
        scaling=_scaling(dynamics),
        readout=dynamics.readout.name,
        normalizer=_normalizer(dynamics.normalizer),
        state=_state(form),
        recurrent=has_finite_state(dynamics),
        positional=not isinstance(dynamics.evolution, Identity)
        or dynamics.outer_log_decay is not None,
        # the weights of a sum of maps belong to no class, whatever its parts guarantee
        combination="linear" if summed else combination_class(dynamics).value,
        beside=_beside(mixer, dynamics),
    )


def _build(form: Callable[..., Mixer], key_dim: int, value_dim: int) -> Mixer:
    """Build one head without convolution, so that only the coefficient dynamics keep a state."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        mixer = form(
            d_model=8, n_heads=1, key_dim=key_dim, value_dim=value_dim, short_convolution=0
        )
    return mixer.double()


@torch.no_grad()
def _probe(form: type[Mixer]) -> tuple[Mixer, CoefficientDynamics]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(6, 8, generator=generator, dtype=torch.float64)
    mixer = _build(form, 4, 3)
    return mixer, mixer.dynamics(x)[0]


def _beside(mixer: Mixer, dynamics: CoefficientDynamics) -> str:
    """Additions of a row to its four choices, in words."""
    steps, maps = dynamics.length // 6, dynamics.batch_shape[-1] // mixer.n_heads
    parts = {
        "own term": dynamics.own is not None,
        "outer decay": dynamics.outer_log_decay is not None,
        "sink": getattr(dynamics.normalizer, "sink", None) is not None,
        "mask": dynamics.mask is not None,
        f"{steps} steps per token": steps > 1,
        f"weighted sum of {maps}": maps > 1,
    }
    return ", ".join(name for name, there in parts.items() if there)


def _evolution(dynamics: CoefficientDynamics) -> str:
    """Structure in words; for Householder forms also the direction."""
    matrices = dynamics.evolution
    name = {
        "Identity": "identity",
        "Scalar": "scalar",
        "Diagonal": "diagonal",
        "Householder": "Householder",
        "DiagonalPlusRankOne": "diagonal plus rank one",
        "Dense": "dense",
        "Levels": "levels that carry over",
    }[type(matrices).__name__]
    if not isinstance(matrices, Householder):
        return name
    name = name if matrices.log_decay is None else f"scaled {name}"
    along_key = torch.nn.functional.cosine_similarity(matrices.direction, dynamics.k, dim=-1)
    own = "the key" if bool((along_key > 1 - 1e-6).all()) else "a direction of its own"
    return f"{name} along {own}"


def _scaling(dynamics: CoefficientDynamics) -> str:
    """Scaling b_j in words, recognised by comparing numbers and not by the mixer's name."""
    b, root = dynamics.scaling, dynamics.key_dim**-0.5
    if not isinstance(b, torch.Tensor):
        constant = {root: "1/sqrt(n)", 1.0: "1"}.get(b, f"{b:g}")
        if dynamics.log_scaling is None:
            return constant
        return "exp(i_j)/sqrt(n)" if constant == "1/sqrt(n)" else f"{constant} exp(i_j)"
    beta = dynamics.evolution.tensors().get("beta")
    if beta is not None and torch.allclose(b, beta * root):
        return "beta_j/sqrt(n)"
    growth = dynamics.evolution.common_log_decay
    if growth is not None:
        ratio = growth / b
        if torch.allclose(ratio, ratio[..., :1].expand_as(ratio)):
            return "Delta_j"
    return "depends on x_j"


def _normalizer(eta: Normalizer) -> str:
    """Kind of the normalizer, in words."""
    words = {
        "One": "1",
        "RowSum": "row sum",
        "FlooredRowSum": "floored row sum",
        "Given": "function of x_i",
    }
    return words[eta.name]


def _state(form: type[Mixer]) -> str:
    """The count of kept numbers as a polynomial in n and d_v, found by solving for it."""
    terms, counts = [], []
    for n, dv in SIZES:
        mixer = _build(form, n, dv)
        fixed = mixer.state_size()
        terms.append([n * dv, n * n, n, dv, 1.0])
        counts.append(float(mixer.state_growth() if fixed is None else fixed))
    system = torch.tensor(terms, dtype=torch.float64)
    solved = torch.linalg.solve(system, torch.tensor(counts, dtype=torch.float64))
    factors = (2 * solved).round() / 2  # a rotation has an angle per pair of channels
    found = solved.tolist()
    assert torch.allclose(solved, factors, atol=1e-9), f"no state size in half numbers: {found}"
    polynomial = _polynomial(factors.tolist())
    return polynomial if fixed is not None else rf"({polynomial})\, L"


def _polynomial(factors: list[float]) -> str:
    """LaTeX of factors of (n d_v, n^2, n, d_v, 1)."""
    shown = []
    for factor, name in zip(factors, ("n d_v", "n^2", "n", "d_v", ""), strict=True):
        if factor:
            shown.append(
                name if factor == 1 and name else f"{factor:g}\\,{name}".removesuffix("\\,")
            )
    return " + ".join(shown) or "0"
