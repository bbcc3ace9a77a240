"""Times of the Triton kernels and of their peers on one GPU: bfloat16, B 8, H 16.

Medians of CUDA-event times. The roofline share is against this device's own measured peaks: a
large bfloat16 product for pointwise readouts (operations of causal attention, backward 2.5 times
the forward), a large copy for linear ones (each input and output read or written once).
Pointwise readouts with a decay per channel have no peer: FlexAttention changes a score that is
there, and cannot multiply channels before they are summed.
"""

from __future__ import annotations

import functools
import importlib.util
import statistics
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch.nn import functional

from coefdyn import CoefficientDynamics, evolution, normalizer, readout

__all__ = ["Problem", "peaks", "problems", "time_problem"]

BATCH, HEADS_COUNT = 8, 16
HEADS = (64, 128)
LENGTHS = (2048, 4096, 8192, 16384, 32768)
READOUTS = {"exp": readout.exp, "softplus": readout.softplus, "identity": readout.identity}
CELLS = (
    ("identity", "exp"),
    ("scalar", "exp"),
    ("identity", "softplus"),
    ("scalar", "identity"),
    ("scaled_householder", "identity"),
    ("diagonal", "identity"),
    ("scaled_householder", "exp"),
    ("diagonal", "exp"),
    ("diagonal", "softplus"),
)


class Problem(NamedTuple):
    """One cell at one size."""

    structure: str
    phi: str
    head: int
    length: int

    @property
    def key(self) -> str:
        return f"{self.structure} {self.phi} D={self.head} L={self.length}"

    @property
    def linear(self) -> bool:
        return self.phi == "identity"


def problems() -> Iterator[Problem]:
    """Short sequences first."""
    for length in LENGTHS:
        for head in HEADS:
            for structure, phi in CELLS:
                yield Problem(structure, phi, head, length)


def median_ms(run: Callable[[], object], repeats: int = 10) -> float:
    """Median time of one call, after two to warm up."""
    for _ in range(2):
        run()
    times = []
    for _ in range(repeats):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times)


def peaks() -> dict[str, float]:
    """Measured here: TFLOP/s of a bfloat16 product, TB/s of a copy (read plus write)."""
    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    x = torch.empty(2**30, device="cuda", dtype=torch.uint8)
    y = torch.empty_like(x)
    return {
        "tflops": 2 * 8192**3 / median_ms(lambda: a @ a) / 1e9,
        "terabytes_per_s": 2 * x.numel() / median_ms(lambda: y.copy_(x)) / 1e9,
    }


class Tensors(NamedTuple):
    """Leaves of one problem, ``(B, H, L, ...)``, bfloat16."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    decay: torch.Tensor
    beta: torch.Tensor


def draw(problem: Problem) -> Tensors:
    generator = torch.Generator("cuda").manual_seed(0)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(
            BATCH, HEADS_COUNT, problem.length, *shape,
            generator=generator, device="cuda", dtype=torch.bfloat16,
        )  # fmt: skip

    q, k, v = (normal(problem.head) for _ in range(3))
    if problem.linear or problem.structure == "scaled_householder":
        k = functional.normalize(k.float(), dim=-1).to(k.dtype)
    gate = normal(problem.head) if problem.structure == "diagonal" else normal()
    leaves = (q, k, v, functional.logsigmoid(gate + 4.0), torch.sigmoid(normal()))
    return Tensors(*(x.detach().requires_grad_() for x in leaves))


def ours(problem: Problem, x: Tensors) -> torch.Tensor:
    """The design by method='triton'."""
    structures = {
        "identity": evolution.Identity,
        "scalar": lambda: evolution.Scalar(log_decay=x.decay),
        "diagonal": lambda: evolution.Diagonal(log_decay=x.decay),
        "scaled_householder": lambda: evolution.ScaledHouseholder(
            direction=x.k, beta=x.beta, log_decay=x.decay
        ),
    }
    design = CoefficientDynamics(
        q=x.q,
        k=x.k,
        evolution=structures[problem.structure](),
        scaling=x.beta if problem.structure == "scaled_householder" else problem.head**-0.5,
        readout=READOUTS[problem.phi],
        normalizer=normalizer.One() if problem.linear else normalizer.RowSum(),
    )
    return design.apply(x.v, method="triton")


@functools.cache
def _flex() -> tuple[Callable, Callable]:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    return torch.compile(flex_attention), create_block_mask


def flex(problem: Problem, x: Tensors) -> torch.Tensor:
    """FlexAttention: exp of the score, or of log softplus of the score, over the row sum."""
    attention, make_mask = _flex()
    mask = make_mask(lambda b, h, i, j: j <= i, None, None, problem.length, problem.length)

    def log_softplus(score, b, h, i, j):
        return torch.log(functional.softplus(score))

    modify = log_softplus if problem.phi == "softplus" else None
    return attention(x.q, x.k, x.v, score_mod=modify, block_mask=mask)


def peers(problem: Problem, x: Tensors) -> dict[str, Callable[[], torch.Tensor]]:
    """What can compute the same here, by name."""
    found: dict[str, Callable[[], torch.Tensor]] = {}
    if problem.structure == "identity":
        found["flex_attention"] = lambda: flex(problem, x)
        if problem.phi == "exp":
            found["torch_sdpa"] = lambda: functional.scaled_dot_product_attention(
                x.q, x.k, x.v, is_causal=True
            )
    if problem.linear and importlib.util.find_spec("fla"):
        found["fla"] = _fla(problem, x)
    return found


def _fla(problem: Problem, x: Tensors) -> Callable[[], torch.Tensor]:
    """fla's chunked kernel of the structure; it takes (B, L, H, D)."""
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule
    from fla.ops.gla import chunk_gla
    from fla.ops.simple_gla import chunk_simple_gla

    def turned(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach().transpose(1, 2).contiguous().requires_grad_()

    q, k, v, g, beta = (turned(t) for t in x)
    if problem.structure == "scalar":
        return lambda: chunk_simple_gla(q, k, v, g=g)[0]
    if problem.structure == "diagonal":
        return lambda: chunk_gla(q, k, v, g)[0]
    return lambda: chunk_gated_delta_rule(q, k, v, g, beta)[0]


def both_ways(run: Callable[[], torch.Tensor]) -> Callable[[], None]:
    """Forward and backward with a fixed incoming gradient."""
    grad = torch.ones_like(run().detach())
    return lambda: run().backward(grad)


def floor_ms(problem: Problem, peak: dict[str, float], backward: bool) -> float:
    """The least time that the device's peaks allow."""
    numbers = BATCH * HEADS_COUNT * problem.length * problem.head
    if problem.linear:
        tensors = 5 if problem.structure == "diagonal" else 4
        moved = 2 * numbers * (tensors + (2 * tensors if backward else 0))
        return moved / peak["terabytes_per_s"] / 1e9
    operations = 4 * numbers * problem.length / 2
    return operations * (3.5 if backward else 1.0) / peak["tflops"] / 1e9


def time_problem(problem: Problem, peak: dict[str, float]) -> dict[str, object]:
    """Milliseconds of ours and of every peer, and our share of the roofline."""
    x = draw(problem)
    runs = {"triton": lambda: ours(problem, x)} | peers(problem, x)
    row: dict[str, object] = {}
    for name, run in runs.items():
        try:
            with torch.no_grad():
                forward = median_ms(run)
            row[name] = {"forward_ms": forward, "both_ms": median_ms(both_ways(run))}
        except Exception as error:  # a peer's failure is a result, ours is not
            if name == "triton":
                raise
            row[name] = {"error": f"{type(error).__name__}: {str(error)[:200]}"}
    mine = row["triton"]
    row["roofline_share"] = {
        "forward": floor_ms(problem, peak, False) / mine["forward_ms"],
        "both": floor_ms(problem, peak, True) / mine["both_ms"],
    }
    return row
