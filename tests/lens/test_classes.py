"""57 classes of transformers: which of them the lens reads, and what it says of the others."""

from __future__ import annotations

import pytest
import transformers
import zoo

from coefdyn.lens import trace

SIZES = {"vocab_size": zoo.VOCAB, "hidden_size": 32, "num_hidden_layers": 2}
#: class -> (its configuration, why none of its mixers is shown)
REFUSED = {
    "BertModel": (
        transformers.BertConfig(num_attention_heads=4, intermediate_size=48, **SIZES),
        "BertModel is an encoder",
    ),
    "RwkvForCausalLM": (
        transformers.RwkvConfig(attention_hidden_size=32, context_length=64, **SIZES),
        "no known operation ran in this RwkvSelfAttention",
    ),
    "T5ForConditionalGeneration": (
        transformers.T5Config(
            vocab_size=zoo.VOCAB, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4
        ),
        "is an encoder-decoder",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_class_that_is_not_read_is_refused_with_the_reason(name: str) -> None:
    config, reason = REFUSED[name]
    with pytest.raises(ValueError, match=reason):
        trace(getattr(transformers, name)(config).eval(), zoo.ids())


def test_54_of_57_classes_are_read() -> None:
    """Each of them is held to its output, to the probe and to the identity change elsewhere."""
    read = {name.partition(" ")[0] for name in zoo.EVERY}
    assert len(read) == 54 and len(read | set(REFUSED)) == 57
