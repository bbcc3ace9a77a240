"""What a run of tests cost and what it left out, over all the parts of `make test`.

    python tests/price.py FILE

prints the dearest tests of the parts that wrote into ``FILE`` (`pytest --notes FILE`), and as its
last line how many checks did not run, and why.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

__all__ = ["Notes", "told"]

#: how many of the dearest tests are named
DEAREST = 25
#: seconds above which a case is marked, unless it says why with the mark "dear"
LIMIT = 5.0


class Notes:
    """A plugin that takes a run's reports and adds them to a file as one line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.later: set[str] = set()
        self.seconds: Counter[str] = Counter()
        self.reasons: dict[str, str] = {}
        self.skipped: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.seconds[report.nodeid] += report.duration
        for name, why in report.user_properties:
            if name == "dear":
                self.reasons[report.nodeid] = why
        if report.skipped:
            why = report.longrepr[2] if isinstance(report.longrepr, tuple) else "expected to fail"
            self.skipped[re.sub(r"^Skipped: ", "", why)] += 1

    def pytest_deselected(self, items: list[Any]) -> None:
        left = (item for item in items if getattr(item, "is_left_to_the_whole_run", False))
        self.later.update(item.nodeid for item in left)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Each worker of xdist has left the same cases out."""
        self.later.update(getattr(node, "workeroutput", {}).get("later", ()))

    def pytest_sessionfinish(self) -> None:
        dearest = [(name, seconds, self.reasons.get(name, ""))
                   for name, seconds in self.seconds.most_common(DEAREST)]  # fmt: skip
        line = {"dearest": dearest, "skipped": self.skipped, "later": sorted(self.later)}
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
    skipped = Counter[str]()
    for part in parts:
        skipped.update(part["skipped"])
    # Two parts can leave out the same case, and it is one check.
    later = len({name for part in parts for name in part["later"]})
    why = [f"{count} because: {reason}" for reason, count in skipped.most_common()]
    why += [f"{later} are left to `make test-all`"] if later else []
    total = sum(skipped.values()) + later
    return [*lines, "; ".join([f"== did not run: {total} checks", *why])]


if __name__ == "__main__":
    notes = Path(sys.argv[1])
    text = notes.read_text(encoding="utf-8") if notes.exists() else ""
    print("\n".join(told([json.loads(line) for line in text.splitlines()])))
