"""No output that changes counts as current: what digests leave out against runs of chapters."""

from __future__ import annotations

import ast
import random
import re
import shutil
from pathlib import Path

import pytest

from book.tools.chapters import ROOT, Chapter, find_chapters, select
from book.tools.definitions import PACKAGE
from book.tools.digest import code_cells, read_source
from book.tools.imports import Closure, Library
from tests.chapter_runs import Copy, constants

#: Among the cheapest chapters: a table of the library's rows, figures, and widgets.
CHEAP = ("notation", "architectures/table1")
CONSTANTS = 200


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    return Copy(tmp_path_factory.mktemp("library"))


@pytest.fixture(scope="module")
def chosen(copy: Copy) -> list[tuple[str, ast.Constant]]:
    """200 constants that the library can be imported with when all of them are changed.

    Where it cannot, an execution fails aloud, which is no output that counts as current.
    """
    every = list(constants(copy.library))
    random.Random(31).shuffle(every)
    taken, rest = every[:CONSTANTS], every[CONSTANTS:]
    while True:
        copy.change(taken)
        refusing = copy.refuses()
        copy.restore()
        if not refusing:
            return taken
        rest = [one for one in rest if one[0] not in refusing]
        taken = [one for one in taken if one[0] not in refusing]
        taken, rest = taken + rest[: CONSTANTS - len(taken)], rest[CONSTANTS - len(taken) :]


def cells_of(chapter: Chapter) -> list[str]:
    return code_cells(read_source(chapter))


def covered(closure: Closure) -> set[int]:
    """Every node of the syntax trees that a closure holds."""
    tops = (top for piece in closure.pieces for top in piece.nodes)
    return {id(node) for top in tops for node in ast.walk(top)}


@pytest.mark.parametrize("name", CHEAP)
def test_a_constant_that_leaves_the_digest_leaves_the_outputs(
    name: str, copy: Copy, chosen: list[tuple[str, ast.Constant]]
) -> None:
    """Of 200 constants, changing one either makes a chapter stale or changes none of its outputs.

    Those outside of the digest are changed at once: if the outputs stay the same, so they do for
    each alone. What the chapter calls while it runs lies inside, too.
    """
    (chapter,) = select(find_chapters(), name)
    closure = Closure(copy.library, cells_of(chapter))
    inside = covered(closure)
    outside = [one for one in chosen if id(one[1]) not in inside]
    assert len(chosen) == CONSTANTS and outside

    before, called = copy.run(chapter)
    copy.change(outside)
    try:
        assert Library(copy.folder).reached(cells_of(chapter)) == copy.library.reached(
            cells_of(chapter)
        )
        after, _ = copy.run(chapter)
    finally:
        copy.restore()
    assert after == before

    lines = {
        (str(copy.path(piece.module)), line)
        for piece in closure.pieces
        for top in piece.nodes
        for line in span(top)
    }
    assert called and not {one for one in called if one not in lines}


def span(node: ast.AST) -> range:
    """The lines of a definition from its first decorator on."""
    if not hasattr(node, "lineno"):
        return range(0)
    first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])
    return range(first, node.end_lineno + 1)


def test_a_constant_inside_changes_the_digest(
    copy: Copy, chosen: list[tuple[str, ast.Constant]]
) -> None:
    """One at a time, as far as chapters cover them."""
    (chapter,) = select(find_chapters(), CHEAP[-1])
    cells = cells_of(chapter)
    known = copy.library.reached(cells)
    inside = covered(Closure(copy.library, cells))
    tried = [one for one in chosen if id(one[1]) in inside][:5]
    assert tried
    for one in tried:
        copy.change([one])
        now = Library(copy.folder).reached(cells)
        copy.restore()
        assert now != known, f"{one[0]}, line {one[1].lineno}"


def test_a_new_row_makes_those_chapters_stale_that_list_the_rows(tmp_path: Path) -> None:
    """A mixer among the rows since Table 1, exported as all of them are."""
    listing = ["architectures/softmax_attention", "architectures/table1", "design/rows"]
    training = ["architectures/gla", "design/train", "principles/principle_4", "evidence"]
    chosen = select(find_chapters(), ",".join([*listing, *training]))
    shutil.copytree(ROOT / PACKAGE, tmp_path / PACKAGE)
    cells = {chapter.name: cells_of(chapter) for chapter in chosen}
    library = Library(tmp_path)
    before = {name: library.reached(each) for name, each in cells.items()}

    mixers = tmp_path / PACKAGE / "mixers"
    text = (mixers / "retnet.py").read_text()
    (mixers / "newcomer.py").write_text(re.sub(r"\bRetNet\b", "Newcomer", text))
    text = (mixers / "__init__.py").read_text()
    for old, new in (
        ("from coefdyn.mixers.retnet import RetNet\n", "from .newcomer import Newcomer\n"),
        ("        RetNet,\n", "        Newcomer,\n"),
        ('    "RetNet",\n', '    "Newcomer",\n'),
    ):
        assert old in text
        text = text.replace(old, new + old, 1)
    (mixers / "__init__.py").write_text(text)

    library = Library(tmp_path)
    changed = {name for name, each in cells.items() if library.reached(each) != before[name]}
    assert changed == set(listing)
