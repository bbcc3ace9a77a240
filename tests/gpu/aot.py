"""Compile the Triton kernels for named GPUs on any machine; print registers, stack and memory.

    python tests/gpu/aot.py [--arch 80 90] [--dtype bfloat16] [--heads 64 128] [--only NAME ...]

Launches are recorded instead of run, so what is compiled is what a GPU would be given. Stack bytes
are what ptxas spilled. One JSON object per line.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

TYPES = {
    torch.float32: "*fp32",
    torch.float16: "*fp16",
    torch.bfloat16: "*bf16",
    torch.int32: "*i32",
}
CUOBJDUMP = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"


def record(launch) -> list[tuple[JITFunction, tuple, dict]]:
    """The kernel launches of one call, none of them run."""
    found: list[tuple[JITFunction, tuple, dict]] = []
    run = JITFunction.run

    def note(self, *args, grid, warmup, **kwargs):
        found.append((self, args, kwargs))

    JITFunction.run = note
    try:
        launch()
    finally:
        JITFunction.run = run
    return found


def source(kernel: JITFunction, args: tuple, kwargs: dict) -> tuple[ASTSource, dict]:
    """Input of the just-in-time compiler, and its options."""
    kwargs = dict(kwargs)
    options = {name: kwargs.pop(name) for name in ("num_warps", "num_stages")}
    named = dict(zip(kernel.arg_names, args, strict=False)) | kwargs
    signature, constants, attrs = {}, {}, {}
    for place, name in enumerate(kernel.arg_names):
        value = named[name]
        if isinstance(value, torch.Tensor):
            signature[name] = TYPES[value.dtype]
            attrs[(place,)] = [["tt.divisibility", 16]]
        elif kernel.params[place].is_constexpr:
            signature[name] = "constexpr"
            constants[(place,)] = value
        elif isinstance(value, int):
            signature[name] = "i32"
            if value % 16 == 0 and not kernel.params[place].do_not_specialize:
                attrs[(place,)] = [["tt.divisibility", 16]]
        else:
            signature[name] = "fp32"
    return ASTSource(kernel, signature, constants, attrs), options


def resources(cubin: bytes) -> dict[str, int]:
    """REG, STACK and SHARED of a compiled kernel."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        out = subprocess.run(
            [CUOBJDUMP, "-res-usage", file.name], capture_output=True, text=True, check=True
        ).stdout
    found = {name: int(value) for name, value in re.findall(r"(REG|STACK):(\d+)", out)}
    return {"registers": found["REG"], "stack_bytes": found["STACK"]}


def compile_for(arch: int, launch: tuple[JITFunction, tuple, dict]) -> dict[str, object]:
    src, options = source(*launch)
    begun = time.perf_counter()
    built = triton.compile(src, target=GPUTarget("cuda", arch, 32), options=options)
    return {
        "kernel": launch[0].__name__,
        "arch": arch,
        **resources(built.asm["cubin"]),
        "shared_bytes": built.metadata.shared,
        "warps": options["num_warps"],
        "seconds": round(time.perf_counter() - begun, 2),
    }


def problems(dtype: torch.dtype, head: int) -> dict[str, object]:
    """One call, forward and backward, of every structure; tensors are never read."""
    from own_readouts import KEY

    from coefdyn.execution.triton import (
        diagonal,
        householder,
        linear,
        pointwise,
        rank_one,
    )

    q = torch.zeros(1, 256, head, dtype=dtype, requires_grad=True)
    gate = torch.zeros(1, 256, requires_grad=True)
    ones = torch.ones(1, 256, 1)
    channels = torch.zeros(1, 256, head, requires_grad=True)

    def both(kernel, *args):
        def run():
            outputs = kernel(*args)
            outputs[0].sum().backward()

        return run

    return {
        "softmax": both(
            pointwise.rows_kernel, q, q, q, None, None, None, "exp", "row_sum", True, 0.125
        ),
        "softplus_scalar": both(
            pointwise.rows_kernel, q, q, q, gate, gate, None, "softplus", "row_sum", False, 1.0
        ),
        "own_readout": both(
            pointwise.rows_kernel, q, q, q, None, gate, None, KEY, "row_sum", False, 1.0
        ),
        "scalar": both(linear.scalar_kernel, q, q, q, gate, gate, None, 1.0),
        "row_sums": both(linear.scalar_kernel, q, q, ones, gate, gate, None, 1.0),
        "householder": both(householder.householder_kernel, q, q, q, gate, gate, gate, None, 1.0),
        "diagonal": both(diagonal.diagonal_kernel, q, q, q, gate, channels, None, 1.0),
        "rank_one": both(rank_one.rank_one_kernel, q, q, q, q, gate, channels, None, 1.0),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arch", type=int, nargs="+", default=[80, 90])
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--heads", type=int, nargs="+", default=[64, 128])
    parser.add_argument("--only", nargs="*", default=[])
    options = parser.parse_args()
    for head in options.heads:
        for name, run in problems(getattr(torch, options.dtype), head).items():
            if options.only and name not in options.only:
                continue
            for launch in record(run):
                for arch in options.arch:
                    row = compile_for(arch, launch)
                    print(json.dumps({"problem": name, "head": head} | row), flush=True)


if __name__ == "__main__":
    main()
