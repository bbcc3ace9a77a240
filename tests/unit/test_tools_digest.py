"""The digests that tell whether a chapter's committed output is older than what it came from."""

from __future__ import annotations

import ast
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import nbformat
import pytest

from book.tools import digest as digests
from book.tools.chapters import Chapter, find_chapters, select
from book.tools.definitions import meaning
from book.tools.imports import Library
from book.tools.pins import BOOK_TITLE, REST_TITLE

HEAD = "---\nkernelspec:\n  name: python3\n  display_name: Python 3\n---\n"
CHAPTER = """
# A title

Some prose.

```{code-cell} ipython3
from coefdyn.mixers import First
open("../data/results/one/quick.jsonl")
```
"""
FILES = {
    "pins.txt": f"{BOOK_TITLE}\nnumpy==2.0\n\n{REST_TITLE}\nruff==0.1\n",
    "coefdyn/__init__.py": "from coefdyn.core import Core\n",
    "coefdyn/core.py": '"""Words."""\n\n\ndef Core():\n    """Words."""\n    return 1\n',
    "coefdyn/mixers/__init__.py": """
        from .first import First
        from .second import Second
        """,
    "coefdyn/mixers/first.py": """
        def First():
            from ..core import Core
            return Core
        """,
    "coefdyn/mixers/second.py": "Second = 2\n",
    "coefdyn/widgets/__init__.py": "",
    "coefdyn/widgets/explorer.py": "import importlib\nimportlib.import_module('coefdyn.core')\n",
    "coefdyn/widgets/js/explorer.js": "export default 1",
    "coefdyn/execution/triton/__init__.py": "",
    "coefdyn/execution/triton/scalar.py": "kernel = 1\n",
    "data/results/one/quick.jsonl": "1\n",
    "data/results/two/quick.jsonl": "2\n",
    "book/part/chapter.md": HEAD + CHAPTER,
    "book/part/page.md": "# No kernel here\n",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return tmp_path


def chapter_of(project: Path) -> Chapter:
    return find_chapters(project / "book")[0]


def parts_changed(project: Path, name: str, text: str) -> list[str]:
    """Write a file and tell which parts of the chapter's digest changed."""
    before = digests.digest(chapter_of(project), project)
    (project / name).write_text(text)
    after = digests.digest(chapter_of(project), project)
    return after.changes(vars(before))


@pytest.mark.parametrize(
    ("name", "text", "parts"),
    [
        ("coefdyn/core.py", "# a comment\ndef Core():\n    '''Other.'''\n    return 1\n", []),
        ("coefdyn/core.py", "def Core():\n    return 2\n", ["library"]),
        ("coefdyn/mixers/second.py", "Second = 3\n", []),
        ("coefdyn/widgets/js/explorer.js", "export default 2", []),
        ("coefdyn/mixers/__init__.py", "from .second import Second as First\n", ["library"]),
        ("data/results/one/quick.jsonl", "1\n3\n", ["data"]),
        ("data/results/two/quick.jsonl", "2\n3\n", []),
        ("pins.txt", f"{BOOK_TITLE}\nnumpy==2.1\n{REST_TITLE}\n", ["pins"]),
        ("pins.txt", f"# said\n{BOOK_TITLE}\nnumpy==2.0\n{REST_TITLE}\nruff==0.2\n", []),
        ("book/part/chapter.md", HEAD + CHAPTER.replace("prose", "words"), ["text"]),
        ("book/part/chapter.md", HEAD + CHAPTER.replace("open(", "print("), ["text", "code"]),
        ("book/part/chapter.md", "---\nx: 1\n" + HEAD[4:] + CHAPTER, ["text"]),
    ],
)
def test_what_makes_a_chapter_stale(project: Path, name: str, text: str, parts: list[str]) -> None:
    assert parts_changed(project, name, text) == parts


def reached(project: Path, code: str) -> set[str]:
    """The definitions that code reaches, without the package's name before them."""
    found = Library(project).reached([textwrap.dedent(code)])
    return {name.removeprefix("coefdyn.") for name in found if not name.startswith("<cells>")}


def write(project: Path, **files: str) -> None:
    """Modules of the package by name, `__` for a dot."""
    for name, text in files.items():
        path = project.joinpath("coefdyn", *name.split("__")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.write_text(textwrap.dedent(text))


def test_names_are_followed_to_where_they_are_defined(project: Path) -> None:
    first, core = "mixers.first:First", "core:Core"
    assert reached(project, "from coefdyn.mixers import First") == {first, core}
    assert reached(project, "from coefdyn import Core") == {core}
    assert reached(project, "import coefdyn.core as c\nc.Core()") == {core}
    assert reached(project, "import coefdyn.mixers\ncoefdyn.mixers.Second") == {
        "mixers.second:Second"
    }
    assert reached(project, "import numpy as np") == set()


def test_a_definition_reaches_what_it_names_and_nothing_beside_it(project: Path) -> None:
    code = """
        from __future__ import annotations
        from coefdyn.core import Core as Made
        A = 1
        B = A
        C = 3
        def f(C, x: Made = B): return [A for A in x]
        class G:
            size = C
            def build(self): return Made()
        """
    write(project, parts=code)
    assert reached(project, "from coefdyn.parts import f") == {"parts:f", "parts:A", "parts:B"}
    assert reached(project, "from coefdyn.parts import G") == {"parts:G", "parts:C", "core:Core"}


def test_a_module_handed_on_is_taken_whole(project: Path) -> None:
    names = {"mixers.first:First", "mixers.second:Second", "core:Core"}
    assert reached(project, "%matplotlib inline\nfrom coefdyn import mixers\nf(mixers)") == names
    assert reached(project, "from coefdyn.mixers import *") == names
    assert reached(project, "load('coefdyn.mixers.second')") == {"mixers.second:Second"}


def test_getattr_on_a_package_reaches_the_names_that_are_spelled(project: Path) -> None:
    code = "from coefdyn import mixers\ngetattr(mixers, name)\n"
    assert reached(project, code) == set()
    assert reached(project, code + "name = 'Second'") == {"mixers.second:Second"}
    code = "from coefdyn.mixers import second\ngetattr(second, name)\n"
    assert reached(project, code) == {"mixers.second:Second"}


def test_modules_named_by_an_f_string_count_where_they_are_spelled(project: Path) -> None:
    code = "load(f'coefdyn.mixers.{name}')\n"
    assert reached(project, code) == set()
    assert reached(project, code + "name = 'second'") == {"mixers.second:Second"}


def test_a_catalogue_that_is_looked_into_counts_by_entry(project: Path) -> None:
    code = """
        def one(): ...
        def two(): ...
        _ALL = (Task(name="one", f=one), Task(name="two", f=two))
        TASKS = {task.name: task for task in (*_ALL,)}
        NAMED = {"one": one, "two": two}
        WORDS = {"one" + "!": 1, "three": "one"}
        def get(name):
            if name not in NAMED:
                raise ValueError(f"choose from {NAMED}")
            return check_choice("task", name, TASKS), TASKS[name], NAMED.get(name), WORDS[name]
        """
    write(project, tasks=code)
    found = reached(project, "from coefdyn.tasks import get\nget('two')")
    assert found >= {"tasks:two", "tasks:_ALL['two']", "tasks:NAMED['two']", "tasks:one"}
    assert "tasks:WORDS['three']" in found, "words are found by keys that nobody spells"
    write(project, tasks=code.replace('"three": "one"', '"one": "three"'))
    found = reached(project, "from coefdyn.tasks import get\nget('two')")
    assert "tasks:one" not in found, "a key is handed to nobody who looks for it"
    assert "tasks:one" in reached(project, "from coefdyn.tasks import NAMED")
    whole = reached(project, "from coefdyn import tasks\nfor name in tasks.TASKS: print(name)")
    assert whole >= {"tasks:one", "tasks:two"}


def test_a_statement_belongs_to_the_variable_that_it_changes(project: Path) -> None:
    write(
        project,
        base="ALL = {}\ndef register(task): ALL[task.name] = task\ndef get(name): return ALL[name]",
        one="from coefdyn.base import register\ndef f(): ...\nregister(Task(name='one', f=f))\n",
        two="from coefdyn.base import ALL\ndef f(): ...\nALL['two'] = f\n",
        use="import torch\ntorch.set_flag(True)\nX = 1\nY = 2\n",
    )
    assert reached(project, "from coefdyn.base import get\nget('one')") >= {"one:", "one:f"}
    assert "one:" not in reached(project, "from coefdyn.base import get\nget('two')")
    assert reached(project, "from coefdyn.base import ALL") >= {"one:f", "two:f"}
    assert reached(project, "from coefdyn.use import X") == {"use:", "use:X"}


def test_what_a_name_stands_for_counts(project: Path) -> None:
    """The same definitions, reached under each other's names, are another library."""
    write(project, a="def f(): ...\ndef g(): ...\n")
    for imports in ("f as x, g as y", "g as x, f as y"):
        write(project, b=f"from coefdyn.a import {imports}\ndef run(): return x() - y()\n")
        found = Library(project).reached(["from coefdyn.b import run"])
        assert found != locals().get("before")
        before = found


def test_files_count_where_they_are_named_and_scripts_never(project: Path) -> None:
    write(project, plots__style='STYLE = "own.mplstyle"\nSCRIPT = "own.js"\nOTHER = 1\n')
    (project / "coefdyn/plots/own.mplstyle").write_text("a: 1\n")
    (project / "coefdyn/plots/own.js").write_text("1")
    found = reached(project, "from coefdyn.plots.style import STYLE, SCRIPT")
    assert found == {"plots.style:STYLE", "plots.style:SCRIPT", "own.mplstyle"}
    write(project, figure="def join(): ...\nclass F:\n    _esm = join()\n    x = 1\n")
    assert reached(project, "from coefdyn.figure import F") == {"figure:F"}
    assert reached(project, "from coefdyn.plots.style import OTHER") == {"plots.style:OTHER"}


def test_gpu_kernels_count_only_when_a_cell_names_them(project: Path) -> None:
    (project / "coefdyn/core.py").write_text(
        "from coefdyn.execution.triton import scalar\ndef Core(): return scalar.kernel\n"
    )
    assert reached(project, "from coefdyn import Core") == {"core:Core"}
    named = "from coefdyn import Core\nfrom coefdyn.execution.triton.scalar import kernel"
    assert reached(project, named) == {"core:Core", "execution.triton.scalar:kernel"}


def test_data_named_by_path_folder_or_word(project: Path) -> None:
    one = project / "data/results/one/quick.jsonl"
    for code in ('read("../../data/results/one/quick.jsonl")', 'load("one")', '"data/results/one"'):
        assert digests.data_files([code], project) == [one]
    assert digests.data_files(['save("data/scratch/a.json")'], project) == []
    absent = digests.data_files(['read("data/none.json")'], project)
    assert absent == [project / "data/none.json"]
    hidden = one.parent / ".quick.turns" / "1f"  # what a killed process leaves, and no clone has
    hidden.parent.mkdir()
    hidden.touch()
    assert digests.data_files(['load("one")'], project) == [one]


def test_meaning_leaves_out_comments_docstrings_and_layout() -> None:
    plain = "class A:\n    def f(self): return f'{1:.2f}'\n"
    dressed = (
        '"""M."""\nclass A:\n    """D."""\n    # c\n    def f(self):\n        return f"{1:.2f}"\n'
    )
    assert meaning(ast.parse(plain)) == meaning(ast.parse(dressed))
    assert meaning(ast.parse("x = 1")) != meaning(ast.parse("x = 1.0"))


def test_meaning_is_the_same_text_on_every_python() -> None:
    code = (
        "async def f[T](x: T, *, y=None): ..." if False else "def f(x, /, *, y=None): return x[1:]"
    )
    told = (
        "Module(body=[FunctionDef(name='f',args=arguments(posonlyargs=[arg(arg='x')],"
        "kwonlyargs=[arg(arg='y')],kw_defaults=[Constant()]),body=[Return(value=Subscript("
        "value=Name(id='x'),slice=Slice(lower=Constant(value=1))))])])"
    )
    assert meaning(ast.parse(code)) == told


def test_only_markdown_with_a_kernel_is_a_chapter(project: Path) -> None:
    assert [chapter.name for chapter in find_chapters(project / "book")] == ["part/chapter"]


def test_chapters_are_named_loosely_and_wrong_names_get_the_nearest(project: Path) -> None:
    chapters = find_chapters(project / "book")
    for name in ("chapter", "part/chapter", "book/part/chapter.md", "part/chapter.ipynb"):
        assert select(chapters, name) == chapters
    with pytest.raises(ValueError, match=r"chaptre is no chapter. Did you mean part/chapter"):
        select(chapters, "chaptre")


def test_threads_read_the_library_one_after_another(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, most, read = [], [], digests.library_at

    def slow(root: Path) -> Library:
        inside.append(root)
        most.append(len(inside))
        time.sleep(0.02)
        inside.pop()
        return read(root)

    monkeypatch.setattr(digests, "library_at", slow)
    (one, *_) = find_chapters(project / "book")
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: digests.digest(one, project), range(8)))
    assert len(most) == 8 and max(most) == 1 and len(set(map(str, found))) == 1


def test_the_modules_whose_definitions_changed_are_named(project: Path) -> None:
    chapter = chapter_of(project)
    notebook = digests.read_source(chapter)
    made_from = vars(digests.digest(chapter, project))
    notebook.metadata[digests.KEY] = {"digest": made_from}
    nbformat.write(notebook, chapter.notebook)
    assert digests.changed_modules(chapter, project) == []
    (project / "coefdyn/core.py").write_text("def Core():\n    return 2\n")
    assert digests.changed_modules(chapter, project) == ["coefdyn.core"]
    assert len(made_from["modules"]) == 4 * len({"<cells>", "coefdyn.core", "coefdyn.mixers.first"})


def test_a_file_that_only_the_kernel_opened_counts(project: Path) -> None:
    chapter = Chapter(name="part/chapter", source=project / "book/part/chapter.md")
    seen = project / "data/results/two/quick.jsonl"
    plain = digests.digest(chapter, project, opened=[])
    with_it = digests.digest(chapter, project, opened=[seen, project / "data/scratch/a.json"])
    assert with_it.opened == ("data/results/two/quick.jsonl",)
    assert with_it.data != plain.data
    seen.write_text("3\n")
    assert digests.digest(chapter, project, opened=[seen]).changes(asdict(with_it)) == ["data"]


def test_a_key_may_be_a_star(project: Path) -> None:
    """An entry's own name is never taken for the sign of another catalogue."""
    write(project, letters="A = 1\nB = 2\nKINDS = {'*': A, '-': B}\ndef f(x): return KINDS[x]\n")
    found = reached(project, "from coefdyn.letters import f\nf('*')")
    assert {"letters:f", "letters:A"} <= found
    assert "letters:B" not in found
