"""Times of the Triton kernels and of their peers on one GPU: bfloat16, B 8, H 16.

Medians of CUDA-event times, taken while the device has been kept waiting, so that they hold no gaps
between launches; what the host takes to launch stands beside. The roofline share is against this
device's own measured peaks: a large bfloat16 product for pointwise readouts (operations of causal
attention, backward 2.5 times the forward), a large copy for linear ones (each input and output read
or written once).
"""

from __future__ import annotations

import functools
import importlib.util
import statistics
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch.nn import functional

from coefdyn import CoefficientDynamics, evolution, normalizer, readout

__all__ = ["Problem", "peaks", "problems", "time_problem"]

BATCH, HEADS_COUNT = 8, 16
HEADS = (64, 128)
#: the most telling first
LENGTHS = (4096, 2048, 16384, 8192, 32768)
DEVICE = "cuda"
#: seconds that the repeats of one measurement may take
SPAN = 2.0
#: clock cycles per second at most: how long a device is kept waiting
CYCLES = 2e9
READOUTS = {"exp": readout.exp, "softplus": readout.softplus, "identity": readout.identity}
CELLS = (
    ("identity", "exp"),
    ("scalar", "exp"),
    ("identity", "softplus"),
    ("scalar", "identity"),
    ("scaled_householder", "identity"),
    ("diagonal", "identity"),
    ("diagonal_plus_rank_one", "identity"),
)
ERASING = ("scaled_householder", "diagonal_plus_rank_one")
PER_CHANNEL = ("diagonal", "diagonal_plus_rank_one")


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
    """In the order of LENGTHS."""
    for length in LENGTHS:
        for head in HEADS:
            for structure, phi in CELLS:
                yield Problem(structure, phi, head, length)


class Time(NamedTuple):
    """Milliseconds of one call: of the device, and of the host to launch it."""

    device: float
    host: float


def median_ms(run: Callable[[], object], repeats: int = 10) -> Time:
    """Median times of one call, after two to warm up; fewer repeats of what takes long."""
    for _ in range(2):
        torch.cuda.synchronize()
        start = time.perf_counter()
        run()
        launched = time.perf_counter() - start
        torch.cuda.synchronize()
        whole = time.perf_counter() - start
    repeats = max(3, min(repeats, int(SPAN / whole)))
    device, host = [], []
    for _ in range(repeats):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(int(CYCLES * min(0.1, 2 * launched)))
        begin.record()
        start = time.perf_counter()
        run()
        host.append(1e3 * (time.perf_counter() - start))
        end.record()
        torch.cuda.synchronize()
        device.append(begin.elapsed_time(end))
    return Time(statistics.median(device), statistics.median(host))


def peaks() -> dict[str, float]:
    """Measured here: TFLOP/s of a bfloat16 product, TB/s of a copy (read plus write)."""
    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    x = torch.empty(2**30, device="cuda", dtype=torch.uint8)
    y = torch.empty_like(x)
    return {
        "tflops": 2 * 8192**3 / median_ms(lambda: a @ a).device / 1e9,
        "terabytes_per_s": 2 * x.numel() / median_ms(lambda: y.copy_(x)).device / 1e9,
    }


class Tensors(NamedTuple):
    """Leaves of one problem, ``(B, H, L, ...)``, bfloat16."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    decay: torch.Tensor
    beta: torch.Tensor


def draw(problem: Problem) -> Tensors:
    generator = torch.Generator(DEVICE).manual_seed(0)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(
            BATCH, HEADS_COUNT, problem.length, *shape,
            generator=generator, device=DEVICE, dtype=torch.bfloat16,
        )  # fmt: skip

    q, k, v = (normal(problem.head) for _ in range(3))
    if problem.linear:
        k = functional.normalize(k.float(), dim=-1).to(k.dtype)
    gate = normal(problem.head) if problem.structure in PER_CHANNEL else normal()
    leaves = (q, k, v, functional.logsigmoid(gate + 4.0), torch.sigmoid(normal()))
    return Tensors(*(x.detach().requires_grad_() for x in leaves))


def ours(problem: Problem, x: Tensors) -> torch.Tensor:
    """The design by method='triton'."""
    structures = {
        "identity": evolution.Identity,
        "scalar": lambda: evolution.Scalar(log_decay=x.decay),
        "diagonal": lambda: evolution.Diagonal(log_decay=x.decay),
        "scaled_householder": lambda: evolution.Householder(
            direction=x.k, beta=x.beta, log_decay=x.decay
        ),
        "diagonal_plus_rank_one": lambda: evolution.DiagonalPlusRankOne(
            log_decay=x.decay, left=x.beta[..., None] * x.k, right=x.decay.exp() * x.k
        ),
    }
    design = CoefficientDynamics(
        q=x.q,
        k=x.k,
        evolution=structures[problem.structure](),
        scaling=x.beta if problem.structure in ERASING else problem.head**-0.5,
        readout=READOUTS[problem.phi],
        normalizer=normalizer.One() if problem.linear else normalizer.RowSum(),
    )
    return design.apply(x.v, method="triton")


@functools.lru_cache(1)
def _flex(problem: Problem) -> tuple[Callable, object]:
    """FlexAttention compiled for one problem, and the causal mask, which is made once."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    torch.compiler.reset()  # after eight shapes it would no longer compile
    length = problem.length

    def causal(b, h, i, j):
        return j <= i

    mask = create_block_mask(causal, None, None, length, length, device=DEVICE)
    return torch.compile(flex_attention), mask


def flex(problem: Problem, x: Tensors) -> torch.Tensor:
    """FlexAttention: exp of the score, or of log softplus of the score, over the row sum."""
    attention, mask = _flex(problem)

    def log_softplus(score, b, h, i, j):
        return torch.log(functional.softplus(score))

    modify = log_softplus if problem.phi == "softplus" else None
    return attention(x.q, x.k, x.v, score_mod=modify, block_mask=mask)


Run = Callable[[], torch.Tensor]


def peers(problem: Problem, x: Tensors) -> dict[str, Callable[[], tuple[Run, tuple]]]:
    """Peers that can compute the same here, by name: a call and the tensors it differentiates."""
    found: dict[str, Callable[[], tuple[Run, tuple]]] = {}
    if problem.structure == "identity":
        found["flex_attention"] = lambda: (lambda: flex(problem, x), x[:3])
        if problem.phi == "exp":
            found["torch_sdpa"] = lambda: (
                lambda: functional.scaled_dot_product_attention(x.q, x.k, x.v, is_causal=True),
                x[:3],
            )
    if problem.linear and importlib.util.find_spec("fla"):
        found["fla"] = lambda: _fla(problem, x)
    return found


def _fla(problem: Problem, x: Tensors) -> tuple[Run, tuple]:
    """fla's chunked kernel of the structure; it takes (B, L, H, D)."""
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule
    from fla.ops.gla import chunk_gla
    from fla.ops.kda import chunk_kda
    from fla.ops.simple_gla import chunk_simple_gla

    def turned(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach().transpose(1, 2).contiguous().requires_grad_()

    q, k, v, g, beta = leaves = tuple(turned(t) for t in x)
    if problem.structure == "scalar":
        return lambda: chunk_simple_gla(q, k, v, g=g)[0], leaves[:4]
    if problem.structure == "diagonal":
        return lambda: chunk_gla(q, k, v, g)[0], leaves[:4]
    chunked = chunk_kda if problem.structure in PER_CHANNEL else chunk_gated_delta_rule
    return lambda: chunked(q, k, v, g, beta)[0], leaves


def both_ways(run: Run, leaves: tuple) -> Callable[[], object]:
    """Forward and backward with a fixed incoming gradient; gradients are not added to others."""
    grad = torch.randn_like(run().detach())
    return lambda: torch.autograd.grad(run(), leaves, grad, allow_unused=True)


def floor_ms(problem: Problem, peak: dict[str, float], backward: bool) -> float:
    """The least time that the device's peaks allow."""
    numbers = BATCH * HEADS_COUNT * problem.length * problem.head
    if problem.linear:
        tensors = {"diagonal": 5, "diagonal_plus_rank_one": 7}.get(problem.structure, 4)
        moved = 2 * numbers * (tensors + (2 * tensors if backward else 0))
        return moved / peak["terabytes_per_s"] / 1e9
    operations = 4 * numbers * problem.length / 2
    return operations * (3.5 if backward else 1.0) / peak["tflops"] / 1e9


def time_problem(problem: Problem, peak: dict[str, float]) -> dict[str, object]:
    """Milliseconds of ours and of every peer, and our share of the roofline."""
    x = draw(problem)
    runs = {"triton": lambda: (lambda: ours(problem, x), tuple(x))} | peers(problem, x)
    row: dict[str, object] = {}
    for name, make in runs.items():
        try:
            run, leaves = make()
            with torch.no_grad():
                forward = median_ms(run)
            both = median_ms(both_ways(run, leaves))
            row[name] = {
                "forward_ms": forward.device,
                "both_ms": both.device,
                "forward_host_ms": forward.host,
                "both_host_ms": both.host,
            }
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
