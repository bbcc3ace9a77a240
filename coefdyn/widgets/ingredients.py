"""The ``CoefficientDynamics`` of the ingredients that the page has made (``js/ingredients.js``).

    A_t = diag(decay_t) (I - beta_t z_t z_t^T) diag(before_t)

with the parts that the structure has. Between two designs (``js/blend.js``) A_t is dense.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.nn import functional

from coefdyn import CoefficientDynamics, evolution, mask, normalizer, readout
from coefdyn.dynamics.evolution import Evolution
from coefdyn.dynamics.normalizer import Normalizer
from coefdyn.dynamics.readout import FeatureMap, Pointwise, Readout
from coefdyn.shapes import Tensor

__all__ = ["READOUTS", "dynamics_from", "dynamics_of"]

READOUTS: Mapping[str, Readout] = {
    "identity": readout.identity,
    "exp": readout.exp,
    "relu": readout.relu,
    "softplus": readout.softplus,
    "feature_elu": FeatureMap(lambda x: functional.elu(x) + 1, name="elu + 1"),
    "feature_relu": FeatureMap(torch.relu, name="relu"),
    "feature_softplus": FeatureMap(functional.softplus, name="softplus"),
    "feature_exp": FeatureMap(torch.exp, name="exp"),
}
"""phi by the explorer's name for it."""

Ingredients = Mapping[str, Any]


def dynamics_of(model: Mapping[str, Any]) -> CoefficientDynamics:
    """The dynamics that a model of the page shows (``interpreter.ask("model", ...)``), in float64.

    Shapes are ``(L, n)``, without leading axes. Between two designs, two readouts of the score mix
    to one, and so do feature maps, the identity among them: (1 - t) psi(q)^T psi(h) + t chi(q)^T
    chi(h) is a product of the stacked features.

    Raises:
        ValueError: where exp, ReLU or softplus mixes with a feature map: alpha is then no single
            readout of one score.
    """
    made = model["g"]
    if "blend" not in made:
        return dynamics_from(made)
    share, ends = made["blend"]["t"], (made["blend"]["from"], made["blend"]["to"])
    if share == 1:
        return dynamics_from(ends[1])
    first, last = (READOUTS[end["readout"]] for end in ends)
    phi = _mix_readouts(first, last, share)
    kept = all(end["normalizer"] == "row_sum" and end["sink"] is None for end in ends)
    eta = normalizer.RowSum() if kept else normalizer.Given(_tensor(model["eta"]))
    return dynamics_from(made, phi, eta)


def dynamics_from(
    made: Ingredients, phi: Readout | None = None, eta: Normalizer | None = None
) -> CoefficientDynamics:
    """The dynamics of one design's ingredients, or of given ones in the same form.

    Args:
        made: q, k, decay, z and before as ``(L, n)``, flat or row by row; beta, b and what stands
            beside phi as ``(L,)``; a dense A_t as matrix.
        phi, eta: a readout and a normalizer in the place of those that the ingredients name.
    """
    length, width = made["L"], made["n"]
    beside = {name: _tensor(made.get(name)) for name in ("own", "fade")}
    fade = beside["fade"]
    return CoefficientDynamics(
        q=_tensor(made["q"]).reshape(length, width),
        k=_tensor(made["k"]).reshape(length, width),
        evolution=_evolution(made),
        scaling=_tensor(made["b"]),
        readout=phi or READOUTS[made["readout"]],
        normalizer=eta or _normalizer(made),
        own=beside["own"],
        outer_log_decay=None if fade is None else fade.diff(prepend=fade.new_zeros(1)),
        mask=_mask(made),
    )


def _tensor(values: Any) -> Any:
    return None if values is None else torch.tensor(values, dtype=torch.float64)


def _rows(values: Any, length: int, width: int) -> Any:
    return None if values is None else _tensor(values).reshape(length, width)


def _evolution(made: Ingredients) -> Evolution:
    length, width = made["L"], made["n"]
    if made.get("matrix") is not None:
        return evolution.Dense(matrix=_tensor(made["matrix"]).reshape(length, width, width))
    decay, before, z = (_rows(made.get(name), length, width) for name in ("decay", "before", "z"))
    beta, structure = _tensor(made["beta"]), made["structure"]
    one = torch.ones(length, width, dtype=torch.float64)
    after = one if decay is None else decay
    if structure == "morph":
        matrix = torch.eye(width, dtype=torch.float64).expand(length, width, width)
        if beta is not None:
            matrix = matrix - beta[:, None, None] * z[:, :, None] * z[:, None, :]
        before = one if before is None else before
        return evolution.Dense(matrix=after[:, :, None] * matrix * before[:, None, :])
    kept = after if before is None else after * before
    parts: dict[str, Tensor] = (
        {} if decay is None and before is None else {"log_decay": kept.abs().log()}
    )
    if bool((after < 0).any()):
        parts["sign"] = after.sign()
    if before is not None:
        return evolution.DiagonalPlusRankOne(
            left=beta[:, None] * after * z, right=before * z, **parts
        )
    if structure == "diagonal":
        return evolution.Diagonal(**parts)
    parts = {name: x[:, 0] for name, x in parts.items()}
    if beta is not None:
        return evolution.Householder(direction=z, beta=beta, **parts)
    return evolution.Scalar(**parts) if parts else evolution.Identity()


def _normalizer(made: Ingredients) -> Normalizer:
    kinds = {
        "one": normalizer.One,
        "row_sum": lambda: normalizer.RowSum(_tensor(made.get("sink"))),
        "floored": lambda: normalizer.FlooredRowSum(floor=float(made["floor"])),
        "geometric": lambda: normalizer.Given(_tensor(made["given"])),
        "gate": lambda: normalizer.Given(_tensor(made["given"])),
    }
    return kinds[made["normalizer"]]()


def _mask(made: Ingredients) -> mask.Mask | None:
    if "window" in made:
        return mask.Window(made["window"]) if made["window"] < made["L"] else None
    hidden = made.get("hidden")
    return None if hidden is None else mask.Given(torch.tensor(hidden) == 0)


def _mix_readouts(first: Readout, last: Readout, share: float) -> Readout:
    """Mix (1 - t) of the first readout and t of the last into one readout, where there is one."""
    if first is last:
        return first
    name = f"{first.name} to {last.name}"
    if isinstance(first, Pointwise) and isinstance(last, Pointwise):
        return Pointwise(lambda s: (1 - share) * first(s) + share * last(s), name=name)
    if not all(isinstance(phi, FeatureMap) or phi.is_linear for phi in (first, last)):
        raise ValueError(
            f"dynamics at {share:.0%} of the way from readout {first.name!r} to {last.name!r}: "
            "that mixture is no single readout of one score, so no CoefficientDynamics has it. "
            "explorer.coefficients() and explorer.shown() give its numbers; or set morph to 0 or 1."
        )
    roots = ((1 - share) ** 0.5, share**0.5)

    def stacked(x: Tensor) -> Tensor:
        parts = [root * phi.fn(x) for root, phi in zip(roots, (first, last), strict=True)]
        return torch.cat(parts, dim=-1)

    return FeatureMap(stacked, name=name)
