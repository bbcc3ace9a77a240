"""Normal form of notebooks, so that two executions give the same file.

    python -m book.tools.normalize [--check] [--committed] [NOTEBOOK...]

It removes timings, papermill's marks, injected parameters, version and machine names, and empty
outputs (such as a finished progress bar). It replaces cell ids (by digests of their content),
widget model ids (by the order of their views), object addresses, the temporary names of cells in
warnings, and the programs of interactive figures (`programs.py`). It puts the requirements of a
downloaded notebook first (`download_note.py`). It keeps sources, all other outputs and tags.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from pathlib import Path

import nbformat

from book.tools.chapters import ROOT, find_chapters
from book.tools.download_note import is_note, note
from book.tools.programs import STATE, VIEW, carried, name_programs

MODEL_REFERENCE = re.compile(r"IPY_MODEL_([0-9a-f-]+)")

KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
LANGUAGE = {"name": "python", "file_extension": ".py", "mimetype": "text/x-python"}
DROPPED_METADATA = ("papermill", "celltoolbar", "signature", "toc", "vscode", "colab", "coefdyn")
DROPPED_CELL_METADATA = ("execution", "papermill", "ExecuteTime", "collapsed", "scrolled")

#: A figure of another library has no class here whose text could be put back.
REMEDY = "`make format` names it instead, for classes of coefdyn; no other can stay in a notebook"

REPLACED = (
    (re.compile(r"\S*ipykernel_\d+/\d+\.py"), "<cell>"),
    (re.compile(r"\bat 0x[0-9a-fA-F]{6,}"), "at 0x0"),
    (re.compile(r"<dc:date>[^<]*</dc:date>"), ""),
    (re.compile(re.escape(f"{ROOT}/")), ""),
)


def normalize(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Normalise the notebook in place so that equal executions are equal files."""
    own = [c for c in notebook.cells if not ("injected-parameters" in tags(c) or is_note(c))]
    notebook.cells = [note(), *own]
    _normalize_widgets(notebook)
    name_programs(notebook)
    kept = {k: v for k, v in notebook.metadata.items() if k not in DROPPED_METADATA}
    notebook.metadata = nbformat.from_dict(
        {**kept, "kernelspec": KERNEL, "language_info": LANGUAGE}
    )
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    seen: dict[str, int] = {}
    count = 0
    for cell in notebook.cells:
        for key in DROPPED_CELL_METADATA:
            cell.metadata.pop(key, None)
        cell.id = _cell_id(cell, seen)
        if cell.cell_type == "code":
            count += 1
            _normalize_outputs(cell, count)
    return notebook


def tags(cell: nbformat.NotebookNode) -> list[str]:
    """A cell's tags."""
    return list(cell.metadata.get("tags", []))


def _cell_id(cell: nbformat.NotebookNode, seen: dict[str, int]) -> str:
    """Id from the content, and from the repetition where a content comes twice."""
    name = hashlib.sha256(f"{cell.cell_type}\0{cell.source}".encode()).hexdigest()[:12]
    seen[name] = seen.get(name, 0) + 1
    return name if seen[name] == 1 else f"{name}-{seen[name]}"


def _normalize_outputs(cell: nbformat.NotebookNode, count: int) -> None:
    executed = cell.execution_count is not None
    cell.execution_count = count if executed else None
    cell.outputs = _join_streams([output for output in cell.outputs if not _shows_nothing(output)])
    for output in cell.outputs:
        output.get("metadata", {}).pop("papermill", None)
        if output.output_type == "stream":
            output.text = _plain(as_shown(output.text))
        elif output.output_type == "execute_result":
            output.execution_count = count
        for kind, value in output.get("data", {}).items():
            if isinstance(value, str) and not kind.startswith("image/p"):
                output.data[kind] = _plain(value)


def _shows_nothing(output: nbformat.NotebookNode) -> bool:
    """Return whether an output is an empty text, for which a page would draw an empty box."""
    return output.output_type == "display_data" and dict(output.data) == {"text/plain": ""}


def _join_streams(outputs: list) -> list:
    """Join consecutive pieces of one stream, whose boundaries depend on timing."""
    joined: list = []
    for output in outputs:
        kind = (output.output_type, output.get("name"))
        if (
            joined
            and kind[0] == "stream"
            and kind == (joined[-1].output_type, joined[-1].get("name"))
        ):
            joined[-1].text += output.text
        else:
            joined.append(output)
    return joined


def as_shown(text: str) -> str:
    """Final text of a terminal: each line is the part after its last carriage return."""
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join(line.rstrip("\r").rsplit("\r", 1)[-1] for line in lines)


def _plain(text: str) -> str:
    for pattern, replacement in REPLACED:
        text = pattern.sub(replacement, text)
    return text


def _normalize_widgets(notebook: nbformat.NotebookNode) -> None:
    """Number model ids by order of appearance, and keep only the models that a shown view needs."""
    saved = notebook.metadata.get("widgets", {}).get(STATE)
    if not saved:
        notebook.metadata.pop("widgets", None)
        return
    views = [
        output.data[VIEW]
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if VIEW in output.get("data", {})
    ]
    models = saved["state"]
    order = _reachable(models, [view["model_id"] for view in views])
    names = {model: f"{number:032x}" for number, model in enumerate(order, start=1)}
    for view in views:
        view["model_id"] = names.get(view["model_id"], view["model_id"])
    saved["state"] = {names[model]: _renamed(models[model], names) for model in order}


def _reachable(models: dict, roots: list[str]) -> list[str]:
    """Models that the roots need, in the order of the views and of their own references.

    The file's order says nothing: it is alphabetical in ids drawn by chance.
    """
    order: list[str] = []
    todo = list(reversed(roots))
    while todo:
        model = todo.pop()
        if model in models and model not in order:
            order.append(model)
            state = json.dumps(models[model].get("state", {}), sort_keys=True)
            todo += reversed(MODEL_REFERENCE.findall(state))
    return order


def _renamed(value, names: dict[str, str]):
    """Value with every reference to a model replaced."""
    if isinstance(value, dict):
        return {key: _renamed(inner, names) for key, inner in value.items()}
    if isinstance(value, list):
        return [_renamed(inner, names) for inner in value]
    if isinstance(value, str) and value.startswith("IPY_MODEL_"):
        return f"IPY_MODEL_{names.get(value[10:], value[10:])}"
    return value


def to_text(notebook: nbformat.NotebookNode) -> str:
    """Format a notebook as the text of its file: keys sorted, one trailing newline."""
    return nbformat.writes(notebook).rstrip("\n") + "\n"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Normalise notebooks in place.")
    parser.add_argument("--check", action="store_true", help="change nothing; fail if any would")
    parser.add_argument("--committed", action="store_true", help="all notebooks of the chapters")
    parser.add_argument("notebooks", nargs="*", type=Path)
    options = parser.parse_args(arguments)
    chapters = find_chapters() if options.committed else []
    present = [chapter.notebook for chapter in chapters if chapter.notebook.exists()]
    changed, refused = [], False
    for path in options.notebooks + present:
        before = path.read_text(encoding="utf-8")
        try:
            notebook = nbformat.reads(before, as_version=4)
        except Exception as error:  # whatever nbformat stumbles over
            reason = (str(error).splitlines() or [""])[0][:80]
            print(f"{path}: no readable notebook ({reason}); `make execute` writes it anew")
            refused = True
            continue
        found = carried(notebook)
        after = to_text(normalize(notebook))
        found = found if options.check else carried(notebook)
        if found:
            print(f"{path}: carries the program of {', '.join(found)}; {REMEDY}")
            refused = True
        if after != before:
            changed.append(path)
            if not options.check:
                path.write_text(after, encoding="utf-8")
    for path in changed:
        print(f"{path}: {'not normalised' if options.check else 'normalised'}")
    return 1 if changed or refused else 0


if __name__ == "__main__":
    sys.exit(main())
