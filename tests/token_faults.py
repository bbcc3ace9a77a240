"""Faults of one token each, put into the program one at a time: which does the sample find?

    python tests/token_faults.py run TREE [N ..]   put each into a checkout, run its tests there
    python tests/token_faults.py share             how many the old suite found, and the sample

`tests/golden/faults.txt` keeps the faults, which a seeded program drew from the text of `TEXT` in
proportion to the tokens of each room, with the test that finds each: among all tests of that text
(`old`), and in the sample of `make test` today (`new`). `run` gives each fault the tests that
`--tests` names, or the test that found it before, which has to pass without the fault, and writes
the outcome down. A fault that changes nothing that anybody could see is called equivalent, with the
reason.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OUTCOME = ROOT / "tests" / "golden" / "faults.txt"
#: The text that the faults were drawn from.
TEXT = "d83196c"
#: Seconds that the tests may take for one fault.
LIMIT = 150


@dataclass(frozen=True)
class Fault:
    """One change of `TEXT`: where, what, and which test of each suite found it."""

    number: str
    room: str
    kind: str
    path: str
    line: int
    column: int
    before: str
    after: str
    old: str = "?"
    new: str = "?"

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}:{self.column}"
        change = f"{self.before or 'nothing'} => {self.after or 'nothing'}"
        row = (self.number, self.room, self.kind, place, change, self.old, self.new)
        return "  |  ".join(row)

    @property
    def equivalent(self) -> bool:
        return self.old.startswith("equivalent")

    @classmethod
    def read(cls, row: str) -> Fault:
        number, room, kind, place, change, old, new = row.split("  |  ")
        path, line, column = place.split(":")
        before, after = (text if text != "nothing" else "" for text in change.split(" => "))
        return cls(number, room, kind, path, int(line), int(column), before, after, old, new)


@cache
def shown(path: str) -> str:
    """A file as it stands in `TEXT`."""
    words = ["git", "show", f"{TEXT}:{path}"]
    return subprocess.run(words, cwd=ROOT, capture_output=True, check=True).stdout.decode()


def place_in(tree: Path, fault: Fault) -> tuple[Path, int, int] | None:
    """File, line and column of the fault in another text; None where its line is gone.

    A change of a longer text is found by that text as well, where it stands once.
    """
    before, end = shown(fault.path).split("\n"), Path(fault.path).suffix
    every = [one for top in ("coefdyn", "book") for one in (tree / top).rglob(f"*{end}")]
    best: tuple[int, Path, int] | None = None
    for file in [tree / fault.path] if (tree / fault.path).exists() else every:
        lines = file.read_text("utf-8").split("\n")
        if before[fault.line - 1] not in lines:
            continue
        for block in SequenceMatcher(None, before, lines, autojunk=False).get_matching_blocks():
            at = fault.line - 1 - block.a
            if 0 <= at < block.size and (best is None or block.size > best[0]):
                best = block.size, file, block.b + at
    if best:
        return *best[1:], fault.column
    if len(fault.before) < 12:
        return None
    texts = [(file, file.read_text("utf-8").split("\n")) for file in every]
    found = [
        (file, number, line.index(fault.before))
        for file, lines in texts
        for number, line in enumerate(lines)
        if fault.before in line
    ]
    return found[0] if len(found) == 1 else None


def write(file: Path, text: str) -> None:
    """Writes a text at a time of its own, so that no cached bytecode is taken for it."""
    stamp = file.stat().st_mtime + 2
    file.write_text(text, "utf-8")
    os.utime(file, (stamp, stamp))


def pytest(tree: Path, tests: list[str], seconds: float) -> str:
    """The first test that fails; else `passed` or `stopped`."""
    words = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--sample"]
    here = {**os.environ, "PYTHONPATH": str(tree), "COEFDYN_TURN": "0"}
    process = subprocess.Popen(
        [*words, "-m", "not bench", *tests], cwd=tree, env=here, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    try:
        said = process.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return "stopped"
    failed = re.search(r"^(?:FAILED|ERROR) (\S+?(?:\[.*?\])?)(?: - .*)?$", said, re.M)
    if failed:
        return failed[1]
    return "passed" if process.returncode in (0, 5) else f"stopped with {process.returncode}"


def tried(tree: Path, fault: Fault, tests: list[str]) -> str:
    """The outcome of one fault."""
    found = place_in(tree, fault)
    if found is None:
        return "gone"
    file, line, column = found
    whole = file.read_text("utf-8")
    lines = whole.split("\n")
    head, tail = lines[line][:column], lines[line][column:]
    assert tail.startswith(fault.before), (fault, lines[line])
    lines[line] = head + fault.after + tail[len(fault.before) :]
    write(file, "\n".join(lines))
    try:
        told = pytest(tree, tests, LIMIT)
    finally:
        write(file, whole)
    return "not found" if told == "passed" else told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("command", choices=("run", "share"))
    parser.add_argument("tree", nargs="?", type=Path)
    parser.add_argument("numbers", nargs="*")
    parser.add_argument("--tests", nargs="+", default=[], metavar="TEST")
    asked = parser.parse_args()
    rows = OUTCOME.read_text("utf-8").split("\n") if OUTCOME.exists() else []
    faults = [Fault.read(row) for row in rows if "  |  " in row]
    for suite in ("old", "new") if asked.command == "share" else ():
        told = [getattr(one, suite) for one in faults if not one.equivalent]
        there = [one for one in told if one != "gone"]
        print(f"{suite}: {sum(one.startswith('tests/') for one in there)} of {len(there)} found")
    for fault in faults if asked.command == "run" else ():
        tests = asked.tests or [fault.new] * fault.new.startswith("tests/")
        if not tests or fault.equivalent or fault.number not in (asked.numbers or [fault.number]):
            continue
        tree = asked.tree.resolve()
        told = tried(tree, fault, tests)
        if told.startswith("tests/") and pytest(tree, [told], LIMIT) != "passed":
            told = "fails without the fault: " + told
        print(fault.number, told, flush=True)
        text, row = OUTCOME.read_text("utf-8"), replace(fault, new=told)
        OUTCOME.write_text(text.replace(str(fault), str(row)), "utf-8")


if __name__ == "__main__":
    main()
