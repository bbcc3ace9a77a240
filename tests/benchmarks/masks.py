"""What a mask costs: every structure with a window, against the same design without one."""

from __future__ import annotations

from collections.abc import Callable

import torch
from backward import STRUCTURES, design, leaves
from measure import paired_ms
from torch import Tensor

from coefdyn import mask, readout
from coefdyn.dynamics.mask import Mask

__all__ = ["mask_rows", "print_masks"]

#: tokens that one reads under the window
WINDOWS = (16, 64)
READOUTS = {"identity": readout.identity, "relu": readout.relu, "exp": readout.exp}


def _call(
    structure: str, phi: readout.Pointwise, x: dict[str, Tensor], only: Mask | None
) -> Callable[[], None]:
    def call() -> None:
        y = design(structure, phi, x, only).apply(x["v"])
        torch.autograd.grad(y, list(x.values()), torch.ones_like(y), materialize_grads=True)

    return call


def mask_rows(quick: bool) -> list[dict[str, object]]:
    """Forward and backward of "auto" at 2 x 4 heads, n = d_v = 32; float32."""
    rows = []
    for name, phi in READOUTS.items():
        for structure in STRUCTURES:
            length = 512 if quick else 2048
            x = {name: t.float().requires_grad_() for name, t in leaves(length, [2, 4], 32).items()}
            plain = _call(structure, phi, x, None)
            for size in WINDOWS:
                masked = _call(structure, phi, x, mask.Window(size))
                times = paired_ms(plain, masked, 3)
                row = {"readout": name, "structure": structure, "length": length, "window": size}
                cost = {"none_ms": times["ours_ms"], "mask_ms": times["peer_ms"]}
                rows.append({**row, **cost, "ratio": times["ratio"]})
    return rows


def print_masks(rows: list[dict]) -> None:
    """One line per structure, readout and window."""
    print("\na window against no mask, auto, forward + backward, ms; heads 2 x 4, n = d_v = 32")
    print(f"{'':<52} {'L':>5} {'window':>7} {'none':>9} {'mask':>9} {'ratio':>7}")
    for row in rows:
        label = f"{row['readout']}, {row['structure']}"
        print(
            f"{label:<52} {row['length']:>5} {row['window']:>7} {row['none_ms']:9.1f}"
            f" {row['mask_ms']:9.1f} {row['ratio']:6.2f}x",
            flush=True,
        )
