"""What make does with odd words, a half-made environment, and a build that fails or is stopped."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from book.tools import execute, html

ROOT = Path(__file__).resolve().parents[2]

#: a Python whose environment was cut off before pip was there; it notes what it is asked
CUT_OFF = """#!/bin/sh
echo "$*" >> asked
case "$*" in *"import pip"*) test -e whole;; esac
"""


def made(*words: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    here = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
    return subprocess.run(["make", *words], cwd=folder, env=here, capture_output=True, text=True)


needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


@needs_make
def test_a_value_reaches_the_command_as_one_word_whatever_is_in_it() -> None:
    words = {"CHAPTER": "it's", "SET": "a='b c' d=$HOME", "PROFILE": 'x"y'}
    given = [f"{name}={value.replace('$', '$$')}" for name, value in words.items()]
    done = made("-n", "-o", ".venv/.installed-book", "execute", *given)
    assert done.returncode == 0, done.stderr
    found = shlex.split(done.stdout.replace("\\\n", " "))
    for option, value in zip(("--chapter", "--set", "--profile"), words.values(), strict=True):
        assert found[found.index(option) + 1] == value


@needs_make
def test_an_environment_without_pip_is_made_again(tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name in ("pins.txt", "pyproject.toml"):
        (tmp_path / name).touch()
    python, make_it = tmp_path / ".venv/bin/python", tmp_path / "book/tools/venv.sh"
    for path, text in ((python, CUT_OFF), (make_it, "echo made >> asked; touch whole\n")):
        path.parent.mkdir(parents=True)
        path.write_text(text)
        path.chmod(0o755)
    done = made("execute", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    first, second, third, *_ = (tmp_path / "asked").read_text().splitlines()
    assert ("import pip" in first, second, "pip" in third) == (True, "made", True)


def stopped(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_a_stopped_execution_says_one_line(monkeypatch, capsys) -> None:
    monkeypatch.setattr(execute, "plan", lambda chapters, options: chapters[:1])
    monkeypatch.setattr(execute, "execute", stopped)
    assert execute.main(["--force"]) == 130
    assert capsys.readouterr().err.splitlines() == [
        "interrupted; what is finished is kept, the same command goes on"
    ]


@pytest.mark.parametrize(("end", "status"), [("stopped", 130), ("failed", 3)])
def test_pages_stay_until_new_ones_are_whole(
    tmp_path: Path, monkeypatch, capsys, end: str, status: int
) -> None:
    for name, place in {"HTML": "html", "FRESH": "fresh", "STAMP": "stamp", "LOG": "log"}.items():
        monkeypatch.setattr(html, name, tmp_path / place)
    monkeypatch.setattr(html, "ROOT", tmp_path)
    monkeypatch.setattr(html, "current_digest", lambda: "new")
    (tmp_path / "html").mkdir()
    (tmp_path / "html" / "index.html").write_text("the pages before")
    failed = subprocess.CompletedProcess([], 3)
    run = stopped if end == "stopped" else lambda *_, **__: failed
    monkeypatch.setattr(html.subprocess, "run", run)
    assert html.main([]) == status
    assert (tmp_path / "html" / "index.html").read_text() == "the pages before"
    assert len(capsys.readouterr().err.splitlines()) <= 2
