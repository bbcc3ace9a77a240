"""Plans for a cache: held to finite differences, to transformers and to its own cache."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
import torch
import zoo
from torch import nn
from torch.nn import functional

from coefdyn.lab.__main__ import main
from coefdyn.lab.places import data_folder
from coefdyn.lab.scripts.lens_plan import (
    TrialConfig,
    interval,
)
from coefdyn.lens import Change, HeadsSeen, plan, replaced, torch_operations, trace, window
from coefdyn.lens.change.changes import NAMED
from coefdyn.plots import plot_plans

LENGTH, SINK, SIZE = 37, 2, 6
KEEP = window(SIZE, sink=SINK)


def llama(**changed) -> nn.Module:
    """Four heads that read two key-value heads, two layers, in float64."""
    return zoo.build("LlamaForCausalLM", **changed).double()


def loss(model: nn.Module, x: torch.Tensor, **kwargs) -> float:
    with torch.no_grad():
        logits = model(x, **kwargs).logits[:, :-1]
    return functional.cross_entropy(logits.flatten(0, 1).double(), x[:, 1:].flatten()).item()


class Part(Change):
    """A share of the way from y to that of another change."""

    name, computes = "a part of it", True

    def __init__(self, share: float) -> None:
        self.share = share

    def y(self, seen: HeadsSeen) -> torch.Tensor:
        mine = seen.dynamics.apply(seen.values)
        return mine + self.share * (KEEP.dynamics(seen).apply(seen.values) - mine)


def test_the_first_order_is_the_slope_of_the_loss_towards_the_change() -> None:
    model, x = llama(), zoo.ids(LENGTH, 3)
    found, plain = plan(model, x, keep=KEEP), loss(model, x)
    assert found.loss == pytest.approx(plain, abs=1e-12)
    step = 1e-2  # its norms are in float32: a smaller step shows their rounding
    for one in found.heads:
        ahead, behind = (
            _loss_with(model, x, {(one.layer, one.queries): Part(share)}) for share in (step, -step)
        )
        slope = (ahead - behind) / (2 * step)
        assert slope == pytest.approx(one.first_order, rel=1e-3), one
        assert abs(one.first_order) > 1e-4


def _loss_with(model: nn.Module, x: torch.Tensor, changes: dict) -> float:
    with replaced(model, changes):
        return loss(model, x)


def test_the_second_order_is_the_curvature_of_the_loss() -> None:
    """Averaged over the model's own next token: the divergence that a small change makes.

    Of three tokens the middle one alone has both a change under a window of one and a loss.
    """
    model, x, step, keep = llama(), zoo.ids(3, 1), 1e-3, window(1)
    with torch.no_grad():
        plain = model(x).logits[0, 1].log_softmax(-1)
    curvature: dict[tuple[str, tuple[int, ...]], float] = {}
    for token, share in enumerate(plain.exp().tolist()):
        x[0, 2] = token
        for one in plan(model, x, keep=keep).heads:
            key = (one.layer, one.queries)
            curvature[key] = curvature.get(key, 0.0) + share * one.second_order
    assert len(curvature) == 4
    for key, found in curvature.items():

        class Step(Change):
            name, computes = "a step", True

            def y(self, seen: HeadsSeen) -> torch.Tensor:
                mine = seen.dynamics.apply(seen.values)
                return mine + step * (keep.dynamics(seen).apply(seen.values) - mine)

        with torch.no_grad(), replaced(model, {key: Step()}):
            moved = model(x).logits[0, 1].log_softmax(-1)
        divergence = (plain.exp() * (plain - moved)).sum().item()
        assert found == pytest.approx(divergence / step**2 / 2, rel=1e-2), key  # two losses


def test_chance_and_products_are_those_of_the_tokens() -> None:
    """From the gradients of a trace, and windows by torch's own attention."""
    model, x = llama(), zoo.ids(LENGTH, 2)
    found = plan(model, x, keep=KEEP)
    seen = trace(model, x, gradients=True)
    total = functional.cross_entropy(
        seen.model_output.logits[:, :-1].flatten(0, 1), x[:, 1:].flatten(), reduction="sum"
    )
    gradients = torch.autograd.grad(total, [layer.output for layer in seen])
    n, place = 2 * (LENGTH - 1), torch.arange(LENGTH)
    kept = (place <= place[:, None]) & ((place[:, None] - place < SIZE) | (place < SINK))
    p = {}
    for layer, gradient in zip(seen, gradients, strict=True):
        d = layer.dynamics
        cut = functional.scaled_dot_product_attention(d.q, d.k, layer.values, kept, scale=1.0)
        each = (gradient * (cut - layer.output)).sum(-1).detach()
        for head in range(2):
            p[layer.name, head] = each[:, 2 * head : 2 * head + 2].sum(1).flatten()
    every = torch.stack([p[one.layer, one.head] for one in found.heads])
    torch.testing.assert_close(found.products, every @ every.T / n, rtol=1e-6, atol=1e-12)
    for one, row in zip(found.heads, every, strict=True):
        assert one.first_order == pytest.approx(row.sum().item() / n, rel=1e-6)
        assert one.chance == pytest.approx(row.square().sum().sqrt().item() / n, rel=1e-6)
        assert one.second_order == pytest.approx(row.square().sum().item() / n / 2, rel=1e-6)
        more = max(0.0, 1 - (one.chance / one.first_order) ** 2)
        assert one.predicted == pytest.approx(more * one.first_order + one.second_order)
        assert one.predicted_here == pytest.approx(one.first_order + one.second_order)
    both = found.within(found.bytes)
    for cut in range(5):
        both = replace(found, cut=cut)
        first = sum(one.expected for one in found.heads[:cut])
        want = first + every[:cut].sum(0).square().sum().item() / n / 2
        assert both.predicted == pytest.approx(want, rel=1e-6)


def test_the_next_head_adds_least() -> None:
    found = plan(llama(), zoo.ids(LENGTH, 2), keep=KEEP)
    for cut in range(4):
        after = {}
        for place in range(cut, 4):
            order = [*range(cut), place, *(x for x in range(cut, 4) if x != place)]
            after[place] = replace(found.in_order(order), cut=cut + 1).predicted
        assert min(after, key=after.__getitem__) == cut, after


def test_a_budget_is_kept_with_as_few_heads_as_it_takes() -> None:
    model = llama()
    found = plan(model, zoo.ids(LENGTH, 1), keep=KEEP)
    width = 2 * 8 * 8  # a key and a value of 8 numbers of 8 bytes
    assert found.bytes == found.bytes_full == 4 * LENGTH * width
    sizes = []
    for budget in range(4 * (SINK + SIZE) * width, found.bytes_full + width, width):
        one = found.within(budget)
        assert one.bytes <= budget
        assert one.cut == 0 or replace(one, cut=one.cut - 1).bytes > budget
        assert one.bytes == ((4 - one.cut) * LENGTH + one.cut * (SINK + SIZE)) * width
        sizes.append(one.cut)
    assert sizes == sorted(sizes, reverse=True) and set(sizes) == {0, 1, 2, 3, 4}
    half = plan(model, zoo.ids(LENGTH, 1), keep=KEEP, budget=found.bytes_full / 2)
    assert half.cut == found.within(found.bytes_full / 2).cut == 3
    with pytest.raises(ValueError, match="is too small: with all 4 heads cut to 2 \\+ 6 tokens"):
        found.within(4 * (SINK + SIZE) * width - 1)
    with pytest.raises(ValueError, match="too small"):
        plan(model, zoo.ids(LENGTH, 1), keep=KEEP, budget=100)


def test_bytes_are_those_of_the_model_s_own_cache() -> None:
    for dtype in (torch.float64, torch.bfloat16):
        model = llama().to(dtype)
        found = plan(model, zoo.ids(LENGTH, 1), keep=KEEP)
        for cut in range(5):
            one = replace(found, cut=cut)
            assert one.measure_bytes(model, zoo.ids(LENGTH, 1)) == (one.bytes_full, one.bytes)


def test_bytes_of_a_model_with_kernels_are_measured_on_a_cpu() -> None:
    model, x = zoo.build("Qwen3NextForCausalLM"), zoo.ids(LENGTH, 1)
    found = replace(plan(model, x, keep=KEEP), cut=1)
    assert found.measure_bytes(model, x) == (found.bytes_full, found.bytes)


def test_a_layer_with_a_window_of_its_own_holds_no_more_than_that() -> None:
    model = zoo.build("MistralForCausalLM")  # 7 tokens in every layer
    wide = plan(model, zoo.ids(LENGTH, 1), keep=window(9, sink=2))
    assert all(one.bytes_cut == one.bytes_full == 7 * 2 * 8 * 4 for one in wide.heads)
    assert all(one.first_order == one.second_order == one.change == 0 for one in wide.heads)
    near = plan(model, zoo.ids(LENGTH, 1), keep=window(3))
    assert all(one.bytes_cut == 3 * 2 * 8 * 4 for one in near.heads)
    assert near.heads[0].change > 0


def test_a_wider_window_changes_less_and_keeps_more() -> None:
    """The change of y and the share that is kept, head by head; and all of it in the end."""
    model, x = llama(), zoo.ids(LENGTH, 2)
    before = None
    for size in (1, 4, 16, 32, LENGTH):
        found = plan(model, x, keep=window(size, sink=SINK))
        now = {(one.layer, one.head): one for one in found.heads}
        if before is not None:
            for key, one in now.items():
                assert one.change < before[key].change
                assert one.kept_share > before[key].kept_share
                assert one.bytes_cut > before[key].bytes_cut
        before = now
    assert all(one.change <= 1e-7 and one.first_order == pytest.approx(0) for one in found.heads)
    assert all(one.kept_share == pytest.approx(1) for one in found.heads)


def test_the_measured_loss_is_that_of_transformers_with_a_mask() -> None:
    """All heads cut: the same as a mask that hides the pairs, handed to the model itself."""
    model, x = llama(), zoo.ids(LENGTH, 4, seed=5)
    found = replace(plan(model, zoo.ids(LENGTH, 1), keep=KEEP), cut=4)
    measured = found.measure(model, x)
    place = torch.arange(LENGTH)
    kept = (place <= place[:, None]) & ((place[:, None] - place < SIZE) | (place < SINK))
    hidden = torch.zeros(LENGTH, LENGTH, dtype=torch.float64).masked_fill(~kept, -torch.inf)
    for row, (plain, rise) in zip(x, zip(measured.loss, measured.rise, strict=True), strict=True):
        want = loss(model, row[None], attention_mask=hidden[None, None])
        assert plain == pytest.approx(loss(model, row[None]), abs=1e-10)
        assert plain + rise == pytest.approx(want, abs=1e-8)
    assert measured.mean == pytest.approx(sum(measured.rise) / 4)
    assert abs(measured.mean) > 10 * 1e-8 and measured.error > 0
    again = found.measure(model, x, before=measured.loss)
    assert again.rise == pytest.approx(measured.rise, abs=1e-12)


def test_some_heads_cut_are_the_others_with_a_mask_of_their_own() -> None:
    """One key-value head of one layer, by a mask per head handed to transformers' attention."""
    model, x = llama(num_hidden_layers=1), zoo.ids(LENGTH, 1, seed=5)
    found = plan(model, x, keep=KEEP)
    one = replace(found, cut=1)
    place = torch.arange(LENGTH)
    past = (place <= place[:, None]).expand(1, 4, -1, -1).clone()
    for head in found.heads[0].queries:
        past[0, head] &= (place[:, None] - place < SIZE) | (place < SINK)
    hidden = torch.zeros(past.shape, dtype=torch.float64).masked_fill(~past, -torch.inf)
    want = loss(model, x, attention_mask=hidden) - loss(model, x)
    assert one.measure(model, x).mean == pytest.approx(want, abs=1e-9)


def test_padding_counts_for_nothing() -> None:
    model, x = llama(), zoo.ids(20, 1)
    alone = plan(model, x, keep=KEEP)
    padded, mask = functional.pad(x, (5, 0)), functional.pad(torch.ones_like(x), (5, 0))
    found = plan(model, padded, keep=KEEP, attention_mask=mask)
    assert found.loss == pytest.approx(alone.loss, abs=1e-7)
    mine = {(one.layer, one.head): one for one in found.heads}
    for one in alone.heads:
        other = mine[one.layer, one.head]
        for name in (
            "first_order",
            "chance",
            "second_order",
            "change",
            "start_share",
            "kept_share",
        ):
            assert getattr(other, name) == pytest.approx(getattr(one, name), rel=1e-4, abs=1e-7)
        assert (other.bytes_full, other.bytes_cut) == (one.bytes_full, one.bytes_cut)


@pytest.mark.parametrize("name", ["GPT2LMHeadModel", "GptOssForCausalLM", "Qwen3NextForCausalLM"])
def test_other_classes_are_planned_and_left_alone(name: str) -> None:
    model, x = zoo.build(name), zoo.ids(LENGTH, 1)
    with torch.no_grad(), torch_operations(model):
        want = model(x).logits
        found = plan(model, x, keep=KEEP, progress=False)
        assert torch.equal(model(x).logits, want)
    names = {one.layer for one in found.heads}
    attends = {layer.name for layer in trace(model, x) if layer.mechanism == "softmax attention"}
    assert names == attends and not found.unsupported
    assert all(weight.grad is None for weight in model.parameters())
    assert set(found.rows()[0]) >= {"layer", "head", "predicted", "is_cut", "plan_bytes"}
    assert all(weight.grad is None and weight.requires_grad for weight in model.parameters())


def test_what_cannot_be_planned_is_told() -> None:
    with pytest.raises(ValueError, match="no softmax attention whose cache could be planned"):
        plan(zoo.build("Mamba2ForCausalLM"), zoo.ids())
    with pytest.raises(ValueError, match=r"keep is what a cut head still holds, window\(size"):
        plan(llama(), zoo.ids(), keep=NAMED["ablate"])
    with torch.autocast("cpu"), pytest.raises(ValueError, match="under autocast"):
        plan(llama(), zoo.ids())
    for name in ("DeepseekV3ForCausalLM", "DeepseekV2ForCausalLM"):
        with pytest.raises(ValueError, match="a latent that all heads share"):
            plan(zoo.build(name), zoo.ids())
    with torch.inference_mode(), pytest.raises(ValueError, match="plan needs gradients"):
        plan(llama(), zoo.ids())
    for texts in (zoo.ids(1), zoo.ids()[:0]):
        with pytest.raises(ValueError, match="at least two tokens"):
            plan(llama(), texts)
    found, model = plan(llama(), zoo.ids(), keep=KEEP), llama()
    for texts in (zoo.ids(1), zoo.ids()[:0]):
        with pytest.raises(ValueError, match="at least two tokens"):
            found.measure(model, texts)
    with pytest.raises(ValueError, match="at least two tokens"):
        found.measure(model, zoo.ids(), attention_mask=torch.eye(*zoo.ids().shape).long())
    with pytest.raises(ValueError, match="a loss for each text: 1 for 2"):
        found.measure(model, zoo.ids(batch=2), before=[1.0])
    with pytest.raises(ValueError, match="cache of one text is measured, got 2"):
        found.measure_bytes(model, zoo.ids(batch=2))
    with pytest.raises(ValueError, match="attends more than once over one cache"):
        plan(zoo.build("DiffLlamaForCausalLM"), zoo.ids(batch=1), keep=KEEP)
    with pytest.raises(ValueError, match="names each of the 4 heads once"):
        plan(llama(), zoo.ids(), keep=KEEP).in_order([0, 1, 2])


def _letters(text: str) -> list[int]:
    """A tokenizer: one token per character."""
    return [3 + ord(letter) % (zoo.VOCAB - 3) for letter in text]


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    lines = [f"{number} " + "once upon a time " * (3 + number) for number in range(12)]
    path.write_text("\f".join(lines))
    return path


def test_the_kept_trial_is_of_the_default_settings_and_agrees_with_itself() -> None:
    record = json.loads((data_folder() / "lens" / "smollm2_plan_512.json").read_text())
    config = json.loads(json.dumps(vars(TrialConfig(singles=True))))
    assert {name: record["settings"][name] for name in config} == config
    assert len(record["heads"]) == 90 and not record["unsupported"]
    assert len(record["singles"]) == 90
    cut = {(row["order"], row["share"]) for row in record["rows"]}
    some = [share for share in config["shares"] if share < 1]
    assert cut == {*product(config["orders"], some), ("predicted", 1.0)}
    for row in record["rows"]:
        assert len(row["rises"]) == config["held_out"]
        assert row["rise"] == pytest.approx(sum(row["rises"]) / 16, abs=2e-5)
        assert [row["low"], row["high"]] == pytest.approx(interval(row["rises"]), abs=2e-5)
        assert row["bytes_measured"] == [record["bytes"]["full"], row["bytes"]]
        assert row["cut"] == round(90 * row["share"])
    planned = [row for row in record["rows"] if row["order"] == "predicted"]
    for row in planned:
        assert row["predicted"] == pytest.approx(
            record["heads"][row["cut"] - 1]["plan_predicted"], abs=1e-5
        )


def test_plans_are_drawn_a_line_per_order() -> None:
    rows = [
        {"order": order, "share": share, "rise": share * slope, "low": 0.0, "high": share}
        for order, slope in (("predicted", 0.1), ("random", 0.5))
        for share in (0.8, 0.5)
    ]
    whole = {"order": "predicted", "share": 1.0, "rise": 0.4, "low": 0.3, "high": 0.6}
    _, axis = plt.subplots()
    plot_plans(axis, [*rows, whole])
    lines = [bars.lines[0] for bars in axis.containers]
    assert [bars.get_label() for bars in axis.containers] == ["predicted", "random"]
    assert lines[0].get_xdata().tolist() == lines[1].get_xdata().tolist() == [50, 80, 100]
    assert lines[1].get_ydata().tolist() == pytest.approx([0.25, 0.4, 0.4])
    plt.close("all")
    with pytest.raises(ValueError, match="got rows without order, share, rise"):
        plot_plans(axis, [{"low": 0, "high": 1}])


def test_the_command_plans_a_model_of_transformers(
    documents: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    from coefdyn.lab.scripts import lens_plan as command

    monkeypatch.setattr(command, "load", lambda name: (zoo.build("LlamaForCausalLM"), _letters))
    given = ["lens-plan", "small", "--text", str(documents), "--out", str(tmp_path / "x.json")]
    sizes = ["--length", "80", "--sink", "2", "--window", "6", "--planned", "2", "--held-out", "2"]
    few = ["--shares", "0.5", "--orders", "predicted", "--needles", "0", "--singles"]
    assert main([*given, *sizes, *few]) == 0
    shown = capsys.readouterr().out
    assert "nats per token" in shown and "50%" in shown
    assert "single heads, predicted_here: Pearson" in shown
    assert main([*given, *sizes, "--held-out", "30"]) == 1
    assert "documents of at least 80 tokens are needed" in capsys.readouterr().err
