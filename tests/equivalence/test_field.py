"""The map of the field, line by line, against the authors' own functions, in both precisions.

Lines whose ``held`` is "here" are these cases, and those with a ``probe`` have their numbers here.
"""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
from field_apart import FORMULAS, PROBED
from field_cases import CASES, Draw, H, L, N, chosen_blocks
from fla.ops.attnres.naive import naive_attnres
from fla.ops.dsa.naive import naive_dsa_indexer
from tolerances import assert_agree
from widened import widened

from book.tools import field
from coefdyn.analysis import probe

HELD = {**CASES, **FORMULAS}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("case", HELD)
@torch.no_grad()
def test_the_line_is_its_authors_function(case: str, dtype: torch.dtype) -> None:
    with widened() if dtype == torch.float64 else nullcontext():
        ours, theirs = HELD[case](Draw(dtype))
    assert_agree(ours, theirs, method="peer", dtype=dtype, quantity="output")


@pytest.mark.parametrize("name", PROBED)
@torch.no_grad()
def test_the_probe_measures_what_the_line_says(name: str) -> None:
    (line,) = (one for one in field.lines() if one["name"] == name)
    with widened():
        found = probe(*PROBED[name](Draw(torch.float64)))
    assert not found.has_coefficients()
    for measured, told in ((found.deviation, "deviation"), (found.residual, "unexplained")):
        assert abs(measured / line["probe"][told] - 1) < 0.15
    assert found.future < 1e-12


def test_every_line_that_says_so_is_a_case_here() -> None:
    named = [one["held"]["here"] for one in field.lines() if "here" in one.get("held", {})]
    parts = {"nsa": ["nsa selection", "nsa compression"]}
    assert sorted(part for name in named for part in parts.get(name, [name])) == sorted(HELD)
    assert {one["name"] for one in field.lines() if "probe" in one} == set(PROBED)


@torch.no_grad()
def test_what_a_query_chooses_does_not_depend_on_later_tokens() -> None:
    """The masks of DSA and NSA, with all tokens after the first half exchanged."""
    half, draw = L // 2, Draw(torch.float64)
    with widened():
        q, k, other = draw(N, heads=4), draw(N, heads=1), draw(N, heads=1)
        changed = torch.cat([k[:, :, :half], other[:, :, half:]], 2)
        blocks, after = (chosen_blocks(q, one) for one in (k, changed))
        assert torch.equal(blocks[:, :half].sort(-1)[0], after[:, :half].sort(-1)[0])
        assert not torch.equal(blocks, after)
        asked = q.transpose(1, 2)
        tokens, later = (naive_dsa_indexer(asked, one[:, 0], topk=6) for one in (k, changed))
        assert torch.equal(tokens[:, :half].sort(-1)[0], later[:, :half].sort(-1)[0])
        assert not torch.equal(tokens, later)


@torch.no_grad()
def test_attention_residuals_mix_no_tokens() -> None:
    draw = Draw(torch.float64)
    layers, query, weight = [draw(N)[0] for _ in range(3)], draw(N)[0, 0, 0], draw(N)[0, 0, 0]
    with widened():
        before = naive_attnres(query, layers, weight)
        layers[1] = layers[1].clone()
        layers[1][:, 5] += 1
        after = naive_attnres(query, layers, weight)
    changed = (after != before).any(-1)
    assert changed[:, 5].all() and changed.sum() == H
