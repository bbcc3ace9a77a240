"""What a run of tests cost and what it left out, over all the parts of `make test`.

    python tests/price.py FILE

prints the dearest tests of the parts that wrote into ``FILE`` (`pytest --notes FILE`), and as its
last line how many checks did not run, and why. A case whose price is above ``FAILS`` and that gives
no reason fails the run.

The price of a case is the smaller of two: seconds of the clock, and seconds of the processors that
this process, the processes it waited for and, of a test in a browser, the browser have used. On a
busy machine the clock runs on while a test waits for its turn, so that it would be dear by no
fault of its own; processors are charged to who uses them. Machines differ by a factor of two, and
so does one machine with its neighbours, which share its caches. So the seconds of a case that looks
too dear are those of the machine that ``LIMIT`` was chosen on: right after it a small piece of work
is timed, and they are divided by how much longer that takes than there. What a fixture of several
tests takes is listed with the test that came first and fails none, nor does a cell of a chapter,
whose price is what its reader waits for.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

import pytest

__all__ = ["Notes", "priced", "processor_seconds", "told", "too_dear"]

#: how many of the dearest tests are named
DEAREST = 25
#: seconds above which a case is marked, unless it says why with the mark "dear"
LIMIT = 5.0
#: seconds above which a case without a reason fails the run
FAILS = 2 * LIMIT
#: seconds that the piece of work takes on the machine that the limits were chosen on, left alone
WORK = 0.07


def processor_seconds(with_children: bool) -> float:
    """What this process and those it waited for have used; on request its live children too."""
    used = sum(os.times()[:4])
    if not with_children:
        return used
    import psutil

    for child in psutil.Process().children(recursive=True):
        try:
            used += sum(child.cpu_times()[:4])
        except psutil.Error:
            continue  # it has ended
    return used


def slowness() -> float:
    """How many times slower than there a processor is here and now; at least 1."""
    seconds = []
    for _ in range(3):
        before = time.process_time()
        sorted(str(number) for number in range(300_000))
        seconds.append(time.process_time() - before)
    return max(1.0, median(seconds) / WORK)


def priced(clock: float, processors: float) -> float:
    """What a case is charged for its seconds of the clock and of the processors."""
    seconds = min(clock, processors)
    return seconds / slowness() if seconds > FAILS else seconds


class Notes:
    """A plugin that takes a run's reports and adds them to a file as one line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.later: set[str] = set()
        self.seconds: Counter[str] = Counter()
        self.calls: dict[str, float] = {}
        self.reasons: dict[str, str] = {}
        self.skipped: Counter[str] = Counter()
        self.before: set[str] = set()
        self.passed: dict[str, str] = {}
        self.failed: set[str] = set()

    def pytest_runtest_logreport(self, report: Any) -> None:
        price = getattr(report, "price", report.duration)
        self.seconds[report.nodeid] += price
        if report.when == "call":
            self.calls[report.nodeid] = price
        for name, why in report.user_properties:
            if name == "dear":
                self.reasons[report.nodeid] = why
            if name == "made of" and report.when == "call" and report.passed:
                self.passed[report.nodeid] = why
        if report.failed:
            self.failed.add(report.nodeid)
        if report.skipped:
            why = report.longrepr[2] if isinstance(report.longrepr, tuple) else "expected to fail"
            self.skipped[re.sub(r"^Skipped: ", "", why)] += 1

    def pytest_deselected(self, items: list[Any]) -> None:
        left = (item for item in items if getattr(item, "is_left_to_the_whole_run", False))
        self.later.update(item.nodeid for item in left)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Each worker of xdist has left the same cases out."""
        told = getattr(node, "workeroutput", {})
        self.later.update(told.get("later", ()))
        self.before.update(told.get("passed", ()))

    def pytest_sessionfinish(self) -> None:
        from passed import record

        dearest = [(name, seconds, self.reasons.get(name, ""))
                   for name, seconds in self.seconds.most_common(DEAREST)]  # fmt: skip
        asked = {name: seconds for name, seconds in self.calls.items() if "::Cell " not in name}
        dear = {name: seconds for name, seconds in asked.items()
                if seconds > FAILS and not self.reasons.get(name)}  # fmt: skip
        line = {"dearest": dearest, "too dear": dear}
        line |= {"skipped": self.skipped, "later": sorted(self.later)}
        line |= {"before": sorted(self.before)}
        record({name: one for name, one in self.passed.items() if name not in self.failed},
               self.failed)  # fmt: skip
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def told(parts: list[dict[str, Any]]) -> list[str]:
    """The lines for a reader: the dearest tests of all parts, then what did not run."""
    dearest = [tuple(one) for part in parts for one in part["dearest"]]
    dearest.sort(key=lambda one: -one[1])
    lines = [f"== the {min(DEAREST, len(dearest))} dearest tests, in seconds"]
    for name, seconds, why in dearest[:DEAREST]:
        mark = f"  ({why})" if why else "  (no reason is given)" if seconds > LIMIT else ""
        lines.append(f"{seconds:7.1f}  {name}{mark}")
    lines += too_dear(parts)
    skipped = Counter[str]()
    for part in parts:
        skipped.update(part["skipped"])
    # Two parts can leave out the same case, and it is one check.
    later = len({name for part in parts for name in part["later"]})
    why = [f"{count} because: {reason}" for reason, count in skipped.most_common()]
    why += [f"{later} are left to `make test-all`"] if later else []
    before = len({name for part in parts for name in part["before"]})
    why += [f"{before} passed before, on the same files"] if before else []
    total = sum(skipped.values()) + later + before
    return [*lines, "; ".join([f"== did not run: {total} checks", *why])]


def too_dear(parts: list[dict[str, Any]]) -> list[str]:
    """A line for each case that fails the run by its price."""
    return [
        f"FAILED {name} takes {seconds:.1f} s: make it cheaper, or give @pytest.mark.dear(reason)"
        for part in parts
        for name, seconds in part["too dear"].items()
    ]


if __name__ == "__main__":
    notes = Path(sys.argv[1])
    text = notes.read_text(encoding="utf-8") if notes.exists() else ""
    found = [json.loads(line) for line in text.splitlines()]
    print("\n".join(told(found)))
    sys.exit(bool(too_dear(found)))
