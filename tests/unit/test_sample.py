"""The sample that `make test` runs, and what it tells at its end."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import passed
import price
import pytest
import sample
from sample import Case

from book.tools.chapters import ROOT


def product(file: str, function: str, *axes: list[str]) -> list[Case]:
    cases: list[tuple[str, ...]] = [()]
    for axis in axes:
        cases = [(*case, value) for case in cases for value in axis]
    return [Case(file, function, f"{file}::{function}[{'-'.join(v)}]", v) for v in cases]


MIXERS = [f"mixer{i}" for i in range(60)]
METHODS = ["auto", "parallel", "chunked", "recurrent"]


def suite() -> list[Case]:
    return [
        *product("a.py", "test_few", METHODS),
        *product("a.py", "test_methods", MIXERS, METHODS),
        *product("a.py", "test_causal", MIXERS),
        *product("b.py", "test_alone", MIXERS),
        Case("b.py", "test_plain", "b.py::test_plain"),
    ]


def test_every_function_and_every_value_of_a_file_occurs() -> None:
    cases = suite()
    kept = sample.sampled(cases)
    assert len(kept) < len(cases) / 2
    for key in {(one.file, one.function) for one in cases}:
        assert any((one.file, one.function) == key for one in cases if one.name in kept)
    for file in ("a.py", "b.py"):
        asked = {value for one in cases if one.file == file for value in one.values}
        assert asked == {v for one in cases if one.file == file and one.name in kept
                         for v in one.values}  # fmt: skip


def test_arguments_that_are_listed_together_have_a_value_each() -> None:
    params = {"structure": "scalar", "length": 65, "phi": lambda x: x}
    spec = SimpleNamespace(params=params, _idlist=["scalar-65-phi0"])
    (case,) = sample.cases_of(
        [SimpleNamespace(nodeid="a.py::test_b[scalar-65-phi0]", callspec=spec)]
    )
    assert (case.file, case.function) == ("a.py", "test_b")
    assert case.values == ("structure='scalar'", "length=65", "scalar-65-phi0")


def report(name: str, seconds: float = 6.0, **more: Any) -> SimpleNamespace:
    given = {"nodeid": name, "duration": seconds, "user_properties": [], "skipped": False}
    given |= {"passed": True, "failed": False}
    return SimpleNamespace(**{**given, "when": "call", **more})


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_what_did_not_run_is_the_last_line(tmp_path: Path) -> None:
    path = tmp_path / "notes"
    notes = price.Notes(path)
    notes.pytest_runtest_logreport(report("a::b"))
    notes.pytest_runtest_logreport(report("a::c", user_properties=[("dear", "a whole server")]))
    skipped = {"skipped": True, "longrepr": ("a.py", 1, "Skipped: no GPU")}
    notes.pytest_runtest_logreport(report("a::d", 0.0, **skipped))
    left = SimpleNamespace(nodeid="a::e", is_left_to_the_whole_run=True)
    notes.pytest_deselected([left, report("a::b")])
    notes.pytest_testnodedown(SimpleNamespace(workeroutput={"later": ["a::e"]}))
    notes.pytest_sessionfinish()
    again = price.Notes(path)
    again.pytest_testnodedown(SimpleNamespace(workeroutput={"later": ["a::e"]}))
    again.pytest_sessionfinish()
    lines = price.told(lines_of(path))
    assert lines[1:3] == ["    6.0  a::b  (no reason is given)", "    6.0  a::c  (a whole server)"]
    assert lines[-1] == (
        "== did not run: 2 checks; 1 because: no GPU; 1 are left to `make test-all`"
    )


def test_a_dear_case_without_a_reason_fails_the_run(tmp_path: Path) -> None:
    path = tmp_path / "notes"
    notes = price.Notes(path)
    notes.pytest_runtest_logreport(report("explained", 60.0, user_properties=[("dear", "why")]))
    notes.pytest_runtest_logreport(report("waited for its turn", 60.0, price=1.0))
    notes.pytest_runtest_logreport(report("book/a.ipynb::Cell 3", 60.0, price=60.0))
    notes.pytest_runtest_logreport(report("shared fixture", 60.0, when="setup"))
    notes.pytest_sessionfinish()
    script = [sys.executable, price.__file__, str(path)]
    assert subprocess.run(script, check=False, capture_output=True).returncode == 0
    again = price.Notes(path)
    again.pytest_runtest_logreport(report("dear", 60.0, price=12.0))
    again.pytest_sessionfinish()
    told = subprocess.run(script, check=False, capture_output=True, text=True)
    assert told.returncode == 1
    assert "FAILED dear takes 12.0 s" in told.stdout
    assert told.stdout.count("FAILED") == 1


@pytest.mark.parametrize(("factor", "expected"), [(0.5, 1.0), (1.0, 1.0), (2.0, 2.0)])
def test_a_slow_machine_is_not_the_fault_of_a_case(factor, expected, monkeypatch) -> None:
    ticks = (price.WORK * factor * turn for turn in (0, 1, 1, 2, 2, 3))
    monkeypatch.setattr(price.time, "process_time", lambda: next(ticks))
    assert price.slowness() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("clock", "processors", "expected"),
    [(60.0, 1.0, 1.0), (4.0, 8.0, 4.0), (60.0, 24.0, 12.0), (10.5, 13.0, 5.25)],
    ids=["waited for its turn", "in two processes", "dear", "on a slow machine"],
)
def test_the_smaller_of_two_times_is_charged(clock, processors, expected, monkeypatch) -> None:
    monkeypatch.setattr(price, "slowness", lambda: 2.0)
    assert price.priced(clock, processors) == expected


def case(name: str, *reads: str) -> SimpleNamespace:
    """A case of this file with the mark ``reads``."""
    closest = {"reads": SimpleNamespace(args=reads)}.get if reads else {}.get
    return SimpleNamespace(
        nodeid=f"tests/unit/test_sample.py::{name}",
        path=ROOT / "tests/unit/test_sample.py",
        get_closest_marker=closest,
        user_properties=[],
    )


def test_a_dear_case_that_passed_waits_until_what_it_reads_changes(tmp_path: Path) -> None:
    cases = [
        case("one", "coefdyn/shapes.py"),
        case("two", "tests/price.py"),
        case("no"),
    ]
    kept = tmp_path / "passed.json"
    assert passed.that_passed(cases, kept) == []
    notes = price.Notes(tmp_path / "notes")
    for one in cases:
        notes.pytest_runtest_logreport(report(one.nodeid, user_properties=one.user_properties))
    failed = {"when": "teardown", "passed": False, "failed": True}
    notes.pytest_runtest_logreport(report(cases[1].nodeid, **failed))
    passed.record(notes.passed, notes.failed, kept)
    assert [one.nodeid for one in passed.that_passed(cases, kept)] == [cases[0].nodeid]
    moved = [case("one", "coefdyn/options.py")]
    assert passed.that_passed(moved, kept) == []
    kept.write_text("<<<<<<<")
    assert passed.that_passed(cases, kept) == []
