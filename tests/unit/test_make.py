"""Make with odd words, a half-made environment, and a build that fails or is stopped."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from book.tools import environment, execute, html

ROOT = Path(__file__).resolve().parents[2]

#: a Python that notes what it is asked, and makes environments with another like it
BASE = """#!/bin/sh
echo "$*" >> asked
case "$*" in
"-m venv "*)
    case "$*" in *--clear*) rm -rf .venv;; esac
    mkdir -p .venv/bin; rm -f .venv/bin/python; cp base .venv/bin/python; touch .venv/pip;;
*"import pip"*) test -e .venv/pip;;
*book.tools.environment*) cat .venv/trouble 2>/dev/null || true;;
esac
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


def test_the_kernels_of_chapters_learn_the_cluster_from_the_environment(monkeypatch) -> None:
    told = []
    monkeypatch.setenv("DASK_SCHEDULER_ADDRESS", "none yet")
    monkeypatch.setattr(execute, "plan", lambda chapters, options: chapters[:1])
    monkeypatch.setattr(
        execute, "execute", lambda *_: told.append(os.environ["DASK_SCHEDULER_ADDRESS"]) or []
    )
    assert execute.main(["--profile", "paper", "--cluster", "tls://lab:8786"]) == 0
    assert told == ["tls://lab:8786"]
    given = made("-n", "-o", ".venv/.installed-book", "execute", "CLUSTER=tls://lab:8786").stdout
    assert "--cluster 'tls://lab:8786'" in given


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with the real Makefile and its marks of an installation, and a made-up Python."""
    for name in ("Makefile", "book/tools/venv.sh"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for name in ("pins.txt", "pyproject.toml", "base", ".venv/bin/python", ".venv/pip"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(BASE if name.endswith(("base", "python")) else "")
        (tmp_path / name).chmod(0o755)
    for name in ("book", "test"):
        (tmp_path / ".venv" / f".installed-{name}").touch()
    return tmp_path


def asked(folder: Path) -> list[str]:
    done = made("execute", f"PYTHON={folder / 'base'}", folder=folder)
    assert done.returncode == 0, done.stderr
    lines = (folder / "asked").read_text().splitlines()
    return [" ".join(one.split()[:3]) for one in lines if one.split()[0] == "-m"]


INSTALL = "-m pip --disable-pip-version-check"
EXECUTE = "-m book.tools.execute"
ASK = "-m book.tools.environment book"


@needs_make
def test_a_sound_environment_stays(checkout: Path) -> None:
    assert asked(checkout) == [ASK, EXECUTE]


@needs_make
def test_an_environment_whose_python_is_gone_is_made_anew(checkout: Path) -> None:
    """A Python that was replaced leaves a dead link, and packages of another version."""
    (checkout / ".venv/bin/python").unlink()
    (checkout / ".venv/bin/python").symlink_to("/nowhere/python3")
    assert asked(checkout) == ["-m venv --clear", INSTALL, INSTALL, EXECUTE]
    assert not (checkout / ".venv/.installed-test").exists()


@needs_make
@pytest.mark.parametrize(
    ("trouble", "remedy"),
    [
        ("it lacks jupytext", []),
        ("it holds the library of /elsewhere, not of here", []),
        ("it holds parts of papermill", ["-m venv --clear"]),
    ],
)
def test_marks_of_an_installation_are_not_trusted(
    checkout: Path, trouble: str, remedy: list[str]
) -> None:
    (checkout / ".venv/trouble").write_text(trouble)
    assert asked(checkout) == [ASK, *remedy, INSTALL, INSTALL, EXECUTE]


@needs_make
def test_a_missing_pip_is_added(checkout: Path) -> None:
    (checkout / ".venv/pip").unlink()
    (checkout / ".venv/trouble").write_text("it lacks pip")
    assert asked(checkout) == [ASK, "-m venv .venv", INSTALL, INSTALL, EXECUTE]


def test_what_is_wrong_with_an_environment_is_told(tmp_path: Path, monkeypatch) -> None:
    """Packages made up on disk: one whole, one in parts; then the library of another checkout."""
    root, place = tmp_path / "here", tmp_path / "packages"
    root.mkdir()
    head = '[project]\ndependencies = ["whole>=1"]\n[project.optional-dependencies]\n'
    (root / "pyproject.toml").write_text(
        head + 'book = ["torn<2", "apart; python_version < \'3\'"]'
    )
    monkeypatch.setattr(environment.sysconfig, "get_path", lambda _: str(place))

    def install(name: str, url: str = "") -> None:
        (place / f"{name}-1.dist-info").mkdir(parents=True)
        about = {"METADATA": f"Name: {name}\nVersion: 1\n", "RECORD": f"{name}/__init__.py,,\n"}
        about |= {"direct_url.json": json.dumps({"url": url})} if url else {}
        for file, text in about.items():
            (place / f"{name}-1.dist-info" / file).write_text(text)
        (place / name).mkdir()
        (place / name / "__init__.py").touch()

    def said() -> str:
        return environment.trouble(["book"], root).removeprefix(sys.prefix)

    assert said() == " lacks pip, whole, torn"
    for name in ("pip", "whole", "torn"):
        install(name)
    assert said() == f" holds the library of no checkout, not of {root}"
    shutil.rmtree(place / "torn")
    assert said() == " holds parts of torn"
    (place / "torn").mkdir()
    (place / "torn" / "__init__.py").touch()
    install("coefdyn", (tmp_path / "there").as_uri())
    assert said() == f" holds the library of {tmp_path / 'there'}, not of {root}"
    root.rename(tmp_path / "there")
    assert environment.trouble(["book"], tmp_path / "there") == ""


def stopped(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.fixture
def site(tmp_path: Path, monkeypatch) -> Path:
    """The folder of the pages, with one page from before, and nothing that finishes pages."""
    build = tmp_path / "_build"
    places = {"BUILD": build, "HTML": build / "html", "LOG": build / "log", "LOCK": build / "lock"}
    for name, place in {**places, "ROOT": tmp_path}.items():
        monkeypatch.setattr(html, name, place)
    for name in ("postprocess", "lighten", "bundle", "pack_states", "add_stills"):
        monkeypatch.setattr(html, name, lambda site: None)
    monkeypatch.setattr(html, "current_digest", lambda: "new")
    (build / "html").mkdir(parents=True)
    (build / "html" / "index.html").write_text("the pages before")
    return build / "html"


def pages_of(site: Path) -> list[str]:
    return sorted(path.name for path in site.iterdir())


@pytest.mark.parametrize(("end", "status"), [("stopped", 130), ("failed", 3)])
def test_pages_stay_until_new_ones_are_whole(
    site: Path, monkeypatch, capsys, end: str, status: int
) -> None:
    failed = subprocess.CompletedProcess([], 3)
    run = stopped if end == "stopped" else lambda *_, **__: failed
    monkeypatch.setattr(html.subprocess, "run", run)
    assert html.main([]) == status
    assert (site / "index.html").read_text() == "the pages before"
    assert len(capsys.readouterr().err.splitlines()) <= 2
    assert pages_of(site.parent) == ["html", "lock", "log"]


def test_pages_made_while_a_source_changed_carry_no_stamp(site: Path, monkeypatch) -> None:
    digests = iter(["old", "new", "new", "new"])
    monkeypatch.setattr(html, "current_digest", lambda: next(digests))
    monkeypatch.setattr(html, "COMMAND", [sys.executable, "-c", WRITER, "1", "nothing"])
    assert html.main([]) == 0
    assert not html.up_to_date("old") and not html.up_to_date("new")
    assert html.main([]) == 0
    assert html.up_to_date("new")


#: stands in for Sphinx: so many pages, then a wait while a file is there, then the entry
WRITER = """
import pathlib, sys, time
site, hold = pathlib.Path(sys.argv[3]) / "_build" / "html", pathlib.Path(sys.argv[2])
site.mkdir(parents=True)
for page in range(int(sys.argv[1])):
    (site / f"{page}.html").write_text("page")
while hold.exists():
    time.sleep(0.01)
(site / "index.html").write_text("page")
"""

#: one build of the pages with what the second argument is in place of Sphinx
BUILD = """
import pathlib, sys
from book.tools import html
folder = pathlib.Path(sys.argv[1])
html.BUILD, html.HTML, html.ROOT = folder, folder / "html", folder
html.LOG, html.LOCK = folder / "log", folder / "lock"
html.COMMAND = [sys.executable, "-c", *sys.argv[2:5]]
html.current_digest = lambda: "new"
html.finish = html.lighten = html.bundle = html.pack_states = html.add_stills = lambda site: None
sys.exit(html.main([]))
"""


@pytest.mark.parametrize(
    "first_is_killed",
    [True, pytest.param(False, marks=pytest.mark.nightly("the same where the first is killed"))],
)
def test_two_builds_never_mix_their_pages(tmp_path: Path, first_is_killed: bool) -> None:
    """Also where the first is killed and what it had started goes on writing."""
    hold = tmp_path / "hold"
    hold.touch()
    command = [sys.executable, "-c", BUILD, str(tmp_path), WRITER, "9", str(hold)]
    first = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    while not list(tmp_path.glob("fresh*/_build/html/8.html")):
        assert first.poll() is None
        time.sleep(0.01)
    if first_is_killed:
        first.kill()
        first.wait()
    other = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    if not first_is_killed:
        assert "waiting for its end" in other.stdout.readline()
    hold.unlink()
    ends = [one.communicate(timeout=100)[0] for one in (first, other)]
    assert (first.returncode == 0, other.returncode) == (not first_is_killed, 0)
    assert ["built" in end for end in ends] == [not first_is_killed, first_is_killed]
    whole = sorted([html.STAMP, *(f"{number}.html" for number in range(9)), "index.html"])
    assert pages_of(tmp_path / "html") == whole
    assert (tmp_path / "html" / html.STAMP).read_text() == "new"
    assert not list(tmp_path.glob("fresh*"))
