"""Each wrong use of the lens is answered in words."""

from __future__ import annotations

import pytest
import torch
import transformers
import zoo
from torch import nn

from coefdyn.lens import replaced, trace


def test_a_text_instead_of_ids() -> None:
    with pytest.raises(ValueError, match="turn it into ids first"):
        trace(zoo.build("LlamaForCausalLM"), "The capital of France")
    with pytest.raises(ValueError, match="turn it into ids first"):
        trace(zoo.build("LlamaForCausalLM"), input_ids=["The capital"])


def test_ids_without_a_batch() -> None:
    with pytest.raises(ValueError, match=r"ids\[None\]"):
        trace(zoo.build("LlamaForCausalLM"), zoo.ids()[0])


@pytest.mark.usefixtures("no_shape_checks")
def test_something_that_is_no_model() -> None:
    with pytest.raises(ValueError, match=r"torch\.nn\.Module"):
        trace(lambda x: x, zoo.ids())


@pytest.mark.parametrize("name", ["Mamba2ForCausalLM", "MambaForCausalLM"])
def test_the_middle_of_a_generation_where_only_a_state_is_left(name: str) -> None:
    from coefdyn.lens import torch_operations

    model, x = zoo.build(name), zoo.ids()
    with torch.no_grad(), torch_operations(model):
        before = model(x[:, :9], use_cache=True)
    key = next(key for key in dict(before) if "cache" in key or "past" in key)
    with pytest.raises(ValueError, match="Run trace on the whole sequence"):
        trace(model, x[:, 9:10], **{key: before[key]})


def test_a_compiled_model() -> None:
    model = zoo.build("LlamaForCausalLM")
    with pytest.raises(ValueError, match="the model is compiled"):
        trace(torch.compile(model), zoo.ids())
    model.model.layers[0].compile()
    with pytest.raises(ValueError, match=r"model\.layers\.0 is compiled"):
        trace(model, zoo.ids())


def test_an_encoder() -> None:
    config = transformers.BertConfig(
        vocab_size=zoo.VOCAB,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=32,
    )
    with pytest.raises(ValueError, match="BertModel is an encoder"):
        trace(transformers.BertModel(config).eval(), zoo.ids())


def test_an_encoder_decoder() -> None:
    config = transformers.T5Config(
        vocab_size=zoo.VOCAB, d_model=32, d_ff=32, d_kv=8, num_layers=1, num_heads=4
    )
    with pytest.raises(ValueError, match="encoder-decoder"):
        trace(transformers.T5Model(config).eval(), zoo.ids())


class GaussianMixer(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.cumsum(1)


class Unknown(nn.Module):
    def __init__(self, mixer: nn.Module) -> None:
        super().__init__()
        self.embedding = nn.Embedding(zoo.VOCAB, 32)
        self.mixer = mixer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.mixer(self.embedding(x))


def test_a_class_that_is_not_known() -> None:
    with pytest.raises(ValueError, match="mixer: no known operation ran in this GaussianMixer"):
        trace(Unknown(GaussianMixer()), zoo.ids())
    with pytest.raises(ValueError, match="this LSTM"):
        trace(Unknown(nn.LSTM(32, 32)), zoo.ids())


def test_a_known_layer_beside_an_unknown_one() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.known, self.other = zoo.build("LlamaForCausalLM"), GaussianMixer()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.other(self.known(x).logits)

    seen = trace(Both(), zoo.ids())
    assert len(seen) == 2
    assert seen.unsupported == {"other": "no known operation ran in this GaussianMixer"}


def test_dropout_at_work() -> None:
    model = zoo.build("LlamaForCausalLM", attention_dropout=0.5)
    with pytest.raises(ValueError, match=r"call model\.eval\(\) first"):
        trace(model.train(), zoo.ids())


def test_attention_that_computes_something_else_is_not_shown() -> None:
    from transformers.modeling_utils import AttentionInterface

    def odd(module, query, key, value, mask, scaling=None, **_):
        y = transformers.integrations.sdpa_attention.sdpa_attention_forward(
            module, query, key, value, mask, scaling=scaling
        )[0]
        return y.sign(), None

    AttentionInterface.register("odd_one", odd)
    transformers.AttentionMaskInterface.register("odd_one", transformers.masking_utils.sdpa_mask)
    model = zoo.build("LlamaForCausalLM")
    model.set_attn_implementation("odd_one")
    with pytest.raises(ValueError, match="computes something else"):
        trace(model, zoo.ids())


def test_layers_that_run_again_in_the_backward_pass_are_not_changed() -> None:
    """Outside the context the second run is that of the unchanged model: a wrong gradient."""
    model, x = zoo.build("LlamaForCausalLM").train(), zoo.ids(9)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": True})
    change, words = {(0, 1): "ablate"}, "gradient_checkpointing_disable"
    with pytest.raises(ValueError, match=words), replaced(model, change):
        model(x, labels=x, use_cache=False)
    with torch.no_grad(), replaced(model, change):
        model(x, use_cache=False)
