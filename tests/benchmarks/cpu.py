"""CPU benchmark of method="chunked" against its peers: ``python tests/benchmarks/cpu.py``.

Prints a table of ratios (peer time / our time, larger is better) and writes
data/benchmarks/cpu.json. ``--quick`` runs small sizes and writes nothing; ``--only NAME`` runs the
cases whose name or peer contains NAME (or the table "growth", "masks", "crossover" or "paths")
and leaves the rest of the file as it is.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path

import torch
from cases import CASES, Case, Pair, Size
from crossover import crossover_rows
from growth import growth_rows
from masks import mask_rows
from measure import paired_ms, peak_mib, print_rows, provenance
from paths import path_rows

#: tokens of the sequence on which the two sides must agree
SHORT = 600
OUTPUT = Path(__file__).resolve().parents[2] / "data" / "benchmarks" / "cpu.json"


def forward_only(run: Callable[..., torch.Tensor], leaves: list[torch.Tensor]) -> Callable:
    """A call without gradients."""

    def call() -> torch.Tensor:
        with torch.no_grad():
            return run(*leaves)

    return call


def forward_backward(
    run: Callable[..., torch.Tensor], leaves: list[torch.Tensor], grad: torch.Tensor
) -> Callable:
    """A call that returns y and the gradient of every leaf."""

    def call() -> tuple[torch.Tensor, ...]:
        y = run(*leaves)
        return y, *torch.autograd.grad(y, leaves, grad)

    return call


def relative_error(pair: Pair, grad: torch.Tensor) -> float:
    """Largest relative norm difference between the two sides, over y and all gradients."""
    first = forward_backward(pair.ours, pair.our_leaves, grad)()
    second = forward_backward(pair.peer, pair.peer_leaves, grad)()
    errors = []
    for a, b in zip(first, second, strict=True):
        b = b if a.shape == b.shape else b.transpose(1, 2)
        errors.append(float((a - b).norm() / b.norm()))
    return max(errors)


def gradient_like(pair: Pair) -> torch.Tensor:
    """The gradient that arrives at y."""
    generator = torch.Generator().manual_seed(1)
    return torch.randn(pair.our_leaves[2].shape, generator=generator)


def run_case(case: Case, size: Size) -> dict[str, object]:
    """Agreement on a short sequence, then times and peak memory at full size."""
    error = None
    if case.same:
        short = case.build(replace(size, length=min(size.length, SHORT)))
        error = relative_error(short, gradient_like(short))
        assert error < 1e-4, f"{case.name} and {case.peer} disagree by {error:.1e}"
    pair = case.build(size)
    grad = gradient_like(pair)
    ours, theirs = (
        forward_backward(run, leaves, grad)
        for run, leaves in ((pair.ours, pair.our_leaves), (pair.peer, pair.peer_leaves))
    )
    forward = paired_ms(
        forward_only(pair.ours, pair.our_leaves),
        forward_only(pair.peer, pair.peer_leaves),
        case.forward_repeats,
    )
    times: list[dict[str, float]] = []
    peer_peak = None
    if case.both_repeats > 1:
        times.append(paired_ms(ours, theirs, case.both_repeats))
        peer_peak = peak_mib(theirs)
    else:  # a peer that takes minutes is called once, for its time and its memory
        peer_peak = peak_mib(lambda: times.append(paired_ms(ours, theirs, 1)))
    return {
        "name": case.name,
        "peer": case.peer,
        **asdict(size),
        "relative_error": error,
        "forward": forward,
        "forward_backward": times[0],
        "peak_mib": {"ours": peak_mib(ours), "peer": peer_peak},
        "targets": {
            "forward": case.forward_target,
            "forward_backward": case.both_target,
            "memory": case.memory_target,
        },
    }


def print_row(row: dict) -> None:
    """One line of the table."""
    cells = []
    for key in ("forward", "forward_backward"):
        part, target = row[key], row["targets"][key]
        aim = "     " if target is None else f">={target:<4g}"
        cells.append(f"{part['ours_ms']:8.1f} {part['peer_ms']:9.1f} {part['ratio']:6.2f}x {aim}")
    memory = row["peak_mib"]
    share = ""
    if memory["ours"] is not None:
        share = f"{memory['ours']:6.0f} / {memory['peer']:6.0f} MiB"
    label = f"{row['name']} vs {row['peer']}"
    print(f"{label:<64} {cells[0]} {cells[1]} {share}", flush=True)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, nothing written")
    parser.add_argument("--only", default="", help="cases with this in their name or peer")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    size = Size(batch=1, heads=2, length=512) if options.quick else Size()
    heading = f"{'ms':>8} {'peer':>9} {'ratio':>7} {'aim':<6}"
    print(f"{asdict(size)}, one thread, CPU time")
    print(f"{'':<64} {'forward':<33}forward + backward")
    print(f"{'':<64} {heading} {heading} peak memory")
    rows = []
    for case in CASES:
        if options.only in f"{case.name} {case.peer}":
            sizes = {} if options.quick else case.sizes
            rows.append(run_case(case, replace(size, **sizes)))
            print_row(rows[-1])
    keep = (lambda result: None) if options.quick else write
    keep({"provenance": provenance(peer_versions()), "cases": rows})
    tables = {
        "growth": (growth_rows, "forward + backward, one sequence, one head, n = d_v = 64"),
        "masks": (mask_rows, "a window against no mask, auto, heads 2 x 4, n = d_v = 32"),
        "crossover": (crossover_rows, "forward + backward, ms; heads 2 x 4, n = d_v = 32"),
        "paths": (path_rows, ""),  # it prints as it goes
    }
    for name, (measured, title) in tables.items():
        if options.only in name:
            table = measured(quick=options.quick)
            if title:
                print_rows(title, table)
            whole = {"provenance": provenance({}), "rows": table} if name == "masks" else table
            keep({"cases": [], name: whole})


def peer_versions() -> dict[str, str]:
    """Installed versions of the peers."""
    return {name: version(name) for name in ("transformers", "fla-core")}


def write(result: dict) -> None:
    """Write the file; tables and rows of cases that were not run stay."""
    if OUTPUT.exists():
        old = json.loads(OUTPUT.read_text())
        fresh = {(row["name"], row["peer"]): row for row in result["cases"]}
        kept = [fresh.pop((row["name"], row["peer"]), row) for row in old["cases"]]
        if not result["cases"]:  # a table alone says nothing of when the cases were run
            result.pop("provenance", None)
        result = {**old, **result, "cases": [*kept, *fresh.values()]}
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    OUTPUT.write_text(json.dumps(result, indent=1) + "\n")
    print(f"written to {OUTPUT.relative_to(OUTPUT.parents[2])}")


if __name__ == "__main__":
    main(sys.argv[1:])
