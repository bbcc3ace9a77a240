"""Rows of a trace, two traces beside each other, one page, and the picture of effects."""

from __future__ import annotations

import math

import matplotlib.pyplot as plt
import pytest
import torch
import zoo

from coefdyn.lens import SCORES, compare_traces, effects, looks, replaced, trace
from coefdyn.plots import plot_effects


def test_rows_hold_every_head_in_plain_numbers() -> None:
    x = zoo.ids()
    seen = trace(zoo.build("Qwen3NextForCausalLM"), x, probe=True)
    rows = seen.rows(x)
    assert [(row["layer"], row["head"]) for row in rows] == [
        (layer.name, head) for layer in seen for head in range(4)
    ]
    read = looks(seen[1])
    for head in range(4):
        row = rows[4 + head]
        for name in SCORES:
            want = getattr(read, name)[:, head].double().mean().item()
            assert row[name] == pytest.approx(want, rel=1e-5)
        assert row["evolution"] == "Householder" and row["probe_error"] <= 1e-5
        assert row["half_life"] <= row["gates_half_life"] and row["induction"] > 0
    assert math.isnan(seen.rows()[0]["induction"])
    assert {type(value) for row in rows for value in row.values()} == {str, int, float}


def test_tokens_of_another_shape_are_refused() -> None:
    x = zoo.ids(12)
    seen = trace(zoo.build("LlamaForCausalLM"), x)
    for read in (seen.rows, seen.report):
        with pytest.raises(ValueError, match=r"\(2, 12\), got \(2, 5\)"):
            read(x[:, :5])


def test_traces_are_compared_head_by_head() -> None:
    model, x = zoo.build("LlamaForCausalLM"), zoo.ids()
    seen = trace(model, x)
    for row in compare_traces(seen, trace(model, x)):
        assert all(value == 0 for key, value in row.items() if key.endswith("_change"))
    with torch.no_grad(), replaced(model, {(0, 2): "ablate"}):
        changed = trace(model, x)
    rows = compare_traces(seen, changed)
    assert all(row["output_change"] == 0 for row in rows[:4])  # what layer 0 read is the same
    y, other = seen[1].output[:, 3], changed[1].output[:, 3]
    want = ((y - other).abs().max() / y.abs().max()).item()
    assert rows[7]["output_change"] == pytest.approx(want) and want > 1e-4
    alpha = [t[1].dynamics.coefficients(normalized=True)[:, 3] for t in (seen, changed)]
    want = (alpha[0] - alpha[1]).abs().sum(-1).mean().item() / 2  # of softmax, shares are alpha
    assert rows[7]["share_change"] == pytest.approx(want, rel=1e-4)
    with pytest.raises(ValueError, match="same batch and"):
        compare_traces(seen, trace(model, x[:, :9]))
    with pytest.raises(ValueError, match="no layer in common"):
        compare_traces(seen, trace(zoo.build("GPT2LMHeadModel"), x))


def test_a_large_model_is_reported_on_a_page() -> None:
    model = zoo.build("LlamaForCausalLM", num_hidden_layers=30)
    x = zoo.ids()
    lines = trace(model, x).report(x).splitlines()
    assert len(lines) <= 60 and max(map(len, lines)) < 240
    assert sum(line.startswith("model.layers.") for line in lines) == 30
    assert any(line.startswith("most induction over chance: model.layers.") for line in lines)


def test_effects_are_drawn_by_layer_and_head() -> None:
    model, x = zoo.build("LlamaForCausalLM"), zoo.ids()
    rows = effects(model, x, progress=False)
    _, axis = plt.subplots()
    image = plot_effects(axis, rows)
    shown = torch.as_tensor(image.get_array())
    assert shown.shape == (2, 4)
    want = torch.tensor([row["loss_change"] for row in rows]).reshape(2, 4)
    torch.testing.assert_close(shown.to(want.dtype), want)
    assert [tick.get_text() for tick in axis.get_yticklabels()] == [
        "model.layers.0.self_attn",
        "model.layers.1.self_attn",
    ]
    plt.close("all")
    with pytest.raises(ValueError, match="one change for each head"):
        plot_effects(axis, effects(model, x, changes={"a": {0: "ablate"}}, progress=False))
