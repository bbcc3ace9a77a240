"""The reference: what it lists is documented as it is, and chapters import nothing else."""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import re
import textwrap
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from book.tools.chapters import BOOK, find_chapters
from book.tools.digest import code_cells, read_source
from book.tools.reference import readable
from coefdyn.lab.experiments import EXPERIMENTS

PAGES = sorted((BOOK / "api").glob("*.md"))
MODULES = [
    name
    for page in PAGES
    for name in re.findall(r"^\.\. automodule:: ([\w.]+)$", page.read_text(), re.MULTILINE)
]
ENTRY = re.compile(r"^    (\w+(?:, *\w+)*) *(?:\([^)]*\))?:", re.MULTILINE)
QUESTION = re.compile(r"(?:What|How|Which|Whether|Where|When|Who|Whose|Why)\b")
SECTION = r"^{}:\n((?:    .*\n|\n)*)"


@cache
def module(name: str) -> ModuleType:
    return importlib.import_module(name)


def public() -> list[tuple[str, object]]:
    """Every function and class of the reference, and the public methods they define, by name."""
    found: dict[str, object] = {}
    for place in MODULES:
        for name in module(place).__all__:
            thing = getattr(module(place), name)
            if inspect.isfunction(thing) or inspect.isclass(thing):
                found[f"{place}.{name}"] = thing
            if inspect.isclass(thing):
                for key, value in vars(thing).items():
                    if inspect.isfunction(value) and not key.startswith("_"):
                        found[f"{place}.{name}.{key}"] = value
    return list(found.items())


THINGS = public()


def section(doc: str, name: str) -> str:
    """The body of a section of a docstring such as "Args"."""
    match = re.search(SECTION.format(name), doc + "\n", re.MULTILINE)
    return match[1] if match else ""


def described(doc: str) -> list[str]:
    """The names that the section Args describes."""
    names = (found for found in ENTRY.findall(section(doc, "Args")))
    return [name for group in names for name in re.split(r", *", group)]


def parameters(thing: object) -> list[str]:
    """The arguments a caller gives; a first "**" says that typed options are among them."""
    found = []
    try:
        signature = inspect.signature(thing)  # type: ignore[arg-type]
    except ValueError:  # an exception, or the type of options
        return ["**"]
    for name, one in signature.parameters.items():
        if one.kind is inspect.Parameter.VAR_KEYWORD:
            found += ["**", name]
        elif name not in ("self", "cls"):
            found.append(name)
    return found


def raised(thing: object) -> set[str]:
    """The exceptions that the body itself raises, helpers aside."""
    if inspect.isclass(thing):
        makers = [vars(thing).get(name) for name in ("__init__", "__post_init__")]
        return set().union(*(raised(one) for one in makers if inspect.isfunction(one)))
    try:
        source = inspect.getsource(thing)  # type: ignore[arg-type]
    except OSError:  # the constructor that a dataclass writes
        return set()
    tree = ast.parse(textwrap.dedent(source))
    raises = (node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise))
    calls = (exc.func for exc in raises if isinstance(exc, ast.Call))
    return {call.id for call in calls if isinstance(call, ast.Name) and call.id[0].isupper()}


@pytest.mark.parametrize("place", MODULES)
def test_a_module_of_the_reference_says_what_it_exports(place: str) -> None:
    names = module(place).__all__
    assert module(place).__doc__
    assert len(set(names)) == len(names)
    assert all(hasattr(module(place), name) for name in names)


def test_every_public_thing_has_a_docstring() -> None:
    missing = [name for name, thing in THINGS if not inspect.getdoc(thing)]
    assert missing == []


def test_summaries_ask_no_question() -> None:
    """A summary is a noun phrase or a verb phrase: "Row sums of", "Return whether", not "Which"."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = [
        f"{path.relative_to(BOOK.parent)}: {text.splitlines()[0]}"
        for path in sorted((BOOK.parent / "coefdyn").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, kinds) and not getattr(node, "name", "").startswith("_")
        if QUESTION.match(text := ast.get_docstring(node) or "")
    ]
    assert not found, "\n".join(found)


def test_described_arguments_are_those_of_the_signature() -> None:
    """No argument that is gone is still described, and where some are described, all are."""
    wrong = {}
    for name, thing in THINGS:
        doc = inspect.getdoc(thing) or ""
        have, said = parameters(thing), described(doc)
        stale = [] if "**" in have else [one for one in said if one not in have]
        left_out = [one for one in have if not _said(thing, one)] if said else []
        if stale or left_out:
            wrong[name] = {"gone": stale, "not described": left_out}
    assert wrong == {}


def _said(thing: object, name: str) -> bool:
    """By the docstring, or by that of a base class; typed options are described at their type."""
    if name == "**":
        return True
    one = inspect.signature(thing).parameters[name]  # type: ignore[arg-type]
    docs = [inspect.getdoc(base) or "" for base in getattr(thing, "__mro__", [thing])]
    found = any(re.search(rf"\b{name}\b", doc) for doc in docs)
    return found or one.kind is inspect.Parameter.VAR_KEYWORD


def test_what_is_raised_is_said() -> None:
    wrong = {}
    for name, thing in THINGS:
        doc, place = inspect.getdoc(thing) or "", inspect.getmodule(thing)
        kinds = {one: getattr(builtins, one, None) or getattr(place, one) for one in raised(thing)}
        missing = {
            one
            for one, kind in kinds.items()
            if not any(base.__name__ in doc for base in kind.__mro__[:-3])
        }
        if missing - {"NotImplementedError"}:
            wrong[name] = missing
    assert wrong == {}


def test_raises_names_exceptions() -> None:
    for name, thing in THINGS:
        for kind in ENTRY.findall(section(inspect.getdoc(thing) or "", "Raises")):
            for one in re.split(r", *", kind):
                known = getattr(builtins, one, None) or _anywhere(one)
                assert known and issubclass(known, Exception), f"{name} raises {one}?"


def _anywhere(name: str) -> type | None:
    return next((getattr(module(m), name) for m in MODULES if hasattr(module(m), name)), None)


def imports(cells: list[str]) -> list[tuple[str, str]]:
    """(module, name) of every import of the library in code cells; name is "" for a module."""
    found = []
    for cell in cells:
        try:
            tree = ast.parse(cell)
        except SyntaxError:  # a cell with a magic
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("coefdyn"):
                found += [(node.module or "", alias.name) for alias in node.names]
            elif isinstance(node, ast.Import):
                names = (alias.name for alias in node.names)
                found += [(name, "") for name in names if name.split(".")[0] == "coefdyn"]
    return found


@pytest.mark.parametrize("chapter", find_chapters(), ids=lambda chapter: chapter.name)
def test_chapters_import_public_names_only(chapter) -> None:
    """Names that the reference lists, its modules, and the experiments by name."""
    known = {*MODULES, *(f"coefdyn.lab.experiments.{name}" for name in EXPERIMENTS.values())}
    hidden = [
        f"{place} {name}".strip()
        for place, name in imports(code_cells(read_source(chapter)))
        if f"{place}.{name}" not in known
        and not (place in MODULES and (not name or name in module(place).__all__))
    ]
    assert hidden == [], "list their module on a page of book/api, or use a public name"


def test_docstrings_become_text_that_sphinx_takes_as_it_is() -> None:
    """Equations are literal, stars and bars mean themselves, plain lists of fields are lists."""
    doc = ["Sum over *batch of |x|.", "", "    y = a * b", "", "size: how many*", "    there are."]
    assert readable(doc, {"size"}) == [
        "Sum over \\*batch of \\|x\\|.",
        "",
        "::",
        "",
        "    y = a * b",
        "",
        "Args:",
        "    size: how many\\*",
        "        there are.",
    ]


def test_every_package_is_in_the_reference() -> None:
    packages = {".".join(p.parent.parts) for p in _packages() if p.parent.name not in HIDDEN}
    parts = {f"coefdyn.lab.{room}" for room in ("commands", "headline", "pages", "scripts")}
    parts |= {"coefdyn.lab", "coefdyn.dynamics"}
    parts |= {f"coefdyn.lens.{room}" for room in ("cache", "change", "read", "run")}
    assert packages <= {*MODULES, *parts}


#: how things are computed is no part of what is promised
HIDDEN = ("execution", "chunked", "triton", "adapters")


def _packages() -> list[Path]:
    root = BOOK.parent
    return [p.relative_to(root) for p in sorted((root / "coefdyn").rglob("__init__.py"))]


def _defined() -> dict[str, set[str]]:
    """Every class and function that a module of the library defines, with the modules."""
    found: dict[str, set[str]] = {}
    for path in sorted((BOOK.parent / "coefdyn").rglob("*.py")):
        place = ".".join(path.relative_to(BOOK.parent).with_suffix("").parts)
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                found.setdefault(node.name, set()).add(place.removesuffix(".__init__"))
    return found


DEFINED = _defined()
#: names that a page lists, with those of their members
LISTED = {name: getattr(module(place), name) for place in MODULES for name in module(place).__all__}
NAME = re.compile(r"``([A-Za-z_][\w.]*)(?:\(\))?``")
TYPE = re.compile(r"\b[A-Z]\w*[a-z]\w*\b")


def _resolves(name: str) -> bool:
    """Return whether a page lists the name, or its owner with that attribute."""
    parts = name.split(".")
    if parts[0] == "coefdyn":
        return name in MODULES or any(
            name.startswith(f"{place}.") and _resolves(name.removeprefix(f"{place}."))
            for place in MODULES
        )
    if parts[0] not in LISTED:
        return False
    owner = LISTED[parts[0]]
    for part in parts[1:]:
        bases = getattr(owner, "__mro__", ())
        fields = {name for base in bases for name in vars(base).get("__annotations__", {})}
        if part not in fields and not hasattr(owner, part):
            return False
        owner = getattr(owner, part, None)
    return True


def _of_the_library(name: str) -> bool:
    """Return whether a word in backticks is meant as a library name: a class, or dotted."""
    first = name.split(".")[0]
    return first == "coefdyn" or (first in DEFINED and (first[0].isupper() or "_" in first))


def documented() -> list[tuple[str, object]]:
    """Entries on the pages of the library; those of the lab follow the book."""
    found = [*THINGS, *((place, module(place)) for place in MODULES)]
    return [one for one in found if not one[0].startswith("coefdyn.lab")]


def test_every_name_that_a_docstring_mentions_is_on_a_page() -> None:
    lost: dict[str, set[str]] = {}
    for place, thing in documented():
        for name in NAME.findall(inspect.getdoc(thing) or ""):
            if _of_the_library(name) and not _resolves(name):
                lost.setdefault(name, set()).add(place)
    assert lost == {}


def test_every_type_of_a_signature_is_on_a_page() -> None:
    lost: dict[str, set[str]] = {}
    for place, thing in documented():
        notes = getattr(thing, "__annotations__", {})
        if inspect.isclass(thing):
            maker = vars(thing).get("__init__")
            notes = {
                **vars(thing).get("__annotations__", {}),
                **getattr(maker, "__annotations__", {}),
            }
        for note in notes.values():
            for name in TYPE.findall(str(note)):
                if name in DEFINED and not _resolves(name):
                    lost.setdefault(name, set()).add(place)
    assert lost == {}
