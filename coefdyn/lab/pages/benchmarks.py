"""The benchmark files as Markdown for the book, generated from ``data/benchmarks``.

``cpu.json`` is written by ``make bench``, ``gpu.json`` by ``make gpu``. Book: "Computing
coefficients".
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from coefdyn.lab.pages.markdown import plain, table
from coefdyn.lab.places import data_folder
from coefdyn.options import check_choice

__all__ = [
    "cpu_markdown",
    "gpu_markdown",
    "growth_markdown",
    "load_benchmark",
    "masks_markdown",
    "times_markdown",
    "verification_markdown",
]

FILES = ("cpu", "gpu")
#: argument of every function here: a file's content, None where it has not been written
Found = Mapping[str, Any] | None
NOT_MEASURED = {
    "cpu": "CPU: not measured. `make bench` does it.",
    "gpu": "GPU: not measured. `make gpu` does it, on a machine that has one.",
}
#: entries of a row of times that do not name an implementation
NO_RUNS = ("triton", "roofline_share", "ok")


def load_benchmark(name: str, folder: Path | str | None = None) -> dict[str, Any] | None:
    """Load a benchmark file; None where it has not been written.

    Args:
        name: "cpu" or "gpu".
        folder: where it lies; None for ``data/benchmarks``.

    Raises:
        ValueError: for another name.
    """
    check_choice("name", name, FILES)
    folder = data_folder() / "benchmarks" if folder is None else Path(folder)
    path = folder / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def cpu_markdown(found: Found) -> str:
    """One row per peer: its time over ours, forward and with backward, and the peak memory."""
    if found is None:
        return NOT_MEASURED["cpu"]
    rows = []
    for case in found["cases"]:
        ratios = [f"{case[part]['ratio']:.2f}x" for part in ("forward", "forward_backward")]
        peak = case["peak_mib"]
        known = None not in peak.values()
        memory = f"{peak['ours']:.0f} of {peak['peer']:.0f} MiB" if known else "not measured"
        rows.append([plain(case["name"]), *ratios, memory, plain(case["peer"])])
    heads = ["ours", "forward", "forward + backward", "peak memory", "peer"]
    size = found["cases"][0]
    words = (
        f"Batch {size['batch']}, {size['heads']} heads, L = {size['length']:,}, "
        f"n = d_v = {size['dim']}"
    )
    return _with_caption(table(heads, rows), [words, *_machine(found)])


def growth_markdown(found: Found) -> str:
    """Microseconds per token by length and structure: level where the time grows linearly in L."""
    if found is None:
        return NOT_MEASURED["cpu"]
    lengths = sorted({row["length"] for row in found["growth"]})
    rows: dict[str, list[str]] = {}
    for row in sorted(found["growth"], key=lambda row: row["length"]):
        rows.setdefault(row["structure"], []).append(f"{row['us_per_token']:.1f}")
    heads = ["evolution", *(f"L = {length:,}" for length in lengths)]
    lines = table(heads, [[plain(name.replace("_", " ")), *cells] for name, cells in rows.items()])
    words = "Microseconds per token, forward and backward, one sequence, one head, n = d_v = 64"
    return _with_caption(lines, [words, *_machine(found)])


def masks_markdown(found: Found) -> str:
    """Time under a window over that without a mask, by structure and readout."""
    if found is None or "masks" not in found:
        return NOT_MEASURED["cpu"]
    kept = found["masks"]["rows"]
    columns = list(dict.fromkeys((row["readout"], row["window"]) for row in kept))
    rows: dict[str, list[str]] = {}
    for row in sorted(kept, key=lambda row: columns.index((row["readout"], row["window"]))):
        rows.setdefault(row["structure"], []).append(f"{row['ratio']:.2f}")
    heads = ["evolution", *(f"{phi}, window {size}" for phi, size in columns)]
    lines = table(heads, [[plain(name.replace("_", " ")), *cells] for name, cells in rows.items()])
    words = (
        f"Forward and backward under a window over the same without a mask, L = "
        f"{kept[0]['length']:,}, 2 x 4 heads, n = d_v = 32"
    )
    return _with_caption(lines, [words, *_machine(found["masks"])])


def gpu_markdown(found: Found, length: int = 4096) -> str:
    """Errors of the kernels against the reference on a GPU, then their times.

    Args:
        found: the file's content.
        length: which of the timed lengths, in tokens.
    """
    parts = [verification_markdown(found), times_markdown(found, length)]
    return "\n\n".join(dict.fromkeys(parts))  # "not measured" is said once


def times_markdown(found: Found, length: int = 4096) -> str:
    """One row per design and head size: our times, the roofline share, each peer's time over ours.

    Args:
        found: the file's content.
        length: which of the timed lengths, in tokens.
    """
    timed = _at_length({} if found is None else found["timed"], length)
    if found is None or not timed:
        return NOT_MEASURED["gpu"]
    rows = []
    for (structure, phi, head), row in timed.items():
        design = [plain(word) for word in (structure.replace("_", " "), phi, head)]
        if "triton" not in row:
            rows.append([*design, "failed", "", "", ""])
            continue
        ours, share = row["triton"], row["roofline_share"]
        times = [f"{ours[part]:.2f} ms" for part in ("forward_ms", "both_ms")]
        shares = f"{100 * share['forward']:.0f} % / {100 * share['both']:.0f} %"
        rows.append([*design, *times, shares, "; ".join(_peers(row)) or "none"])
    heads = ["evolution", "readout", "D", "forward", "forward + backward", "of the roofline"]
    lines = table([*heads, "peer's time over ours"], rows)
    size = found["provenance"]["size"]
    words = (
        f"Batch {size['batch']}, {size['heads']} heads of D channels, L = {length:,}, bfloat16; "
        "medians of CUDA events"
    )
    return _with_caption(lines, [words, *_machine(found)])


def verification_markdown(found: Found) -> str:
    """One row per dtype: cases that passed on the device, and their largest errors."""
    if found is None or not found["verified"]:
        return NOT_MEASURED["gpu"]
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for key, row in found["verified"].items():
        dtype = next(word for word in key.split() if word.startswith("torch."))
        groups.setdefault(dtype.removeprefix("torch."), []).append(row)
    rows = []
    for dtype, results in groups.items():
        passed = [row for row in results if row["ok"]]
        worst = [
            f"{max(row[part] for row in passed):.1e}" if passed else ""
            for part in ("output", "gradient")
        ]
        rows.append([plain(dtype), f"{len(passed)} of {len(results)}", *worst])
    heads = ["dtype", "passed", "largest error of an output", "of a gradient"]
    words = "Relative errors of the cases that passed"
    return _with_caption(table(heads, rows), [words, *_machine(found)])


def _at_length(
    timed: Mapping[str, Any], length: int
) -> dict[tuple[str, str, str], Mapping[str, Any]]:
    """Rows by (evolution, readout, head size), from keys such as "scalar exp D=64 L=4096"."""
    found = {}
    for key, row in timed.items():
        structure, phi, head, size = key.split()
        if size == f"L={length}":
            found[structure, phi, head.removeprefix("D=")] = row
    return found


def _peers(row: Mapping[str, Any]) -> Iterator[str]:
    """Ratios of each peer to ours, such as "fla 1.20x / 1.31x": forward, and with backward."""
    for name, peer in row.items():
        if name in NO_RUNS:
            continue
        if "error" in peer:
            yield f"{plain(name)} failed"
        else:
            parts = (peer[part] / row["triton"][part] for part in ("forward_ms", "both_ms"))
            yield f"{plain(name)} " + " / ".join(f"{ratio:.2f}x" for ratio in parts)


def _machine(found: Mapping[str, Any]) -> Sequence[str]:
    """Device, versions and day of a file."""
    kept = found["provenance"]
    device = kept.get("device") or f"{kept['cpu']}, {kept['threads']} thread"
    versions = {name: kept[name] for name in ("torch", "triton") if name in kept}
    versions |= kept.get("peers", {})
    said = [device, *(f"{name} {value}" for name, value in versions.items()), kept["date"][:10]]
    return [plain(words) for words in said]


def _with_caption(lines: str, words: Sequence[str]) -> str:
    return f"{lines}\n\n*{', '.join(words)}.*"
