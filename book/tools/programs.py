"""The programs of interactive figures, which no committed notebook holds.

An execution saves each figure with its module (`_esm`, 45 to 70 kB) and its style sheet (`_css`),
so that a change to one script would rewrite every notebook. A committed notebook names the class of
the figure in their place, which is all that either depends on; what one figure has of its own is
the rest of its state. The page build and JupyterLab (`make lab`) put in the text that the class has
now. What stands there meanwhile is a module too: a viewer that runs it, such as nbviewer, shows one
line with the name of the page, and one that runs none shows the same line as the output's text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

__all__ = ["STATE", "VIEW", "carried", "models_of", "name_programs", "put_programs", "title"]

STATE = "application/vnd.jupyter.widget-state+json"
VIEW = "application/vnd.jupyter.widget-view+json"
#: Entries of a figure's state: its module and its style sheet.
PARTS = ("_esm", "_css")
#: Package of the classes whose text can be restored.
OURS = "coefdyn."
HEADING = re.compile(r"^# +(.+?)\s*$", re.MULTILINE)
#: What follows a figure's text, also in `nbval.cfg`: an execution does not print it.
WHERE = ": an interactive figure, which runs on "
SAID = re.compile(re.escape(WHERE) + ".*")


def name_programs(notebook: Any) -> None:
    """Replace the figures' programs by the names of their classes, and name the page in views.

    Figures of other libraries keep their programs, which nothing could put back (``carried``).
    """
    models = models_of(notebook)
    place = _place(notebook)
    for record in models.values():
        if name := _class(record):
            stub = {
                "_esm": _module(name, f"An interactive figure. It runs on {place}."),
                "_css": f"/* {name} */",
            }
            record["state"].update({part: stub[part] for part in _parts(record)})
    for data in _views(notebook):
        if _class(models.get(data[VIEW]["model_id"], {})):
            data["text/plain"] = SAID.sub("", "".join(data.get("text/plain", ""))) + WHERE + place


def put_programs(models: Mapping[str, Any]) -> None:
    """Restore the programs of this checkout's classes in saved models, by their ids.

    Raises:
        ValueError: for a class that does not exist any more.
    """
    for record in models.values():
        if name := _class(record):
            program = _program(name)
            record["state"].update({part: program[part] for part in _parts(record)})


def carried(notebook: Any) -> list[str]:
    """Names of the figure classes whose programs the notebook carries, sorted."""
    return sorted(
        {
            str(record["state"].get("_anywidget_id", record.get("model_name")))
            for record in models_of(notebook).values()
            for part in _parts(record)
            if not _is_name(record["state"][part], _class(record))
        }
    )


def title(notebook: Any) -> str:
    """The first heading of a notebook; empty where there is none."""
    texts = ("".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "markdown")
    return next((found[1] for text in texts if (found := HEADING.search(text))), "")


def models_of(notebook: Any) -> dict[str, Any]:
    """The saved models of a notebook by their ids."""
    saved = notebook["metadata"].get("widgets", {}).get(STATE, {})
    models: dict[str, Any] = saved.get("state", {})
    return models


def _views(notebook: Any) -> Iterator[Any]:
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            if VIEW in output.get("data", {}):
                yield output["data"]


def _class(record: Mapping[str, Any]) -> str:
    """Full name of the class whose figure a record holds; empty for any outside the library."""
    name = str(record.get("state", {}).get("_anywidget_id", ""))
    return name if name.startswith(OURS) else ""


def _parts(record: Mapping[str, Any]) -> list[str]:
    return [part for part in PARTS if part in record.get("state", {})]


def _place(notebook: Any) -> str:
    name = title(notebook)
    page = f'the page "{name}"' if name else "a page"
    return f"{page} of the book Coefficient Dynamics, and under make lab"


def _module(name: str, line: str) -> str:
    """Source of a module that names the class and shows one line."""
    said = json.dumps(line, ensure_ascii=False)
    return f"// {name}\nexport default {{ render: ({{ el }}) => {{ el.textContent = {said}; }} }};"


def _is_name(text: str, name: str) -> bool:
    """Return whether a part of a record only names its class, whatever page its line mentions."""
    line = re.escape(_module(name, "@")).replace('"@"', r'"[^\n]*"')
    return bool(name) and (text == f"/* {name} */" or re.fullmatch(line, text) is not None)


@cache
def _program(name: str) -> dict[str, str]:
    """Module and style sheet of a class in this checkout, by its full name."""
    module, _, kind = name.rpartition(".")
    try:
        figure = getattr(import_module(module), kind)
        return {part: str(getattr(figure, part)) for part in PARTS}
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"a notebook holds a figure of {name}, which this checkout does not have ({error}); "
            "execute its chapter again, make execute CHAPTER=name FORCE=1."
        ) from error
