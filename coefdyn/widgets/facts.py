"""Tokens of a text of the reader's own: facts that it tells, and a question.

``js/facts.js`` holds the same rules, and golden vectors hold both to each other.

    "the cat is black"   black is stored under cat; the other words store nothing and ask for the
                         subject last named
    "ask: cat", "cat?"   asks for cat
    words, no verb       each word is stored under the word before it and asks for itself
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from coefdyn.widgets.draws import STREAM, draw_normal, round_milli

__all__ = ["FactToken", "clean_text", "directions", "parse_facts", "places_of"]

WORDS, CHARACTERS, WORD = 64, 600, 20
"""Most tokens of a text, most characters of a text, most characters of a word."""

_VERBS = ("is", "are", "was", "were", "has", "=")
_LINES = re.compile(r"[\r\n\u2028\u2029]+")
_BLANKS = re.compile(r"[ \t\v\f\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]+")
_HIDDEN = re.compile(
    r"[\u0000-\u0008\u000e-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069"
    r"\ufeff\ud800-\udfff]+"
)
_ENDS = re.compile(r"([.;!?,\u3002\uff01\uff1f\uff0c\uff1b\u3001\u061f\u060c\u061b]+)")
_QUESTION = re.compile(r"[?\uff1f\u061f]")
_EDGE = r"[\u0022'\u201c\u201d\u2018\u2019\u00ab\u00bb()\[\]{}<>*_:\u2026\u00bf\u00a1]+"
_EDGES = re.compile(rf"^{_EDGE}|{_EDGE}$")


@dataclass(frozen=True, kw_only=True)
class FactToken:
    """One position.

    Attributes:
        word: what stands on the axes of the matrix.
        key: the word it is stored under; None stores nothing.
        query: the word it asks for; None asks for nothing.
        value: the word that is stored; None carries nothing.
        asks: whether it is a question.
    """

    word: str
    key: str | None
    query: str | None
    value: str | None
    asks: bool = False


def clean_text(raw: str) -> str:
    """Clean a text for display: no control signs or line ends, whole words, <= 600 characters."""
    text = _BLANKS.sub(" ", _HIDDEN.sub("", _LINES.sub("; ", raw))).removeprefix(" ")
    text = text.removesuffix(" ")
    if len(text) <= CHARACTERS:
        return text
    kept = text[:CHARACTERS]
    end = kept.rfind(" ")
    return kept[:end] if end > 0 else kept


@cache
def parse_facts(text: str) -> tuple[FactToken, ...]:
    """At most 64 tokens of a cleaned text.

    At least two where there is a word, and a question at the end of what was told.
    """
    tokens, subject, told = _read_clauses(text)
    cut = len(tokens) > WORDS
    kept = tokens[: WORDS - 1] if cut else list(tokens)
    if not tokens:
        return ()
    final = tokens[-1]
    if cut and final.asks:
        kept.append(final)
    elif not final.asks and (cut or told or len(kept) < 2):
        kept = kept[: WORDS - 1]
        kept.append(_ask(final.word if subject is None else subject))
    elif len(kept) == 1:
        kept.append(final)
    return tuple(kept)


def places_of(text: str) -> dict[str, int]:
    """Initial positions, from 1: the question, and the first word stored under its key."""
    tokens = parse_facts(text)
    under = [token.key for token in tokens]
    asked = tokens[-1].query
    return {"row": len(tokens), "column": under.index(asked) + 1 if asked in under else 1}


def directions(
    tokens: Sequence[FactToken], width: int, seed: int
) -> tuple[list[list[float]], list[list[float]]]:
    """q and k, ``(L, n)``: keys of length one, queries of length root n.

    The first n words stand at right angles, later ones where chance puts them, so that they
    disturb the others.
    """
    named = [word for token in tokens for word in (token.query, token.key) if word is not None]
    place = {word: m for m, word in enumerate(dict.fromkeys(named))}
    root = math.sqrt(width)

    def row(word: str | None, length: float) -> list[float]:
        if word is None:
            return [0.0] * width
        return [length * x for x in _direction(place[word], width, seed)]

    return [row(t.query, root) for t in tokens], [row(t.key, 1.0) for t in tokens]


def _direction(m: int, width: int, seed: int) -> list[float]:
    first = [1.0 if c == 0 else 0.0 for c in range(width)]
    if m < width:
        return [1.0 if c == m else 0.0 for c in range(width)]
    drawn = [draw_normal(seed, STREAM["fact"], m, c) for c in range(width)]
    square = 0.0
    for x in drawn:
        square += x * x
    length = math.sqrt(square)
    return [round_milli(x / length) for x in drawn] if length > 0 else first


def _words(clause: str) -> list[str]:
    stripped = (_lower(_EDGES.sub("", word)) for word in clause.split(" "))
    return [word if len(word) <= WORD else word[: WORD - 1] + "…" for word in stripped if word]


def _lower(word: str) -> str:
    """A to Z only: other letters have rules on which languages and runtimes differ."""
    return re.sub(r"[A-Z]", lambda found: found.group().lower(), word)


def _ask(word: str) -> FactToken:
    return FactToken(word=f"{word}?", key=None, query=word, value=None, asks=True)


def _clause(words: list[str], subject: str | None) -> tuple[list[FactToken], str | None, bool]:
    """Tokens of one clause, the subject last named after it, and whether it tells a fact."""
    last = len(words) - 1
    verbs = [m for m, word in enumerate(words) if 0 < m < last and word in _VERBS]
    if not verbs and len(words) != 2:
        before = [None, *words]
        return (
            [
                FactToken(word=word, key=key, query=word, value=None if key is None else word)
                for word, key in zip(words, before, strict=False)
            ],
            subject,
            False,
        )
    named = verbs[0] - 1 if verbs else 0
    tokens = []
    for m, word in enumerate(words):
        query = subject if m < named else words[named]
        stored = {"key": words[named], "value": word} if m == last else {"key": None, "value": None}
        tokens.append(FactToken(word=word, query=query, **stored))
    return tokens, words[named], True


def _read_clauses(text: str) -> tuple[list[FactToken], str | None, bool]:
    tokens: list[FactToken] = []
    subject, told = None, False
    pieces = [*_ENDS.split(text), ""]
    for clause, end in zip(pieces[::2], pieces[1::2], strict=True):
        words = _words(clause)
        if not words:
            continue
        if (words[0] == "ask" and len(words) > 1) or _QUESTION.search(end):
            subject = words[-1]
            tokens.append(_ask(subject))
        else:
            found, subject, tells = _clause(words, subject)
            told = told or tells
            tokens += found
    return tokens, subject, told
