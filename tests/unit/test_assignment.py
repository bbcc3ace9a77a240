"""An exported assignment: its notebook, and an autograder that needs an installed coefdyn alone."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from book.tools.chapters import ROOT
from coefdyn.lab.__main__ import main
from coefdyn.lab.exercises import EXERCISES, assignment
from coefdyn.lab.exercises.assignment import Question, export, questions
from coefdyn.lab.exercises.schools import graded

SOLUTION = re.compile(
    r'^```\{code-cell\} ipython3\n---\n[^`]*?"Solution \d+ in code"[^`]*?\n---\n(.*?)^```$',
    re.DOTALL | re.MULTILINE,
)
GRADED = re.compile(r'^\w+ = grade\("([^"]+)", (\w+)\)$', re.MULTILINE)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package and nothing else of the repository."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "coefdyn", folder / "coefdyn")
    return folder


def grade(folder: Path, installed: Path, *submissions: str) -> tuple[str, list[dict]]:
    """Run an exported autograder in its folder; its output and the submissions of its JSON file."""
    done = subprocess.run(
        [sys.executable, "autograder.py", *submissions, "--json", "kept.json"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(installed), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, json.loads((folder / "kept.json").read_text("utf-8"))["submissions"]


def solution(asked: Question) -> str:
    """The chapter's own solution under the name that the assignment asks for."""
    text = (ROOT / "book" / f"{asked.chapter}.md").read_text("utf-8")
    for code in SOLUTION.findall(text):
        found = GRADED.search(code)
        if found and found[1] == asked.exercise:
            return f"{code[: found.start()]}\n{asked.function} = {found[2]}\n"
    raise AssertionError(f"{asked.chapter} has no solution of {asked.exercise}")


def fill(folder: Path, name: str, codes: list[str]) -> None:
    """Write a submission: the assignment with other code in its cells."""
    notebook = json.loads((folder / "assignment.ipynb").read_text("utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"][1:]
    for cell, code in zip(cells, codes, strict=True):
        cell["source"] = code
    (folder / name).write_text(json.dumps(notebook), encoding="utf-8")


def test_a_notebook_asks_every_exercise_once_and_answers_none(tmp_path: Path) -> None:
    path, grader = export(tmp_path)
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    asked = questions()
    assert {one.exercise for one in asked} == set(EXERCISES)
    assert len({one.function for one in asked}) == len(asked) == len(EXERCISES)
    text = "\n".join(cell.source for cell in notebook.cells)
    assert not re.search(r"\{(?:cite|eq|prf)|\\(?:Evo|Sca|Rea|Nor|sym)|Solution|grade\(", text)
    assert text.count("return None  # your code") == len(asked)
    assert f"{sum(one.points for one in asked)} in all" in " ".join(text.split())
    assert "\\bar A = \\big(I - \\tfrac{\\Delta}{2} A\\big)^{-1}" in text
    assert grader.read_text("utf-8").count("10.0),") == len(asked)


@pytest.mark.dear("an autograder answers every case in a process of its own, as for a class")
def test_right_answers_get_all_points_and_unwritten_ones_none(
    tmp_path: Path, installed: Path
) -> None:
    export(tmp_path, seconds=60)
    asked = questions()
    fill(tmp_path, "right.ipynb", [solution(one) for one in asked])
    said, (right, blank) = grade(tmp_path, installed, "right.ipynb", "assignment.ipynb")
    assert right["points"] == right["of"] == sum(one.points for one in asked)
    assert blank["points"] == 0 and blank["of"] == right["of"]
    for one in (*right["questions"], *blank["questions"]):
        assert len(one["cases"]) == len(EXERCISES[one["exercise"]].cases)
    assert all("returned None" in one["cases"][0]["words"] for one in blank["questions"])
    for one in asked:
        cases = len(EXERCISES[one.exercise].cases)
        line = rf"^{re.escape(one.exercise)} +{{}} of {cases} +{{}} of {one.points}\b"
        assert re.search(line.format(cases, one.points), said, re.MULTILINE)
        assert re.search(line.format(0, 0), said, re.MULTILINE)
    assert not right["left_out"] and not blank["left_out"]


@pytest.mark.dear("a case that does not end takes all the seconds it is given")
@pytest.mark.nightly("test_cells_that_fail_are_left_out_and_named, with a cell that does not end")
def test_a_case_that_does_not_end_costs_its_own_points_only(
    tmp_path: Path, installed: Path
) -> None:
    export(tmp_path, ["softmax_attention", "architectures/gla", "mlstm"], seconds=8)
    row, step, last = (solution(one) for one in questions(["softmax_attention", "gla", "mlstm"]))
    row += (
        "\ndef one_row(scores, v):\n"
        "    while scores.max() < -700:\n"
        "        pass\n"
        "    return running_row(scores, v)\n"
    )
    last += "\nimport os\ndef stabilizer(f, i):\n    print('hello')\n    os._exit(3)\n"
    fill(tmp_path, "slow.ipynb", [row, step, last])
    said, (slow,) = grade(tmp_path, installed, "slow.ipynb")
    one, two, three = slow["questions"]
    assert [case["right"] for case in one["cases"]] == [True] * 4 + [False] + [True] * 3
    assert one["cases"][4]["words"] == "time limit of 8 s" and one["cases"][4]["seconds"] >= 8
    assert one["points"] == round(one["of"] * 7 / 8, 2) and two["points"] == two["of"]
    assert {case["words"] for case in three["cases"]} == {"the submission ended the process"}
    assert three["points"] == 0
    assert re.search(r"^one pass +7 of 8 +8\.75 of 10  time limit of 8 s$", said, re.MULTILINE)


@pytest.mark.dear("a submission is graded in a process of its own, case by case")
def test_cells_that_fail_are_left_out_and_named(tmp_path: Path, installed: Path) -> None:
    _, grader = export(tmp_path, ["gla", "deltanet", "gated_deltanet"])
    source = grader.read_text("utf-8")
    assert source.count("CELL_SECONDS = 60.0") == 1
    grader.write_text(source.replace("CELL_SECONDS = 60.0", "CELL_SECONDS = 5.0"), "utf-8")
    right = solution(questions(["gla"])[0])
    endless = "import time\nwhile True:\n    time.sleep(0.1)"
    fill(tmp_path, "odd.ipynb", ["%timeit 1\n!ls\n" + right, endless, "1 / 0"])
    said, (odd,) = grade(tmp_path, installed, "odd.ipynb")
    assert [one["points"] for one in odd["questions"]] == [6, 0, 0]
    assert odd["left_out"]["4"].startswith("ZeroDivisionError")
    assert odd["left_out"]["3"].startswith("time limit of 5 s")
    assert "no function is called correct" in said and "cell 3 was left out: time limit" in said


def test_what_is_no_notebook_is_named(tmp_path: Path, installed: Path) -> None:
    export(tmp_path, ["gla"])
    (tmp_path / "broken.ipynb").write_text("{}")
    done = subprocess.run(
        [sys.executable, "autograder.py", "broken.ipynb", "missing.ipynb"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and not done.stderr
    assert "broken.ipynb is no notebook" in done.stdout and "missing.ipynb" in done.stdout


def test_the_command_line_writes_an_assignment(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["exercises", "export", "--out", str(tmp_path / "new")]
    assert main([*command, "--chapter", "table1", "computing", "--seconds", "2.5"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"^retention +6 points +7 cases +architectures/table1$", said, re.MULTILINE)
    graders = (tmp_path / "new" / "autograder.py").read_text("utf-8")
    assert "('retention', 'retention', 6, 2.5)," in graders and "'one chunk'" in graders
    assert main([*command, "--chapter", "tabel1"]) == 1
    assert "did you mean" in capsys.readouterr().err
    assert main([*command, "--seconds", "0"]) == 1
    assert "above 0" in capsys.readouterr().err
    monkeypatch.setattr(assignment, "checkout", lambda: None)
    assert main(command) == 1
    assert "without the repository" in capsys.readouterr().err


#: what a hidden case is made of
HIDDEN = re.compile(r"manual_seed|randn|SIZES|hidden\.py|solution|should be -?\d", re.IGNORECASE)


def cells_of(path: Path) -> list[dict]:
    return json.loads(path.read_text("utf-8"))["cells"]


def test_nbgrader_gets_a_locked_cell_with_the_points_of_each_question(tmp_path: Path) -> None:
    notebook, config = export(tmp_path, ["gla", "deltanet"], seconds=4, format="nbgrader")
    assert notebook.parent == tmp_path / "source" / "assignment"
    nbformat.validate(nbformat.read(notebook, as_version=4))
    marks = [cell["metadata"].get("nbgrader", {}) for cell in cells_of(notebook)]
    graded = [one for one in marks if one.get("grade")]
    assert [one["points"] for one in graded] == [6, 6] and all(one["locked"] for one in graded)
    assert len({one["grade_id"] for one in marks if one}) == 6
    text = notebook.read_text("utf-8")
    assert text.count("### BEGIN SOLUTION") == text.count("### END SOLUTION") == 2
    assert not HIDDEN.search(text.replace("SOLUTION", "").replace('"solution"', ""))
    compile(config.read_text("utf-8"), "nbgrader_config.py", "exec")


def test_otter_gets_a_hidden_test_for_each_case_that_names_no_number(tmp_path: Path) -> None:
    (notebook,) = export(tmp_path, ["gla", "deltanet"], seconds=4, format="otter")
    cells = ["".join(cell["source"]) for cell in cells_of(notebook)]
    assert cells[0].startswith("# ASSIGNMENT CONFIG") and "schools.Outside" in cells[0]
    hidden = [one for one in cells if one.startswith("# HIDDEN")]
    cases = sum(len(EXERCISES[one.exercise].cases) for one in questions(["gla", "deltanet"]))
    assert len(hidden) == cases
    assert all(re.fullmatch(r"# HIDDEN\nassert right\['[\w ]+'\]\[\d\]", one) for one in hidden)
    with pytest.raises(ValueError, match="format"):
        export(tmp_path, format="moodle")


@pytest.mark.dear("a submission is graded in a process of its own, case by case")
def test_a_checker_that_a_submission_replaces_judges_nothing(tmp_path: Path) -> None:
    (notebook, _) = export(tmp_path, ["gla"], seconds=20, format="nbgrader")
    (asked,) = questions(["gla"])
    cheat = (
        "import torch\nimport coefdyn.lab.exercises.grading as g\n"
        "g._look = g._compare = lambda *a, **k: None\n"
        "torch.allclose = torch.isclose = lambda *a, **k: True\n"
        f"def {asked.function}(*a, **k):\n    return 0\n"
    )
    for code, points in ((cheat, "0.0"), (solution(asked), "6.0")):
        submitted = nbformat.read(notebook, as_version=4)
        written = [c for c in submitted.cells if c.metadata.get("nbgrader", {}).get("solution")]
        written[0].source = code
        locked = [c for c in graded(submitted).cells if c.get("outputs")]
        said, told = locked[0].outputs
        assert told.data["text/plain"] == points
        assert not re.search(r"-?\d\.\d", said.text) and "hidden cases are right" in said.text
