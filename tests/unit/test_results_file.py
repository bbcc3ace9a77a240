"""Result files: atomic appends, repair after a kill, several processes, a full disk."""

from __future__ import annotations

import errno
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from coefdyn.lab.training import ResultFile, ResultsNotWritten
from coefdyn.lab.training.results import config_key, plain

WRITER = """
import sys
from coefdyn.lab.training.results import ResultFile
file = ResultFile(sys.argv[1])
for number in range(int(sys.argv[3])):
    rest = {"seed": 0, "config": {}, "final": {}, "device": "cpu"}
    file.append({**rest, "key": f"{sys.argv[2]}-{number}", "pad": "x" * (1 + 977 * number % 20011)})
"""


REST = {"seed": 0, "config": {}, "final": {}, "device": "cpu"}


def record(key: str, **more) -> dict:
    return {"key": key, **REST, **more}


def test_append_and_read_back(tmp_path):
    file = ResultFile(tmp_path / "a" / "b.jsonl")
    assert file.records() == []
    file.append(record("1", accuracy=0.5))
    file.append(record("2", loss=math.nan))
    assert file.records() == [record("1", accuracy=0.5), record("2", loss=None)]
    assert file.keys() == {"1", "2"}


def test_two_processes_on_one_file_do_not_interleave(tmp_path):
    path = tmp_path / "shared.jsonl"
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), name, "40"]) for name in "ab"
    ]
    assert [writer.wait(timeout=600) for writer in writers] == [0, 0]
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
    with pytest.raises(ValueError, match=r"line 1 of .*r\.jsonl is not JSON"):
        file.records()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("7", "it is a int"),
        ("[]", "it is a list"),
        ("{}", "'key' is missing"),
        (json.dumps({"key": "1"}), "'seed' is missing"),
        (json.dumps(record("1", config=3)), "'config' is no dict"),
        (json.dumps(record("1", final={"accuracy": 7.0})), r"accuracy of 7\.0"),
        (json.dumps(record("1", final={"accuracy": "high"})), "accuracy of 'high'"),
    ],
)
def test_a_line_that_is_no_record_is_an_error_with_its_line(tmp_path, line, words):
    file = ResultFile(tmp_path / "r.jsonl")
    file.append(record("1"))
    file.path.write_text(file.path.read_text() + line + "\n")
    with pytest.raises(ValueError, match=rf"line 2 of .*r\.jsonl is no record .*{words}"):
        file.records()


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
