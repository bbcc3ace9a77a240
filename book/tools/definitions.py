"""Parts of a piece of the library's code that `book.tools.imports` needs: names and strings that it
mentions, what binds a name at the top of a module, and its meaning without comments.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

PACKAGE = "coefdyn"
#: stands for the name of an entry that is a catalogue itself; no string of code is spelled so
WHOLE = "\0all"
Imported = tuple[ast.Import | ast.ImportFrom, ast.alias]
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Nested = Function | ast.ClassDef | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
Assignment = ast.Assign | ast.AnnAssign | ast.AugAssign


class Use(NamedTuple):
    """A dotted name that code mentions; `lookup` where the code only looks a name up in it."""

    chain: tuple[str, ...]
    lookup: bool = False


class Piece:
    """Code of one module: a definition, an entry of a catalogue, a statement, or all cells."""

    def __init__(self, module: str, name: str, *nodes: ast.AST, evaluated: bool = False) -> None:
        self.module, self.name, self.nodes = module, name, nodes
        inside = [node for top in nodes for node in ast.walk(top)]
        words = {id(getattr(node, "value", None)) for node in inside if is_docstring(node)}
        #: names that the code imports for itself
        self.imports: dict[str, list[Imported]] = {}
        for node in inside:
            for name, imported in _imports(node):
                self.imports.setdefault(name, []).append(imported)
        found = (use for node in nodes for use in uses_of(node, frozenset(), evaluated))
        self.uses: tuple[Use, ...] = tuple(dict.fromkeys(found))
        self.strings = frozenset(
            node.value
            for node in inside
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
            if id(node) not in words
        )
        #: packages whose modules an f-string names
        starts = [one.values[0] for one in inside if isinstance(one, ast.JoinedStr) and one.values]
        words_of = (str(one.value) for one in starts if isinstance(one, ast.Constant))
        self.packages = [
            word[:-1] for word in words_of if inside_package(word) and word.endswith(".")
        ]

    @cached_property
    def meaning(self) -> str:
        return "".join(map(meaning, self.nodes))


class Module:
    """A file of the library: what binds each name, imports, and statements that bind none."""

    def __init__(self, name: str, text: str, *, package: bool = False) -> None:
        self.name, self.package = name, package
        self.bound: dict[str, list[ast.stmt]] = {}
        self.imports: dict[str, list[Imported]] = {}
        self.effects: list[Piece] = []
        tree = ast.parse(text, name)
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                node.body = [one for one in node.body if not _is_sent(one)] or [ast.Pass()]
        for statement in tree.body:
            if _is_guarded(statement):
                continue
            names = []
            for node in scope(statement):
                names += _stored(node)
                for alias, imported in _imports(node):
                    self.imports.setdefault(alias, []).append(imported)
            for one in names:
                self.bound.setdefault(one, []).append(statement)
            if not _is_idle(statement) and (not names or getattr(statement, "decorator_list", [])):
                self.effects.append(self.piece("", statement))

    def piece(self, name: str, *nodes: ast.AST) -> Piece:
        return Piece(self.name, name, *nodes, evaluated="annotations" not in self.imports)

    def is_variable(self, name: str) -> bool:
        return any(isinstance(one, Assignment) for one in self.bound.get(name, []))


def python(cell: str) -> list[ast.stmt]:
    """Parse the statements of a cell without its magics; none where it is not Python."""
    lines = (line for line in cell.splitlines() if not line.lstrip().startswith(("%", "!")))
    try:
        return ast.parse("\n".join(lines)).body
    except SyntaxError:
        return []


def _imports(node: ast.AST) -> Iterator[tuple[str, Imported]]:
    """Names that an import binds, "*" for all."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        for alias in node.names:
            plain = isinstance(node, ast.ImportFrom)
            own = alias.name if plain else alias.name.partition(".")[0]
            yield alias.asname or own, (node, alias)


def _is_guarded(statement: ast.stmt) -> bool:
    """Return whether a statement is for type checkers, or for the file as a script."""
    if not isinstance(statement, ast.If) or statement.orelse:
        return False
    test = ast.unparse(statement.test)
    return test in ("TYPE_CHECKING", "typing.TYPE_CHECKING") or test.startswith("__name__ ==")


def _is_sent(statement: ast.stmt) -> bool:
    """Return whether a statement holds a figure's script or style, which no notebook contains."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return any(isinstance(one, ast.Name) and one.id in ("_esm", "_css") for one in targets)


def _is_idle(statement: ast.stmt) -> bool:
    """Return whether a statement is only an import or a string."""
    return is_docstring(statement) or isinstance(statement, ast.Import | ast.ImportFrom)


def scope(*nodes: ast.AST) -> Iterator[ast.AST]:
    """Walk nodes and all below them, but not into functions, classes and comprehensions."""
    for node in nodes:
        yield node
        if not isinstance(node, Nested):
            yield from scope(*ast.iter_child_nodes(node))


def _stored(node: ast.AST) -> list[str]:
    """Name that a node binds, if it binds one; imports are handled by `_imports`."""
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        return [node.id]
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    return []


def chain_of(node: ast.AST) -> tuple[str, ...] | None:
    """Names of `a.b.c` as a tuple, None for any other expression."""
    if isinstance(node, ast.Attribute):
        base = chain_of(node.value)
        return base and (*base, node.attr)
    return (node.id,) if isinstance(node, ast.Name) else None


def uses_of(node: ast.AST, own: frozenset[str], evaluated: bool) -> Iterator[Use]:
    """Dotted names that code mentions, without `own` and unevaluated annotations."""
    chain = chain_of(node)
    if chain:
        yield from () if chain[0] in own else [Use(chain)]
        return
    if isinstance(node, ast.Raise) and node.exc:
        yield from (Use(one.chain, True) for one in uses_of(node.exc, own, evaluated))
        return
    looked = _looked_into(node)
    if looked is not None and (chain := chain_of(looked)):
        yield from () if chain[0] in own else [Use(chain, lookup=True)]
    inner = own
    if isinstance(node, Function):
        body = node.body if isinstance(node.body, list) else [node.body]
        parts = list(scope(*body))
        free = {name for one in parts if isinstance(one, ast.Global) for name in one.names}
        arguments = {one.arg for one in ast.walk(node.args) if isinstance(one, ast.arg)}
        inner = own | arguments | {name for one in parts for name in _stored(one)} - free
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns") and not evaluated:
            continue
        for one in value if isinstance(value, list) else [value]:
            done = chain and looked in (one, getattr(one, "value", None))
            if isinstance(one, ast.AST) and not done:
                yield from uses_of(one, inner if name == "body" else own, evaluated)


def _looked_into(node: ast.AST) -> ast.expr | None:
    """Expression in which a node only looks up an entry; None for any other node."""
    match node:
        case ast.Subscript(value=value):
            return value
        case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[value]):
            return value
        case ast.Call(func=ast.Attribute(value=value, attr="get")):
            return value
        case ast.Call(func=ast.Name(id="getattr"), args=[value, _, *_]):
            return value
        case ast.Call(func=ast.Name(id="check_choice"), args=[_, _, value, *_]):
            return value
    return None


def entries_of(value: ast.expr) -> Iterator[tuple[str | None, *tuple[ast.AST, ...]]]:
    """Entries of a display, each with its name; ``WHOLE`` precedes another catalogue."""
    match value:
        case ast.Dict(keys=keys, values=values):
            for key, one in zip(keys, values, strict=True):
                if key is not None:
                    yield _word(key), key, one
                else:
                    yield from entries_of(one)
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            for one in parts:
                if isinstance(one, ast.Starred):
                    yield from entries_of(one.value)
                else:
                    yield name_of(one), one
        case ast.BinOp(left=left, op=ast.BitOr() | ast.Add(), right=right):
            yield from entries_of(left)
            yield from entries_of(right)
        case ast.DictComp(key=ast.Attribute(attr="name") as label, value=made, generators=[over]):
            yield from entries_of(over.iter)
            yield None, ast.Tuple(elts=[label, made, *over.ifs], ctx=ast.Load())
        case ast.Name() | ast.Attribute() if chain_of(value):
            yield WHOLE, value
        case _:
            yield None, value


def name_of(node: ast.AST) -> str | None:
    """The name of an entry that is a call with `name="..."`, itself or in its one argument."""
    match node:
        case ast.Expr(value=value):
            return name_of(value)
        case ast.Call(args=[one], keywords=[]):
            return name_of(one)
        case ast.Call(keywords=keywords):
            said = (_word(one.value) for one in keywords if one.arg == "name")
            return next(said, None)
    return None


def _word(node: ast.AST) -> str | None:
    """Value of a string expression, None for another."""
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, str) else None


def inside_package(module: str) -> bool:
    """Return whether a name is that of the package or begins with it."""
    return f"{module}.".startswith(f"{PACKAGE}.")


def is_docstring(node: ast.AST) -> bool:
    """Return whether a statement is a bare string: a docstring, or a comment below a constant."""
    value = node.value if isinstance(node, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def meaning(tree: object) -> str:
    """Syntax tree as text, the same on every Python version, docstrings left out."""
    if isinstance(tree, list):
        return f"[{','.join(meaning(one) for one in tree if not is_docstring(one))}]"
    if not isinstance(tree, ast.AST):
        return repr(tree)
    # Fields that some Python versions have and others lack are empty in the code they share.
    said = {k: v for k, v in ast.iter_fields(tree) if v is not None and v != []}
    said = {k: meaning(v) for k, v in said.items() if k not in ("ctx", "kind")}
    return f"{type(tree).__name__}({','.join(f'{k}={v}' for k, v in said.items())})"
