"""The record of executions, which tells whether a committed output is older than its origins."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from book.tools import digest as digests
from book.tools.chapters import Chapter, find_chapters, select
from book.tools.digest import counted_name, execution, meaning, read_source, record, recorded
from book.tools.pins import BOOK_TITLE, REST_TITLE
from book.tools.runner import WATCH

HEAD = "---\nkernelspec:\n  name: python3\n  display_name: Python 3\n---\n"
CHAPTER = """
# A title

Some prose.

```{code-cell} ipython3
from coefdyn.mixers import First
```
"""
CORE = (
    '"""Words."""\n\nSCALE = 2\n\n\ndef core(x, power=1):\n    """Words."""\n    return x * SCALE\n'
)
#: a package that only tells which of its modules has a name
LAZY = """
from typing import TYPE_CHECKING

from coefdyn.first_use import load_on_first_use

if TYPE_CHECKING:
    from coefdyn.mixers.first import First

SIZE = 1
HOMES = {"a first": "first"}
__all__ = ["First"]
load_on_first_use(__name__)
"""
FILES = {
    "pins.txt": f"{BOOK_TITLE}\nnumpy==2.0\n\n{REST_TITLE}\nruff==0.1\n",
    "coefdyn/core.py": CORE,
    "coefdyn/mixers/__init__.py": LAZY,
    "coefdyn/mixers/first.py": "class First:\n    heads = 4\n",
    "coefdyn/mixers/second.py": "class Second:\n    heads = 4\n",
    "coefdyn/execution/deep.py": "def lower(x):\n    return x + 1\n",
    "coefdyn/lab/tasks/copying.py": "LENGTH = 8\n",
    "coefdyn/lab/experiments/registered.json": "{}\n",
    "coefdyn/plots/book.mplstyle": "lines.linewidth: 1\n",
    "coefdyn/widgets/js/explorer.js": "export default 1\n",
    "coefdyn/widgets/css/explorer.css": "a {}\n",
    "data/results/one/quick.jsonl": "1\n",
    "book/part/chapter.md": HEAD + CHAPTER,
    "book/part/page.md": "# No kernel here\n",
}
#: what the execution did not open
NOT_OPENED = (
    "pins.txt",
    "coefdyn/mixers/second.py",
    "book/part/chapter.md",
    "book/part/page.md",
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def chapter_of(project: Path) -> Chapter:
    return find_chapters(project / "book")[0]


def made(project: Path) -> digests.Execution:
    opened = [str(project / name) for name in FILES if name not in NOT_OPENED]
    opened += [f"{project}/data/results/one/", str(project / "data/absent.json")]
    return execution(read_source(chapter_of(project)), opened, root=project)


@pytest.mark.parametrize(
    ("name", "old", "new", "parts"),
    [
        ("coefdyn/core.py", "power=1", "power=2", ["files"]),
        ("coefdyn/core.py", "SCALE = 2", "SCALE = 2.0", ["files"]),
        ("coefdyn/execution/deep.py", "x + 1", "x - 1", ["files"]),
        ("coefdyn/lab/tasks/copying.py", "8", "9", ["files"]),
        ("coefdyn/lab/experiments/registered.json", "{}", "[]", ["files"]),
        ("coefdyn/plots/book.mplstyle", "1", "2", ["files"]),
        ("data/results/one/quick.jsonl", "1", "2", ["files"]),
        ("data/results/one/more.jsonl", "", "1", ["files"]),
        ("data/absent.json", "", "1", ["files"]),
        ("coefdyn/mixers/first.py", "4", "8", ["files"]),
        ("coefdyn/mixers/__init__.py", "SIZE = 1", "SIZE = 2", ["files"]),
        ("pins.txt", "numpy==2.0", "numpy==2.1", ["pins"]),
        ("book/part/chapter.md", "import First", "import First as f", ["code"]),
        ("coefdyn/core.py", "    return", "    # a comment\n    return", []),
        ("coefdyn/core.py", "Words.", "Other words.", []),
        ("coefdyn/mixers/second.py", "4", "8", []),
        ("coefdyn/mixers/third.py", "", "class Third: ...", []),
        ("coefdyn/mixers/__init__.py", '["First"]', '["First", "Second"]', []),
        (
            "coefdyn/mixers/__init__.py",
            "\n\nSIZE",
            "\n    from coefdyn.mixers.second import Second\n\nSIZE",
            [],
        ),
        ("coefdyn/mixers/__init__.py", '"first"}', '"first", "a second": "second"}', []),
        ("coefdyn/widgets/js/explorer.js", "1", "2", []),
        ("coefdyn/widgets/css/explorer.css", "{}", "{ color: red }", []),
        ("data/scratch/mine.json", "", "1", []),
        ("pins.txt", "ruff==0.1", "ruff==0.2", []),
        ("book/part/chapter.md", "Some prose", "More prose", []),
    ],
)
def test_what_makes_a_chapter_stale(
    project: Path, name: str, old: str, new: str, parts: list[str]
) -> None:
    before = made(project)
    assert before.changes(chapter_of(project), project) == []
    path = project / name
    text = path.read_text() if path.exists() else ""
    assert old in text
    path.parent.mkdir(exist_ok=True)
    path.write_text(text.replace(old, new) if old else new)
    assert before.changes(chapter_of(project), project) == parts
    if parts == ["files"]:
        assert before.changed_files(project) in ([name], [f"{path.parent.relative_to(project)}/"])


@pytest.mark.parametrize("old", ["coefdyn.mixers.first import First", '"a first": "first"'])
def test_a_name_that_moves_to_another_module_makes_its_old_home_stale(
    project: Path, old: str
) -> None:
    before, package = made(project), project / "coefdyn/mixers/__init__.py"
    package.write_text(
        LAZY.replace(
            old, old.replace("first import", "second import").replace('"first"', '"second"')
        )
    )
    assert before.changed_files(project) == ["coefdyn/mixers/first.py"]


def test_a_group_that_a_merge_put_together_makes_its_chapters_stale(project: Path) -> None:
    file, chapter, one = project / "book" / "executed.json", chapter_of(project), made(project)
    record(chapter, one, [chapter.name], file)
    assert recorded(chapter, file) == one
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(line for line in lines if "deep.py" not in line))
    found = recorded(chapter, file)
    assert found is not None and found.changes(chapter, project) == ["files"]


def test_what_counts(project: Path) -> None:
    for name in ("coefdyn/a.py", "coefdyn/a.json", "data/a.jsonl", "data/results/"):
        assert counted_name(f"{project}/{name}", project) == name
    for name in ("tests/a.py", "book/a.ipynb", "book/_build/run/a", "data/scratch/a", "data/.a"):
        assert not counted_name(f"{project}/{name}", project)
    assert not counted_name("/usr/lib/os.py", project)


def test_a_file_written_while_the_chapter_ran_fits_no_content(project: Path) -> None:
    path = project / "coefdyn/core.py"
    source = read_source(chapter_of(project))
    late = execution(source, [str(path)], path.stat().st_mtime - 1, project)
    assert late.changed_files(project) == ["coefdyn/core.py"]


def test_records_written_beside_each_other_all_stay(project: Path) -> None:
    file = project / "book" / "executed.json"
    one = made(project)
    chapters = [Chapter(name=f"c{n}", source=project / "book" / f"c{n}.md") for n in range(16)]
    names = [chapter.name for chapter in chapters]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda chapter: record(chapter, one, names, file), chapters))
    assert all(recorded(chapter, file) == one for chapter in chapters)
    again = file.read_bytes()
    record(chapters[3], one, names, file)
    assert file.read_bytes() == again, "the order of executions leaves no trace"
    record(chapters[0], one, names[:1], file)
    assert recorded(chapters[1], file) is None, "a chapter that is gone is taken out"


def test_meaning_is_the_same_text_on_every_python() -> None:
    told = (
        "Module(body=[FunctionDef(name='f',args=arguments(posonlyargs=[arg(arg='x')],"
        "kwonlyargs=[arg(arg='y')],kw_defaults=[Constant()]),body=[Return(value=Subscript("
        "value=Name(id='x'),slice=Slice(lower=Constant(value=1))))])])"
    )
    assert meaning(ast.parse("def f(x, /, *, y=None): return x[1:]")) == told


def test_only_markdown_with_a_kernel_is_a_chapter(project: Path) -> None:
    assert [chapter.name for chapter in find_chapters(project / "book")] == ["part/chapter"]


def test_chapters_are_named_loosely_and_wrong_names_get_the_nearest(project: Path) -> None:
    chapters = find_chapters(project / "book")
    for name in ("chapter", "part/chapter", "book/part/chapter.md", "part/chapter.ipynb"):
        assert select(chapters, name) == chapters
    with pytest.raises(ValueError, match=r"chaptre is no chapter. Did you mean part/chapter"):
        select(chapters, "chaptre")


@pytest.mark.parametrize("asked", ["exists()", "is_file()", "stat()", "open()", "read_bytes()"])
def test_what_was_asked_for_in_vain_is_noted_by_the_process(project, tmp_path, asked):
    log, absent = tmp_path / "opened", project / "data/results/later.jsonl"
    code = (
        "import contextlib, pathlib\n"
        f"with contextlib.suppress(OSError): pathlib.Path({str(absent)!r}).{asked}"
    )
    told = {"COEFDYN_OPENED": str(log), "COEFDYN_ROOT": str(project), "PYTHONPATH": str(WATCH)}
    subprocess.run([sys.executable, "-c", code], env=os.environ | told, check=True)
    opened = log.read_text().splitlines()
    made_from = execution(read_source(chapter_of(project)), opened, root=project)
    assert "data/results/later.jsonl" in made_from.files.values()
    absent.write_text("{}")
    assert made_from.changed_files(project) == ["data/results/later.jsonl"]
