"""Shapes that annotations promise, checked at run time by jaxtyping and beartype.

jaxtyping's own import hook wraps every function. Only some of the library's take or give a tensor
whose shape is written down, and the others, called by the million, say nothing about shapes: the
hook here wraps the former alone, which halves what the checks cost.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any

__all__ = ["check_shapes_of"]

#: what annotations of shapes are subscripts of
SHAPED = ("Bool", "Float", "Int")


def check_shapes_of(package: str) -> None:
    """From now on, modules of ``package`` are imported with their shapes checked."""
    sys.meta_path.insert(0, _Finder(package))


class _Finder(PathFinder):
    def __init__(self, package: str) -> None:
        self.package = package

    def find_spec(  # type: ignore[override]
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self.package and not name.startswith(self.package + "."):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


class _Loader(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        """Compiled from the source each time: what lies in __pycache__ is not checked."""
        place = self.get_filename(fullname)
        tree = _Wrapping().visit(ast.parse(self.get_data(place), place))
        return compile(ast.fix_missing_locations(tree), place, "exec", dont_inherit=True)


class _Wrapping(ast.NodeTransformer):
    """Decorates functions and dataclasses that have a shape among their annotations."""

    def visit_Module(self, node: ast.Module) -> ast.Module:
        self.generic_visit(node)
        here = next((i for i, one in enumerate(node.body) if not _comes_first(one)), 0)
        node.body[here:here] = ast.parse("import beartype\nimport jaxtyping").body
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        arguments = ast.walk(node.args)
        annotations: list[Any] = [one.annotation for one in arguments if isinstance(one, ast.arg)]
        if _has_shape([*annotations, node.returns]):
            node.decorator_list.append(_decorator(node))
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        self.generic_visit(node)
        if _has_shape([one.annotation for one in node.body if isinstance(one, ast.AnnAssign)]):
            node.decorator_list.insert(0, _decorator(node))
        return node


def _comes_first(node: ast.stmt) -> bool:
    docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return docstring or (isinstance(node, ast.ImportFrom) and node.module == "__future__")


def _has_shape(annotations: Sequence[ast.expr | None]) -> bool:
    parts = (part for one in annotations if one is not None for part in ast.walk(one))
    return any(
        isinstance(part, ast.Subscript)
        and isinstance(part.value, ast.Name)
        and part.value.id in SHAPED
        for part in parts
    )


def _decorator(at: ast.stmt) -> ast.expr:
    """On the line of what it wraps, so that tracebacks and `inspect` find the source."""
    text = "jaxtyping.jaxtyped(typechecker=beartype.beartype)"
    made = ast.parse(text, mode="eval").body
    for part in ast.walk(made):
        ast.copy_location(part, at)
    return made
