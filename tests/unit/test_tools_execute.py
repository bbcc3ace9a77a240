"""The papermill driver on a book of its own: what it runs, keeps, writes and says."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest

from book.tools import execute, runner
from book.tools.chapters import ROOT, Chapter, find_chapters, select
from book.tools.digest import Execution, recorded
from book.tools.normalize import STATE
from book.tools.normalize import main as normalize_main

pytestmark = [
    pytest.mark.dear("papermill starts kernels and executes chapters"),
    pytest.mark.reads("book/tools coefdyn data/trained"),
]

HEAD = "---\nkernelspec:\n  name: python3\n  display_name: Python 3\n---\n"
GOOD = """
# Good

```{code-cell} ipython3
:tags: [parameters]

profile = "quick"
seeds = 1
device = None
```

```{code-cell} ipython3
print(profile, seeds)
```

```{code-cell} ipython3
from ipywidgets import IntSlider

IntSlider(3)
```
"""
COMMITTED = nbformat.writes(nbformat.v4.new_notebook())
BAD = """
```{code-cell} ipython3
print("so far")
```

```{code-cell} ipython3
one = 1
one / 0
```
"""


def cell(code: str) -> str:
    return f"\n```{{code-cell}} ipython3\n{code}\n```\n"


@pytest.fixture
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty book in a folder whose name has a space, in place of the real one."""
    book = tmp_path / "a book"
    book.mkdir()
    monkeypatch.setattr(execute, "find_chapters", lambda: find_chapters(book))
    monkeypatch.setattr(execute, "BUILD", book / "_build")
    monkeypatch.setattr(execute, "run", lambda c, p: runner.run(c, p, book / "_build" / "run"))
    return book


def add(book: Path, name: str, text: str) -> Chapter:
    (book / f"{name}.md").write_text(HEAD + text)
    return Chapter(name=name, source=book / f"{name}.md")


def record_of(chapter: Chapter) -> Execution:
    made = recorded(chapter, execute.executed())
    assert made is not None
    return made


def printed(chapter: Chapter) -> str:
    notebook = nbformat.read(chapter.notebook, as_version=4)
    return "".join(o.get("text", "") for c in notebook.cells for o in c.get("outputs", []))


def test_a_run_a_second_run_a_forced_one_new_text_and_another_notebook(book: Path, capsys) -> None:
    """A cell and its output edited alike agree with each other, and not with the source."""
    good = add(book, "good", GOOD)
    assert execute.main(["--check"]) == 1
    assert execute.main([]) == 0
    first = good.notebook.read_bytes()
    assert printed(good) == "quick 1\n"
    assert STATE in nbformat.read(good.notebook, as_version=4).metadata.widgets

    assert execute.main([]) == 0
    assert "nothing to execute" in capsys.readouterr().out
    assert execute.main(["--check"]) == 0

    assert execute.main(["--force"]) == 0
    assert good.notebook.read_bytes() == first
    assert "the same file as before" in capsys.readouterr().out

    add(book, "good", GOOD.replace("# Good", "# Better"))
    assert execute.main([]) == 0
    assert "only its text changed" in capsys.readouterr().out
    assert printed(good) == "quick 1\n"
    assert good.notebook.read_bytes() != first
    assert not execute.changed_parts(good)

    changed = good.notebook.read_text().replace("seeds = 1", "seeds = 2").replace("ck 1", "ck 2")
    good.notebook.write_text(changed)
    assert printed(good) == "quick 2\n"
    assert execute.changed_parts(good) == ["notebook"]
    assert execute.main([]) == 0
    assert printed(good) == "quick 1\n"


def test_failing_chapters_stop_no_other_keep_what_was_and_are_named(book: Path, capsys) -> None:
    """One that raises, one that kills its kernel, one that warns its readers; progress is none."""
    bad, dead = add(book, "bad", BAD), add(book, "dead", cell("import os\nos._exit(3)"))
    warns = add(book, "warns", cell("import warnings\nwarnings.warn('no artists')"))
    bar = cell("import sys\nsys.stderr.write('\\r 50%')\nsys.stderr.write('\\r    \\r')")
    good = add(book, "good", cell("print(2)") + bar)
    bad.notebook.write_text(COMMITTED)
    assert execute.main([]) == 1
    assert "2\n" in printed(good)
    assert bad.notebook.read_text() == COMMITTED
    assert not dead.notebook.exists() and not warns.notebook.exists()
    partial = nbformat.read(book / "_build" / "failed" / "bad.ipynb", as_version=4)
    assert any(o.get("text") == "so far\n" for c in partial.cells for o in c.get("outputs", []))
    said = capsys.readouterr()
    assert "failed: bad, code cell 2 (one = 1): ZeroDivisionError: division by zero" in said.err
    assert "failed: dead, code cell 1 (import os): " in said.err
    assert "failed: warns, code cell 1 (import warnings): warned: " in said.err
    assert "DeadKernelError" in said.err and "UserWarning: no artists" in said.err
    assert "bad: FAILED" in said.out


@pytest.mark.parametrize("times", [1, 2])
def test_a_kernel_that_dies_before_its_first_cell_is_started_once_more(
    book: Path, monkeypatch, capsys, times: int
) -> None:
    """As one does whose port was taken by another process; the second time it is a failure."""
    watch = book.parent / "watch"
    watch.mkdir()
    (watch / "sitecustomize.py").write_text(
        "import os, sys\n"
        f"starts = {str(watch / 'starts')!r}\n"
        "if 'ipykernel_launcher' in sys.orig_argv:\n"
        "    with open(starts, 'a+') as file:\n"
        "        file.write('.')\n"
        f"    if os.path.getsize(starts) <= {times}:\n"
        "        os._exit(1)\n"
    )
    monkeypatch.setattr(runner, "WATCH", watch)
    add(book, "good", cell("print(2)"))
    assert execute.main([]) == times - 1
    assert (watch / "starts").read_text() == ".."
    said = capsys.readouterr().err
    assert ("good, before its first cell: RuntimeError: Kernel died" in said) == (times == 2)


def test_another_profile_is_written_apart(book: Path, capsys) -> None:
    good, plain = add(book, "good", GOOD), add(book, "plain", cell("print(2)"))
    good.notebook.write_text(COMMITTED)
    assert execute.main(["--profile", "paper", "--set", "seeds=5"]) == 0
    assert good.notebook.read_text() == COMMITTED
    assert not plain.notebook.exists()
    apart = (book / "_build" / "paper" / "good.ipynb").read_text()
    assert "paper 5" in apart
    assert "plain: no parameters cell" in capsys.readouterr().out


def test_the_record_is_of_the_source_that_ran(book: Path, monkeypatch) -> None:
    """A source edited while its chapter runs is stale afterwards."""
    chapter = add(book, "chapter", cell("print(1)"))

    def run_and_edit(chapter, parameters):
        outcome = runner.run(chapter, parameters, book / "_build" / "run")
        add(book, "chapter", cell("print(2)"))
        return outcome

    monkeypatch.setattr(execute, "run", run_and_edit)
    assert execute.main([]) == 0
    assert record_of(chapter)
    assert "code" in execute.changed_parts(chapter)


def test_what_the_library_and_a_worker_open_is_recorded(book: Path) -> None:
    """No cell names the folder of what was trained; the kernel tells what is read there. A pool may
    start new processes, as the training's does, or fork."""
    asked = "dict.fromkeys(('task', 'left', 'right', 'rate', 'seed', 'positions'))"
    code = f"from coefdyn.lab.train.kept_runs import kept_run\nprint(kept_run({asked}))"
    pools = """
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing import get_context
for way, name in (("spawn", "coefdyn.options"), ("fork", "coefdyn.progress")):
    with ProcessPoolExecutor(1, mp_context=get_context(way)) as pool:
        pool.submit(import_module, name).exception()
"""
    opens, starts = add(book, "opens", cell(code)), add(book, "starts", cell(pools.strip()))
    assert execute.main([]) == 0
    names = set(record_of(opens).files.values())
    assert {"data/trained/gla.json", "coefdyn/lab/train/kept_runs.py"} <= names
    names = set(record_of(starts).files.values())
    assert {"coefdyn/options.py", "coefdyn/progress.py"} <= names
    assert not execute.changed_parts(opens) and not execute.changed_parts(starts)


def test_a_repetition_leaves_the_notebook_where_only_a_picture_or_a_time_differs(
    book: Path, capsys
) -> None:
    timed = (
        "\n```{code-cell} ipython3\n:tags: [nbval-ignore-output]\n\nimport time\ntime.time()\n```\n"
    )
    chapter = add(book, "chapter", timed)
    assert execute.main([]) == 0
    first = chapter.notebook.read_bytes()
    execute.executed().write_text("<<<<<<< HEAD\n")
    assert execute.changed_parts(chapter) == ["new"]
    assert execute.main([]) == 0
    assert "the notebook stays" in capsys.readouterr().out
    assert chapter.notebook.read_bytes() == first
    assert not execute.changed_parts(chapter)
    assert execute.main(["--force"]) == 0
    assert chapter.notebook.read_bytes() != first


def test_an_unknown_chapter_is_an_error_that_names_the_nearest(book: Path, capsys) -> None:
    add(book, "softmax_attention", cell("1"))
    assert execute.main(["--chapter", "softmax"]) == 2
    assert "Did you mean softmax_attention? The chapters are: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("sedes=5", "no chapter asked for takes 'sedes'; did you mean seeds?"),
        ("seeds=5 sedes=5", "did you mean seeds?"),
        ("seeds", "SET takes name=value"),
        ("(=1", "SET takes name=value"),
        ("seeds=[", "'[' is no value for seeds"),
        ("seeds=two", "seeds='two' (str) is no number of seeds; use a whole number from 1 on"),
        ("seeds=0", "seeds=0 (int) is no number of seeds"),
        ("seeds=true", "seeds=True (bool) is no number of seeds"),
        ("device=cuda:99", "device='cuda:99' asks for a GPU, but torch"),
        ("device=tpu", "device must be cpu, cuda or cuda:1; got 'tpu'"),
    ],
)
def test_parameters_that_fit_nothing_are_refused(book: Path, capsys, words: str, said: str) -> None:
    """Even beside one that fits: a misspelt word would cost the hours of a run."""
    add(book, "good", GOOD)
    assert execute.main(["--profile", "paper", "--set", words]) == 2
    told = capsys.readouterr()
    assert said in told.err and len(told.err.splitlines()) == 1
    assert "executing" not in told.out


def test_a_number_of_jobs_is_refused_in_words(book: Path, capsys) -> None:
    with pytest.raises(SystemExit):
        execute.main(["--jobs", "-1"])
    assert "a whole number from 0 on; got '-1'" in capsys.readouterr().err


TWIN = nbformat.v4.new_notebook(
    cells=[nbformat.v4.new_markdown_cell("caf\u00e9")], metadata={"coefdyn": []}
)
#: what stands in place of a notebook: a merge's marks, a torn file, other letters, no record
HARM = {
    "merged": ("<<<<<<< HEAD\n" + COMMITTED[:20]).encode(),
    "torn": COMMITTED[:20].encode(),
    "latin": nbformat.writes(TWIN).encode("latin-1"),
    "wide": nbformat.writes(TWIN).encode("utf-16"),
    "listed": nbformat.writes(TWIN).encode(),
}
#: what stands in place of a chapter, and what is said of it
DAMAGED = {
    "head": (b"---\nkernelspec: [\n---\n", "its head is no YAML in line 2"),
    "kernel": (
        ("---\nkernelspec:\n  name: python3\n---\n" + cell("1")).encode(),
        "'display_name'",
    ),
    "tags": (
        (HEAD + "\n```{code-cell}\n:tags: [\n```\n").encode(),
        "tags.md is no readable chapter",
    ),
    "letters": ((HEAD + "caf\u00e9").encode("latin-1"), "letters.md is not UTF-8"),
}


@pytest.mark.nightly("chapters that fail, and twins that were changed")
def test_what_cannot_be_read_is_named_and_every_other_chapter_is_written(
    book: Path, capsys
) -> None:
    """`make execute` mends notebooks; a chapter, or a folder in a notebook's place, is left out."""
    chapters = [add(book, name, cell("print(2)")) for name in HARM]
    for chapter in chapters:
        chapter.notebook.write_bytes(HARM[chapter.name])
    for name, (content, _) in DAMAGED.items():
        (book / f"{name}.md").write_bytes(content)
    folder = add(book, "folder", cell("print(1)"))
    folder.notebook.mkdir()
    assert normalize_main([str(chapters[0].notebook)]) == 1
    assert f"{chapters[0].notebook}: no readable notebook" in capsys.readouterr().out
    assert execute.main(["--check"]) == 1
    assert "merged: older than its unreadable" in capsys.readouterr().out
    assert execute.main([]) == 1
    assert [printed(chapter) for chapter in chapters] == ["2\n"] * len(HARM)
    told = capsys.readouterr()
    assert told.out.count("in place of a file that was no notebook") >= 2
    for name, (_, said) in DAMAGED.items():
        (line,) = [one for one in told.err.splitlines() if f"{book / name}.md" in one]
        assert line.startswith("left out: ") and said in line
    assert f"left out: {folder.notebook} is a folder" in told.err


def test_parameters_for_a_chapter_without_any_are_refused(book: Path, capsys) -> None:
    add(book, "plain", cell("print(2)"))
    assert execute.main(["--set", "seeds=3"]) == 2
    said = capsys.readouterr().err
    assert said == "SET: plain: no cell tagged `parameters`, so 'seeds' sets nothing.\n"


def test_a_chapter_whose_name_has_a_blank_can_be_named(book: Path) -> None:
    for name in ("a b", "a", "b", "c"):
        add(book, name, cell("1"))
    chapters = find_chapters(book)
    assert [c.name for c in select(chapters, "c,a b")] == ["c", "a b"]
    assert [c.name for c in select(chapters, "c a, a b.md")] == ["c", "a", "a b"]


def test_a_cell_that_was_not_executed_is_neither_kept_nor_current(
    book: Path, monkeypatch, capsys
) -> None:
    chapter = add(book, "chapter", cell("print(1)") + cell("print(2)"))
    real = runner.nbformat.read

    def emptied(path, as_version):
        notebook = real(path, as_version)
        notebook.cells[-1].update(execution_count=None, outputs=[])
        return notebook

    with monkeypatch.context() as patch:
        patch.setattr(runner.nbformat, "read", emptied)
        assert execute.main([]) == 1
    assert "failed: chapter, code cell 2 (print(2)): was not executed" in capsys.readouterr().err
    assert not chapter.notebook.exists()
    assert execute.main([]) == 0
    assert not execute.changed_parts(chapter)
    notebook = emptied(chapter.notebook, 4)
    chapter.notebook.write_text(nbformat.writes(notebook))
    assert execute.changed_parts(chapter) == ["outputs"]


#: one execution of the book in the first argument's folder
PROCESS = """
import pathlib, sys
from book.tools import execute, runner
from book.tools.chapters import find_chapters
book = pathlib.Path(sys.argv[1])
execute.find_chapters = lambda: find_chapters(book)
execute.BUILD = book / "_build"
execute.run = lambda chapter, given: runner.run(chapter, given, book / "_build" / "run")
sys.exit(execute.main(["--force"]))
"""


@pytest.mark.nightly("test_two_builds_never_mix_their_pages, of the pages, whose first is killed")
def test_two_executions_of_a_chapter_never_mix(book: Path) -> None:
    """The second begins while the first is at work, and is stopped when the first has ended."""
    going = [book / "going", book / "second"]
    wait = (
        "import pathlib, time\n"
        f"first, second = map(pathlib.Path, {[str(path) for path in going]})\n"
        "is_first = not first.exists()\n"
        "(first if is_first else second).touch()"
    )
    held = "while is_first and not second.exists():\n    time.sleep(0.01)"
    later = "while not is_first:\n    time.sleep(0.01)"
    cells = [wait, *(f"print({number})" for number in range(3)), held, later, "print('end')"]
    chapter = add(book, "race", "".join(map(cell, cells)))
    command = [sys.executable, "-c", PROCESS, str(book)]
    first = subprocess.Popen(command, cwd=ROOT)
    while not going[0].exists():
        assert first.poll() is None
        time.sleep(0.01)
    second = subprocess.Popen(command, cwd=ROOT, start_new_session=True)
    try:
        assert first.wait(timeout=200) == 0
        assert printed(chapter) == "0\n1\n2\nend\n"
        assert not execute.changed_parts(chapter)
        assert second.poll() is None
    finally:
        os.killpg(second.pid, signal.SIGKILL)
        second.wait()


@pytest.mark.nightly("test_wheel.py: a package beside another one")
def test_a_copied_checkout_runs_its_own_library(tmp_path: Path) -> None:
    """Though the environment was installed from another one, and the kernel runs elsewhere."""
    copy = tmp_path / "copy"
    leave = shutil.ignore_patterns("__pycache__", "_build")
    for name in ("coefdyn", "book/tools"):
        shutil.copytree(ROOT / name, copy / name, ignore=leave)
    shutil.copy(ROOT / "pins.txt", copy)
    code = "import coefdyn\nprint(coefdyn.__file__)"
    chapter = add(copy / "book", "chapter", cell(code))
    run = (
        "from book.tools import chapters, runner\n"
        "outcome = runner.run(chapters.find_chapters()[0], {})\n"
        "print(outcome.failure, outcome.notebook.cells[-1].outputs[0].text)"
    )
    there = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    command = [sys.executable, "-c", run]
    done = subprocess.run(command, cwd=copy, env=there, capture_output=True, text=True)
    assert done.stdout.split() == ["None", str(copy / "coefdyn" / "__init__.py")], done.stderr
    assert chapter.folder == copy / "book"
