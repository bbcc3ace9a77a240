"""Token reader of a formula, from the left, with macros expanded."""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["Macros", "Reader", "TexError"]

#: A macro's name to its body, or to its body and its number of arguments.
Macros = Mapping[str, "str | list[str | int] | tuple[str, int]"]

TOKEN = re.compile(r"\\[A-Za-z]+\*?|\\.|\d+(?:\.\d+)?|\s+|.", re.DOTALL)


class TexError(ValueError):
    """The formula uses TeX that the book's converter does not know, or is not well formed."""


class Reader:
    """Tokens of a formula, the next one last."""

    def __init__(self, tex: str, macros: Macros) -> None:
        self.tokens: list[str] = TOKEN.findall(tex)[::-1]
        self.macros = macros

    def peek(self) -> str:
        """Next token that is neither space nor macro; empty at the end."""
        while self.tokens:
            token = self.tokens[-1]
            if token.isspace():
                self.tokens.pop()
            elif token.startswith("\\") and token[1:] in self.macros:
                self.expand(self.tokens.pop()[1:])
            else:
                return token
        return ""

    def next(self) -> str:
        token = self.peek()
        if not token:
            raise TexError("something is missing at the end")
        return self.tokens.pop()

    def expand(self, name: str) -> None:
        given = self.macros[name]
        body, count = (given, 0) if isinstance(given, str) else (str(given[0]), int(given[1]))
        arguments = [self.raw() for _ in range(count)]
        tokens: list[str] = []
        parts = iter(TOKEN.findall(body))
        for token in parts:
            tokens += arguments[int(next(parts)) - 1] if token == "#" else [token]
        self.tokens += tokens[::-1]

    def raw(self) -> list[str]:
        """Read the tokens of one argument unchanged."""
        while self.tokens and self.tokens[-1].isspace():
            self.tokens.pop()
        if not self.tokens or self.tokens[-1] != "{":
            return [self.one_character()]
        depth = 0
        out: list[str] = []
        while self.tokens:
            token = self.tokens.pop()
            depth += (token == "{") - (token == "}")
            if depth == 0:
                return out[1:]
            out.append(token)
        raise TexError("a brace is not closed")

    def one_character(self) -> str:
        """Read one token; of a number its first digit, as in TeX."""
        if not self.tokens:
            raise TexError("an argument is missing at the end")
        token = self.tokens.pop()
        if token[0].isdigit() and len(token) > 1:
            self.tokens.append(token[1:])
            return token[0]
        return token

    def text(self) -> str:
        return "".join(self.raw()).replace("~", "\N{NO-BREAK SPACE}").replace("\\ ", " ")

    def close(self, wanted: str) -> None:
        if self.next() != wanted:
            raise TexError(f"{wanted} is missing")
