"""What a page of the book says in numbers, and the kept runs that these numbers are of."""

from __future__ import annotations

import json
import re
from functools import cache
from statistics import fmean
from typing import Any

from coefdyn.lab.places import checkout

BOOK = checkout() / "book"
NUMBER = r"([\d.]*\d)"


@cache
def prose(page: str) -> str:
    """The text of a page; a line's end counts as a blank."""
    return " ".join((BOOK / page).read_text(encoding="utf-8").split())


def words(page: str, pattern: str) -> tuple[str, ...]:
    """What a page says where a pattern has groups."""
    found = re.search(pattern, prose(page))
    assert found, f"{page} does not say: {pattern}"
    return found.groups()


def pattern(text: str) -> str:
    """A sentence as a pattern: # stands for a number, and ... for any words."""
    for one in "()[]$*+|^":
        text = text.replace(one, "\\" + one)
    return text.replace("...", ".*?").replace("#", NUMBER)


def told(page: str, pattern: str) -> tuple[float, ...]:
    """The same as numbers."""
    return tuple(float(one) for one in words(page, pattern))


def numbers(page: str, sentence: str) -> tuple[float, ...]:
    """The numbers that a page has where # stands in a sentence."""
    return told(page, pattern(sentence))


def says(page: str, sentence: str, *values: float) -> None:
    """Assert that a page says these numbers where # stands, each to the digits that it prints."""
    for text, value in zip(words(page, pattern(sentence)), values, strict=True):
        digits = len(text.partition(".")[2])
        assert float(text) == round(value, digits), f"{page}, {sentence}: {text} for {value}"


@cache
def lines(name: str) -> list[dict[str, Any]]:
    """All kept runs of an experiment at the standard size."""
    path = checkout() / f"data/results/{name}/standard.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def runs(name: str, **task: Any) -> list[dict[str, Any]]:
    """The runs on a task with these settings, those that chose a rate included."""
    return [one for one in lines(name) if task.items() <= one["config"]["task"].items()]


def rate(one: dict[str, Any]) -> float:
    return one["config"]["train"]["learning_rate"]


def chosen(name: str, at: float | None = None, **facets: str) -> list[dict[str, Any]]:
    """The runs of one design by their seeds, at a rate; None: at the one with the most seeds."""
    found = [one for one in lines(name) if facets.items() <= one["variant"].items()]
    assert len({json.dumps(one["variant"], sort_keys=True) for one in found}) == 1, (
        f"{name}: {facets}"
    )
    rates = [rate(one) for one in found]
    at = max(rates, key=rates.count) if at is None else at
    return sorted((one for one in found if rate(one) == at), key=lambda one: one["seed"])


def ends(name: str, at: float | None = None, **facets: str) -> list[float]:
    """The test accuracies at the end of these runs."""
    return [one["final"]["accuracy"] for one in chosen(name, at, **facets)]


def percent(name: str, at: float | None = None, **facets: str) -> float:
    return 100 * fmean(ends(name, at, **facets))


def steps(one: dict[str, Any], level: float = 0.9) -> int | None:
    """The first step of a run at which its accuracy has this level."""
    curve = zip(one["metrics"]["step"], one["metrics"]["accuracy"], strict=True)
    return next((step for step, value in curve if value is not None and value >= level), None)
