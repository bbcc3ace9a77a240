"""The digests that tell whether a chapter's committed output is older than what it came from."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

import pytest

from book.tools import digest as digests
from book.tools.chapters import Chapter, find_chapters, select
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
    paths = Library(project).reached([textwrap.dedent(code)])
    return {path.relative_to(project).as_posix() for path in paths}


def test_imports_are_followed_to_the_module_that_defines_the_name(project: Path) -> None:
    first, core = "coefdyn/mixers/first.py", "coefdyn/core.py"
    assert reached(project, "from coefdyn.mixers import First") == {first, core}
    assert reached(project, "from coefdyn import Core") == {core}
    assert reached(project, "import numpy as np") == set()


def test_a_package_taken_whole_reaches_all_it_imports(project: Path) -> None:
    files = reached(project, "%matplotlib inline\nfrom coefdyn import mixers")
    assert files >= {f"coefdyn/mixers/{name}.py" for name in ("__init__", "first", "second")}


def test_modules_named_in_strings_and_scripts_beside_them_count(project: Path) -> None:
    files = reached(project, "from coefdyn.widgets.explorer import Explorer")
    widget = {"coefdyn/widgets/explorer.py", "coefdyn/widgets/js/explorer.js"}
    assert files == widget | {"coefdyn/core.py"}


def test_a_list_of_submodules_reaches_them_all(project: Path) -> None:
    package = project / "coefdyn" / "lazy"
    package.mkdir()
    (package / "__init__.py").write_text('ALL: dict[str, str] = {"one": "first", "2": "no"}\n')
    (package / "first.py").write_text("from coefdyn.core import Core\n")
    (project / "coefdyn" / "page.py").write_text("from coefdyn.lazy import ALL\n")
    init = "coefdyn/lazy/__init__.py"
    listed = {init, "coefdyn/lazy/first.py", "coefdyn/core.py"}
    assert reached(project, "from coefdyn.lazy import ALL") == listed
    assert reached(project, "import coefdyn.page") == {init, "coefdyn/page.py"}


def test_gpu_kernels_count_only_when_a_cell_names_them(project: Path) -> None:
    (project / "coefdyn/core.py").write_text("from coefdyn.execution.triton import scalar\n")
    assert reached(project, "import coefdyn.core") == {"coefdyn/core.py"}
    named = reached(project, "import coefdyn.core\nimport coefdyn.execution.triton.scalar")
    assert "coefdyn/execution/triton/scalar.py" in named


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
    assert digests.meaning(ast.parse(plain)) == digests.meaning(ast.parse(dressed))
    assert digests.meaning(ast.parse("x = 1")) != digests.meaning(ast.parse("x = 1.0"))


def test_meaning_is_the_same_text_on_every_python() -> None:
    code = (
        "async def f[T](x: T, *, y=None): ..." if False else "def f(x, /, *, y=None): return x[1:]"
    )
    told = (
        "Module(body=[FunctionDef(name='f',args=arguments(posonlyargs=[arg(arg='x')],"
        "kwonlyargs=[arg(arg='y')],kw_defaults=[Constant()]),body=[Return(value=Subscript("
        "value=Name(id='x'),slice=Slice(lower=Constant(value=1))))])])"
    )
    assert digests.meaning(ast.parse(code)) == told


def test_only_markdown_with_a_kernel_is_a_chapter(project: Path) -> None:
    assert [chapter.name for chapter in find_chapters(project / "book")] == ["part/chapter"]


def test_chapters_are_named_loosely_and_wrong_names_get_the_nearest(project: Path) -> None:
    chapters = find_chapters(project / "book")
    for name in ("chapter", "part/chapter", "book/part/chapter.md", "part/chapter.ipynb"):
        assert select(chapters, name) == chapters
    with pytest.raises(ValueError, match=r"chaptre is no chapter. Did you mean part/chapter"):
        select(chapters, "chaptre")
