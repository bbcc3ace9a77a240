"""What the documents promised before the house became smaller still works, or is told as gone."""

from __future__ import annotations

from pathlib import Path

from promises import broken

GOLDEN = Path(__file__).parents[1] / "golden"


def lines(name: str) -> list[str]:
    return (GOLDEN / name).read_text(encoding="utf-8").splitlines()


def gone() -> dict[str, str]:
    """Promise -> what does its work now."""
    told = [line.partition(" -> ") for line in lines("gone.txt")]
    return {promise: instead for promise, _, instead in told}


def test_each_promise_is_kept_or_told_as_gone() -> None:
    taken_back = tuple(gone())
    left = [
        one
        for one in broken(lines("promises.txt"))
        if one not in taken_back and not one.startswith(tuple(f"{x}." for x in taken_back))
    ]
    assert not left, "keep it, or name in tests/golden/gone.txt what does its work"


def test_what_is_gone_was_promised_is_gone_and_has_a_successor() -> None:
    known, taken_back = lines("promises.txt"), gone()
    assert len(taken_back) <= 20
    assert all(one in known and instead for one, instead in taken_back.items())
    assert broken(list(taken_back)) == list(taken_back)


def test_a_promise_that_is_broken_is_found() -> None:
    wrong = [
        "name coefdyn.CoefficientDynamix",
        "name coefdyn.nowhere",
        "file book/nowhere.md",
        "make nowhere",
        "make execute NOWHERE",
        "command coefdyn.lab nowhere",
        "command coefdyn.lab run --nowhere",
    ]
    assert broken(wrong) == wrong
    assert not broken(["name coefdyn.CoefficientDynamics", "command coefdyn.lab run --profile"])
