"""Words and reading times: what counts, and that chapters name the time that they take."""

from __future__ import annotations

from book.tools.words import pages


def test_chapters_name_the_time_that_they_take() -> None:
    told = {one.name: (one.named, one.minutes) for one in pages() if one.named is not None}
    assert len(told) > 30
    assert {name: pair for name, pair in told.items() if abs(pair[0] - pair[1]) > 2} == {}
