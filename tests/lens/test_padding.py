"""Padding and packing change no number that is read off a head: each equals the sequence alone."""

from __future__ import annotations

from dataclasses import fields

import pytest
import torch
import zoo

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.dynamics.mask import Given
from coefdyn.lens import (
    Trace,
    effects,
    head_scores,
    induction,
    looks,
    output_sizes,
    replaced,
    trace,
    window,
)
from coefdyn.lens.documents import read_segments

LENGTHS = (23, 17)
CLOSE = {"rtol": 1e-5, "atol": 1e-6}
PADDED = (
    "LlamaForCausalLM",
    "MistralForCausalLM",
    "GptOssForCausalLM",
    "Qwen3NextForCausalLM",
    "Mamba2ForCausalLM",
    "MambaForCausalLM",
    "MiniMaxForCausalLM",
)


def sequences() -> list[torch.Tensor]:
    """Two of different lengths, in which tokens repeat."""
    return [3 + zoo.ids(length, 1, seed=length) % 11 for length in LENGTHS]


def batch(side: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Both in one batch, the shorter one padded with a token that occurs in it."""
    rows, real = [], []
    for ids in sequences():
        missing = max(LENGTHS) - ids.shape[1]
        pad = (missing, 0) if side == "left" else (0, missing)
        rows.append(torch.nn.functional.pad(ids, pad, value=5))
        real.append(torch.nn.functional.pad(torch.ones_like(ids), pad))
    return torch.cat(rows), torch.cat(real)


def compare(seen: Trace, alone: list[Trace], ids: torch.Tensor) -> None:
    """Every instrument on every layer, and the page of text."""
    for place, layer in enumerate(seen):
        assert [one.stop - one.start for one in layer.documents] == list(LENGTHS)
        each = [trace[place] for trace in alone]
        read, reads = looks(layer), [looks(one) for one in each]
        for field in fields(read):
            mine = getattr(read, field.name)
            for row, theirs in enumerate(getattr(one, field.name) for one in reads):
                ours = mine[row][..., : theirs.shape[-1]] if mine.ndim > 2 else mine[row]
                torch.testing.assert_close(ours, theirs[0], **CLOSE, msg=f"{layer}: {field.name}")
        found = induction(layer, ids)
        own = [induction(one, x) for one, x in zip(each, sequences(), strict=True)]
        torch.testing.assert_close(found.score, torch.cat([one.score for one in own]), **CLOSE)
        assert found.queries == sum(one.queries for one in own)
        sizes = torch.stack([one.output.abs().amax((-2, -1))[0] for one in each])
        torch.testing.assert_close(output_sizes(layer), sizes / sizes.amax(), **CLOSE)
    mean = sum(head_scores(one) for one in alone) / len(alone)
    torch.testing.assert_close(head_scores(seen), mean, **CLOSE)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", PADDED)
def test_a_padded_batch_reads_like_its_sequences(name: str, side: str) -> None:
    model, (ids, real) = zoo.build(name), batch(side)
    seen = trace(model, ids, attention_mask=real)
    assert not seen.unsupported
    compare(seen, [trace(model, x) for x in sequences()], ids)


def test_a_mask_without_its_name_is_read_too() -> None:
    model, (ids, real) = zoo.build("LlamaForCausalLM"), batch("left")
    assert trace(model, ids, real)[0].segments.tolist() == real.tolist()


@pytest.mark.parametrize("how", ["positions", "pairs"])
def test_packed_documents_are_read_one_by_one(how: str) -> None:
    model, parts = zoo.build("LlamaForCausalLM"), sequences()
    ids = torch.cat(parts, 1)
    positions = torch.cat([torch.arange(length) for length in LENGTHS])[None]
    given = {"position_ids": positions, "use_cache": False}
    if how == "pairs":
        number = torch.cat([torch.full((length,), length) for length in LENGTHS])
        pairs = (number[:, None] == number).tril()[None, None]
        given |= {"attention_mask": pairs}
    seen = trace(model, ids, **given)
    assert seen[0].segments.tolist() == [[1] * 23 + [2] * 17]
    compare(seen, [trace(model, x) for x in parts], ids)


def test_positions_of_one_row_stand_for_all_rows() -> None:
    """Transformers hands them to every row, so all rows are packed."""
    model, ids = zoo.build("LlamaForCausalLM"), zoo.ids(12, 2)
    positions = torch.cat([torch.arange(6), torch.arange(6)])[None]
    packed = trace(model, ids, position_ids=positions, use_cache=False)
    alone = trace(model, ids.unflatten(1, (2, 6)).flatten(0, 1))
    for mine, theirs in zip(packed.rows(), alone.rows(), strict=True):
        assert mine["first"] == pytest.approx(theirs["first"], rel=1e-4)
    change = {"one head": {(0, 1): "ablate"}}
    mine, theirs = (
        effects(model, ids, changes=change, position_ids=each, use_cache=False)[0]
        for each in (positions, positions.expand(2, -1))
    )
    assert mine == theirs


def test_a_token_hidden_amid_a_sequence_does_not_make_it_two() -> None:
    model, ids = zoo.build("LlamaForCausalLM"), zoo.ids(12, 2)
    real = torch.ones_like(ids)
    real[1, 5] = 0
    seen = trace(model, ids, attention_mask=real)
    assert (seen[0].coefficients()[1, :, 8, :5] > 0).all()  # the parts do read each other
    for read in (looks, output_sizes, lambda layer: induction(layer, ids)):
        with pytest.raises(ValueError, match="row 1 hides tokens amid a sequence"):
            read(seen[0])


@pytest.mark.parametrize("name", ["LlamaForCausalLM", "Qwen3NextForCausalLM"])
def test_documents_that_a_layer_reads_across_stay_one(name: str) -> None:
    """With a cache these models take the positions and not the borders."""
    positions = torch.cat([torch.arange(length) for length in LENGTHS])[None]
    ids = torch.cat(sequences(), 1)
    seen = trace(zoo.build(name), ids, position_ids=positions, use_cache=True)
    alpha = seen[0].dynamics.coefficients()
    assert (alpha[..., LENGTHS[0] :, : LENGTHS[0]] != 0).any()
    assert [len(layer.documents) for layer in seen] == [1] * len(seen)


def test_the_report_of_a_padded_batch_is_that_of_its_sequences() -> None:
    """One sequence, so that no mean lies between; half-lives and induction are in the text."""
    model, ids = zoo.build("Qwen3NextForCausalLM"), sequences()[1]
    padded = torch.nn.functional.pad(ids, (6, 3), value=5)
    real = torch.nn.functional.pad(torch.ones_like(ids), (6, 3))
    mine = trace(model, padded, attention_mask=real).report(padded).splitlines()
    theirs = trace(model, ids).report(ids).splitlines()
    rows = [line for line in mine if line[:6].strip().isdigit()]
    assert len(rows) == 16 and rows == [x for x in theirs if x[:6].strip().isdigit()]


@pytest.mark.parametrize("side", ["left", "right"])
def test_dynamics_that_show_padding_are_refused(side: str) -> None:
    ids, real = batch(side)
    layer = trace(zoo.build("LlamaForCausalLM"), ids, attention_mask=real)[0]
    with pytest.raises(ValueError, match="Pass the layer of the trace"):
        looks(layer.dynamics)
    with pytest.raises(ValueError, match="Pass the layer of the trace"):
        induction(layer.dynamics, ids)


def test_a_design_that_does_not_read_the_present_token_is_no_padding() -> None:
    q, k = torch.randn(2, 1, 1, 6, 3, generator=torch.Generator().manual_seed(0)).unbind(0)
    dynamics = CoefficientDynamics(
        q=q,
        k=k,
        evolution=evolution.Identity(),
        scaling=1.0,
        readout=readout.exp,
        normalizer=normalizer.One(),
        mask=Given(torch.ones(6, 6, dtype=torch.bool).tril(-1)),
    )
    assert looks(dynamics).own.item() == 0


def test_what_says_which_tokens_are_real() -> None:
    ones = torch.ones(1, 4, dtype=torch.long)
    assert read_segments({"attention_mask": ones}) is None
    assert read_segments({"position_ids": torch.arange(4)[None]}) is None
    assert read_segments({}) is None
    packed = torch.tensor([[1, 1, 2, 0]])
    assert read_segments({"attention_mask": packed}).tolist() == packed.tolist()
    assert read_segments({"cu_seqlens": torch.tensor([0, 3, 4])}).tolist() == [[1, 1, 1, 2]]
    window = torch.ones(5, 5, dtype=torch.bool).tril() & ~torch.ones(5, 5).bool().tril(-2)
    assert read_segments({"attention_mask": window[None, None]}) is None


@torch.no_grad()
def run(
    model: torch.nn.Module, x: torch.Tensor, changes: dict, **given: torch.Tensor
) -> torch.Tensor:
    with replaced(model, changes):
        return model(x, **given).logits


def test_a_sink_of_a_padded_batch_within_the_model_s_own_window() -> None:
    model, rows = zoo.build("MistralForCausalLM"), [zoo.ids(n, 1, seed=n) for n in (23, 17)]
    x = torch.cat([rows[0], torch.nn.functional.pad(rows[1], (6, 0), value=5)])
    real = torch.ones_like(x)
    real[1, :6] = 0
    change = {"*": window(3, sink=2)}
    got = run(model, x, change, attention_mask=real)
    for mine, ids in ((got[0], rows[0]), (got[1, 6:], rows[1])):
        torch.testing.assert_close(mine, run(model, ids, change)[0], **CLOSE)
