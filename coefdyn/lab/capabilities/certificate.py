"""The programs behind the lemmas: hulls that meet, and a member that is optimised in vain."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy.optimize import linprog

from coefdyn.lab.capabilities.large import draw_member, member_output, windows
from coefdyn.lab.capabilities.lemmas import Witness
from coefdyn.shapes import Float, Tensor

__all__ = ["best_margin", "gap_between_hulls", "gaps", "optimised"]


#: a difference of means that is rounding
ROUNDING = 1e-11


def even_sizes(y: Float[Tensor, "W d"]) -> np.ndarray:
    """y with every number over its largest size, so that no small one hides behind a large one.

    This leaves a meeting of hulls as it is. Sizes below 1e-4 of the largest are rounding.
    """
    sizes = y.abs().amax(0)
    return (y / sizes.clamp_min(1e-4 * float(sizes.amax())).clamp_min(1e-300)).numpy()


def gap_between_hulls(y: Float[Tensor, "W d"], second: Tensor) -> float:
    """Least largest difference between a mean of one class and one of the other, of ``even_sizes``.

    min t over weights w, u >= 0 of sum 1 with |sum w y - sum u y| <= t in every number. 0 means
    that the hulls meet. Equal weights, which most lemmas have, are tried before the linear program.
    """
    scaled = even_sizes(y)
    sign = np.where(second.numpy(), -1.0, 1.0)
    columns = (scaled * sign[:, None]).T
    ones = np.ones((len(columns), 1))
    first = (sign > 0).astype(float)
    equal = np.where(first == 1, 1 / first.sum(), 1 / (1 - first).sum())
    if (gap := float(np.abs(columns @ equal).max())) <= ROUNDING:
        return gap
    weights = _solve(
        np.r_[np.zeros(len(scaled)), 1.0],
        A_ub=np.block([[columns, -ones], [-columns, -ones]]),
        b_ub=np.zeros(2 * len(columns)),
        A_eq=np.c_[np.stack([first, 1 - first]), np.zeros(2)],
        b_eq=np.ones(2),
    )[:-1].clip(0)
    share = weights / np.where(first == 1, weights @ first, weights @ (1 - first))
    return float(np.abs(columns @ share).max())


def _solve(cost: np.ndarray, **given: Any) -> np.ndarray:
    """The solution of a linear program, at the tightest tolerance that the solver ends with."""
    for tolerance in (1e-10, 1e-9, 1e-7):
        options = dict.fromkeys(("primal_feasibility_tolerance", "dual_feasibility_tolerance"),
                                tolerance)  # fmt: skip
        found = linprog(cost, method="highs", options=options, **given)
        if found.status == 0:
            return found.x
    raise AssertionError(f"the linear program was not solved: {found.message}")


def best_margin(y: Float[Tensor, "W d"], second: Tensor) -> float:
    """Largest lead of a decoder with |c| at most 1 in every number of ``even_sizes``."""
    scaled = even_sizes(y)
    sign = np.where(second.numpy(), -1.0, 1.0)
    rows = np.c_[-sign[:, None] * scaled, -sign, np.ones(len(sign))]
    width = scaled.shape[1]
    found = _solve(
        np.r_[np.zeros(width + 1), -1.0],
        A_ub=rows,
        b_ub=np.zeros(len(sign)),
        bounds=[(-1, 1)] * width + [(None, None)] * 2,
    )
    return float((-rows[:, :-1] @ found[:-1]).min())


def gaps(row: str, shown: Witness, count: int, seed: int = 0) -> float:
    """Largest gap between the hulls over ``count`` random members of a row's large class."""
    number, kinds = windows(shown.words, 1 if row == "LRU" else 4)
    generator, worst = torch.Generator().manual_seed(seed), 0.0
    for _ in range(count):
        y = member_output(row, draw_member(row, kinds, generator), number, shown.read)
        worst = max(worst, gap_between_hulls(y, shown.second))
    return worst


def optimised(row: str, shown: Witness, seed: int = 0, steps: int = 60) -> float:
    """Best margin of a member after ``steps`` of Adam on the margin of its own decoder.

    Gates are kept in their closed range; a decoder for the end is found by a linear program.
    """
    number, kinds = windows(shown.words, 1 if row == "LRU" else 4)
    generator = torch.Generator().manual_seed(seed)
    tables = draw_member(row, kinds, generator)
    sign = torch.where(shown.second, -1.0, 1.0).double()
    size = 128 if row == "LRU" else 64
    decoder = torch.randn(size, generator=generator, dtype=torch.float64).requires_grad_()
    offset = torch.zeros((), dtype=torch.float64, requires_grad=True)
    _close(row, tables)
    free = [table.requires_grad_() for table in tables.values()]
    adam = torch.optim.Adam([*free, decoder, offset], lr=0.03)
    for _ in range(steps):
        y = member_output(row, tables, number, shown.read)
        scores = sign * (y @ decoder + offset) / (decoder.norm() * y.norm(dim=-1).amax() + 1e-9)
        loss = torch.logsumexp(-20 * scores, 0)
        adam.zero_grad()
        loss.backward()
        adam.step()
        with torch.no_grad():
            _close(row, tables)
    with torch.no_grad():
        return best_margin(member_output(row, tables, number, shown.read), shown.second)


def _close(row: str, tables: dict[str, Tensor]) -> None:
    """Return gates to their range; 1e-9 stands for 0, where a logarithm has no gradient."""
    for name in {"a", "b", "b2", "radius"} & set(tables):
        tables[name].clamp_(1e-9, 2.0 if row == "DeltaProduct" else 1.0)
