"""The explorer's golden vectors are what the float64 reference gives today."""

from __future__ import annotations

import json

import pytest
from golden import explorer_golden as golden

TABLE = json.loads(golden.PATH.read_text(encoding="utf-8"))


def test_every_combination_is_covered() -> None:
    assert [row["settings"] for row in TABLE] == golden.cases()
    kinds = {
        (s["structure"], s["readout"], s["normalizer"])
        for s in (row["settings"] for row in TABLE)
        if {"structure", "readout", "normalizer"} <= s.keys()
    }
    assert len(kinds) == 8 * 8 * 5


@pytest.mark.parametrize("part", range(8))
def test_file_agrees_with_reference(part: int) -> None:
    for row in TABLE[part::8]:
        fresh = golden.vectors(row["settings"])
        for name in row.keys() - {"settings"}:
            if name in ("labels", "said"):
                assert fresh[name] == row[name], row["settings"]
                continue
            assert fresh[name] == pytest.approx(row[name], rel=1e-11, abs=1e-12), row["settings"]
