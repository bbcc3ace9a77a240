"""Table 1 is read off the mixers: its rows are the paper's, and follow when a mixer changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from coefdyn import normalizer
from coefdyn.mixers import GLA, MIXERS, ROWS_SINCE
from coefdyn.mixers import gla as gla_module
from coefdyn.mixers.table import Row, describe, rows_since, table1

#: the paper's Table 1: (structure of A_t, b_j, readout, normaliser, class, fixed-size state)
PAPER = {
    "SoftmaxAttention": ("identity", "1/sqrt(n)", "exp", "row sum", "convex", False),
    "LinearAttention": ("identity", "1/sqrt(n)", "elu1", "row sum", "convex", True),
    "NormalizedAttention": (
        "identity",
        "1/sqrt(n)",
        "identity",
        "function of x_i",
        "linear",
        True,
    ),
    "GLA": ("diagonal", "1/sqrt(n)", "identity", "1", "linear", True),
    "Mamba2": ("scalar", "Delta_j", "identity", "1", "linear", True),
    "DeltaNet": (
        "Householder along the key",
        "beta_j/sqrt(n)",
        "identity",
        "1",
        "linear",
        True,
    ),
    "GatedDeltaNet": (
        "scaled Householder along the key",
        "beta_j/sqrt(n)",
        "identity",
        "1",
        "linear",
        True,
    ),
    "MLSTM": ("scalar", "exp(i_j)/sqrt(n)", "identity", "floored row sum", "linear", True),
}


@pytest.fixture(scope="module")
def rows() -> dict[str, Row]:
    return {row.mixer: row for row in table1()}


@pytest.mark.parametrize("name", PAPER)
def test_row_is_the_papers(name: str, rows: dict[str, Row]) -> None:
    row = rows[name]
    got = (row.evolution, row.scaling, row.readout, row.normalizer, row.combination, row.recurrent)
    assert got == PAPER[name]


def test_rows_in_the_papers_order(rows: dict[str, Row]) -> None:
    assert list(rows) == list(MIXERS) == list(PAPER)


def test_state_sizes(rows: dict[str, Row]) -> None:
    assert rows["SoftmaxAttention"].state.endswith("L")
    assert rows["LinearAttention"].state == "n d_v + n"
    assert rows["MLSTM"].state == "n d_v + n + 1"
    for name in ("NormalizedAttention", "GLA", "Mamba2", "DeltaNet", "GatedDeltaNet"):
        assert rows[name].state == "n d_v"


def test_written_symbols_fit_what_is_derived(rows: dict[str, Row]) -> None:
    for row in rows.values():
        assert (r"\sqrt{n}" in row.symbols.scaling) == ("sqrt(n)" in row.scaling), row.mixer
        assert (row.symbols.evolution == r"\mathbb{I}_n") == (not row.positional), row.mixer
        assert (row.symbols.normalizer == "1") == (row.normalizer == "1"), row.mixer
        assert (r"\mathrm{Id}" in row.symbols.readout) == (row.readout == "identity"), row.mixer


def test_changing_a_mixer_changes_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    class Summed(GLA):
        def build(self, tokens):
            built = super().build(tokens)
            return gla_module.CoefficientDynamics(
                q=built.q,
                k=built.k,
                evolution=built.evolution,
                scaling=1.0,
                readout=built.readout,
                normalizer=normalizer.RowSum(),
            )

    monkeypatch.setitem(MIXERS, "GLA", Summed)
    row = describe("GLA")
    assert (row.scaling, row.normalizer, row.combination) == ("1", "row sum", "affine")
    assert row.state == "n d_v + n"


#: (structure of A_t, readout, class, numbers kept of one head) of the rows since
SINCE = {
    "RetNet": ("scalar", "identity", "linear", "n d_v"),
    "LightningAttention": ("scalar", "identity", "linear", "n d_v"),
    "HGRN2": ("diagonal", "identity", "linear", "n d_v"),
    "RWKV6": ("diagonal", "identity", "linear", "n d_v"),
    "Mamba3": ("scalar", "identity", "linear", "n d_v + 1.5\\,n + d_v"),
    "LogLinearAttention": ("levels that carry over", "identity", "linear", "12\\,n d_v"),
    "GSA": ("diagonal", "identity", "linear", "n d_v + n^2"),
    "MesaNet": ("scalar", "identity", "linear", "n d_v + n^2"),
    "KDA": ("diagonal plus rank one", "identity", "linear", "n d_v"),
    "GatedDeltaNet2": ("diagonal plus rank one", "identity", "linear", "n d_v"),
    "Comba": ("diagonal plus rank one", "identity", "linear", "n d_v"),
    "RWKV7": ("diagonal plus rank one", "identity", "linear", "n d_v"),
    "MomentumDeltaNet": ("dense", "identity", "linear", "2\\,n d_v"),
    "DeltaProduct": ("Householder along the key", "identity", "linear", "n d_v"),
    "GatedDeltaProduct": ("scaled Householder along the key", "identity", "linear", "n d_v"),
    "SigmoidAttention": ("identity", "sigmoid", "conical", "(n + d_v)\\, L"),
    "WallAttention": ("diagonal", "exp", "convex", "(n + d_v)\\, L"),
    "PaTHAttention": (
        "Householder along a direction of its own",
        "exp",
        "convex",
        "(n + d_v)\\, L",
    ),
    "ALiBiAttention": ("identity", "exp", "convex", "(n + d_v + 1)\\, L"),
    "ForgettingAttention": ("identity", "exp", "convex", "(n + d_v + 1)\\, L"),
    "SlidingWindowAttention": ("identity", "exp", "convex", "(n + d_v)\\, L"),
    "SinkAttention": ("identity", "exp", "conical", "(n + d_v)\\, L"),
    "DifferentialAttention": ("identity", "exp", "linear", "(2\\,n + 2\\,d_v)\\, L"),
}


def test_rows_since_table_1() -> None:
    found = {row.mixer: row for row in rows_since()}
    assert list(found) == list(ROWS_SINCE) == list(SINCE)
    for name, row in found.items():
        got = (row.evolution, row.readout, row.combination, row.state)
        assert got == SINCE[name], name
        assert 2020 <= row.symbols.year <= 2026, name
        assert (row.symbols.normalizer == "1") == (row.normalizer == "1"), name
        if row.scaling != "depends on x_j":
            assert (r"\sqrt{n}" in row.symbols.scaling) == ("sqrt(n)" in row.scaling), name


def test_unknown_row() -> None:
    with pytest.raises(ValueError, match="no row 'S4'; known: SoftmaxAttention"):
        describe("S4")


def test_what_stands_beside_the_four_choices() -> None:
    found = {row.mixer: row.beside for row in (*table1(), *rows_since()) if row.beside}
    assert found == {
        "RWKV6": "own term",
        "Mamba3": "own term",
        "RWKV7": "own term",
        "DeltaProduct": "2 steps per token",
        "GatedDeltaProduct": "2 steps per token",
        "ALiBiAttention": "outer decay",
        "ForgettingAttention": "outer decay",
        "SlidingWindowAttention": "mask",
        "SinkAttention": "sink",
        "DifferentialAttention": "weighted sum of 2",
    }


def test_the_tables_of_mixers_stand_in_the_reference() -> None:
    """Sphinx finds no comment of a name that is loaded on first use: the page has both."""
    page = (Path(__file__).parents[2] / "book" / "api" / "mixers.md").read_text()
    for name in ("MIXERS", "ROWS_SINCE"):
        assert f".. py:data:: coefdyn.mixers.{name}\n" in page
