"""``coefdyn.ops`` against fla's own plain functions on a CPU: ``python tests/benchmarks/ops.py``.

Prints one line per operation: median CPU time of forward and backward here and there, and the
ratio (theirs / ours, larger is better). fla's kernels need a GPU; what is compared with is what its
package has for a CPU. ``--length`` sets the tokens (B = 1, 4 heads of 64).
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable

import torch
from measure import paired_ms
from torch.nn import functional

from coefdyn import ops

warnings.simplefilter("ignore")
from fla.ops.delta_rule.naive import delta_rule_recurrence  # noqa: E402
from fla.ops.gated_delta_rule.naive import naive_chunk_gated_delta_rule  # noqa: E402
from fla.ops.gla.naive import naive_recurrent_gla  # noqa: E402
from fla.ops.kda.naive import naive_chunk_kda  # noqa: E402
from fla.ops.linear_attn.naive import naive_chunk_linear_attn  # noqa: E402
from fla.ops.simple_gla.naive import naive_chunk_simple_gla  # noqa: E402

HEADS, WIDTH = 4, 64
Pair = tuple[Callable[..., torch.Tensor], Callable[..., torch.Tensor], str]
#: operation -> (ours, theirs, names of the inputs)
PAIRS: dict[str, Pair] = {
    "chunk_gated_delta_rule": (
        lambda q, k, v, g, b: ops.chunk_gated_delta_rule(q, k, v, g, b)[0],
        lambda q, k, v, g, b: naive_chunk_gated_delta_rule(q, k, v, g, b)[0],
        "qkvgb",
    ),
    "chunk_delta_rule": (
        lambda q, k, v, b: ops.chunk_delta_rule(q, k, v, b)[0],
        lambda *x: delta_rule_recurrence(*(one.transpose(1, 2) for one in x))[0].transpose(1, 2),
        "qkvb",
    ),
    "chunk_gla": (
        lambda q, k, v, w: ops.chunk_gla(q, k, v, w)[0],
        lambda q, k, v, w: naive_recurrent_gla(q, k, v, w)[0],
        "qkvw",
    ),
    "chunk_simple_gla": (
        lambda q, k, v, g: ops.chunk_simple_gla(q, k, v, g)[0],
        lambda q, k, v, g: naive_chunk_simple_gla(q, k, v, g)[0],
        "qkvg",
    ),
    "chunk_kda": (
        lambda q, k, v, w, b: ops.chunk_kda(q, k, v, w, b)[0],
        lambda q, k, v, w, b: naive_chunk_kda(q, k, v, w, b)[0],
        "qkvwb",
    ),
    "chunk_linear_attn": (
        lambda q, k, v: ops.chunk_linear_attn(q, k, v, normalize=False)[0],
        lambda q, k, v: naive_chunk_linear_attn(q, k, v),
        "qkv",
    ),
}


def inputs(length: int) -> dict[str, torch.Tensor]:
    noise = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(1, length, HEADS, *shape, generator=noise)

    found = {
        "q": normal(WIDTH),
        "k": functional.normalize(normal(WIDTH), dim=-1),
        "v": normal(WIDTH),
        "g": -0.05 * normal().abs(),
        "w": -0.05 * normal(WIDTH).abs(),
        "b": normal().sigmoid(),
    }
    return {name: x.requires_grad_() for name, x in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    torch.set_num_threads(1)
    x = inputs(given.length)
    print(f"{'operation':24} {'ours, ms':>10} {'fla, ms':>10} {'ratio':>7}   {given.length} tokens")
    for name, (ours, theirs, letters) in PAIRS.items():
        leaves = [x[letter] for letter in letters]
        near = (ours(*leaves) - theirs(*leaves)).norm() / theirs(*leaves).norm()
        assert near < 1e-4, f"{name} differs from fla's plain function by {near:.1e}"

        def run(operation: Callable[..., torch.Tensor], leaves: list = leaves) -> object:
            return torch.autograd.grad(operation(*leaves).square().sum(), leaves)

        found = paired_ms(lambda: run(ours), lambda: run(theirs), given.repeats)  # noqa: B023
        print(
            f"{name:24} {found['ours_ms']:10.1f} {found['peer_ms']:10.1f} {found['ratio']:7.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
