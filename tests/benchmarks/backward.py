"""Benefit of the handwritten backward passes over autograd through the same forward pass.

Both sides are called as ``dynamics.apply(v, method="chunked")``. Where a forward pass overwrites
what autograd keeps of it, ``allow_mutation_on_saved_tensors`` makes copies, and they are counted.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from unittest import mock

import torch
from measure import paired_ms, peak_mib
from torch import Tensor
from torch.autograd.graph import allow_mutation_on_saved_tensors
from torch.nn import functional

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.dynamics.mask import Mask
from coefdyn.execution.chunked.operators import Kernel

__all__ = [
    "READOUTS",
    "STRUCTURES",
    "backward_rows",
    "design",
    "gradient_errors",
    "leaves",
    "print_backward",
]

#: what an evolution and a readout make the forward pass run
STRUCTURES = (
    "identity",
    "scalar",
    "diagonal",
    "scaled_householder",
    "scaled_householder, direction of its own",
    "diagonal_plus_rank_one",
)
READOUTS = {"identity": readout.identity, "softplus": readout.softplus}
#: nats that one token in 32 forgets when the gradients' accuracy is measured
RESET = -20.0


def leaves(
    length: int, heads: Sequence[int], dim: int, reset: float | None = None
) -> dict[str, Tensor]:
    """Inputs of ``design`` in float64; one token in 32 forgets ``reset`` nats."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*heads, length, *shape, generator=generator, dtype=torch.float64)

    g = -functional.softplus(normal() - 3.0)
    gates = functional.logsigmoid(normal(dim)) / 16
    if reset is not None:
        g[..., 16::32], gates[..., 16::32, :] = reset, reset
    return {
        "q": normal(dim),
        "k": functional.normalize(normal(dim), dim=-1),
        "v": normal(dim),
        "z": functional.normalize(normal(dim), dim=-1),
        "beta": torch.sigmoid(normal()),
        "g": g,
        "gates": gates,
    }


def design(
    structure: str, phi: readout.Pointwise, x: dict[str, Tensor], only: Mask | None = None
) -> CoefficientDynamics:
    """A design of one of ``STRUCTURES`` from ``leaves``."""
    direction = x["z"] if "own" in structure else x["k"]
    name = structure.split(",")[0]
    evolutions: dict[str, Callable[[], evolution.Evolution]] = {
        "identity": evolution.Identity,
        "scalar": lambda: evolution.Scalar(log_decay=x["g"]),
        "diagonal": lambda: evolution.Diagonal(log_decay=x["gates"]),
        "scaled_householder": lambda: evolution.Householder(
            direction=direction, beta=x["beta"], log_decay=x["g"]
        ),
        "diagonal_plus_rank_one": lambda: evolution.DiagonalPlusRankOne(
            log_decay=x["gates"],
            left=x["beta"][..., None] * x["z"],
            right=x["gates"].exp() * x["z"],
        ),
    }
    return CoefficientDynamics(
        q=x["q"],
        k=x["k"],
        evolution=evolutions[name](),
        scaling=x["beta"] * x["q"].shape[-1] ** -0.5,
        readout=phi,
        normalizer=normalizer.One() if phi.is_linear else normalizer.RowSum(),
        mask=only,
    )


def _gradients(
    structure: str, phi: readout.Pointwise, x: dict[str, Tensor], method: str = "chunked"
) -> list[Tensor]:
    y = design(structure, phi, x).apply(x["v"], method=method)
    weights = torch.randn(y.shape, generator=torch.Generator().manual_seed(1)).to(y)
    return torch.autograd.grad(y, list(x.values()), weights, materialize_grads=True)


def _by_autograd(call: Callable[[], list[Tensor]], copies: bool) -> list[Tensor]:
    """The same call with every kernel's forward pass differentiated by torch."""
    plain = {"__call__": lambda kernel, *args: kernel.forward(*args)}
    kept = allow_mutation_on_saved_tensors() if copies else nullcontext()
    with mock.patch.multiple(Kernel, **plain, direct=plain["__call__"]), kept:
        warnings.filterwarnings("ignore", "Converting a tensor with requires_grad=True")
        return call()


def _needs_copies(call: Callable[[], list[Tensor]]) -> bool:
    """Return whether a forward pass overwrites tensors that autograd keeps of it."""
    try:
        _by_autograd(call, copies=False)
    except RuntimeError as error:
        if "inplace operation" in str(error):
            return True
        raise
    return False


def gradient_errors(structure: str, phi: readout.Pointwise) -> dict[str, float]:
    """Largest relative error of a gradient in float32, with decays that forget, by both."""
    exact = {name: x.requires_grad_() for name, x in leaves(256, [4], 32, RESET).items()}
    want = _gradients(structure, phi, exact, method="reference")
    rounded = {name: x.detach().float().requires_grad_() for name, x in exact.items()}

    def call() -> list[Tensor]:
        return _gradients(structure, phi, rounded)

    found = {"ours": call(), "autograd": _by_autograd(call, _needs_copies(call))}
    return {
        side: max(
            float((a - b).norm() / b.norm()) for a, b in zip(got, want, strict=True) if b.any()
        )
        for side, got in found.items()
    }


def backward_rows(quick: bool) -> list[dict[str, object]]:
    """Forward and backward at 16 heads, n = d_v = 64, L = 2048; float32."""
    rows = []
    for label, phi in READOUTS.items():
        for structure in STRUCTURES:
            sizes = {"length": 256 if quick else 2048, "heads": 2 if quick else 16, "dim": 64}
            x = {
                name: t.float().requires_grad_()
                for name, t in leaves(sizes["length"], [sizes["heads"]], sizes["dim"]).items()
            }

            def ours(structure: str = structure, phi=phi, x=x) -> list[Tensor]:
                return _gradients(structure, phi, x)

            copies = _needs_copies(ours)

            def theirs(ours: Callable = ours, copies: bool = copies) -> list[Tensor]:
                return _by_autograd(ours, copies)

            rows.append(
                {
                    "readout": label,
                    "structure": structure,
                    **sizes,
                    "copies": copies,
                    "forward_backward": paired_ms(ours, theirs, 5),
                    "peak_mib": {"ours": peak_mib(ours), "autograd": peak_mib(theirs)},
                    "error": gradient_errors(structure, phi),
                }
            )
    return rows


def print_backward(rows: list[dict]) -> None:
    """One line per structure and readout."""
    print("\nbackward passes written by hand against autograd through the same forward pass")
    print(f"{'':<52} {'ms':>8} {'autograd':>9} {'ratio':>7}  {'MiB':>13}  error of the gradients")
    for row in rows:
        times, memory, error = row["forward_backward"], row["peak_mib"], row["error"]
        label = f"{row['readout']}, {row['structure']}"
        peak = "" if memory["ours"] is None else f"{memory['ours']:.0f} / {memory['autograd']:.0f}"
        print(
            f"{label:<52} {times['ours_ms']:8.1f} {times['peer_ms']:9.1f} {times['ratio']:6.2f}x"
            f"  {peak:>13}  {error['ours']:.1e} / {error['autograd']:.1e}",
            flush=True,
        )
