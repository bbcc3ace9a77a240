"""Conversion of a formula from TeX to MathML that browsers set by themselves.

    >>> to_mathml("x^2", display=False, macros={})
    '<math alttext="x^2"><msup><mi>x</mi><mn>2</mn></msup></math>'

Only the TeX of `symbols` is known, besides the macros given: anything else is an error that names
the formula, so that no page shows source in place of mathematics.
"""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import dataclass, replace

from book.tools.mathml import symbols
from book.tools.mathml.reader import Macros, Reader, TexError

__all__ = ["TexError", "to_mathml"]

THIN = 0.167
#: Keeps the bar of a root away from a small letter.
STRUT = '<mspace width="0em" height="0.72em"/>'
#: After these, and at the beginning, a plus or minus belongs to what follows.
BEFORE_SIGN = ("start", "binary", "relation", "open", "punctuation", "operator")


@dataclass(frozen=True, kw_only=True)
class Atom:
    """A piece of MathML, its kind, and whether scripts go above and below it."""

    xml: str
    kind: str = "ordinary"
    limits: bool = False


def to_mathml(tex: str, *, display: bool, macros: Macros) -> str:
    """Convert one formula to a `<math>` element that keeps its source as `alttext`.

    Args:
        tex: the formula without dollar signs.
        display: whether it stands on a line of its own.
        macros: as MathJax takes them: name to body, or to body and number of arguments.

    Raises:
        TexError: for a command that is not known, with the command and the formula.
    """
    source = " ".join(tex.split())
    try:
        body = _Parser(source, macros).whole()
    except TexError as error:
        raise TexError(f"{error} in the formula {source!r}") from None
    style = ' display="block"' if display else ""
    return f'<math alttext="{html.escape(source)}"{style}>{body}</math>'


def _row(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"<mrow>{''.join(parts)}</mrow>"


def _space(em: float) -> str:
    return f'<mspace width="{em:g}em"/>'


class _Parser(Reader):
    """Parser from tokens to atoms, and from atoms to rows."""

    in_script = 0

    # ---- rows ----------------------------------------------------------------------------------

    def whole(self) -> str:
        rows = self.table_rows("")
        if len(rows) == len(rows[0][1]) == 1:
            return _row([rows[0][1][0]])
        return self.table(rows, "cd-aligned")

    def row(self, *stops: str) -> str:
        """Parse everything up to one of the given tokens, which stays on the input."""
        atoms: list[Atom] = []
        while (token := self.peek()) and token not in stops:
            if token in ("\\displaystyle", "\\textstyle", "\\scriptstyle"):
                atoms.append(self.style(self.next(), stops))
            elif token in ("}", "\\right", "\\end", "&", "\\\\"):
                raise TexError(f"{token} closes nothing")
            else:
                atoms.append(self.with_scripts(atoms[-1].kind if atoms else "start"))
        return _row(self.spaced(atoms))

    def style(self, token: str, stops: tuple[str, ...]) -> Atom:
        level = ' scriptlevel="1"' if token == "\\scriptstyle" else ""
        shown = "true" if token == "\\displaystyle" else "false"
        return Atom(xml=f'<mstyle displaystyle="{shown}"{level}>{self.row(*stops)}</mstyle>')

    def spaced(self, atoms: list[Atom]) -> list[str]:
        """Function name with a thin space to its neighbours, except beside a bracket."""
        out: list[str] = []
        for before, atom in zip([None, *atoms], atoms, strict=False):
            named = "function" in (atom.kind, before.kind if before else "")
            beside = ("ordinary", "function", "operator")
            if before and named and atom.kind in beside and before.kind in (*beside, "close"):
                out.append(_space(THIN))
            out.append(atom.xml)
        return out

    def group(self) -> str:
        """Parse one argument: a group in braces, or a single token."""
        if self.peek() != "{":
            token = self.one_character()
            self.tokens.append(token)
            return self.atom("start").xml
        self.next()
        body = self.row("}")
        self.close("}")
        return body

    # ---- atoms ---------------------------------------------------------------------------------

    def with_scripts(self, before: str) -> Atom:
        base = Atom(xml="<mrow></mrow>") if self.peek() in ("_", "^", "'") else self.atom(before)
        below, above = "", ""
        while (mark := self.peek()) in ("_", "^", "'", "\\limits", "\\nolimits"):
            self.next()
            if mark in ("\\limits", "\\nolimits"):
                base = replace(base, limits=mark == "\\limits")
            elif mark == "'":
                above = self.primes()
            elif (below if mark == "_" else above) and not above.startswith("<mo>′"):
                raise TexError(f"two scripts {mark} on one thing")
            elif mark == "_":
                below = self.script()
            else:
                above = _row([above, self.script()] if above else [self.script()])
        return replace(base, xml=_scripted(base, below, above))

    def primes(self) -> str:
        count = 1
        while self.peek() == "'":
            self.next()
            count += 1
        return f"<mo>{'′' * count}</mo>"

    def script(self) -> str:
        self.in_script += 1
        body = self.group()
        self.in_script -= 1
        return body

    def atom(self, before: str) -> Atom:
        token = self.next()
        if token == "{":
            body = self.row("}")
            self.close("}")
            return Atom(xml=body)
        if token.startswith("\\"):
            return self.command(token[1:], before)
        return self.character(token, before)

    def character(self, token: str, before: str) -> Atom:
        if token[0].isdigit():
            return Atom(xml=f"<mn>{token}</mn>")
        if token in "()[]|":
            return self.delimiter(token)
        if token in "+-*":
            return self.sign(token.replace("-", "−").replace("*", "∗"), before)
        if token in "=<>:":
            return self.relation(html.escape(token))
        if token in ",;":
            return self.operator(token, "punctuation", 0, 0 if self.in_script else THIN)
        if token in "./!?°%′":
            return self.operator(token, "ordinary", 0, 0)
        if token == "~":
            return Atom(xml=_space(0.25), kind="space")
        if token.isalpha():
            return Atom(xml=f"<mi>{token}</mi>")
        raise TexError(f"the character {token!r} is not known")

    def command(self, name: str, before: str) -> Atom:
        for known, action in self.tables().items():
            if name in symbols_of(known):
                return action(name, before)
        special: dict[str, Callable[[], Atom]] = {
            "frac": self.fraction, "tfrac": lambda: self.fraction("false"),
            "dfrac": lambda: self.fraction("true"), "binom": self.binomial, "sqrt": self.root,
            "left": self.fenced, "begin": self.environment, "class": self.classed,
            "boxed": self.boxed, "operatorname": lambda: self.function(self.text(), False),
            "operatorname*": lambda: self.function(self.text(), True),
            "mathrm": lambda: self.upright(self.text()),
            "text": self.words, "textrm": self.words, "mbox": self.words,
            "|": lambda: self.delimiter("‖"), "%": lambda: Atom(xml="<mi>%</mi>"),
            "_": lambda: Atom(xml="<mi>_</mi>"), "#": lambda: Atom(xml="<mi>#</mi>"),
            "colon": lambda: self.operator(":", "punctuation", 0, 0.2),
            "lt": lambda: self.relation("&lt;"), "gt": lambda: self.relation("&gt;"),
        }  # fmt: skip
        if name not in special:
            raise TexError(f"\\{name} is not known")
        return special[name]()

    def tables(self) -> dict[str, Callable[[str, str], Atom]]:
        """Rules for commands that one of the tables of `symbols` lists."""
        return {
            "GREEK": lambda name, _: Atom(xml=f"<mi>{symbols.GREEK[name]}</mi>"),
            "UPRIGHT": lambda name, _: self.upright(symbols.UPRIGHT[name]),
            "RELATIONS": lambda name, _: self.relation(symbols.RELATIONS[name]),
            "BINARY": lambda name, before: self.sign(symbols.BINARY[name], before),
            "LARGE": lambda name, _: self.large(name),
            "FUNCTIONS": lambda name, _: self.function(
                symbols.SPELT.get(name, name), name in symbols.WITH_LIMITS
            ),
            "DOTS": lambda name, _: self.operator(symbols.DOTS[name], "ordinary", THIN, THIN),
            "SPACES": lambda name, _: Atom(xml=_space(symbols.SPACES[name]), kind="space"),
            "DELIMITERS": lambda name, _: self.delimiter(symbols.DELIMITERS[name], name),
            "ACCENTS": lambda name, _: self.accent(symbols.ACCENTS[name]),
            "WIDE": lambda name, _: self.wide(*symbols.WIDE[name]),
            "ALPHABETS": lambda name, _: self.lettered(name),
            "BIG": lambda name, _: self.big(name),
        }

    def operator(self, sign: str, kind: str, left: float, right: float, more: str = "") -> Atom:
        space = f'lspace="{left:g}em" rspace="{right:g}em"'
        return Atom(xml=f"<mo {space}{more}>{sign}</mo>", kind=kind)

    def relation(self, sign: str) -> Atom:
        room = 0 if self.in_script else 0.278
        return self.operator(sign, "relation", room, room, ' stretchy="false"')

    def sign(self, sign: str, before: str) -> Atom:
        if before in BEFORE_SIGN:
            return self.operator(sign, "ordinary", 0, 0, ' form="prefix"')
        room = 0 if self.in_script else 0.222
        return self.operator(sign, "binary", room, room)

    def large(self, name: str) -> Atom:
        sign = symbols.LARGE[name]
        return Atom(xml=f"<mo>{sign}</mo>", kind="operator", limits=name != "int")

    def function(self, name: str, limits: bool) -> Atom:
        if limits:
            name = name.replace(" ", "\N{THIN SPACE}")
            more = ' movablelimits="true"'
            atom = self.operator(name, "function", 0, 0, more)
            return replace(atom, limits=True)
        return Atom(xml=self.upright(name).xml, kind="function")

    def upright(self, text: str) -> Atom:
        style = ' mathvariant="normal"' if len(text) == 1 else ""
        return Atom(xml=f"<mi{style}>{html.escape(text)}</mi>")

    def words(self) -> Atom:
        return Atom(xml=f"<mtext>{html.escape(self.text())}</mtext>")

    def lettered(self, alphabet: str) -> Atom:
        letters = symbols.ALPHABETS[alphabet]
        text = self.text()
        if any(letter not in letters for letter in text):
            raise TexError(f"\\{alphabet}{{{text}}} has letters that this alphabet lacks")
        return self.upright("".join(letters[letter] for letter in text))

    def delimiter(self, sign: str, name: str = "") -> Atom:
        kind = {"l": "open", "r": "close"}.get(name[:1], "ordinary") if sign else "ordinary"
        kind = "open" if sign in symbols.OPENING else kind
        kind = "close" if sign in symbols.CLOSING else kind
        return self.operator(sign, kind, 0, 0, ' stretchy="false"')

    def big(self, name: str) -> Atom:
        size = symbols.SIZES[name.rstrip("lrm") or name]
        sign = self.delimiter_name()
        kind = {"l": "open", "r": "close", "m": "relation"}.get(name[-1], "ordinary")
        form = {"open": "prefix", "close": "postfix"}.get(kind, "infix")
        room = 0.278 if kind == "relation" else 0
        more = f' stretchy="true" form="{form}" minsize="{size}em" maxsize="{size}em"'
        return self.operator(sign, kind, room, room, more)

    def delimiter_name(self) -> str:
        token = self.next()
        if token == "\\|":
            return "‖"
        name = token.removeprefix("\\")
        if name not in symbols.DELIMITERS:
            raise TexError(f"{token} is no delimiter")
        return symbols.DELIMITERS[name]

    # ---- things with parts ---------------------------------------------------------------------

    def fraction(self, shown: str = "") -> Atom:
        body = f"<mfrac>{self.group()}{self.group()}</mfrac>"
        if shown:
            body = f'<mstyle displaystyle="{shown}" scriptlevel="0">{body}</mstyle>'
        return Atom(xml=body)

    def binomial(self) -> Atom:
        body = f'<mfrac linethickness="0">{self.group()}{self.group()}</mfrac>'
        return Atom(xml=_fence("(", body, ")"))

    def root(self) -> Atom:
        if self.peek() != "[":
            return Atom(xml=f"<msqrt>{STRUT}{self.group()}</msqrt>")
        self.next()
        degree = self.row("]")
        self.close("]")
        return Atom(xml=f"<mroot><mrow>{STRUT}{self.group()}</mrow>{degree}</mroot>")

    def fenced(self) -> Atom:
        left = self.delimiter_name()
        body = self.row("\\right")
        self.close("\\right")
        return Atom(xml=_fence(left, body, self.delimiter_name()))

    def accent(self, sign: str) -> Atom:
        mark = f'<mo stretchy="false">{sign}</mo>'
        return Atom(xml=f'<mover accent="true">{self.group()}{mark}</mover>')

    def wide(self, element: str, sign: str) -> Atom:
        mark = f'<mo stretchy="true">{sign}</mo>'
        kind = "operator" if sign in "⏟⏞" else "ordinary"
        body = f"<{element}>{self.group()}{mark}</{element}>"
        return Atom(xml=body, kind=kind, limits=kind == "operator")

    def classed(self) -> Atom:
        name = self.text()
        return Atom(xml=f'<mrow class="{html.escape(name)}">{self.group()}</mrow>')

    def boxed(self) -> Atom:
        return Atom(xml=f'<mrow class="cd-boxed">{self.group()}</mrow>')

    def environment(self) -> Atom:
        name = self.text()
        rows = self.table_rows("\\end")
        self.close("\\end")
        if self.text() != name:
            raise TexError(f"\\begin{{{name}}} is not closed")
        if name in symbols.ALIGNED:
            return Atom(xml=self.table(rows, "cd-aligned"))
        if name in symbols.GATHERED:
            return Atom(xml=self.table(rows, "cd-gathered"))
        if name not in symbols.MATRICES:
            raise TexError(f"\\begin{{{name}}} is not known")
        left, right = symbols.MATRICES[name]
        table = self.table(rows, "cd-cases" if name == "cases" else "cd-matrix")
        return Atom(xml=_fence(left, table, right) if left else table)

    def table_rows(self, stop: str) -> list[tuple[str, list[str]]]:
        """Parse rows up to `stop`: the space requested below each, and its cells."""
        rows: list[tuple[str, list[str]]] = [("", [])]
        while True:
            rows[-1][1].append(self.row("&", "\\\\", stop) if stop else self.row("&", "\\\\"))
            token = self.peek()
            if token in ("", stop):
                break
            self.next()
            if token == "\\\\":
                rows[-1] = (self.below(), rows[-1][1])
                rows.append(("", []))
        return rows[:-1] if len(rows) > 1 and rows[-1][1] == ["<mrow></mrow>"] else rows

    def below(self) -> str:
        """Parse the space that `\\[2pt]` requests."""
        if self.peek() != "[":
            return ""
        self.next()
        out = ""
        while (token := self.next()) != "]":
            out += token
        return out

    def table(self, rows: list[tuple[str, list[str]]], name: str) -> str:
        shown = ' displaystyle="true"' if name in ("cd-aligned", "cd-gathered") else ""
        body = ""
        for space, cells in rows:
            style = f' style="padding-bottom:calc(0.5ex + {space})"' if space else ""
            row = "".join(f"<mtd{style}>{cell}</mtd>" for cell in cells)
            body += f"<mtr>{row}</mtr>"
        return f'<mtable class="{name}"{shown}>{body}</mtable>'


def symbols_of(table: str) -> frozenset[str]:
    """Commands of one table of `symbols`."""
    if table == "BIG":
        return frozenset(size + side for size in symbols.SIZES for side in ("", "l", "r", "m"))
    names = frozenset(getattr(symbols, table))
    return names - frozenset("()[]|/.") if table == "DELIMITERS" else names


def _fence(left: str, body: str, right: str) -> str:
    def mark(sign: str, form: str) -> str:
        return f'<mo form="{form}" stretchy="true" fence="true">{sign}</mo>' if sign else ""

    return f"<mrow>{mark(left, 'prefix')}{body}{mark(right, 'postfix')}</mrow>"


def _scripted(base: Atom, below: str, above: str) -> str:
    both, low, high = (
        ("munderover", "munder", "mover") if base.limits else ("msubsup", "msub", "msup")
    )
    if below and above:
        return f"<{both}>{base.xml}{below}{above}</{both}>"
    if below:
        return f"<{low}>{base.xml}{below}</{low}>"
    return f"<{high}>{base.xml}{above}</{high}>" if above else base.xml
