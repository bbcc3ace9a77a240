"""Verify every Triton kernel on this machine's GPU, then time it beside its peers.

    python tests/gpu/run.py [--budget SECONDS] [--only verify|time] [--fresh] [--out FILE]

Needs torch, triton and numpy only; fla is timed beside if it is importable. What the times need is
verified first, in processes beside each other, as most of it is compiling; then the times are
taken, and the rest is verified. A case that crashes or hangs is a failure of its own and stops no
other. Every result is written as soon as it is there, and a later call continues where the last
one stopped. Designs that are not verified are not timed. Exit status 1 if anything failed.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import platform
import sys
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "gpu"), str(ROOT / "tests"), str(ROOT)]

import timings  # noqa: E402
import torch  # noqa: E402
from comparison import check  # noqa: E402
from tolerances import tolerance  # noqa: E402
from workers import Row, through  # noqa: E402

OUT = ROOT / "data" / "benchmarks" / "gpu.json"
KERNELS = ROOT / "coefdyn" / "execution" / "triton"
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
#: (structure, readout, normalizer, further options)
DESIGNS: tuple[tuple[str, str, str, dict], ...] = (
    ("identity", "exp", "row_sum", {}),
    ("scalar", "exp", "row_sum", {}),
    ("identity", "exp", "one", {}),
    ("identity", "softplus", "row_sum", {}),
    ("scalar", "softplus", "floored", {"log_scaled": True}),
    ("identity", "relu", "row_sum", {}),
    ("scalar", "relu", "given", {}),
    ("identity", "identity", "one", {}),
    ("scalar", "identity", "one", {}),
    ("scalar", "identity", "floored", {"log_scaled": True}),
    ("diagonal", "identity", "one", {}),
    ("scalar", "squared_relu", "row_sum", {}),
    ("householder", "identity", "one", {"own": True}),
    ("scaled_householder", "identity", "one", {"own": True}),
    ("scaled_householder", "identity", "one", {}),
    ("diagonal_plus_rank_one", "identity", "one", {}),
    ("diagonal_plus_rank_one", "identity", "floored", {"log_scaled": True}),
)
#: heads that between them use every tile; kernels of other lengths than 1 are compiled apart where
#: 16 divides them, as it does those that are timed
HEADS = (16, 40, 64, 128, 256)
LENGTHS = (300, 320, 65, 1)
#: seconds that one case may take; what is timed first
LIMIT = {"verified": 180.0, "timed": 300.0}


def cases() -> dict[str, tuple[tuple, dict]]:
    """key -> arguments of ``check``, of every verification; what the times need comes first."""
    found = {}
    for dtype in (torch.bfloat16, torch.float32, torch.float16):
        for length in LENGTHS:
            for head in sorted(HEADS, key=lambda head: head not in timings.HEADS):
                for structure, phi, eta, options in DESIGNS:
                    if (phi, eta, dtype) == ("exp", "one", torch.float16):
                        continue  # the result itself leaves float16's range
                    sizes = {"n": head, "dv": head, "batch": (2, 2), **options}
                    flags = " ".join(sorted(options))
                    key = f"{structure} {phi} {eta} {flags} {dtype} D={head} L={length}"
                    found[key] = ((structure, phi, eta, length), {"dtype": dtype, **sizes})
    return found


def timed_first(key: str) -> bool:
    """Return whether the times need this verification."""
    sizes = [f"D={head} L={length}" for head in timings.HEADS for length in LENGTHS[:2]]
    return "torch.bfloat16" in key and any(key.endswith(size) for size in sizes)


def perform(part: str, key: str, peaks: dict[str, float] | None = None) -> Row:
    """One result, in a process of its own."""
    if part == "peaks":
        return timings.peaks()
    if part == "timed":
        (problem,) = (p for p in timings.problems() if p.key == key)
        return timings.time_problem(problem, peaks)
    args, options = cases()[key]
    return judged(check(*args, device="cuda", **options))


def judged(row: dict) -> dict:
    """The largest errors, and whether all are within the table of tolerances."""
    dtype = getattr(torch, row["dtype"])
    output = row["errors"].pop("output")
    gradient = max(row["errors"].values(), default=0.0)
    worst = max(row["errors"], key=row["errors"].get, default="")
    ok = output <= tolerance("triton", dtype, "output")
    ok = ok and gradient <= tolerance("triton", dtype, "gradient") and not row["missing"]
    return {"output": output, "gradient": gradient, "worst_gradient": worst, "ok": ok}


def sources() -> str:
    """A digest of the kernels: results of other kernels are not continued."""
    digest = hashlib.sha256()
    for path in sorted(KERNELS.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def provenance() -> dict[str, object]:
    import triton

    from coefdyn.lab.training.provenance import code_revision

    return {
        "device": torch.cuda.get_device_name(),
        "capability": list(torch.cuda.get_device_capability()),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "size": {"batch": timings.BATCH, "heads": timings.HEADS_COUNT},
        "kernels": sources(),
        "commit": code_revision(),
    }


class Results:
    """The result file: continued if it comes from the same device, versions and kernels."""

    def __init__(self, path: Path, fresh: bool, here: dict[str, object]) -> None:
        self.path = path
        self.content: dict = {"provenance": here, "verified": {}, "timed": {}}
        if path.exists() and not fresh:
            old = json.loads(path.read_text())
            changing = {"commit": "", "date": ""}
            if {**old["provenance"], **changing} == {**here, **changing}:
                self.content = old

    def add(self, part: str, key: str, row: Row) -> None:
        self.content[part][key] = row
        self.write()

    def write(self) -> None:
        """Whole or not at all: a call that is killed leaves the last file."""
        self.content["provenance"]["date"] = datetime.now(UTC).isoformat(timespec="seconds")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        whole = self.path.with_name(self.path.name + ".new")
        whole.write_text(json.dumps(self.content, indent=1) + "\n")
        os.replace(whole, self.path)

    def missing(self, part: str, keys: Iterable[str]) -> list[str]:
        """Cells without a result, then cells that failed before."""
        rows = self.content[part]
        left = [key for key in keys if not rows.get(key, {"ok": False}).get("ok", True)]
        return sorted(left, key=rows.__contains__)


def verify(results: Results, keys: list[str], until: float, jobs: int) -> bool:
    """Run what is not verified yet; True when all is done."""
    left = [("verified", key) for key in results.missing("verified", keys)]
    limit = LIMIT["verified"]
    for (_, key), row in through(left, perform, processes=jobs, until=until, limit=limit):
        results.add("verified", key, row)
        print("ok  " if row["ok"] else "FAIL", key, row if not row["ok"] else "", flush=True)
    return set(keys) <= results.content["verified"].keys()


def verified(results: Results, structure: str, phi: str, head: int, dtype: str) -> bool:
    """Return whether every check of this cell at this head size has passed."""
    rows = [
        row["ok"]
        for key, row in results.content["verified"].items()
        if key.startswith(f"{structure} {phi} ") and f"{dtype} D={head} " in key
    ]
    return bool(rows) and all(rows)


def clock(results: Results, until: float) -> bool:
    """Time what is verified and not timed yet, one after another; True when all is done."""
    limit = LIMIT["timed"]
    if "peaks" not in results.content:
        for _, row in through([("peaks", "")], perform, processes=1, until=until, limit=limit):
            if "error" in row:
                print("FAIL peaks", row["error"], flush=True)
                return False
            results.content["peaks"] = row
            results.write()
    peaks = results.content.get("peaks")
    ready = [
        problem.key
        for problem in timings.problems()
        if verified(results, problem.structure, problem.phi, problem.head, "torch.bfloat16")
    ]
    left = [("timed", key, peaks) for key in results.missing("timed", ready)]
    for (_, key, _), row in through(left, perform, processes=1, until=until, limit=limit):
        results.add("timed", key, row)
        print(key, json.dumps(row), flush=True)
    return {p.key for p in timings.problems()} <= results.content["timed"].keys()


def summary(results: Results, done: bool) -> list[str]:
    """The failures, and what is there; returns the failures."""
    rows = {**results.content["verified"], **results.content["timed"]}
    failed = [key for key, row in rows.items() if not row.get("ok", True)]
    for key in failed:
        print("failed:", key, json.dumps(rows[key]))
    print(f"{len(results.content['verified'])} verified,", end=" ")
    print(f"{len(results.content['timed'])} timed, {len(failed)} of both failed", end="; ")
    print("done" if done else "not all is there: run again")
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--budget", type=float, default=3600.0, help="seconds")
    parser.add_argument("--only", choices=("verify", "time"))
    parser.add_argument("--jobs", type=int, default=min(8, os.cpu_count() or 1), help="processes")
    parser.add_argument("--fresh", action="store_true", help="forget earlier results")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    until = time.monotonic() + options.budget
    if not torch.cuda.is_available():
        print(
            "tests/gpu/run.py needs a CUDA device and found none; the same kernels are checked "
            "without one by tests/equivalence/test_triton_interpreter.py and test_triton_compile.py"
        )
        return 2
    results = Results(options.out, options.fresh, provenance())
    if importlib.util.find_spec("fla") is None:
        print("fla is not installed: its kernels are not timed beside", flush=True)
    first, rest = [], []
    for key in cases():
        (first if timed_first(key) else rest).append(key)
    done = True
    if options.only != "time":
        done = verify(results, first, until, options.jobs)
    if options.only != "verify":
        done = clock(results, until) and done
    if options.only != "time":
        done = verify(results, rest, until, options.jobs) and done
    return 1 if summary(results, done) else 0


if __name__ == "__main__":
    sys.exit(main())
