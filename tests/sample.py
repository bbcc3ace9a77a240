"""A covering sample of the products of parameters, for `pytest --sample`, which `make test` gives.

A function with more than ``WHOLE`` cases keeps one in ``ONE_IN`` of them, and at least ``WHOLE``:
those whose values (a mixer, a structure, a method) its file has used least so far, ties by a hash
of the name. Afterwards each value that a file has not used at all brings one case more. So every
function runs, and every value of every file; arguments that are listed together have a value each.
Names alone decide: the same cases run on every machine, in every order and in every process. A case
with the mark ``nightly`` is never kept: the mark says which cheaper test asks the same. `make
test-all`, and `pytest` without the option, run all cases.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import ceil
from typing import Any

__all__ = ["ONE_IN", "WHOLE", "Case", "cases_of", "sampled"]

#: a function with so few cases keeps all of them
WHOLE = 5
#: of a larger product, one case in so many is kept
ONE_IN = 10


@dataclass(frozen=True)
class Case:
    """One case of a test function: its file, the function's name, its own name, its values."""

    file: str
    function: str
    name: str
    values: tuple[str, ...] = ()

    @property
    def lot(self) -> bytes:
        return blake2b(self.name.encode()).digest()


def cases_of(items: Iterable[Any]) -> list[Case]:
    """The collected items of pytest as cases."""
    found = []
    for item in items:
        file, _, rest = item.nodeid.partition("::")
        values = _values(getattr(item, "callspec", None))
        found.append(Case(file, rest.partition("[")[0], item.nodeid, values))
    return found


def _values(callspec: Any) -> tuple[str, ...]:
    """What a case gives to each argument; functions and the like by what pytest calls them."""
    params = {} if callspec is None else callspec.params
    told = [f"{name}={value!r}" for name, value in params.items()]
    named = [one for one in told if " at 0x" not in one]
    return tuple(named) if named == told else (*named, *callspec._idlist)


def sampled(cases: Sequence[Case]) -> set[str]:
    """The names of the cases that are kept."""
    functions: dict[tuple[str, str], list[Case]] = {}
    for case in sorted(cases, key=lambda one: one.lot):
        functions.setdefault((case.file, case.function), []).append(case)
    kept: set[str] = set()
    used: dict[str, Counter[str]] = {}
    left: dict[str, list[Case]] = {}
    for (file, _), those in sorted(functions.items()):
        seen = used.setdefault(file, Counter())
        wanted = len(those) if len(those) <= WHOLE else max(WHOLE, ceil(len(those) / ONE_IN))
        for _ in range(wanted):
            best = min(those, key=lambda one: sum(seen[value] for value in one.values))
            those.remove(best)
            seen.update(best.values)
            kept.add(best.name)
        left.setdefault(file, []).extend(those)
    for file, those in left.items():
        for case in those:
            if any(value not in used[file] for value in case.values):
                used[file].update(case.values)
                kept.add(case.name)
    return kept
