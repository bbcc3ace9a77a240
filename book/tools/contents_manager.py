"""Contents manager of `make lab`: JupyterLab with the book's macros, citations and figures.

The pages take both from `_config.yml` and `references.bib`. JupyterLab draws MyST, but finds macros
in the first cell of a notebook alone and citations nowhere. So a chapter is lent such a cell, and
links for its citations, when it is opened; both are taken out again when it is saved. So are the
programs of its interactive figures (`programs.py`): where Jupyter trusts the notebook they are
alive before any cell has run, and elsewhere a line of text says where they are.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import nbformat
import yaml
from jupytext import TextFileContentsManager
from pybtex.backends.plaintext import Backend
from pybtex.database import Entry, parse_file
from pybtex.richtext import Text

from book.tools.chapters import BOOK, ROOT
from book.tools.download_note import is_note
from book.tools.programs import models_of, name_programs, put_programs

__all__ = ["ChapterContents", "lend", "take_back"]

TAG = "macros-of-the-book"
#: The four ingredients in colours for light and dark cells; by name, since # would be an argument.
COLORS = {
    "evolution": "royalblue",
    "scaling": "peru",
    "readout": "mediumvioletred",
    "normalizer": "seagreen",
}
#: The first of three spellings: JupyterLab shows the paper's symbols.
FIRST_OF_THREE = r"\@secondoftwo{#2#3}{#1}"
CLASS = re.compile(r"\\class\{cd-(\w+)\}")
#: Text.render_as looks its backend up among all installed packages, at every name.
PLAIN = Backend()
CITATION = re.compile(r"\{(cite(?::t)?)\}`([^`]+)`")
LINK = re.compile(r'\[[^\]]*\]\([^)\s]* "(cite(?::t)?) ([^"]+)"\)')


def macros() -> dict[str, str]:
    """Macros of `_config.yml` in KaTeX's form; symbols are the paper's."""
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    given = config["sphinx"]["config"]["mathjax3_config"]["tex"]["macros"]
    plain = {name: text if isinstance(text, str) else text[0] for name, text in given.items()}
    plain["conv"] = FIRST_OF_THREE
    return {f"\\{name}": CLASS.sub(_colored, text) for name, text in plain.items()}


def _colored(found: re.Match[str]) -> str:
    return rf"\textcolor{{{COLORS[found[1]]}}}"


@cache
def front_matter() -> str:
    """Source of the cell: YAML between two rules, on one line, since JSON is YAML."""
    return f"---\nmath: {json.dumps(macros())}\n---"


@cache
def bibliography() -> dict[str, Entry]:
    """The entries of `references.bib` by key."""
    return dict(parse_file(str(BOOK / "references.bib")).entries)


@cache
def authors(name: str) -> str:
    """Authors of a work: one name, two names, or the first of more."""
    entry = bibliography()[name]
    latex = (" ".join(person.last_names) for person in entry.persons["author"])
    names = [Text.from_latex(name).render(PLAIN) for name in latex]
    return f"{names[0]} et al." if len(names) > 2 else " and ".join(names)


def _link(found: re.Match[str]) -> str:
    role, keys = found[1], found[2]
    names = [key.strip() for key in keys.split(",")]
    if not bibliography().keys() >= set(names):
        return found[0]
    entries = [bibliography()[name] for name in names]
    pairs = [(authors(name), bibliography()[name].fields["year"]) for name in names]
    if role == "cite:t":
        text = ", ".join(f"{name} ({year})" for name, year in pairs)
    else:
        text = "(" + "; ".join(f"{name}, {year}" for name, year in pairs) + ")"
    return f'[{text}]({entries[0].fields.get("url", "")} "{role} {keys}")'


def _citation(found: re.Match[str]) -> str:
    """Citation that ``_link`` replaced by a link; a link of the reader's own stays."""
    cited = f"{{{found[1]}}}`{found[2]}`"
    return cited if CITATION.sub(_link, cited) == found[0] else found[0]


def lend(notebook: Any) -> None:
    """Insert the macros before the first cell, and links where citations are.

    The first cell of a notebook that was downloaded alone is left out: its reader has all of it.
    """
    notebook["cells"] = [cell for cell in notebook["cells"] if not is_note(cell)]
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = CITATION.sub(_link, cell["source"])
    front = nbformat.v4.new_markdown_cell(front_matter(), id=TAG)
    front.metadata = nbformat.from_dict({"tags": [TAG], "editable": False, "deletable": False})
    notebook["cells"].insert(0, front)


def take_back(notebook: Any) -> None:
    """Restore the notebook as it was before ``lend``, with later edits."""
    cells = notebook["cells"]
    notebook["cells"] = [cell for cell in cells if TAG not in cell["metadata"].get("tags", ())]
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = LINK.sub(_citation, cell["source"])
    name_programs(notebook)


class ChapterContents(TextFileContentsManager):  # type: ignore[misc]
    """Jupytext's contents manager, which also lends chapters macros, citations and programs."""

    def get(self, path: str, content: bool = True, *rest: Any, **options: Any) -> Any:
        """Read a file as JupyterLab opens it."""
        model = super().get(path, content, *rest, **options)
        inside = path.strip("/").startswith("book/")
        if inside and model["type"] == "notebook" and model["content"] is not None:
            lend(model["content"])
            try:
                put_programs(models_of(model["content"]))
            except ValueError as problem:  # the figure's one line of text stays
                self.log.warning("%s: %s", path, problem)
        return model

    def save(self, model: Any, path: str = "") -> Any:
        """Write a file as JupyterLab closes it."""
        if model["type"] == "notebook" and model.get("content") is not None:
            take_back(model["content"])
        return super().save(model, path)
