"""The papermill driver on a book of its own: what it runs, keeps, writes and says."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from book.tools import execute, runner
from book.tools.chapters import Chapter, find_chapters, select
from book.tools.digest import recorded
from book.tools.normalize import STATE
from book.tools.normalize import main as normalize_main

HEAD = "---\nkernelspec:\n  name: python3\n  display_name: Python 3\n---\n"
GOOD = """
# Good

```{code-cell} ipython3
:tags: [parameters]

profile = "quick"
seeds = 1
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


def printed(chapter: Chapter) -> str:
    notebook = nbformat.read(chapter.notebook, as_version=4)
    return "".join(o.get("text", "") for c in notebook.cells for o in c.get("outputs", []))


def test_a_run_a_second_run_a_forced_one_and_new_text(book: Path, capsys) -> None:
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


def test_failing_chapters_stop_no_other_keep_what_was_and_are_named(book: Path, capsys) -> None:
    bad, dead = add(book, "bad", BAD), add(book, "dead", cell("import os\nos._exit(3)"))
    good = add(book, "good", cell("print(2)"))
    bad.notebook.write_text(COMMITTED)
    assert execute.main([]) == 1
    assert printed(good) == "2\n"
    assert bad.notebook.read_text() == COMMITTED
    assert not dead.notebook.exists()
    partial = nbformat.read(book / "_build" / "failed" / "bad.ipynb", as_version=4)
    assert any(o.get("text") == "so far\n" for c in partial.cells for o in c.get("outputs", []))
    said = capsys.readouterr()
    assert "failed: bad, code cell 2 (one = 1): ZeroDivisionError: division by zero" in said.err
    assert "failed: dead, code cell 1 (import os): " in said.err
    assert "DeadKernelError" in said.err
    assert "bad: FAILED" in said.out


def test_a_chapter_that_warns_its_readers_fails_and_progress_does_not(book: Path, capsys) -> None:
    warns = add(book, "warns", cell("import warnings\nwarnings.warn('no artists')"))
    bar = cell("import sys\nsys.stderr.write('\\r 50%')\nsys.stderr.write('\\r    \\r')")
    shows = add(book, "shows", bar)
    assert execute.main([]) == 1
    assert not warns.notebook.exists()
    assert shows.notebook.exists()
    said = capsys.readouterr().err
    assert "failed: warns, code cell 1 (import warnings): warned: " in said
    assert "UserWarning: no artists" in said


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
    assert recorded(chapter)
    assert "code" in execute.changed_parts(chapter)


def test_an_unknown_chapter_is_an_error_that_names_the_nearest(book: Path, capsys) -> None:
    add(book, "softmax_attention", cell("1"))
    assert execute.main(["--chapter", "softmax"]) == 2
    assert "Choose from: softmax_attention" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("sedes=5", "no chapter asked for takes 'sedes'; did you mean seeds?"),
        ("seeds=5 sedes=5", "did you mean seeds?"),
        ("seeds", "SET takes name=value"),
        ("(=1", "SET takes name=value"),
        ("seeds=[", "'[' is no value for seeds"),
    ],
)
def test_parameters_that_fit_nothing_are_refused(book: Path, capsys, words: str, said: str) -> None:
    """Even beside one that fits: a misspelt word would cost the hours of a run."""
    add(book, "good", GOOD)
    assert execute.main(["--profile", "paper", "--set", words]) == 2
    told = capsys.readouterr()
    assert said in told.err and len(told.err.splitlines()) == 1
    assert "executing" not in told.out


def test_a_chapter_named_twice_runs_once(book: Path) -> None:
    add(book, "good", GOOD)
    assert [c.name for c in select(find_chapters(book), "good, good.md")] == ["good"]


def test_a_number_of_jobs_is_refused_in_words(book: Path, capsys) -> None:
    with pytest.raises(SystemExit):
        execute.main(["--jobs", "-1"])
    assert "a whole number from 0 on; got '-1'" in capsys.readouterr().err


@pytest.mark.parametrize("harm", ["<<<<<<< HEAD\n", ""])
def test_a_file_that_is_no_notebook_is_named_and_written_anew(
    book: Path, capsys, harm: str
) -> None:
    """A merge's marks or a torn file stop no other chapter, and `make execute` mends them."""
    good = add(book, "good", cell("print(2)"))
    good.notebook.write_text(harm + COMMITTED[:20])
    assert normalize_main([str(good.notebook)]) == 1
    assert f"{good.notebook}: no readable notebook" in capsys.readouterr().out
    assert execute.main(["--check"]) == 1
    assert "good: older than its unreadable" in capsys.readouterr().out
    assert execute.main([]) == 0
    assert printed(good) == "2\n"
    assert "in place of a file that was no notebook" in capsys.readouterr().out


def test_a_notebook_changed_behind_its_record_is_told(book: Path) -> None:
    """A cell and its output edited alike agree with each other, and not with the source."""
    good = add(book, "good", cell("print(2)"))
    assert execute.main([]) == 0
    assert not execute.changed_parts(good)
    changed = good.notebook.read_text().replace("print(2)", "print(3)").replace("2\\n", "3\\n")
    good.notebook.write_text(changed)
    assert printed(good) == "3\n"
    assert execute.changed_parts(good) == ["notebook"]
    assert execute.main([]) == 0
    assert printed(good) == "2\n"
