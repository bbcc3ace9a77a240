"""Verify every Triton kernel on this machine's GPU, then time it beside its peers.

    python tests/gpu/run.py [--budget SECONDS] [--only verify|time] [--fresh] [--out FILE]

Needs torch and triton only; fla is timed beside if it is importable. Every result is written as
soon as it is there, and a later call continues where the last one stopped. Designs that are not
verified are not timed. Exit status 1 if a verification failed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "gpu"), str(ROOT / "tests"), str(ROOT)]

import timings  # noqa: E402
import torch  # noqa: E402
from comparison import check  # noqa: E402
from tolerances import tolerance  # noqa: E402

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
    ("diagonal", "exp", "row_sum", {}),
    ("diagonal", "softplus", "floored", {"log_scaled": True}),
    ("diagonal", "relu", "given", {}),
    ("scalar", "squared_relu", "row_sum", {}),
    ("diagonal", "squared_relu", "one", {}),
    ("householder", "exp", "row_sum", {}),
    ("scaled_householder", "softplus", "row_sum", {"own": True}),
    ("householder", "identity", "one", {"own": True}),
    ("scaled_householder", "identity", "one", {"own": True}),
    ("scaled_householder", "identity", "one", {}),
)
#: heads that between them use every tile, and lengths on both sides of every block
HEADS = (16, 40, 64, 128, 256)
LENGTHS = (1, 65, 300)


def cases() -> Iterator[tuple[str, Callable[[], dict]]]:
    """(key, run) of every verification."""
    for dtype in DTYPES:
        for head in HEADS:
            for length in LENGTHS:
                for structure, phi, eta, options in DESIGNS:
                    sizes = {"n": head, "dv": head, "batch": (2, 2), **options}
                    flags = " ".join(sorted(options))
                    key = f"{structure} {phi} {eta} {flags} {dtype} D={head} L={length}"

                    def run(args=(structure, phi, eta, length), sizes=sizes, dtype=dtype):
                        return check(*args, dtype=dtype, device="cuda", **sizes)

                    yield key, run


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

    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True
    ).stdout.strip()
    return {
        "device": torch.cuda.get_device_name(),
        "capability": list(torch.cuda.get_device_capability()),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "kernels": sources(),
        "commit": commit or "unknown",
    }


class Results:
    """The result file: continued if it comes from the same device, versions and kernels."""

    def __init__(self, path: Path, fresh: bool) -> None:
        self.path = path
        here = provenance()
        self.content = {"provenance": here, "verified": {}, "timed": {}}
        if path.exists() and not fresh:
            old = json.loads(path.read_text())
            same = {**old["provenance"], "commit": "", "date": ""} == {
                **here,
                "commit": "",
                "date": "",
            }
            if same:
                self.content = old

    def add(self, part: str, key: str, row: dict) -> None:
        self.content[part][key] = row
        self.content["provenance"]["date"] = datetime.now(UTC).isoformat(timespec="seconds")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(self.content, indent=1) + "\n")


def attempt(run: Callable[[], dict]) -> dict:
    """A row, or the error in its place; only running out of memory or of shared memory is one."""
    try:
        return run()
    except (torch.OutOfMemoryError, RuntimeError) as error:
        torch.cuda.empty_cache()
        return {"ok": False, "error": f"{type(error).__name__}: {str(error)[:300]}"}


def verify(results: Results, until: float) -> bool:
    """Run what is not verified yet; True when all is done."""
    for key, run in cases():
        if results.content["verified"].get(key, {}).get("ok"):
            continue
        if time.monotonic() > until:
            return False
        row = attempt(lambda run=run: judged(run()))
        results.add("verified", key, row)
        print("ok  " if row["ok"] else "FAIL", key, row.get("error", ""), flush=True)
    return True


def verified(results: Results, structure: str, phi: str, head: int, dtype: str) -> bool:
    """Whether every check of this cell at this head size has passed."""
    rows = [
        row["ok"]
        for key, row in results.content["verified"].items()
        if key.startswith(f"{structure} {phi} ") and f"{dtype} D={head} " in key
    ]
    return bool(rows) and all(rows)


def clock(results: Results, until: float) -> bool:
    """Time what is verified and not timed yet; True when all is done."""
    if "peaks" not in results.content:
        results.content["peaks"] = timings.peaks()
    for problem in timings.problems():
        key = problem.key
        if key in results.content["timed"] or not verified(
            results, problem.structure, problem.phi, problem.head, "torch.bfloat16"
        ):
            continue
        if time.monotonic() > until:
            return False
        row = attempt(
            lambda problem=problem: timings.time_problem(problem, results.content["peaks"])
        )
        results.add("timed", key, row)
        print(key, json.dumps(row), flush=True)
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--budget", type=float, default=3600.0, help="seconds")
    parser.add_argument("--only", choices=("verify", "time"))
    parser.add_argument("--fresh", action="store_true", help="forget earlier results")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print(
            "tests/gpu/run.py needs a CUDA device and found none; the same kernels are checked "
            "without one by tests/equivalence/test_triton_interpreter.py and test_triton_compile.py"
        )
        return 2
    until = time.monotonic() + options.budget
    results = Results(options.out, options.fresh)
    done = True
    if options.only != "time":
        done = verify(results, until)
    if options.only != "verify":
        done = clock(results, until) and done
    failed = [key for key, row in results.content["verified"].items() if not row["ok"]]
    print(f"{len(results.content['verified'])} verified, {len(failed)} failed,", end=" ")
    print(f"{len(results.content['timed'])} timed; {'done' if done else 'budget spent: run again'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
