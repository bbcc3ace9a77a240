"""The sample that `make test` runs, and what it tells at its end."""

from __future__ import annotations

import json
import random
from types import SimpleNamespace

import price
import sample
from sample import Case


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


def test_small_functions_are_whole_and_large_ones_are_not() -> None:
    kept = sample.sampled(suite())
    assert {one.name for one in product("a.py", "test_few", METHODS)} <= kept
    assert sum("test_methods" in name for name in kept) == 40  # one in six of 240
    assert 10 <= sum("test_causal" in name for name in kept) < 60


def test_the_order_of_the_tests_decides_nothing() -> None:
    cases = suite()
    kept = sample.sampled(cases)
    for seed in range(5):
        random.Random(seed).shuffle(cases)
        assert sample.sampled(cases) == kept


def test_items_of_pytest_become_cases() -> None:
    item = SimpleNamespace(
        nodeid="t/a.py::Some::test_it[x-1]", callspec=SimpleNamespace(_idlist=["x", "1"])
    )
    plain = SimpleNamespace(nodeid="t/a.py::test_plain")
    assert sample.cases_of([item, plain]) == [
        Case("t/a.py", "Some::test_it", item.nodeid, ("x", "1")),
        Case("t/a.py", "test_plain", plain.nodeid),
    ]


def test_what_did_not_run_is_the_last_line(tmp_path) -> None:
    path = tmp_path / "notes"
    notes = price.Notes(path)
    report = SimpleNamespace(nodeid="a::b", duration=6.0, user_properties=[], skipped=False)
    notes.pytest_runtest_logreport(report)
    explained = {"nodeid": "a::c", "user_properties": [("dear", "a whole server")]}
    notes.pytest_runtest_logreport(SimpleNamespace(**{**vars(report), **explained}))
    skip = {"nodeid": "a::d", "skipped": True, "longrepr": ("a.py", 1, "Skipped: no GPU")}
    notes.pytest_runtest_logreport(SimpleNamespace(**{**vars(report), **skip, "duration": 0.0}))
    notes.pytest_deselected([SimpleNamespace(nodeid="a::e", is_left_to_the_whole_run=True), report])
    notes.pytest_testnodedown(SimpleNamespace(workeroutput={"later": ["a::e"]}))
    notes.pytest_sessionfinish()
    again = price.Notes(path)
    again.pytest_testnodedown(SimpleNamespace(workeroutput={"later": ["a::e"]}))
    again.pytest_sessionfinish()
    lines = price.told([json.loads(line) for line in path.read_text().splitlines()])
    assert lines[1:3] == ["    6.0  a::b  (no reason is given)", "    6.0  a::c  (a whole server)"]
    assert lines[-1] == (
        "== did not run: 2 checks; 1 because: no GPU; 1 are left to `make test-all`"
    )
