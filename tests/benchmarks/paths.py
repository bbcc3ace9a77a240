"""Each path of ``chunked`` against the more general one that could take its place.

A path earns its code where it is FASTER times faster, forward and backward, at some size. The two
sides compute the same design: the general structure is given the special one's values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import torch
from measure import paired_ms, peak_mib
from torch.nn import functional

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.execution.chunked import diagonal_tokens
from coefdyn.execution.chunked.dispatch import default_chunk
from coefdyn.execution.chunked.pointwise import apply_tiles
from coefdyn.execution.chunked.rows import apply_rows

__all__ = ["FASTER", "path_rows", "print_paths"]

#: least ratio, at some size, that keeps a path
FASTER = 1.15
#: (heads, head size)
HEADS = ((8, 32), (8, 64), (4, 128))
LENGTHS = (64, 512, 2048, 8192)
#: multiply-adds of one measurement; more of them are measured fewer times
BUDGET = 2e10

Apply = Callable[[CoefficientDynamics, torch.Tensor], torch.Tensor]


class Comparison(NamedTuple):
    """A path, what would replace it, and their designs by (heads, head size, length)."""

    name: str
    path: Apply
    general: Apply
    special: Callable[..., CoefficientDynamics]
    equal: Callable[..., CoefficientDynamics]
    quadratic: bool = False
    value_dim: int | None = None


class Inputs:
    """Leaves of one size: everything that asks for a gradient."""

    def __init__(self, heads: int, n: int, length: int, value_dim: int | None) -> None:
        generator = torch.Generator().manual_seed(0)

        def normal(*shape: int) -> torch.Tensor:
            return torch.randn(1, heads, length, *shape, generator=generator)

        self.n = n
        self.q, self.k = normal(n).requires_grad_(), functional.normalize(normal(n), dim=-1)
        self.k.requires_grad_()
        self.z = functional.normalize(normal(n), dim=-1).requires_grad_()
        self.v = normal(value_dim or n).requires_grad_()
        self.beta = torch.sigmoid(normal()).requires_grad_()
        self.g = (-0.05 * normal().abs()).requires_grad_()

    def design(self, evolution: evolution.Evolution, phi=readout.identity, **rest):
        eta = normalizer.One() if phi.is_linear else normalizer.RowSum()
        return CoefficientDynamics(
            q=self.q,
            k=self.k,
            evolution=evolution,
            scaling=self.n**-0.5,
            readout=phi,
            normalizer=eta,
            **rest,
        )

    def rank_one(self, z: torch.Tensor) -> evolution.DiagonalPlusRankOne:
        """e^g (I - beta z z^T) as a diagonal and an outer product."""
        left = (self.beta * self.g.exp())[..., None] * z
        return evolution.DiagonalPlusRankOne(log_decay=self.channels, left=left, right=z)

    @property
    def channels(self) -> torch.Tensor:
        """The same decay in every channel."""
        return self.g[..., None].expand_as(self.k)


def chunked(dynamics: CoefficientDynamics, v: torch.Tensor) -> torch.Tensor:
    return dynamics.apply(v, method="chunked")


def without_tokens(dynamics: CoefficientDynamics, v: torch.Tensor) -> torch.Tensor:
    """``chunked`` without the form of one value channel."""
    kept, diagonal_tokens.MANY = diagonal_tokens.MANY, 2**60
    try:
        return chunked(dynamics, v)
    finally:
        diagonal_tokens.MANY = kept


def tiles(dynamics: CoefficientDynamics, v: torch.Tensor) -> torch.Tensor:
    return apply_tiles(dynamics, v, default_chunk(dynamics))


def rows(dynamics: CoefficientDynamics, v: torch.Tensor) -> torch.Tensor:
    return apply_rows(dynamics, v, default_chunk(dynamics))


def scalar(x: Inputs, phi=readout.identity) -> CoefficientDynamics:
    return x.design(evolution.Scalar(log_decay=x.g), phi)


def diagonal(x: Inputs, phi=readout.identity) -> CoefficientDynamics:
    return x.design(evolution.Diagonal(log_decay=x.channels), phi)


def shared(x: Inputs) -> CoefficientDynamics:
    """One q and one k for all heads, as in Mamba-2."""
    return replace(scalar(x), q=x.q[:, :1], k=x.k[:, :1])


def shared_apart(x: Inputs) -> CoefficientDynamics:
    """The same q and k, once per head."""
    return replace(scalar(x), q=x.q[:, :1].expand_as(x.q), k=x.k[:, :1].expand_as(x.k))


def strong(x: Inputs) -> CoefficientDynamics:
    """Two nats per token: what a chunk remembers of its start is far below rounding."""
    return x.design(evolution.Scalar(log_decay=x.g - 2.0))


def strong_diagonal(x: Inputs) -> CoefficientDynamics:
    return x.design(evolution.Diagonal(log_decay=x.channels - 2.0))


def plain(x: Inputs, phi=readout.identity) -> CoefficientDynamics:
    return x.design(evolution.Identity(), phi)


def no_decay(x: Inputs) -> CoefficientDynamics:
    return x.design(evolution.Diagonal(log_decay=torch.zeros_like(x.k)))


def along_key(x: Inputs) -> CoefficientDynamics:
    return x.design(evolution.Householder(direction=x.k, beta=x.beta, log_decay=x.g))


def as_own(x: Inputs) -> CoefficientDynamics:
    same = x.k.view_as(x.k)
    return x.design(evolution.Householder(direction=same, beta=x.beta, log_decay=x.g))


def own(x: Inputs) -> CoefficientDynamics:
    return x.design(evolution.Householder(direction=x.z, beta=x.beta, log_decay=x.g))


def own_as_rank_one(x: Inputs) -> CoefficientDynamics:
    return x.design(x.rank_one(x.z))


def softplus(make):
    return lambda x: make(x, readout.softplus)


def erasing(x: Inputs) -> CoefficientDynamics:
    return x.design(evolution.Householder(direction=x.k, beta=x.beta), readout.softplus)


def erasing_as_rank_one(x: Inputs) -> CoefficientDynamics:
    left = x.beta[..., None] * x.k
    still = torch.zeros_like(left)
    return x.design(
        evolution.DiagonalPlusRankOne(log_decay=still, left=left, right=x.k), readout.softplus
    )


def fading(x: Inputs) -> CoefficientDynamics:
    return replace(x.design(evolution.Identity(), readout.exp), outer_log_decay=x.g)


COMPARISONS = (
    Comparison("scalar / diagonal of equal entries", chunked, chunked, scalar, diagonal),
    Comparison("the same, two nats a token", chunked, chunked, strong, strong_diagonal),
    Comparison("scalar, shared q and k / per head", chunked, chunked, shared, shared_apart),
    Comparison("identity / diagonal of ones", chunked, chunked, plain, no_decay),
    Comparison("Householder z = k / own z", chunked, chunked, along_key, as_own),
    Comparison("Householder own z / rank one", chunked, chunked, own, own_as_rank_one),
    Comparison(
        "d_v = 1 by tokens / chunks", chunked, without_tokens, diagonal, diagonal, value_dim=1
    ),
    Comparison("plain tiles / rows", tiles, rows, softplus(plain), softplus(plain), True),
    Comparison("scalar tiles / rows", tiles, rows, softplus(scalar), softplus(scalar), True),
    Comparison("scalar / diagonal tiles", tiles, tiles, softplus(scalar), softplus(diagonal), True),
    Comparison("diagonal tiles / rows", tiles, rows, softplus(diagonal), softplus(diagonal), True),
    Comparison("Householder tiles / rows", tiles, rows, erasing, erasing, True),
    Comparison("Householder / rank-one tiles", tiles, tiles, erasing, erasing_as_rank_one, True),
    Comparison("attention's kernel / tiles, outer decay", chunked, tiles, fading, fading, True),
)


def _call(apply: Apply, make, x: Inputs, gradients: bool) -> Callable[[], object]:
    leaves = [x.q, x.k, x.v, x.z, x.beta, x.g]

    def call() -> object:
        if not gradients:
            with torch.no_grad():
                return apply(make(x), x.v)
        y = apply(make(x), x.v)
        return torch.autograd.grad(y, leaves, torch.ones_like(y), allow_unused=True)

    return call


def _repeats(heads: int, n: int, length: int, quadratic: bool) -> int:
    work = heads * n * length * (length if quadratic else 64) * 12
    return max(1, min(15, int(BUDGET / work)))


def path_rows(quick: bool) -> list[dict[str, float | int | str | None]]:
    """Every path at every size: milliseconds, ratios (general / path) and peak memory."""
    found = []
    for comparison in COMPARISONS:
        for heads, n in HEADS[: 1 if quick else None]:
            for length in LENGTHS[: 2 if quick else None]:
                if comparison.quadratic and length > 2048:
                    heads = 1
                count = 64 if comparison.value_dim else heads
                x = Inputs(count, n, length, comparison.value_dim)
                row = {"path": comparison.name, "heads": count, "n": n, "length": length}
                for gradients, kind in ((False, "forward"), (True, "both")):
                    ours = _call(comparison.path, comparison.special, x, gradients)
                    peer = _call(comparison.general, comparison.equal, x, gradients)
                    repeats = _repeats(count, n, length, comparison.quadratic)
                    row[kind] = paired_ms(ours, peer, repeats)
                row["peak_mib"] = {"path": peak_mib(ours), "general": peak_mib(peer)}
                found.append(row)
                print_paths(found[-1:], heading=len(found) == 1)
    return found


def print_paths(rows: list[dict], heading: bool = True) -> None:
    """One line per size; a star where the path is not FASTER times faster with gradients."""
    if heading:
        print("\npaths of chunked: ms of the path, of what is more general, and their ratio")
        print(f"{'path / what is more general':<42} heads x n   L   {'forward':<26}with gradients")
    for row in rows:
        cells = " ".join(
            f"{row[kind]['ours_ms']:8.2f} {row[kind]['peer_ms']:8.2f} {row[kind]['ratio']:5.2f}x"
            for kind in ("forward", "both")
        )
        star = "*" if row["both"]["ratio"] < FASTER else " "
        memory = row["peak_mib"]
        peak = "" if memory["path"] is None else f"{memory['path']:6.1f} / {memory['general']:6.1f}"
        size = f"{row['heads']:>3} x {row['n']:<3} {row['length']:>5}"
        print(f"{row['path']:<42} {size} {cells}{star} {peak} MiB", flush=True)
