"""The reading instruments, on designs whose answers are known by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
import torch
import zoo

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.lens import (
    head_scores,
    induction,
    keep_heads,
    load_heads,
    looks,
    output_sizes,
    survival,
    trace,
    without_erasure,
)
from coefdyn.plots.lens import plot_head_maps, plot_profile, plot_scores, plot_survival
from coefdyn.widgets import Explorer


def softmax(scores: torch.Tensor) -> CoefficientDynamics:
    """Attention with exactly these scores, (L, L): unit vectors as keys."""
    length = scores.shape[-1]
    return CoefficientDynamics(
        q=scores[None, None],
        k=torch.eye(length)[None, None],
        evolution=evolution.Identity(),
        scaling=1.0,
        readout=readout.exp,
        normalizer=normalizer.RowSum(),
    )


def delta(keys: torch.Tensor, log_decay: float = 0.0) -> CoefficientDynamics:
    """Gated delta rule with beta = 1: a key written again takes the place of the old one."""
    ones = torch.ones(1, 1, len(keys))
    return CoefficientDynamics(
        q=keys[None, None],
        k=keys[None, None],
        evolution=evolution.Householder(
            direction=keys[None, None], beta=ones, log_decay=log_decay * ones
        ),
        scaling=1.0,
        readout=readout.identity,
        normalizer=normalizer.One(),
    )


def test_equal_shares_have_full_entropy_and_known_shares() -> None:
    found = looks(softmax(torch.zeros(4, 4)))
    assert found.entropy.item() == pytest.approx(1.0)
    assert found.first.item() == pytest.approx((1 / 2 + 1 / 3 + 1 / 4) / 3)
    assert found.previous.item() == pytest.approx((1 / 2 + 1 / 3 + 1 / 4) / 3)
    assert found.profile[0, 0].tolist() == pytest.approx(
        [(1 + 1 / 2 + 1 / 3 + 1 / 4) / 4, (1 / 2 + 1 / 3 + 1 / 4) / 3, (1 / 3 + 1 / 4) / 2, 1 / 4]
    )


def test_a_sink_and_a_previous_token_head() -> None:
    sink, previous = torch.zeros(9, 9), 50 * torch.eye(9).roll(-1, dims=1)
    sink[:, 0] = 50.0
    assert looks(softmax(sink)).first.item() == pytest.approx(1.0)
    assert looks(softmax(sink)).memory_tokens.item() == 8
    assert looks(softmax(previous)).previous.item() == pytest.approx(1.0)
    assert looks(softmax(previous)).memory_tokens.item() == 1


def test_memory_length_of_a_geometric_decay() -> None:
    ones, length = torch.ones(1, 1, 200, 1), 200
    dynamics = CoefficientDynamics(
        q=ones,
        k=ones,
        evolution=evolution.Scalar(log_decay=torch.full((1, 1, length), math.log(0.5))),
        scaling=1.0,
        readout=readout.identity,
        normalizer=normalizer.One(),
    )
    found = looks(dynamics)
    assert found.memory_tokens.item() == 3  # 2^-4 < 1/10 <= 2^-3 of the sum is older
    assert found.open.item() == 0 and found.closed.item() == 0
    lives = survival(dynamics)
    assert lives.half_life[0, 0, 0].item() == 1 == lives.gates_half_life[0, 0, 0].item()
    assert (lives.eraser == -1).all()


def test_an_outer_decay_is_a_gate() -> None:
    """Forgetting attention: the same moduli and lives as with the decay inside A_t."""
    fall = torch.tensor([0.0, -10.0, 0.0, math.log(0.4), math.log(0.4), -10.0])[None, None]
    inside = delta(torch.eye(6))
    inside = replace(inside, evolution=evolution.Scalar(log_decay=fall))
    outside = replace(inside, evolution=evolution.Identity(), outer_log_decay=fall)
    mine, theirs = looks(outside), looks(inside)
    assert mine.closed.item() == theirs.closed.item() == pytest.approx(2 / 5)
    assert mine.open.item() == theirs.open.item() == pytest.approx(1 / 5)
    for name in ("size", "gates_only", "half_life", "gates_half_life"):
        torch.testing.assert_close(
            getattr(survival(outside), name), getattr(survival(inside), name), msg=name
        )
    cut = replace(outside, outer_log_decay=fall.masked_fill(fall == -10, -1e4))
    assert survival(cut).half_life[0, 0].tolist() == [1, 2, 1, 1, 1, math.inf]


def test_an_induction_head_looks_behind_the_earlier_occurrence() -> None:
    tokens = torch.tensor([[1, 2, 3, 1, 2]])
    scores = torch.zeros(5, 5)
    scores[3, 1] = scores[4, 2] = 50.0
    found = induction(softmax(scores), tokens)
    assert found.score.item() == pytest.approx(1.0)
    assert found.queries == 2 and found.chance == pytest.approx((1 / 4 + 1 / 5) / 2)
    assert induction(softmax(torch.zeros(5, 5)), tokens).score.item() == pytest.approx(found.chance)
    with pytest.raises(ValueError, match="no token occurs twice"):
        induction(softmax(torch.zeros(3, 3)), torch.tensor([[1, 2, 3]]))


def test_an_overwritten_key_is_gone_and_its_eraser_named() -> None:
    a, b = torch.eye(2)
    found = survival(delta(torch.stack([a, b, b, a, b]), log_decay=math.log(0.9)))
    assert found.size[0, 0, :, 0].tolist() == pytest.approx([1, 0.9, 0.81, 0, 0])
    assert found.gates_only[0, 0, 4, 0].item() == pytest.approx(0.9**4)
    assert found.eraser[0, 0].tolist() == [3, 2, 4, -1, -1]
    assert found.erased[0, 0, 0].item() == pytest.approx(0.9**3)
    assert found.half_life[0, 0].tolist()[:2] == [3.0, 1.0]
    assert found.gates_half_life[0, 0, 0].item() == math.inf


def test_a_map_without_erasure_claims_what_is_gone() -> None:
    a, b = torch.eye(2)
    dynamics = delta(torch.stack([a, b, a, a]))
    assert dynamics.coefficients()[0, 0, 3, 0].item() == 0
    assert without_erasure(dynamics).coefficients()[0, 0, 3, 0].item() == 1


def test_survival_is_the_norm_of_the_states() -> None:
    layer = trace(zoo.build("KimiLinearForCausalLM"), zoo.ids(length=11))[0]
    found, path = survival(layer.dynamics), layer.dynamics.states(3)
    norms = torch.linalg.vector_norm(path, dim=-1)
    torch.testing.assert_close(found.size[..., 3:, 3], norms / norms[..., :1])


def test_a_dead_head_is_seen() -> None:
    model = zoo.build("LlamaForCausalLM")
    with torch.no_grad():
        model.model.layers[0].self_attn.v_proj.weight[:8] = 0
    layer = trace(model, zoo.ids())[0]
    assert (output_sizes(layer)[:, :2] == 0).all() and (output_sizes(layer)[:, 2:] > 1e-3).all()
    assert "2 dead heads" in trace(model, zoo.ids()).report()


def test_the_report_is_a_page_with_every_layer() -> None:
    x = zoo.ids()
    seen = trace(zoo.build("Qwen3NextForCausalLM"), x)
    page = seen.report(x)
    assert all(layer.name in page for layer in seen)
    assert "A_t Householder" in page and "outside alpha" in page
    assert max(map(len, page.splitlines())) < 180


def test_kept_heads_come_back_as_they_were(tmp_path: Path) -> None:
    x = zoo.ids(length=9)
    for name in (
        "Qwen3NextForCausalLM",
        "GptOssForCausalLM",
        "MistralForCausalLM",
        "xLSTMForCausalLM",
        "MambaForCausalLM",
    ):
        seen = trace(zoo.build(name), x)
        first = seen[0]
        path = tmp_path / f"{name}.npz"
        keep_heads(path, seen, words=list("abcdefghi"), about={"a": 1}, heads={first.name: [1, 0]})
        kept = load_heads(path)
        assert kept.words == tuple("abcdefghi") and kept.about == {"a": 1}
        assert len(kept.layers) == 1
        again = kept[first.name]
        torch.testing.assert_close(
            again.dynamics.coefficients(normalized=True)[0],
            first.dynamics.coefficients(normalized=True)[0, [1, 0]],
        )
        torch.testing.assert_close(again.values[0], first.values[0, [1, 0]])
    with pytest.raises(ValueError, match="3 words for 9 tokens"):
        keep_heads(path, seen, words=list("abc"), about={})
    with pytest.raises(ValueError, match="no layer is called 'typo'"):
        keep_heads(path, seen, words=list("abcdefghi"), about={}, heads={"typo": [0]})


def test_kept_heads_know_padding_and_the_start_of_a_step(tmp_path: Path) -> None:
    model, ids = zoo.build("LlamaForCausalLM"), zoo.ids(length=12)
    mask = torch.ones_like(ids)
    mask[0, :5] = 0
    layer = trace(model, ids[:1], attention_mask=mask[:1])[0]
    keep_heads(tmp_path / "padded.npz", [layer], words=list("abcdefghijkl"), about={})
    again = load_heads(tmp_path / "padded.npz").layers[0]
    torch.testing.assert_close(head_scores([again]), head_scores([layer]))
    cache = model(ids[:1, :8], use_cache=True).past_key_values
    step = trace(model, ids[:1, 8:], past_key_values=cache)[0]
    keep_heads(tmp_path / "step.npz", [step], words=list("abcdefghijkl"), about={})
    again = load_heads(tmp_path / "step.npz").layers[0]
    assert again.start == step.start == 8
    torch.testing.assert_close(again.coefficients(), step.coefficients())


def test_layers_may_be_one_name() -> None:
    seen = trace(zoo.build("LlamaForCausalLM"), zoo.ids(), layers="model.layers.1")
    assert [layer.name for layer in seen] == ["model.layers.1.self_attn"]


def test_the_explorer_shows_a_head() -> None:
    layer = trace(zoo.build("Qwen3NextForCausalLM"), zoo.ids(length=12))[0]
    explorer = Explorer.from_dynamics(layer.dynamics, (0, 1))
    torch.testing.assert_close(
        explorer.coefficients().float(), layer.dynamics.coefficients()[0, 1], rtol=1e-4, atol=1e-6
    )


def test_the_plots_draw_what_was_found() -> None:
    layer = trace(zoo.build("Qwen3NextForCausalLM"), zoo.ids(length=12))[0]
    read, lives = looks(layer.dynamics), survival(layer.dynamics)
    figure, axes = plt.subplots(2, 4)
    plot_profile(axes[0, 0], read)
    assert len(axes[0, 0].lines) == layer.heads
    plot_scores(axes[0, 1], read)
    assert len(axes[0, 1].patches) == 3 * layer.heads
    plot_survival(axes[0, 2], lives, (0, 0), 2, words=list("abcdefghijkl"))
    drawn = axes[0, 2].lines[1].get_ydata()
    assert list(drawn) == pytest.approx(lives.size[0, 0, 2:, 2].tolist())
    maps = layer.dynamics.coefficients(normalized=True)[0]
    plot_head_maps(axes[1], maps, [f"head {h}" for h in range(4)])
    plt.close(figure)
