"""The map of the field is complete: every operation of fla and kind of transformers has a line."""

from __future__ import annotations

import importlib.util
import re
from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from transformers.configuration_utils import ALLOWED_ATTN_LAYER_TYPES

from book.tools import course, field
from book.tools.chapters import BOOK
from coefdyn.lens.adapters import ADAPTERS
from coefdyn.mixers.rows_since import ROWS_SINCE

LINES = field.lines()
TESTS = Path(__file__).parents[1] / "equivalence"
PATTERNS = [(one["name"], pattern) for one in LINES for pattern in one.get("classes", [])]


def named(key: str) -> Counter:
    return Counter(part for one in LINES for part in one.get(key, []))


def test_every_folder_of_fla_is_in_one_line() -> None:
    told = named("fla")
    assert {one for one in told if not one.startswith("modules.")} == field.folders()
    assert set(told.values()) == {1}
    for one in told:
        if one.startswith("modules."):
            assert importlib.util.find_spec(f"fla.{one}") is not None, one


def test_fla_core_has_no_layers_as_the_page_says() -> None:
    assert importlib.util.find_spec("fla.layers") is None


def test_every_kind_of_layer_of_transformers_is_in_one_line() -> None:
    """ "linear_attention" is its word for every memory of fixed size, and in several."""
    told = named("layers")
    assert told.pop("linear_attention") > 1
    assert told == Counter(set(ALLOWED_ATTN_LAYER_TYPES) - {"linear_attention"})


def test_every_class_that_keeps_a_state_or_chooses_is_in_one_line() -> None:
    for one, kind in field.mixers().items():
        takers = {name for name, pattern in PATTERNS if fnmatchcase(one, pattern)}
        assert len(takers) == 1 or (kind == "attention" and not takers), (one, takers)


@pytest.mark.parametrize(("name", "pattern"), PATTERNS)
def test_no_line_names_a_class_that_is_gone(name: str, pattern: str) -> None:
    assert any(fnmatchcase(one, pattern) for one in field.mixers()), name


def test_classes_are_found_by_what_they_do() -> None:
    """One of each sign, in a file of the library, and none that only holds others."""
    found = field.mixers()
    assert found["mamba2.Mamba2Mixer"] == found["xlstm.xLSTMBackend"] == "state"
    assert found["deepseek_v32.DeepseekV32Indexer"] == "chooser"
    assert found["llama.LlamaAttention"] == found["reformer.LSHSelfAttention"] == "attention"
    assert not {"bert.BertAttention", "llama.LlamaModel", "llama.LlamaMLP"} & set(found)


@pytest.mark.parametrize("line", LINES, ids=lambda one: one["name"])
def test_a_line_is_whole(line: dict) -> None:
    ingredients = {"A", "bk", "phi", "eta"}
    assert line["is"] in field.KINDS
    assert ingredients <= set(line) if line["is"] == "row" else "why" in line
    assert line.get("structure", "identity") in field.STRUCTURES
    assert ("cite" in line) != ("link" in line)
    assert {"fla", "layers", "classes", "why"} & set(line)
    assert ("probe" in line) == (line["is"] == "none")
    for how, what in line.get("held", {}).items():
        if how == "row":
            assert what in ROWS_SINCE
        elif how == "lens":
            assert what in {adapter.mechanism for adapter in ADAPTERS}
        elif how == "peer":
            others = TESTS.glob("test_peers*.py")
            assert any(re.search(rf"\b{what}\b", one.read_text("utf-8")) for one in others)
        else:
            assert how == "here"


def test_the_papers_are_in_the_bibliography() -> None:
    keys = set(re.findall(r"^@\w+\{(\w+),", (BOOK / "references.bib").read_text("utf-8"), re.M))
    assert set(named("cite")) <= keys


def test_the_page_has_every_line_once_and_leads_to_every_cell() -> None:
    text = course.TABLES["field"]()
    for one in LINES:
        assert (
            len(
                re.findall(
                    rf"^\| (?:<span[^|]*></span>)*{re.escape(one['name'])} [{{(]", text, re.M
                )
            )
            == 1
        )
    links = re.findall(r'<a href="#([\w-]+)"[^>]*>(\d+)</a>', text)
    assert sorted(place for place, _ in links) == sorted(re.findall(r'<span id="([\w-]+)">', text))
    full = [f"field-{row.replace(' ', '-')}" for row in field.STRUCTURES]
    cells = {place for place, _ in links}
    assert {f"{row}-sum" for row in full} | {f"{row}-exp" for row in full[:-1]} <= cells
    counted = [one for one in LINES if one["is"] == "row" and "structure" in one]
    assert sum(int(n) for _, n in links) == sum(1 + ("also" in one) for one in counted)
