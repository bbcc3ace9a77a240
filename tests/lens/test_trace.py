"""The lens on other people's models: exact, or a reason; and the model as it was."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import zoo
from torch import nn
from transformers.modeling_utils import AttentionInterface
from transformers.models.qwen3_next import modeling_qwen3_next

from coefdyn import mask, normalizer
from coefdyn.lens import Trace, torch_operations, trace
from coefdyn.lens.adapters import base
from coefdyn.lens.adapters.gated_deltanet import GatedDeltaNet as GatedDeltaNetAdapter
from coefdyn.mixers import GatedDeltaNet
from coefdyn.models import ModelConfig, SequenceModel

#: models all of float64; those with an attention of their own take the softmax in float32
OWN_SOFTMAX = tuple(
    f"{kind}ForCausalLM"
    for kind in ("Gemma2", "GptOss", "GPTJ", "CodeGen", "Bloom", "Mpt", "GPTNeo")
)
ATTENTION = [
    name
    for name in zoo.NAMES
    if zoo.mechanisms(name) == {"softmax attention"} and name not in OWN_SOFTMAX
]


def logits(model: nn.Module, x: torch.Tensor, **kwargs) -> torch.Tensor:
    with torch.no_grad(), torch_operations(model):
        return model(x, **kwargs).logits


def left_padded(x: torch.Tensor, missing: int) -> torch.Tensor:
    real = torch.ones_like(x)
    real[0, :missing] = 0
    return real


@pytest.mark.parametrize("name", zoo.EVERY)
def test_every_class_is_reproduced_and_left_alone(name: str) -> None:
    model, x = zoo.build(name), zoo.ids()
    want = logits(model, x)
    seen = trace(model, x, probe=True)
    assert torch.equal(seen.model_output.logits, want)
    assert {layer.mechanism for layer in seen} == zoo.mechanisms(name)
    assert not seen.unsupported
    for layer in seen:
        batch, heads, length, _ = layer.values.shape
        assert layer.dynamics.batch_shape == (batch, heads) and (batch, length) == x.shape
        assert layer.output.shape == layer.values.shape
        assert layer.error <= 1e-5, layer
        assert layer.probe_error is not None and layer.probe_error <= 1e-5, layer


@pytest.mark.parametrize("name", ATTENTION)
def test_in_float64_attention_agrees_to_rounding(name: str) -> None:
    model = zoo.build(name).double()
    assert max(layer.error for layer in trace(model, zoo.ids())) <= 1e-10


@pytest.mark.parametrize("name", [name for name in zoo.NAMES if name != "xLSTMForCausalLM"])
def test_in_bfloat16_the_error_is_that_of_rounding(name: str) -> None:
    """xLSTM of this version fails in bfloat16 by itself."""
    model, x = zoo.build(name).bfloat16(), zoo.ids()
    seen = trace(model, x)
    assert torch.equal(seen.model_output.logits, logits(model, x))
    assert all(layer.error <= 2**-7 for layer in seen)
    assert all(layer.dynamics.dtype == torch.float32 for layer in seen)


PADDED = ("LlamaForCausalLM", "MistralForCausalLM", "Gemma2ForCausalLM", "GptOssForCausalLM")


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", [*PADDED, "Qwen3NextForCausalLM", "MiniMaxForCausalLM"])
def test_padding_is_exact_and_not_read(name: str, side: str) -> None:
    model, x = zoo.build(name), zoo.ids()
    real, pad = torch.ones_like(x), slice(0, 5) if side == "left" else slice(-5, None)
    real[0, pad] = 0
    seen = trace(model, x, attention_mask=real, probe=True)
    assert torch.equal(seen.model_output.logits, logits(model, x, attention_mask=real))
    for layer in seen:
        assert layer.error <= 1e-5 and layer.probe_error <= 1e-5
        if layer.mechanism == "softmax attention":
            alpha = layer.dynamics.coefficients(normalized=True)[0]
            kept = real[0].bool()
            assert (alpha[:, kept][..., ~kept] == 0).all()


def test_a_window_hides_what_lies_behind_it() -> None:
    dynamics = trace(zoo.build("MistralForCausalLM"), zoo.ids())[0].dynamics
    assert isinstance(dynamics.mask, mask.Window) and dynamics.mask.size == 7
    alpha = dynamics.coefficients()
    past = torch.ones(37, 37).tril().bool()
    window = past & ~past.tril(-7)
    assert ((alpha != 0) == window).all()


def test_padding_is_a_mask_of_pairs() -> None:
    x = zoo.ids()
    seen = trace(zoo.build("LlamaForCausalLM"), x, attention_mask=left_padded(x, 5))
    assert all(isinstance(layer.dynamics.mask, mask.Given) for layer in seen)
    assert seen[0].dynamics.key_dim == 8  # no channel more than the model has


def test_a_mask_in_blocks_is_recognised() -> None:
    model, x = zoo.build("LlamaForCausalLM"), zoo.ids()
    block = torch.arange(37) // 5
    pairs = ((block[:, None] == block) & torch.ones(37, 37).bool().tril())[None, None]
    seen = trace(model, x, attention_mask=pairs, probe=True)
    for layer in seen:
        assert isinstance(layer.dynamics.mask, mask.Blocks) and layer.dynamics.mask.size == 5
        assert max(layer.error, layer.probe_error) <= 1e-5


def biased(bias: torch.Tensor) -> Trace:
    """A trace with this added to the scores of causal pairs, ``(37, 37)``."""
    model = zoo.build("LlamaForCausalLM")
    model.set_attn_implementation("eager")
    past = torch.ones(37, 37).bool().tril()
    added = torch.where(past, bias, torch.finfo(torch.float32).min)[None, None]
    seen = trace(model, zoo.ids(), attention_mask=added, probe=True)
    assert max(max(layer.error, layer.probe_error) for layer in seen) <= 1e-5
    return seen


def test_a_bias_that_falls_with_distance_is_an_outer_decay() -> None:
    distance = torch.arange(37)[:, None] - torch.arange(37)
    dynamics = biased(-0.1 * distance)[0].dynamics
    torch.testing.assert_close(dynamics.outer_log_decay[0, 0, 1:], torch.full((36,), -0.1))
    assert dynamics.mask is None and dynamics.key_dim == 8


def test_any_other_bias_is_part_of_the_scores() -> None:
    dynamics = biased(torch.randn(37, 37))[0].dynamics
    assert dynamics.outer_log_decay is None and dynamics.key_dim == 8 + 37


def test_a_sink_belongs_to_the_row_sum_and_a_skip_to_the_token() -> None:
    dynamics = trace(zoo.build("GptOssForCausalLM"), zoo.ids())[1].dynamics
    assert isinstance(dynamics.normalizer, normalizer.RowSum)
    assert dynamics.normalizer.sink.shape == (1, 4, 37)
    assert (dynamics.coefficients(normalized=True).sum(-1) < 1).all()
    for name in ("Mamba2ForCausalLM", "MambaForCausalLM"):
        model = zoo.build(name)
        layer, skip = trace(model, zoo.ids())[0], model.backbone.layers[0].mixer.D
        assert torch.equal(layer.dynamics.own[0, :, 0], skip.detach())


def test_the_odd_one_token_prompt() -> None:
    for name in ("LlamaForCausalLM", "Mamba2ForCausalLM", "Qwen3NextForCausalLM"):
        assert max(layer.error for layer in trace(zoo.build(name), zoo.ids(length=1))) <= 1e-5


def places() -> tuple:
    return (
        vars(AttentionInterface).get("get_interface"),
        modeling_qwen3_next.torch_chunk_gated_delta_rule,
    )


def hooks_of(model: nn.Module) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


def test_everything_is_put_back_also_after_an_exception() -> None:
    model, x, before = zoo.build("Qwen3NextForCausalLM"), zoo.ids(), places()
    trace(model, x)
    assert places() == before and hooks_of(model) == 0

    def stop(*_: object) -> None:
        raise RuntimeError("stopped")

    model.model.norm.register_forward_hook(stop)
    with pytest.raises(RuntimeError, match="stopped"):
        trace(model, x)
    assert places() == before and hooks_of(model) == 1


def test_traces_repeat_and_nest() -> None:
    outer, inner = zoo.build("Qwen3NextForCausalLM"), zoo.build("Qwen3NextForCausalLM", seed=1)
    x, found = zoo.ids(), []

    def look(*_: object) -> None:
        found.append(trace(inner, zoo.ids(length=5)))

    hook = outer.model.layers[1].linear_attn.register_forward_pre_hook(look)
    seen = trace(outer, x)
    hook.remove()
    again = trace(outer, x)
    assert [layer.name for layer in seen] == [layer.name for layer in again]
    assert all(layer.dynamics.length == 37 for layer in seen)
    assert all(layer.dynamics.length == 5 for layer in found[0])
    assert [layer.error for layer in found[0]] == [
        layer.error for layer in trace(inner, zoo.ids(length=5))
    ]


def test_tied_modules_are_told_apart() -> None:
    model = zoo.build("LlamaForCausalLM")
    model.model.layers[1] = model.model.layers[0]
    seen = trace(model, zoo.ids(), use_cache=False)
    assert [layer.name for layer in seen] == [
        "model.layers.0.self_attn",
        "model.layers.1.self_attn",
    ]
    assert not torch.equal(seen[0].values, seen[1].values)


def test_only_the_layers_asked_for_are_kept() -> None:
    model, x = zoo.build("Qwen3NextForCausalLM"), zoo.ids()
    assert [layer.name for layer in trace(model, x, layers=[1, "model.layers.3"])] == [
        "model.layers.1.linear_attn",
        "model.layers.3.self_attn",
    ]
    with pytest.raises(ValueError, match="none of layers"):
        trace(model, x, layers=["model.layers.9"])


def test_layers_are_found_by_name() -> None:
    seen = trace(zoo.build("LlamaForCausalLM"), zoo.ids())
    assert isinstance(seen, Trace) and len(seen) == 2
    assert seen["model.layers.1.self_attn"] is seen[1]
    with pytest.raises(KeyError, match=r"model\.layers\.0\.self_attn"):
        seen["nowhere"]


@pytest.mark.parametrize("mixer", ["SoftmaxAttention", "GatedDeltaNet", "MLSTM", "Mamba2"])
def test_our_own_models(mixer: str) -> None:
    torch.manual_seed(0)
    config = ModelConfig(width=16, layers=2, mixer=mixer, options={"n_heads": 2})
    model, x = SequenceModel(config, vocab=zoo.VOCAB), zoo.ids()
    seen = trace(model, x, probe=True)
    assert torch.equal(seen.model_output, model(x))
    assert [layer.name for layer in seen] == ["blocks.0.mixer", "blocks.1.mixer"]
    assert max(max(layer.error, layer.probe_error) for layer in seen) <= 1e-5


class Cached(nn.Module):
    """A mixer of ours in somebody's layer, called as a model with a cache calls it."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.mixer = GatedDeltaNet(d_model=d_model, n_heads=2)

    def forward(self, hidden_states: torch.Tensor, **_: object) -> tuple[torch.Tensor, None]:
        y, self.state = self.mixer.extend(hidden_states, None)
        return y, None


def test_our_mixers_with_a_cache_are_heard() -> None:
    model = zoo.build("LlamaForCausalLM")
    for layer in model.model.layers:
        layer.self_attn = Cached(model.config.hidden_size)
    for length in (37, 90):  # token by token, and chunk by chunk
        seen = trace(model, zoo.ids(length), probe=True, use_cache=True)
        assert [layer.name for layer in seen] == [f"model.layers.{i}.self_attn" for i in range(2)]
        assert max(max(layer.error, layer.probe_error) for layer in seen) <= 1e-5
        assert not seen.unsupported


def test_a_surprise_in_one_layer_is_that_layers_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """In reading its call, in probing it, and in taking its arguments by name."""
    model, x = zoo.build("Qwen3NextForCausalLM"), zoo.ids()
    want, names = logits(model, x), [layer.name for layer in trace(model, x)]
    read, calls = GatedDeltaNetAdapter.read_op, []

    def stumble(self, op, given, result):
        calls.append(op)
        if len(calls) == 2:
            raise IndexError("tuple index out of range")
        call = read(self, op, given, result)
        return replace(call, replay=None) if len(calls) == 3 else call

    monkeypatch.setattr(GatedDeltaNetAdapter, "read_op", stumble)
    seen = trace(model, x, probe=True)
    assert torch.equal(seen.model_output.logits, want)
    assert [layer.name for layer in seen] == [names[0], names[3]]
    assert "IndexError: tuple index out of range" in seen.unsupported[names[1]]
    assert "raised Type" in seen.unsupported[names[2]]
    monkeypatch.undo()
    monkeypatch.setattr(base, "bind", lambda *_: {}["no such argument"])
    seen = trace(model, x)
    assert torch.equal(seen.model_output.logits, want)
    assert [layer.name for layer in seen] == [names[3]] and len(seen.unsupported) == 3


@pytest.mark.parametrize(
    "name", ["LlamaForCausalLM", "Qwen3NextForCausalLM", "Mamba2ForCausalLM", "GptOssForCausalLM"]
)
def test_under_autocast_the_error_is_that_of_its_rounding(name: str) -> None:
    model, x = zoo.build(name), zoo.ids()
    with torch.autocast("cpu", torch.bfloat16):
        seen = trace(model, x)
    assert not seen.unsupported and {layer.mechanism for layer in seen} == zoo.mechanisms(name)
    assert all(layer.error <= 2**-6 for layer in seen), seen


def test_embeddings_may_go_in_instead_of_ids() -> None:
    model, x = zoo.build("LlamaForCausalLM"), zoo.ids()
    embedded = model.get_input_embeddings()(x)
    seen = trace(model, inputs_embeds=embedded)
    assert [layer.error for layer in seen] == [layer.error for layer in trace(model, x)]
