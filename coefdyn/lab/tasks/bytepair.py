"""Byte-pair encoding: tokens 0..255 are bytes, token 256 + i joins the i-th merged pair.

Text is first cut into words: a word with the space before it, a run of other signs, or white
space. Pairs are merged inside words only (Sennrich et al. 2016; GPT-2's byte level). Those of the
embedded texts were learned by `data/text/build.py`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

Pair = tuple[int, int]
_WORDS = re.compile(rb" ?[A-Za-z0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+")


def words(text: bytes) -> list[bytes]:
    """Cut text into words; joined they give the text back."""
    return _WORDS.findall(text)


def encode(text: bytes, merges: Sequence[Pair]) -> list[int]:
    """Token ids of a text: in each word the pair learned earliest is merged first."""
    rank = {pair: i for i, pair in enumerate(merges)}
    known: dict[bytes, list[int]] = {}
    tokens: list[int] = []
    for word in words(text):
        if word not in known:
            known[word] = _encode_word(word, rank)
        tokens.extend(known[word])
    return tokens


def token_bytes(merges: Sequence[Pair]) -> list[bytes]:
    """The bytes each token stands for, in order of ids."""
    pieces = [bytes([i]) for i in range(256)]
    for left, right in merges:
        pieces.append(pieces[left] + pieces[right])
    return pieces


def _encode_word(word: bytes, rank: dict[Pair, int]) -> list[int]:
    tokens = list(word)
    while len(tokens) > 1:
        best = min(pairwise(tokens), key=lambda pair: rank.get(pair, len(rank)))
        if best not in rank:
            break
        tokens = _merge(tokens, best, 256 + rank[best])
    return tokens


def _merge(tokens: Sequence[int], pair: Pair, new: int) -> list[int]:
    """Replace each appearance of a pair, from the left, by one token."""
    merged: list[int] = []
    for token in tokens:
        if merged and merged[-1] == pair[0] and token == pair[1]:
            merged[-1] = new
        else:
            merged.append(token)
    return merged
