"""The map of the field, from its table: `python -m book.tools.field` prints classes by lines.

A line names folders of fla-core and kinds of mixers in transformers. What is installed is read from
the packages' files, so that a test can tell where a line is missing or names what is gone.
"""

from __future__ import annotations

import importlib.util
import pkgutil
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from book.tools.chapters import BOOK, read

__all__ = ["STATES", "classes", "folders", "lines", "mixers", "page", "tally"]

TABLE = BOOK / "since" / "field.yml"
Line = Mapping[str, Any]

#: rows of the picture: what A_t does, or an outer decay in its place
STRUCTURES = {
    "identity": "leaves stored keys as they are, or rotates them by place",
    "place": "fades or moves them by place alone",
    "scalar": "fades them by the token",
    "channels": "fades every channel by itself",
    "one direction": "erases or turns one direction",
    "matrix": "does more than one of these",
}
#: its columns
READOUTS = {
    "sum": "$\\Rea{\\mathrm{Id}}$, $\\Nor{1}$",
    "mean": "$\\Rea{\\mathrm{Id}}$, divided",
    "exp": "$\\Rea{\\exp}$, divided",
    "other": "another $\\Rea{\\phi}$, divided",
}
KINDS = {
    "row": "Rows",
    "coefficients": "Coefficients, and no row",
    "none": "No coefficients",
    "no mixer": "No sequence mixer",
}
#: words in a class of transformers that keeps more than keys and values between tokens
STATES = ("recurrent_state", "conv_state", "ssm_state", "wkv", "mlstm")
#: ends of the names of classes that choose or shorten what attention reads
CHOOSERS = ("Indexer", "Compressor")
#: the library's way to attention, and what a class computes that has its own
CALLED = "ALL_ATTENTION_FUNCTIONS"
OWN = ("softmax(", "matmul(", "scaled_dot_product_attention(")
CLASS = re.compile(r"^(?P<indent> *)class (?P<name>\w+)\((?P<bases>[^)]*)\):", re.MULTILINE)


def lines() -> list[Line]:
    """The lines of the table, as written."""
    return yaml.safe_load(read(TABLE))


@cache
def _package(name: str) -> Path:
    """The folder of an installed package, which is not imported."""
    top, _, rest = name.partition(".")
    spec = importlib.util.find_spec(top)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"{top} is not installed; the map reads its files.")
    return Path(spec.submodule_search_locations[0], *rest.split(".") if rest else ())


def folders() -> set[str]:
    """Packages of fla.ops, and those below ``generalized_delta_rule``, by their dotted names."""
    ops = _package("fla.ops")
    found = {one.name for one in pkgutil.iter_modules([str(ops)]) if one.ispkg}
    within = pkgutil.iter_modules([str(ops / "generalized_delta_rule")])
    return found | {f"generalized_delta_rule.{one.name}" for one in within if one.ispkg}


@cache
def mixers() -> dict[str, str]:
    """Classes that mix along a sequence, in the models of transformers that generate.

    Returns:
        ``module.Class`` to what tells it: "state" (it keeps one between tokens), "chooser" (an
        indexer or a compressor), or "attention" (it calls the library's attention, or has a softmax
        of its own in a class that is named an attention).
    """
    found = {}
    for path in sorted(_package("transformers.models").glob("*/modeling_*.py")):
        text = read(path)
        if "GenerationMixin" not in text:
            continue
        for begin in CLASS.finditer(text):
            after = re.compile(rf"^ {{0,{len(begin['indent'])}}}\S", re.MULTILINE)
            end = after.search(text, begin.end())
            body = text[begin.end() : end.start() if end else len(text)]
            if kind := _kind(begin["name"], begin["bases"], body):
                found[f"{path.parent.name}.{begin['name']}"] = kind
    return found


def _kind(name: str, bases: str, body: str) -> str | None:
    if "def forward" not in body or "PreTrained" in bases or "GenerationMixin" in bases:
        return None
    if name.endswith(CHOOSERS):
        return "chooser"
    if any(word in body for word in STATES):
        return "state"
    named = "Attention" in name and any(word in body for word in OWN)
    return "attention" if named or CALLED in body else None


def classes(line: Line) -> list[str]:
    """Classes of transformers that a line names, or those that no line names (``rest``)."""
    named = line.get("classes", [])
    found = {one for one in mixers() if any(fnmatchcase(one, pattern) for pattern in named)}
    if line.get("rest"):
        patterns = [pattern for other in lines() for pattern in other.get("classes", [])]
        found |= {
            one
            for one, kind in mixers().items()
            if kind == "attention" and not any(fnmatchcase(one, each) for each in patterns)
        }
    return sorted(found)


def _column(line: Line) -> str:
    phi, eta = line["phi"], line["eta"]
    if phi == r"\mathrm{Id}":
        return "sum" if eta == "1" else "mean"
    return "exp" if phi == r"\exp" else "other"


def _places(line: Line) -> list[str]:
    """Where the picture leads to for the cells of a line."""
    if "structure" not in line:
        return []
    columns = [_column(line), *([line["also"]] if "also" in line else [])]
    return [f"field-{line['structure'].replace(' ', '-')}-{column}" for column in columns]


def page() -> str:
    """The picture, the choice of kinds and all lines, in Markdown."""
    return "\n\n".join([_picture(), _choice(), *_tables()])


def tally() -> str:
    """How many lines each kind of test holds, and the names of those that none does."""
    held = Counter(_held(one) for one in lines())
    counts = ", ".join(f"{held[how]} *{how}*" for how in ("checked", "peer", "row", "lens"))
    alone = [one["name"] for one in lines() if _held(one) == "read" and one["is"] != "no mixer"]
    probed = sum("probe" in one for one in lines())
    return (
        f"Of {len(lines())} lines {counts}, and {probed} by their probe. "
        f"{len(alone)} with a mixer stand on reading alone: {'; '.join(alone)}."
    )


def _picture() -> str:
    """A table of counts; each leads to its lines."""
    rows = []
    for structure, name in STRUCTURES.items():
        cells = []
        for column in READOUTS:
            place = f"field-{structure.replace(' ', '-')}-{column}"
            count = sum(place in _places(one) for one in lines())
            cells.append(_link(place, count) if count else "")
        rows.append(f"| {name} | {' | '.join(cells)} |")
    head = f"| a step $\\Evo{{A_t}}$ | {' | '.join(READOUTS.values())} |"
    ruler = f"|---|{'---:|' * len(READOUTS)}"
    return "\n".join(["```{div} cd-field-picture", head, ruler, *rows, "```"])


def _link(place: str, count: int) -> str:
    """A count that leads to its lines, the darker the larger."""
    return f'<a href="#{place}" style="--lines: {count}">{count}</a>'


def _choice() -> str:
    """Radio buttons that hide the tables of other kinds; the style sheet does it."""
    counts = {kind: sum(one["is"] == kind for one in lines()) for kind in KINDS}
    shown = {"all": f"All {len(lines())}"}
    shown |= {kind.replace(" ", "-"): f"{name} ({counts[kind]})" for kind, name in KINDS.items()}
    buttons = "".join(
        f'<label><input type="radio" name="field" id="field-{key}"{" checked" * (key == "all")}>'
        f"<span>{name}</span></label>"
        for key, name in shown.items()
    )
    legend = "<legend>Show</legend>"
    return f'```{{raw}} html\n<fieldset class="cd-field-choice">{legend}{buttons}</fieldset>\n```'


def _tables() -> Iterator[str]:
    of_kind = [one for one in lines() if one["is"] == "row"]
    order = list(READOUTS)
    for structure, name in STRUCTURES.items():
        here = [one for one in of_kind if one.get("structure") == structure]
        here.sort(key=lambda one: order.index(_column(one)))
        yield _table("row", f"A step {name}", here)
    yield _table("row", "Several at once", [one for one in of_kind if "structure" not in one])
    for kind, name in list(KINDS.items())[1:]:
        yield _table(kind, name, [one for one in lines() if one["is"] == kind])


def _table(kind: str, title: str, here: list[Line]) -> str:
    if kind == "row":
        formulas = r"$\Evo{A_t}$ | $\Sca{b_j} k_j$; $\Rea{\phi}$; $\Nor{\eta_i}$"
        head = f"| mixer | {formulas} | beside; held |"
        seen: set[str] = set()
        rows = [_row(one, seen) for one in here]
    else:
        head = "| mixer | why | held |"
        rows = [f"| {_name(one)} | {one['why']} | {_held(one)} |" for one in here]
    style = f"cd-stacked cd-field field-{kind.replace(' ', '-')}"
    ruler = "|---" * (head.count("|") - 1) + "|"
    return "\n".join([f"````{{div}} {style}", f"**{title}**", "", head, ruler, *rows, "````"])


def _row(line: Line, seen: set[str]) -> str:
    """A line; the first of its cell of the picture carries the place that the picture leads to."""
    new = [place for place in _places(line) if place not in seen]
    anchor = "".join(f'<span id="{place}"></span>' for place in new)
    seen.update(new)
    beside = [f"query: {line['query']}"] if "query" in line else []
    beside += [line["beside"]] if "beside" in line else []
    cells = [
        anchor + _name(line),
        rf"$\Evo{{{line['A']}}}$",
        rf"$\Sca{{{line['bk']}}}$; $\Rea{{{line['phi']}}}$; $\Nor{{{line['eta']}}}$",
        "; ".join([*beside, f"*{_held(line)}*"]),
    ]
    return f"| {' | '.join(cells)} |"


def _name(line: Line) -> str:
    """Name, source and the places in the two libraries."""
    if "cite" in line:
        source = f"{{cite}}`{','.join(line['cite'])}`"
    else:
        source = f"([source]({line['link']}))"
    where = [f"`{one}`" for one in (*line.get("fla", []), *line.get("layers", []))]
    where += ["*in* " + ", ".join(models)] if (models := _models(line)) else []
    return " ".join([f"{line['name']} {source}", *([f"<br>{', '.join(where)}"] if where else [])])


def _models(line: Line) -> list[str]:
    """Models that the patterns of a line write out."""
    named = [pattern.split(".")[0] for pattern in line.get("classes", []) if "." in pattern]
    return sorted({one for one in named if "*" not in one})


def _held(line: Line) -> str:
    told = [f"probe: {how} {size:g}" for how, size in line.get("probe", {}).items()]
    words = {"here": "checked", "row": "row", "peer": "peer", "lens": "lens"}
    told += [words[how] for how in line.get("held", {})]
    return ", ".join(told) or "read"


def main() -> None:
    for line in lines():
        print(f"{line['name']}: {line['is']}")
        for one in classes(line):
            print(f"    {one}")


if __name__ == "__main__":
    main()
