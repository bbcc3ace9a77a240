"""The explorer's Python side: settings, messages, link, and what it rebuilds."""

from __future__ import annotations

import base64
import gzip
import math
import re

import pytest

from coefdyn.widgets import Explorer
from coefdyn.widgets.settings import ROWS, default_settings, row_of, schema, validate
from coefdyn.widgets.source import module_source


def test_keyword_arguments_become_settings() -> None:
    explorer = Explorer("gla", length=24, decay=0.9)
    assert explorer.settings["length"] == 24
    assert explorer.settings["structure"] == "diagonal"
    assert repr(explorer) == "Explorer(preset='gla', tokens='repeating', decay=0.9, length=24)"
    want = "#cd?preset=gla&tokens=repeating&decay=0.9&length=24&width=2&seed=7"
    assert explorer.link() == want


def test_settings_are_heard_and_set_one_at_a_time() -> None:
    explorer = Explorer("mamba2")
    heard: list[float] = []
    explorer.observe(lambda change: heard.append(change["new"]["decay"]), names="settings")
    explorer.settings = {"decay": 0.5}
    assert heard == [0.5]
    assert explorer.settings["structure"] == "scalar"
    explorer.settings = {"preset": "deltanet"}
    assert explorer.settings["structure"] == "householder"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"preset": "mamba3"}, "did you mean 'mamba2'"),
        ({"lenght": 4}, "did you mean 'length'"),
        ({"readout": "rely"}, "did you mean 'relu'"),
        ({"decay": 2.0}, "between 0.3 and 1.25, got 2.0"),
        ({"length": 4.5}, "whole number, got 4.5"),
        ({"flip": 1}, "True or False"),
        ({"points": {"z3": [1.0]}}, "cannot be used"),
        ({"points": {"k3": 5}}, "cannot be used"),
        ({"points": {"k3": ["x"]}}, "cannot be used"),
        ({"points": {"k3": [math.nan]}}, "cannot be used"),
        ({"parts": ["matrx"]}, "did you mean 'matrix'"),
        ({"name": "left one"}, "cannot stand in an address"),
        ({"name": "2"}, "a letter first"),
    ],
)
def test_wrong_settings_are_told_apart(wrong: dict, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        Explorer(**wrong)


def test_preset_follows_the_kinds() -> None:
    assert [row_of(validate({"preset": name})) for name in ROWS] == list(ROWS)
    assert validate({"preset": "gla", "decay": 0.5})["preset"] == "gla"
    assert validate({"preset": "gla", "structure": "scalar"})["preset"] == "retnet"
    assert validate({"preset": "gla", "readout": "relu"})["preset"] == "own"
    assert validate({"preset": "gla", "structure": "identity", "normalizer": "gate"})["preset"] == (
        "normalized_attention"
    )


def test_positions_stay_within_the_sequence() -> None:
    settings = validate({"length": 3})
    assert (settings["column"], settings["row"]) == (3, 3)


def test_repeated_tokens_are_equal_inputs() -> None:
    """Lemma 3, first half: with A = I equal tokens have equal coefficients."""
    explorer = Explorer("softmax_attention", tokens="random", column=2, duplicate=5, length=6)
    alpha = explorer.dynamics().coefficients()
    assert alpha[5, 1] == alpha[5, 4]
    explorer.settings = {"structure": "diagonal"}
    alpha = explorer.dynamics().coefficients()
    assert alpha[5, 1] != alpha[5, 4]


def test_module_is_small_and_asks_no_other_host() -> None:
    source = module_source()
    assert len(Explorer._esm) + len(Explorer._css) < 120_000, "what a page carries, once for each"
    packed = base64.b64decode(re.search(r"[A-Za-z0-9+/=]{1000,}", Explorer._esm).group())
    assert gzip.decompress(packed).decode() == source
    assert not re.search(r"https?://", Explorer._esm)
    assert not re.search(r"^\s*import\s|import\(|https?://", source, flags=re.MULTILINE)
    assert source.count("export default") == 1


def test_schema_defaults_are_valid() -> None:
    assert validate(default_settings()) == default_settings()
    for row in schema()["rows"].values():
        validate({**row["start"], **row["kinds"]})
