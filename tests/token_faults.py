"""Faults of one token each, put into the program one at a time: which does a suite of tests find?

    python tests/token_faults.py draw                  the drawn faults, from the text of `TEXT`
    python tests/token_faults.py run SUITE TREE [N ..] put each into a checkout, run its tests there
    python tests/token_faults.py share                 how many each suite finds

SUITE is `old`, every case in a checkout of `TEXT`, or `new`, the sample of `make test` in a
checkout of what the program is today. `tests/golden/faults.txt` keeps faults and outcomes. `run`
gives each fault the tests that `--tests` names, or the test that found it before, which has to pass
without the fault, and writes the outcome down.

Rooms are drawn from in proportion to their tokens. Of a room first the kind of fault is drawn,
each as likely, then the place. A fault that changes nothing that anybody could see is called
equivalent, with the reason, and the next draw of its room stands in for it.
"""

from __future__ import annotations

import argparse
import ast
import io
import os
import random
import re
import signal
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OUTCOME = ROOT / "tests" / "golden" / "faults.txt"
#: The text that faults are drawn from, its seed, and how many are drawn.
TEXT, SEED, DRAWN = "d83196c", 45, 45
#: Seconds that one suite may take for one fault.
LIMIT = 150
SUITES = {"old": [], "new": ["--sample"]}
KINDS = ("operator", "constant", "argument", "label")

JUDGING = "anew|claim|corrections|headline\\w*|measure|registration|result|rule2?|second_look"
#: The room of a file is the first that fits.
ROOMS = {
    "JavaScript": r".*\.js",
    "Triton": r"coefdyn/execution/triton/.*",
    "lens": r"coefdyn/lens/.*",
    "widgets": r"coefdyn/widgets/.*",
    "verdicts": rf"coefdyn/lab/(experiments/({JUDGING})|judge)\.py",
    "pages": r"(book|coefdyn/lab/pages)/.*",
    "lab": r"coefdyn/lab/.*",
    "library": r"coefdyn/.*",
}
OTHER = {
    **{"+": "-", "-": "+", "*": "/", "/": "*", "//": "/", "**": "*", "%": "//", "@": "*"},
    **{"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "===": "!=="},
    **{"!==": "===", "+=": "-=", "-=": "+=", "*=": "/=", "and": "or", "or": "and", "is": "is not"},
    **{"not": "", "&&": "||", "||": "&&", "??": "||", "++": "--", "--": "++"},
    **{"True": "False", "False": "True", "true": "false", "false": "true"},
}
SCRIPT = re.compile(
    r"(?P<skip>//[^\n]*|/\*.*?\*/|`(?:\\.|[^`\\])*`|(?<=[(,=:!&|?{\[])\s*/(?![/*]).+?(?<!\\)/[a-z]*)"
    r"|(?P<text>\"[^\"\n]*\"|'[^'\n]*')|(?P<number>\d[\w.]*)|(?P<name>[A-Za-z_$][\w$]*)"
    r"|(?P<sign>=>|===|!==|\*\*|\?\?|\?\.|\.\.\.|&&|\|\||\+\+|--|[-+*/<>=!]=|[^\s\w])",
    re.S,
)


#: Names before a bracket that is no call's; names before a text that is no label: a path, a shape.
NO_CALL = ("import", "return", "if", "for", "while", "switch", "and", "or", "in", "not", "function")
NO_LABEL = (("from",), ("import",), ("Tensor", ","))


@dataclass(frozen=True)
class Fault:
    """One change of `TEXT`: where, what, and which test of each suite found it."""

    number: str
    room: str
    kind: str
    path: str
    line: int
    column: int
    before: str
    after: str
    old: str = "?"
    new: str = "?"

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}:{self.column}"
        change = f"{self.before or 'nothing'} => {self.after or 'nothing'}"
        row = (self.number, self.room, self.kind, place, change, self.old, self.new)
        return "  |  ".join(row)

    @property
    def equivalent(self) -> bool:
        return self.old.startswith("equivalent")

    @classmethod
    def read(cls, row: str) -> Fault:
        number, room, kind, place, change, old, new = row.split("  |  ")
        path, line, column = place.split(":")
        before, after = (text if text != "nothing" else "" for text in change.split(" => "))
        return cls(number, room, kind, path, int(line), int(column), before, after, old, new)


# -- where one token can change ------------------------------------------------------------------


@dataclass(frozen=True)
class Token:
    kind: str
    text: str
    line: int
    column: int


def python_tokens(text: str) -> list[Token]:
    """The tokens of a Python file without docstrings."""
    told = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            told.add(node.lineno)
    names = {tokenize.NAME: "name", tokenize.NUMBER: "number", tokenize.OP: "sign"}
    names[tokenize.STRING] = "text"
    found = tokenize.generate_tokens(io.StringIO(text).readline)
    return [
        Token(names[one.type], one.string, *one.start)
        for one in found
        if one.type in names and not (one.type == tokenize.STRING and one.start[0] in told)
    ]


def script_tokens(text: str) -> list[Token]:
    """The tokens of a JavaScript file without comments, templates and regular expressions."""
    found = []
    for match in SCRIPT.finditer(text):
        before = text[: match.start()]
        column = len(before) - before.rfind("\n") - 1
        found.append(Token(match.lastgroup or "", match[0], before.count("\n") + 1, column))
    return [one for one in found if one.kind != "skip"]


def changes(tokens: list[Token]) -> Iterator[tuple[str, Token, str]]:
    """Every kind, place and new text of a fault."""
    edge = Token("sign", "", 0, 0)
    for i, one in enumerate(tokens):
        last, after = tokens[i - 1] if i else edge, tokens[i + 1] if i + 1 < len(tokens) else edge
        joins = last.kind != "sign" or last.text in (")", "]")
        if one.text in ("True", "False", "true", "false"):
            yield "constant", one, OTHER[one.text]
        elif one.text in OTHER and (joins or one.text in ("-", "not")):
            if one.text in ("*", "**") and last.text in ("return", "yield", "in", "import"):
                continue
            if one.text == "is" and after.text == "not":
                continue
            yield "operator", one, OTHER[one.text]
        elif one.kind == "number":
            whole = one.text.isdecimal()
            yield "constant", one, str(int(one.text) + 1) if whole else f"(2 * {one.text})"
        elif one.kind == "text" and re.fullmatch(r"[\"'][^{}\\]{2,30}[\"']", one.text):
            before = tuple(token.text for token in tokens[max(i - 2, 0) : i])
            if not any(before[-len(words) :] == words for words in NO_LABEL):
                yield "label", one, one.text[:-2] + one.text[-1]
    for at, other in _pairs(tokens):
        yield "argument", at, other.text


def _pairs(tokens: list[Token]) -> Iterator[tuple[Token, Token]]:
    """Neighbouring names among the arguments of a call: the first can be written as the second."""
    brackets: list[tuple[bool, int]] = []
    found: list[tuple[Token, Token]] = []
    for i, token in enumerate(tokens):
        if token.kind != "sign":
            continue
        if token.text in ("(", "[", "{"):
            named = i > 1 and tokens[i - 1].kind == "name" and tokens[i - 1].text not in NO_CALL
            defined = i > 1 and tokens[i - 2].text in ("def", "class", "function")
            brackets.append((token.text == "(" and named and not defined, len(found)))
        elif token.text in (")", "]", "}") and brackets:
            _, start = brackets.pop()
            if i + 1 < len(tokens) and tokens[i + 1].text in ("{", "=>"):
                del found[start:]  # the parameters of a function of JavaScript
        elif token.text == "," and brackets and brackets[-1][0] and i + 2 < len(tokens):
            start, one, other, end = (tokens[i + step] for step in (-2, -1, 1, 2))
            names = one.kind == other.kind == "name" and one.text != other.text
            if names and start.text in ("(", ",") and end.text in (",", ")"):
                found.append((one, other))
    return iter(found)


@cache
def shown(path: str) -> str:
    """A file as it stands in `TEXT`."""
    words = ["git", "show", f"{TEXT}:{path}"]
    return subprocess.run(words, cwd=ROOT, capture_output=True, check=True).stdout.decode()


def room_of(path: str) -> str | None:
    return next((room for room, form in ROOMS.items() if re.fullmatch(form, path)), None)


def draw(outcome: list[Fault]) -> list[Fault]:
    """The drawn faults in order, the equivalent ones among them, with what is known of each."""
    words = ["git", "ls-tree", "-r", "--name-only", TEXT, "coefdyn", "book"]
    listed = subprocess.run(words, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    sizes = dict.fromkeys(ROOMS, 0)
    places: dict[str, dict[str, list[tuple[str, Token, str]]]] = {room: {} for room in ROOMS}
    for path in listed.split("\n"):
        room = room_of(path)
        if room is None or not path.endswith((".py", ".js")):
            continue
        text = shown(path)
        tokens = python_tokens(text) if path.endswith(".py") else script_tokens(text)
        sizes[room] += len(tokens)
        for kind, token, after in changes(tokens):
            places[room].setdefault(kind, []).append((path, token, after))
    exact = {room: DRAWN * size / sum(sizes.values()) for room, size in sizes.items()}
    wanted = {room: int(share) for room, share in exact.items()}
    for room in sorted(exact, key=lambda one: wanted[one] - exact[one])[
        : DRAWN - sum(wanted.values())
    ]:
        wanted[room] += 1
    known = {(one.path, one.line, one.column, one.after): one for one in outcome}
    faults: list[Fault] = []
    for room, count in wanted.items():
        dice = random.Random(f"{SEED} {room}")
        while count:
            kind = dice.choice(KINDS)
            path, token, after = dice.choice(places[room][kind])
            place = (path, token.line, token.column)
            number = f"{len(faults) + 1:02}"
            fault = Fault(number, room, kind, *place, token.text, after)
            before = known.get((*place, after), fault)
            fault = replace(fault, old=before.old, new=before.new)
            faults.append(fault)
            count -= not fault.equivalent
    return faults


# -- put in, and run -----------------------------------------------------------------------------


def place_in(tree: Path, fault: Fault) -> tuple[Path, int, int] | None:
    """File, line and column of the fault in another text; None where its line is gone.

    A change of a longer text is found by that text as well, where it stands once.
    """
    before, end = shown(fault.path).split("\n"), Path(fault.path).suffix
    every = [one for top in ("coefdyn", "book") for one in (tree / top).rglob(f"*{end}")]
    best: tuple[int, Path, int] | None = None
    for file in [tree / fault.path] if (tree / fault.path).exists() else every:
        lines = file.read_text("utf-8").split("\n")
        if before[fault.line - 1] not in lines:
            continue
        for block in SequenceMatcher(None, before, lines, autojunk=False).get_matching_blocks():
            at = fault.line - 1 - block.a
            if 0 <= at < block.size and (best is None or block.size > best[0]):
                best = block.size, file, block.b + at
    if best:
        return *best[1:], fault.column
    if len(fault.before) < 12:
        return None
    texts = [(file, file.read_text("utf-8").split("\n")) for file in every]
    found = [
        (file, number, line.index(fault.before))
        for file, lines in texts
        for number, line in enumerate(lines)
        if fault.before in line
    ]
    return found[0] if len(found) == 1 else None


def write(file: Path, text: str) -> None:
    """Writes a text at a time of its own, so that no cached bytecode is taken for it."""
    stamp = file.stat().st_mtime + 2
    file.write_text(text, "utf-8")
    os.utime(file, (stamp, stamp))


def pytest(tree: Path, suite: str, tests: list[str], seconds: float) -> str:
    """The first test that fails; else `passed` or `stopped`."""
    words = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *SUITES[suite]]
    here = {**os.environ, "PYTHONPATH": str(tree), "COEFDYN_TURN": "0"}
    process = subprocess.Popen(
        [*words, "-m", "not bench", *tests], cwd=tree, env=here, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    try:
        said = process.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return "stopped"
    failed = re.search(r"^(?:FAILED|ERROR) (\S+?(?:\[.*?\])?)(?: - .*)?$", said, re.M)
    if failed:
        return failed[1]
    return "passed" if process.returncode in (0, 5) else f"stopped with {process.returncode}"


def tried(tree: Path, suite: str, fault: Fault, tests: list[str]) -> str:
    """The outcome of one fault."""
    found = place_in(tree, fault)
    if found is None:
        return "gone"
    file, line, column = found
    whole = file.read_text("utf-8")
    lines = whole.split("\n")
    head, tail = lines[line][:column], lines[line][column:]
    assert tail.startswith(fault.before), (fault, lines[line])
    lines[line] = head + fault.after + tail[len(fault.before) :]
    write(file, "\n".join(lines))
    try:
        told = pytest(tree, suite, tests, LIMIT)
    finally:
        write(file, whole)
    return "not found" if told == "passed" else told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("command", choices=("draw", "run", "share"))
    parser.add_argument("suite", nargs="?", choices=tuple(SUITES))
    parser.add_argument("tree", nargs="?", type=Path)
    parser.add_argument("numbers", nargs="*")
    parser.add_argument("--tests", nargs="+", default=[], metavar="TEST")
    asked = parser.parse_args()
    rows = OUTCOME.read_text("utf-8").split("\n") if OUTCOME.exists() else []
    faults = [Fault.read(row) for row in rows if "  |  " in row]
    if asked.command == "draw":
        print("\n".join(map(str, draw(faults))))
    for suite in SUITES if asked.command == "share" else ():
        told = [getattr(one, suite) for one in faults if not one.equivalent]
        there = [one for one in told if one != "gone"]
        print(f"{suite}: {sum(one.startswith('tests/') for one in there)} of {len(there)} found")
    for fault in faults if asked.command == "run" else ():
        before = getattr(fault, asked.suite)
        tests = asked.tests or [before] * before.startswith("tests/")
        if not tests or fault.equivalent or fault.number not in (asked.numbers or [fault.number]):
            continue
        tree = asked.tree.resolve()
        told = tried(tree, asked.suite, fault, tests)
        if told.startswith("tests/") and pytest(tree, asked.suite, [told], LIMIT) != "passed":
            told = "fails without the fault: " + told
        print(fault.number, told, flush=True)
        text, row = OUTCOME.read_text("utf-8"), replace(fault, **{asked.suite: told})
        OUTCOME.write_text(text.replace(str(fault), str(row)), "utf-8")


if __name__ == "__main__":
    main()
