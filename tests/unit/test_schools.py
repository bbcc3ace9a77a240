"""Assignments where schools run them: nbgrader and Otter grade seven submissions of one assignment.

Both are installed into an environment below a temporary folder, which sees the packages of this
one, in the versions of `pins.txt`.
"""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from unit.test_assignment import solution

from book.tools.chapters import ROOT
from coefdyn.lab.exercises import EXERCISES
from coefdyn.lab.exercises.assignment import Question, export, questions

pytestmark = [
    pytest.mark.dear("two programs of schools are installed, and each starts a process a case"),
    pytest.mark.nightly("test_assignment.py, which grades a checker that was replaced"),
]
CHAPTERS = ["gla", "deltanet"]
SECONDS = 4.0


def asked() -> list[Question]:
    return questions(CHAPTERS)


def submissions() -> dict[str, list[str]]:
    """Code of both functions by what a student did; the second function is always right."""
    right = [solution(one) for one in asked()]
    name = asked()[0].function
    first = {
        "right": right[0],
        "wrong": f"def {name}(*a, **k):\n    return 0",
        "crash": "import os\nos._exit(1)",
        "hang": f"def {name}(*a, **k):\n    while True: pass",
        "no tracebacks": "import sys\nsys.tracebacklimit = 0\n"
        f"get_ipython().showtraceback = lambda *a, **k: None\n{name} = 1 / 0",
        "checker": "import torch, coefdyn.lab.exercises.grading as g\n"
        "import coefdyn.lab.exercises as e\n"
        "g._look = g._compare = lambda *a, **k: None\n"
        "g.grade = e.grade = lambda *a, **k: g.Grade(True, 'fine')\n"
        "torch.allclose = torch.isclose = lambda *a, **k: True\n"
        f"def {name}(*a, **k):\n    return 0",
        "flood": f"print('x' * 10**7)\ndef {name}(*a, **k):\n    while True: print('y' * 10**6)",
    }
    return {who.replace(" ", "_"): [code, right[1]] for who, code in first.items()}


@pytest.fixture(scope="module")
def schools(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables under which the programs of the extra ``teach`` are found."""
    folder = tmp_path_factory.mktemp("schools")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    bin_, (site,) = folder / "bin", folder.glob("lib/python3*/site-packages")
    (site / "seen.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = extras["optional-dependencies"]["teach"]
    command = [bin_ / "python", "-m", "pip", "install", "-q", "-c", ROOT / "pins.txt", *wanted]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"nbgrader and Otter cannot be installed here: {done.stderr[-300:]}")
    templates = Path("share", "jupyter", "nbconvert")  # of feedback; no package, so not seen yet
    if not (folder / templates).exists():
        (folder / templates).parent.mkdir(parents=True, exist_ok=True)
        (folder / templates).symlink_to(Path(sys.prefix) / templates)
    return {
        **os.environ,
        "PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "JUPYTER_DATA_DIR": str(folder / "data"),
        "JUPYTER_CONFIG_DIR": str(folder / "config"),
        "OMP_NUM_THREADS": "1",
    }


def call(environment: dict[str, str], folder: Path, *command: str) -> str:
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=1500
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def fill(master: Path, target: Path, codes: list[str]) -> None:
    """Write a submission: what a student received, with code in the place of each function."""
    notebook = json.loads(master.read_text("utf-8"))
    written = iter(codes)
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "code" and re.search(r"^def \w+\(", source, re.MULTILINE):
            cell["source"] = next(written)
    assert next(written, None) is None
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(notebook), encoding="utf-8")


def secrets() -> Iterator[str]:
    """Lines of solutions; numbers of hidden inputs and of right results, as they are printed."""
    for one in asked():
        lines = {line.strip() for line in solution(one).splitlines()}
        yield from (line for line in lines - set(one.stub.splitlines()) if len(line) > 24)
        exercise = EXERCISES[one.exercise]
        for case in exercise.cases:
            given = case.inputs()
            right = exercise.solution(**given)
            results = right if isinstance(right, tuple) else (right,)
            for found in (*given.values(), *results):
                if isinstance(found, torch.Tensor) and found.is_floating_point():
                    for number in found.flatten().tolist():
                        if len(repr(number)) > 8:  # neither 0, nor 1, nor 0.5
                            yield from (f"{number:.4f}", repr(number)[:8])
    yield from ("manual_seed", "Generator(")


def given_away(folder: Path, written: list[str] | None = None) -> set[str]:
    """Secrets in any byte of any file of a folder that a student did not write."""
    own = "\n".join(written or [])
    files = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    assert files
    return {
        one
        for one in set(secrets())
        if one not in own and any(one.encode() in content for content in files)
    }


def judged(points: dict[str, list[float]]) -> None:
    """A submission that does anything costs its own points, and only those of that function."""
    print("\n".join(f"{who:<14} {first:g} {second:g}" for who, (first, second) in points.items()))
    full = [float(one.points) for one in asked()]
    expected = {who: full if who == "right" else [0.0, full[1]] for who in submissions()}
    assert points == expected


def test_the_search_finds_a_secret(tmp_path: Path) -> None:
    case = EXERCISES[asked()[0].exercise].cases[1]
    number = next(one for one in case.inputs().values() if one.dim()).flatten()[0]
    (tmp_path / "told.html").write_text(f"<td>{number:.4f}</td>", encoding="utf-8")
    assert given_away(tmp_path) == {f"{number:.4f}"}
    (tmp_path / "told.html").write_text(solution(asked()[1]), encoding="utf-8")
    assert given_away(tmp_path) and not given_away(tmp_path, [solution(asked()[1])])


def test_nbgrader_grades_what_it_cannot_trust(tmp_path: Path, schools: dict[str, str]) -> None:
    export(tmp_path, CHAPTERS, seconds=SECONDS, format="nbgrader")
    call(schools, tmp_path, "nbgrader", "generate_assignment", "assignment")
    released = tmp_path / "release" / "assignment"
    assert given_away(released) == set()
    for who, codes in submissions().items():
        submitted = tmp_path / "submitted" / who / "assignment" / "assignment.ipynb"
        fill(released / "assignment.ipynb", submitted, codes)
    call(schools, tmp_path, "nbgrader", "autograde", "assignment")
    call(schools, tmp_path, "nbgrader", "generate_feedback", "assignment")
    points = {}
    for who, codes in submissions().items():
        folder = tmp_path / "feedback" / who
        assert given_away(folder, codes) == set(), who
        (page,) = folder.rglob("*.html")
        told = re.findall(r"Score: ([\d.]+) / [\d.]+", page.read_text("utf-8"))
        points[who] = [float(one) for one in told[1:3]]  # the sum comes first
    judged(points)
    call(schools, tmp_path, "nbgrader", "export")
    with (tmp_path / "grades.csv").open(encoding="utf-8") as grades:
        sums = {row["student_id"]: float(row["score"]) for row in csv.DictReader(grades)}
    assert sums == {who: sum(one) for who, one in points.items()}


def test_otter_grades_what_it_cannot_trust(tmp_path: Path, schools: dict[str, str]) -> None:
    export(tmp_path, CHAPTERS, seconds=SECONDS, format="otter")
    call(schools, tmp_path, "otter", "assign", "assignment.ipynb", "dist")
    received = tmp_path / "dist" / "student"
    assert given_away(received) == set()
    (grader,) = (tmp_path / "dist" / "autograder").glob("*.zip")
    points = {}
    for who, codes in submissions().items():
        submitted = tmp_path / "submitted" / f"{who}.ipynb"
        fill(received / "assignment.ipynb", submitted, codes)
        folder = tmp_path / "graded" / who
        folder.mkdir(parents=True)
        call(
            schools, tmp_path, "otter", "run", "-a", str(grader), "-o", str(folder), str(submitted)
        )
        assert given_away(folder, codes) == set(), who
        tests = json.loads((folder / "results.json").read_text("utf-8"))["tests"]
        points[who] = [float(one["score"]) for one in tests if one.get("max_score")]
    judged(points)
