"""Sizes of the rooms of the house: one that outgrows its row in ARCHITECTURE.md is a decision."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: how far a room may be above its row
SLACK = 1.05
#: room -> its folders and the endings of its files; a file is in the first room that fits
ROOMS = {
    "lab": (("coefdyn/lab/",), (".py",)),
    "widgets": (("coefdyn/widgets/",), (".py",)),
    "library": (("coefdyn/",), (".py",)),
    "book": (("book/",), (".py",)),
    "tests": (("tests/",), (".py",)),
    "JavaScript and CSS": (("coefdyn/", "book/", "tests/"), (".js", ".mjs", ".css")),
    "code cells": (("book/",), (".md",)),
    "JSON, YAML, HTML, shell": (
        ("coefdyn/", "book/", "tests/"),
        (".json", ".yml", ".yaml", ".html", ".sh", ".toml"),
    ),
}
CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
#: options of a cell in the form of YAML
OPTIONS = re.compile(r"^---\n.*?^---\n", flags=re.DOTALL | re.MULTILINE)


def tracked() -> list[str]:
    if not (ROOT / ".git").exists():
        pytest.skip("no git checkout: the files of the project are not known")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True
    )
    return [path for path in listed.stdout.split("\0") if path and (ROOT / path).exists()]


def room_of(path: str) -> str | None:
    for name, (folders, endings) in ROOMS.items():
        if path.startswith(folders) and path.endswith(endings):
            return name
    return None


def size(room: str, text: str) -> int:
    """Lines of code; of chapters those of their cells, of data thousands of bytes."""
    if room == "code cells":
        cells = OPTIONS.sub("", "".join(CELL.findall(text)))
        return sum(bool(line.strip()) and not line.startswith(":") for line in cells.split("\n"))
    return len(text.encode()) if room.startswith("JSON") else text.count("\n")


def sizes() -> dict[str, int]:
    found = dict.fromkeys(ROOMS, 0)
    for path in tracked():
        room = room_of(path)
        if room is not None:
            found[room] += size(room, (ROOT / path).read_text(encoding="utf-8"))
    return found


def budgets() -> dict[str, int]:
    """Rows of the table in ARCHITECTURE.md: room -> what it may have."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]+?) \| ([\d ]+) \|", text, flags=re.MULTILINE)
    return {name: int(number.replace(" ", "")) for name, number in rows}


def test_no_room_has_outgrown_its_row():
    allowed, found = budgets(), sizes()
    assert set(allowed) == set(ROOMS), "ARCHITECTURE.md has a row for each room, and no other"
    above = {
        name: f"{count} of {allowed[name]}"
        for name, count in found.items()
        if count > SLACK * allowed[name]
    }
    assert not above, f"grown by more than 5 %: {above}. Delete a mechanism, or change the row."


def test_no_row_is_far_above_its_room():
    """A row that nobody lowered would let a room grow back unseen."""
    allowed, found = budgets(), sizes()
    loose = {
        name: f"{found[name]} of {count}"
        for name, count in allowed.items()
        if found[name] < count / SLACK
    }
    assert not loose, f"rows to lower in ARCHITECTURE.md: {loose}"


def test_rooms_are_told_apart():
    assert room_of("coefdyn/lab/places.py") == "lab"
    assert room_of("coefdyn/lens/run/trace.py") == "library"
    assert room_of("coefdyn/widgets/js/model.js") == "JavaScript and CSS"
    assert room_of("README.md") is None
    cell = "text\n```{code-cell}\n:tags: [key]\nx = 1\n\ny = 2\n```\nmore\n"
    assert size("code cells", cell) == 2
