"""Compact saved state of a page's figures, with every digit kept.

A notebook keeps it as JSON: each figure's module, style and settings, and for heads of a trained
model some ten thousand numbers of twenty characters each. A page carries the same packed:

    {"packed": {"text": ..., "bytes": ...}}

``text`` is that JSON, ``bytes`` what stands in it by its place: arrays of numbers, and buffers such
as a film's frames. Both are compressed with gzip and written in base64. In the text stands for an
array ``{"@numbers": "f4", "shape": [12, 64], "at": 0}``, little-endian, and for a buffer's data
``{"@bytes": 960, "at": 3072}``. Numbers that a float32 holds exactly take four bytes, any others
eight; so what `widget-host.js` unpacks is what the notebook has, bit by bit.
"""

from __future__ import annotations

import base64
import gzip
import json
import math
import re
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from book.tools.postprocess import STATE, rewrite

__all__ = ["pack", "pack_states", "records_of", "unpack"]

CODES = {"f4": "f", "f8": "d"}
#: A shorter list stays as it is.
FEWEST = 8


def pack_states(site: Path) -> None:
    """Pack the saved states of every page below `site`; the second time nothing is left to do."""
    rewrite(site, lambda page, _: STATE.sub(_packed_script, page.read_text(encoding="utf-8")))


def records_of(page: str) -> dict[str, Any]:
    """The saved records of a page's figures by their names, packed or not.

    Args:
        page: its text.
    """
    records: dict[str, Any] = {}
    for found in STATE.finditer(page):
        saved = json.loads(found[2])
        records |= (unpack(saved["packed"]) if "packed" in saved else saved)["state"]
    return records


def pack(saved: Mapping[str, Any]) -> dict[str, str]:
    """Pack a saved state into the form that a page carries."""
    store = bytearray()
    text = json.dumps(_without_bytes(saved, store), ensure_ascii=False, separators=(",", ":"))
    parts = {"text": _squeezed(text.encode("utf-8"))}
    return parts | ({"bytes": _squeezed(bytes(store))} if store else {})


def unpack(packed: Mapping[str, str]) -> dict[str, Any]:
    """Unpack the result of ``pack``."""
    store = _opened(packed["bytes"]) if "bytes" in packed else b""

    def revive(value: dict[str, Any]) -> Any:
        if "@numbers" in value:
            return _numbers(value, store)
        if "@bytes" in value:
            part = store[value["at"] : value["at"] + value["@bytes"]]
            return base64.b64encode(part).decode("ascii")
        return value

    found: dict[str, Any] = json.loads(_opened(packed["text"]), object_hook=revive)
    return found


def _packed_script(found: re.Match[str]) -> str:
    saved = json.loads(found[2])
    if "packed" in saved:
        return found[0]
    return found[1] + json.dumps({"packed": pack(saved)}) + found[3]


def _without_bytes(value: Any, store: bytearray) -> Any:
    """The value with places in `store` for its arrays of numbers and its buffers."""
    if isinstance(value, Mapping):
        if value.get("encoding") == "base64":
            data = base64.b64decode(value["data"])
            at = len(store)
            store += data
            return {**value, "data": {"@bytes": len(data), "at": at}}
        return {key: _without_bytes(one, store) for key, one in value.items()}
    if not isinstance(value, list):
        return value
    shape = _shape(value)
    if shape is None or math.prod(shape) < FEWEST:
        return [_without_bytes(one, store) for one in value]
    numbers = list(_leaves(value))
    kind = "f4" if all(map(_is_single, numbers)) else "f8"
    at = len(store)
    store += struct.pack(f"<{len(numbers)}{CODES[kind]}", *numbers)
    return {"@numbers": kind, "shape": shape, "at": at}


def _shape(value: Any) -> list[int] | None:
    """Sizes of nested lists of floats; None for what is no such array."""
    if type(value) is float:
        return []
    if not isinstance(value, list) or not value:
        return None
    first = _shape(value[0])
    same = first is not None and all(_shape(one) == first for one in value[1:])
    return [len(value), *first] if same and first is not None else None


def _leaves(value: Any) -> Iterator[float]:
    if isinstance(value, list):
        for one in value:
            yield from _leaves(one)
    else:
        yield value


def _is_single(number: float) -> bool:
    try:
        return bool(struct.unpack("<f", struct.pack("<f", number))[0] == number)
    except OverflowError:
        return False


def _numbers(value: Mapping[str, Any], store: bytes) -> list[Any]:
    kind, shape = value["@numbers"], value["shape"]
    count = math.prod(shape)
    found: list[Any] = list(struct.unpack_from(f"<{count}{CODES[kind]}", store, value["at"]))
    for size in reversed(shape[1:]):
        found = [found[at : at + size] for at in range(0, len(found), size)]
    return found


def _squeezed(data: bytes) -> str:
    return base64.b64encode(gzip.compress(data, mtime=0)).decode("ascii")


def _opened(text: str) -> bytes:
    return gzip.decompress(base64.b64decode(text))
