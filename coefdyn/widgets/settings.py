"""Settings of the explorer: names, limits, the rows of Table 1 and later ones.

``schema.json`` is the one list; the browser reads the same file. Positions are counted from 1 here,
as in the paper; ``CoefficientDynamics.states(j)`` counts from 0. A text of the reader's own is read
by the page's rules (``js/facts.js``); where no interpreter can run them, the page adds its length
and the positions to start at.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from coefdyn.options import did_you_mean
from coefdyn.widgets.interpreter import ask

__all__ = [
    "ROWS",
    "address",
    "changes",
    "check_name",
    "check_real",
    "check_whole",
    "default_settings",
    "row_of",
    "schema",
    "validate",
    "with_preset",
    "with_tokens",
]

Settings = dict[str, Any]

_PARTS = ("choices", "ranges", "integers", "flags", "texts")


@cache
def schema() -> dict[str, Any]:
    """The explorer's settings: choices, ranges, integers, flags, and the rows."""
    return json.loads((Path(__file__).parent / "schema.json").read_text(encoding="utf-8"))


ROWS: tuple[str, ...] = tuple(schema()["rows"])
"""Names of the rows of Table 1, in its order, then of rows since that the explorer can show."""


@cache
def _specs() -> dict[str, tuple[str, dict[str, Any]]]:
    return {key: (part, spec) for part in _PARTS for key, spec in schema()[part].items()}


def default_settings(tokens: str = "facts", text: str = "") -> Settings:
    """Gated DeltaNet in the plane, on three facts or on other tokens.

    Args:
        tokens: "facts", "repeating" or "random".
        text: what is told and asked, for facts; empty for the example of the book.
    """
    settings: Settings = {"preset": "own", "morph_to": "", "points": {}}
    settings.update({key: spec["default"] for key, (_, spec) in _specs().items()})
    settings["tokens"] = tokens
    if text:
        settings["text"] = text
    if tokens == "facts":
        settings = _placed(settings)
    return with_preset(settings, "gated_deltanet")


_PLACES = ("length", "row", "column")


def _placed(settings: Settings) -> Settings:
    """The settings with the length and the initial positions of their text, if it can be read."""
    told = _told(settings["text"])
    unread = set(_PLACES) - told.keys()
    return {key: value for key, value in {**settings, **told}.items() if key not in unread}


@cache
def _told(text: str) -> Settings:
    """A text as it can be shown, its number of tokens, and where to look at first."""
    example = schema()["texts"]["text"]
    if text == example["default"]:
        return {"text": text, **example["places"]}
    try:
        return ask("told", text)
    except ImportError:
        return {"text": text}


_FACTS_START = {"variation": 0, "scale": 1}
"""On facts all gates are alike, so that answers are round numbers; rows of Table 1 may add more."""


def with_preset(settings: Mapping[str, Any], preset: str) -> Settings:
    """The settings with the kinds and starting values of a row; tokens stay.

    Raises:
        ValueError: for a name that is no row.
    """
    if preset == "own":
        return {**settings, "preset": "own"}
    check_name("preset", preset, (*ROWS, "own"))
    row = schema()["rows"][preset]
    facts = {**_FACTS_START, **row.get("facts", {})} if settings["tokens"] == "facts" else {}
    chosen = {"direction": "key", "view": "raw", **row["start"], **facts, **row["kinds"]}
    return {**settings, **chosen, "preset": preset}


def with_tokens(settings: Mapping[str, Any], tokens: str) -> Settings:
    """Settings on other tokens, with the gates and strengths that those start with."""
    if tokens == settings["tokens"]:
        return dict(settings)
    fresh = default_settings(tokens, settings["text"])
    started = {key: fresh[key] for key in ("variation", "scale", *_PLACES) if key in fresh}
    changed = {**settings, **started, "tokens": tokens, "points": {}}
    return with_preset(_placed(changed), settings["preset"]) if tokens == "facts" else changed


def row_of(settings: Mapping[str, Any]) -> str:
    """Row of which these settings are a case, or "own"."""
    rows = schema()["rows"]

    def fits(name: str) -> bool:
        return all(settings[key] == kind for key, kind in rows[name]["kinds"].items())

    if settings["preset"] in rows and fits(settings["preset"]):
        return settings["preset"]
    return next(filter(fits, ROWS), "own")


def validate(changes: Mapping[str, Any], base: Mapping[str, Any] | None = None) -> Settings:
    """Complete settings: ``base`` (or the defaults), then a preset if one is named, then the rest.

    Positions beyond the length move to the last token, as they do in the page.

    Raises:
        ValueError: for an unknown key or choice (the message names the nearest known one), a value
            of the wrong type, or a number out of range.
    """
    known = ("preset", "morph_to", "points", *_specs())
    for key in changes:
        check_name("setting", key, known)
    settings = _start(changes, base)
    if "preset" in changes:
        settings = with_preset(settings, changes["preset"])
    for key, value in changes.items():
        if key != "preset":
            settings[key] = _check_value(key, value)
    if settings["tokens"] == "facts":
        told = _told(settings["text"])
        settings.update({key: told[key] for key in ("length",) if key in told})
    length = settings.get("length", schema()["integers"]["length"]["max"])
    settings.update(
        {key: min(settings[key], length) for key in ("column", "row") if key in settings}
    )
    if settings["duplicate"] > length:
        settings["duplicate"] = 0
    settings["preset"] = row_of(settings)
    return settings


def _start(changes: Mapping[str, Any], base: Mapping[str, Any] | None) -> Settings:
    """Starting settings of the tokens and the text that the changes name.

    A length belongs to drawn tokens, so naming one alone leaves the facts.
    """
    before = base["tokens"] if base is not None else "facts"
    implied = "repeating" if "length" in changes and before == "facts" else before
    tokens = _check_value("tokens", changes.get("tokens", implied))
    text = _check_value("text", changes["text"]) if "text" in changes else ""
    if base is None:
        return default_settings(tokens, text)
    settings = with_tokens(base, tokens)
    if text and tokens == "facts" and text != settings["text"]:
        settings = _placed({**settings, "text": text, "points": {}, "duplicate": 0})
    return settings


def changes(settings: Mapping[str, Any]) -> Settings:
    """Preset of the settings, and every setting that differs from its start on the same tokens."""
    base = with_preset(default_settings(settings["tokens"], settings["text"]), settings["preset"])
    base["tokens"] = "facts"
    if settings["tokens"] == "facts":
        base["text"] = schema()["texts"]["text"]["default"]
    keys = ("preset", *_specs(), "morph_to", "points")
    named = [key for key in keys if key in settings]
    return {key: settings[key] for key in named if key == "preset" or settings[key] != base[key]}


def address(settings: Mapping[str, Any], name: str = "") -> str:
    """The fragment that opens a page at these settings, such as ``#cd?preset=mamba2&decay=0.9``.

    Args:
        settings: complete settings, from ``validate``.
        name: the explorer's name; empty for the first one of the page.
    """
    parts = []
    tokens = ("tokens", "text" if settings["tokens"] == "facts" else "length", "width", "seed")
    named = {**changes(settings), **{key: settings[key] for key in tokens}}
    if named.get("text") == schema()["texts"]["text"]["default"]:
        del named["text"]
    for key, value in named.items():
        if key == "points":
            parts += [f"{at}={','.join(map(_plain, point))}" for at, point in value.items()]
        else:
            parts.append(f"{key}={quote(_plain(value), safe='')}")
    return (f"#cd-{name}?" if name else "#cd?") + "&".join(parts)


def _plain(value: Any) -> str:
    """Format a value as JavaScript writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def check_name(what: str, name: Any, known: tuple[str, ...]) -> None:
    """Raise a ValueError that names the nearest known name."""
    if name in known:
        return
    listing = ", ".join(k or repr(k) for k in known)
    raise ValueError(f"unknown {what} {name!r}{did_you_mean(name, known)} Known: {listing}.")


def check_whole(what: str, value: Any, low: int, high: int) -> None:
    """Raise a ValueError for anything but a whole number from low to high."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{what} must be a whole number, got {value!r}.")
    if not low <= value <= high:
        raise ValueError(f"{what} must lie between {low} and {high}, got {value!r}.")


def check_real(what: str, value: Any, low: float, high: float) -> None:
    """Raise a ValueError for anything but a finite number from low to high."""
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
        raise ValueError(f"{what} must be a finite number, got {value!r}.")
    if not low <= value <= high:
        raise ValueError(f"{what} must lie between {low} and {high}, got {value!r}.")


def _check_value(key: str, value: Any) -> Any:
    if key == "morph_to":
        check_name("row to morph to", value, (*ROWS, ""))
        return value
    if key == "points":
        return _check_points(value)
    part, spec = _specs()[key]
    if part == "choices":
        check_name(key, value, tuple(spec["options"]))
        return value
    if part == "texts":
        return _check_text(key, value)
    if part == "flags":
        if not isinstance(value, bool):
            raise ValueError(f"{key} must be True or False, got {value!r}.")
        return value
    return _check_number(key, value, spec, whole=part == "integers")


def _check_text(key: str, value: Any) -> str:
    """The text as it can be shown; the page's rules say whether it holds a word."""
    told: Settings = {"length": 0}
    if isinstance(value, str) and value.strip():
        told = _told(value)
    if told.get("length") == 0:
        raise ValueError(
            f"{key} must hold at least one word, such as 'the cat is black; ask: cat'; "
            f"got {value!r}."
        )
    return told["text"]


def _check_number(key: str, value: Any, spec: Mapping[str, Any], *, whole: bool) -> int | float:
    is_number = (
        isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    )
    if not is_number or (whole and value != int(value)):
        raise ValueError(
            f"{key} must be {'a whole' if whole else 'a finite'} number, got {value!r}."
        )
    if not spec["min"] <= value <= spec["max"]:
        raise ValueError(f"{key} must lie between {spec['min']} and {spec['max']}, got {value!r}.")
    return int(value) if whole else value


def _check_points(points: Any) -> dict[str, list[float]]:
    """Dragged vectors by name: "q3" is the query, "k3" the key of token 3."""
    if not isinstance(points, Mapping):
        raise ValueError(f"points must be a dict such as {{'k3': [0.5, -1.0]}}, got {points!r}.")
    kept = {}
    for name, values in points.items():
        good = re.fullmatch(r"[qk][1-9]\d?", str(name)) and isinstance(values, (list, tuple))
        if not good or len(values) > 16 or not all(map(_is_coordinate, values)):
            raise ValueError(
                f"points[{name!r}] cannot be used: name it 'q' or 'k' and the position from 1, and "
                f"give at most 16 numbers between -8 and 8; got {values!r}."
            )
        kept[str(name)] = [float(x) for x in values]
    return kept


def _is_coordinate(x: Any) -> bool:
    return isinstance(x, (int, float)) and not isinstance(x, bool) and abs(x) <= 8
