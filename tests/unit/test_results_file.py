"""Result files: atomic appends, repair after a kill, several processes, a full disk."""

from __future__ import annotations

import errno
import json
import math
import multiprocessing
import os
from pathlib import Path

import pytest

from coefdyn.lab.training import ResultFile, ResultsNotWritten
from coefdyn.lab.training.results import config_key, plain

REST = {
    "seed": 0,
    "config": {"seed": 0},
    "metrics": {"step": [1, 2], "accuracy": [0.25, 0.5], "loss": [2.0, None]},
    "final": {"accuracy": 0.5, "loss": None},
    "diagnostics": {},
    "diverged_at": None,
    "solved": False,
    "wall_s": 1.0,
    "device": "cpu",
    "torch": "2",
    "revision": "0",
    "timestamp": "2026-01-01",
}


def record(key: str, **more) -> dict:
    return {"key": key, **REST, **more}


def test_append_and_read_back(tmp_path):
    file = ResultFile(tmp_path / "a" / "b.jsonl")
    assert file.records() == []
    file.append(record("1", accuracy=0.5))
    file.append(record("2", loss=math.nan))
    assert file.records() == [record("1", accuracy=0.5), record("2", loss=None)]
    assert file.keys() == {"1", "2"}


def write_forty(path: Path, name: str) -> None:
    for number in range(40):
        pad = "x" * (1 + 977 * number % 20011)
        ResultFile(path).append({"key": f"{name}-{number}", "pad": pad})


def test_two_processes_on_one_file_do_not_interleave(tmp_path):
    path = tmp_path / "shared.jsonl"
    fork = multiprocessing.get_context("fork")
    writers = [fork.Process(target=write_forty, args=(path, name)) for name in "ab"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(timeout=600)
    assert [writer.exitcode for writer in writers] == [0, 0]
    lines = path.read_text().splitlines()
    assert len(lines) == 80
    assert {json.loads(line)["key"] for line in lines} == {
        f"{name}-{number}" for name in "ab" for number in range(40)
    }


@pytest.mark.parametrize("cut", [1, 5, 12, 70_000])
def test_a_torn_last_line_is_left_out_and_repaired(tmp_path, cut):
    """As a kill in the middle of a write leaves it, also when longer than the read block."""
    file = ResultFile(tmp_path / "r.jsonl")
    file.append(record("1"))
    file.append(record("2", pad="y" * 80_000))
    whole = file.path.read_bytes()
    file.path.write_bytes(whole[:-cut])
    if cut == 1:  # only the newline is missing: the record is complete
        assert file.keys() == {"1", "2"}
        file.append(record("3"))
        assert file.keys() == {"1", "2", "3"}
        return
    assert file.keys() == {"1"}
    file.append(record("3"))
    assert [one["key"] for one in file.records()] == ["1", "3"]
    assert all(json.loads(line) for line in file.path.read_text().splitlines())


def test_damage_in_the_middle_is_an_error_with_its_line(tmp_path):
    file = ResultFile(tmp_path / "r.jsonl")
    file.append(record("1"))
    file.path.write_bytes(b"{broken\n" + file.path.read_bytes())
    with pytest.raises(ValueError, match=r"r\.jsonl .*line 1 is not JSON"):
        file.records()


def without(name: str) -> dict:
    return {key: value for key, value in record("1").items() if key != name}


DAMAGED = {
    "7": "it is a int",
    "[]": "it is a list",
    "{}": "'key' is missing",
    "null": "it is a NoneType",
    '"text"': "it is a str",
    "{broken": "is not JSON",
    "[" * 100_000: "is not JSON",
    json.dumps(record("1"))[:-9]: "is not JSON",
    **{json.dumps(without(name)): f"'{name}' is missing" for name in ("key", *REST)},
    json.dumps(record("1", config=3)): "'config' is no dict",
    json.dumps(record("1", seed=True)): "'seed' is no int",
    json.dumps(record("1", seed=4)): "its seed is 4, and that of its configuration 0",
    json.dumps(record("1", diverged_at="3")): "'diverged_at' is no int or NoneType",
    json.dumps(record("1", final={})): "'final' holds no accuracy",
    json.dumps(record("1", final={"accuracy": None})): "accuracy of None",
    json.dumps(record("1", final={"accuracy": True})): "accuracy of True",
    json.dumps(record("1", final={"accuracy": 7.0})): r"accuracy of 7\.0",
    json.dumps(record("1", final={"accuracy": "high"})): "accuracy of 'high'",
    json.dumps(record("1", final={"accuracy": 0.5, "loss": "low"})): "'loss' of 'final'",
    json.dumps(record("1", final={"seconds": "3"})): "'seconds' is no int or float",
    json.dumps(record("1", metrics={})): "'metrics' holds no step",
    json.dumps(record("1", metrics={"step": [1, 2], "accuracy": [0.5]})): "differ in length",
    json.dumps(record("1", metrics={"step": 1, "accuracy": [0.5]})): "'step' of 'metrics'",
    json.dumps(record("0", final={"accuracy": 0.25})): "the key of line 1 and other numbers",
}


@pytest.mark.parametrize("line", DAMAGED, ids=list(DAMAGED.values()))
def test_a_damaged_line_is_an_error_with_its_number_and_what_is_wrong(tmp_path, line):
    file = ResultFile(tmp_path / "r.jsonl")
    file.append(record("0"))
    file.path.write_text(file.path.read_text() + line + "\n")
    with pytest.raises(ValueError, match=rf"r\.jsonl was edited .*line 2 .*{DAMAGED[line]}"):
        file.records()


def test_every_damaged_line_is_named(tmp_path):
    file = ResultFile(tmp_path / "r.jsonl")
    file.path.write_text("7\n" + json.dumps(record("1")) + "\n{broken\n" + "{}\n")
    with pytest.raises(ValueError, match="edited or damaged") as caught:
        file.records()
    assert [f"line {number} is" in str(caught.value) for number in (1, 2, 3, 4)] == [1, 0, 1, 1]


def test_a_line_that_stands_twice_and_a_second_time_are_no_damage(tmp_path):
    file = ResultFile(tmp_path / "r.jsonl")
    timed = {key: value for key, value in REST.items() if key not in ("metrics", "solved")}
    for one in (record("1"), record("1", timestamp="2026-01-02")):
        file.append(one)
    for seconds in (1.0, None):
        file.append({"key": "2", **timed, "final": {"seconds": seconds}})
    assert [one["key"] for one in file.records()] == ["1", "1", "2", "2"]


def test_a_full_disk_is_reported_and_loses_nothing_finished(tmp_path, monkeypatch):
    """The write stops half-way with ENOSPC: the file is cut back, the record kept elsewhere."""
    file = ResultFile(tmp_path / "r.jsonl")
    file.append(record("1"))
    before = file.path.read_bytes()
    real = os.write

    def full(handle, data):
        if len(data) > 20:
            return real(handle, data[:20])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("coefdyn.lab.training.results.os.write", full)
    with pytest.raises(ResultsNotWritten, match="the disk is full") as caught:
        file.append(record("2", pad="z" * 15))
    monkeypatch.undo()
    assert caught.value.errno == errno.ENOSPC
    assert file.path.read_bytes() == before
    kept = Path(str(caught.value).split("kept in ")[1].split(";")[0])
    assert json.loads(kept.read_text())["key"] == "2"
    kept.unlink()
    file.append(record("2"))
    assert file.keys() == {"1", "2"}


def test_a_place_that_cannot_be_written_is_reported(tmp_path):
    (tmp_path / "blocked").write_text("a file where a folder should be")
    with pytest.raises(ResultsNotWritten, match="could not append"):
        ResultFile(tmp_path / "blocked" / "r.jsonl").append(record("1"))


def test_keys_are_short_stable_and_independent_of_order():
    assert config_key({"a": 1, "b": [2.0]}) == config_key({"b": [2.0], "a": 1})
    assert config_key({"a": 1}) != config_key({"a": 2})
    assert len(config_key({})) == 16


def test_plain_replaces_what_json_cannot_hold():
    assert plain({"a": [1.0, math.inf, (math.nan,)], "b": "x"}) == {
        "a": [1.0, None, [None]],
        "b": "x",
    }
