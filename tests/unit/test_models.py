"""Blocks and models: parameter counts of the papers, block designs, options, errors."""

from __future__ import annotations

import pytest
import torch
from tolerances import assert_agree

from coefdyn.mixers import MIXERS
from coefdyn.models import ModelConfig, SequenceModel, SwiGLU, build_mixer, language_model_config


def count(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_mad_model_has_the_papers_parameter_count():
    """2 layers, d = n = d_v = 128, 16 heads, SwiGLU 256: 328 704 core parameters (Table 6)."""
    model = SequenceModel(ModelConfig(options={"n_heads": 16}), vocab=32)
    assert model.core_parameters() == 328_704
    assert count(model) == 328_704 + 257 * 32 + 256


@pytest.mark.parametrize(("vocab", "total"), [(64, 345_408), (4096, 1_381_632), (32, 337_184)])
def test_total_parameters_per_task(vocab, total):
    assert count(SequenceModel(ModelConfig(options={"n_heads": 16}), vocab=vocab)) == total


def test_positions_cost_what_they_should():
    base = count(SequenceModel(ModelConfig(options={"n_heads": 16}), vocab=32))
    for position, extra in (("rotary", 0), ("learned", 128 * 20)):
        config = ModelConfig(options={"n_heads": 16}, position=position)
        assert count(SequenceModel(config, vocab=32, length=20)) == base + extra


@pytest.mark.parametrize(
    ("kind", "scaling", "parameters"),
    [("softmax", "one", 106_369_105), ("mamba2", "delta", 110_449_425)],
)
def test_language_models_of_table_3_have_their_size(kind, scaling, parameters):
    """GPT-2's 50 257 tokens, length 1024; the paper reports 120 M and 110 M."""
    with torch.device("meta"):
        config = language_model_config(kind, scaling=scaling)
        model = SequenceModel(config, vocab=50_257, length=1024)
    assert count(model) == parameters


def test_embedding_and_head_start_as_stated():
    torch.manual_seed(0)
    model = SequenceModel(ModelConfig(options={"n_heads": 16}), vocab=4096)
    assert model.embedding.weight.std().item() == pytest.approx(0.02, rel=0.02)
    assert model.embedding.weight.mean().abs().item() < 1e-3
    assert not model.head.bias.any()


def test_gated_block_has_convolution_norm_and_gate():
    plain = build_mixer(ModelConfig(options={"n_heads": 4}))
    gated = build_mixer(ModelConfig(options={"n_heads": 4}, block="gated"))
    assert plain.project["query"].convolution is None
    assert plain.output.gate is None
    assert gated.project["query"].convolution.width == 4
    assert gated.output.gate is not None
    assert gated.output.norm_kind == "rms"


def test_options_override_the_block_design():
    config = ModelConfig(options={"n_heads": 4, "output_gate": "none"}, block="gated")
    assert build_mixer(config).output.gate is None


def test_swiglu_is_its_equation():
    mlp, x = SwiGLU(width=4, inner=6), torch.randn(3, 4)
    gate = x @ mlp.gate.weight.T
    expected = (gate * torch.sigmoid(gate) * (x @ mlp.up.weight.T)) @ mlp.down.weight.T
    torch.testing.assert_close(mlp(x), expected)


@pytest.mark.parametrize("mixer", [*MIXERS, "DesignMixer"])
@pytest.mark.parametrize("norm", ["layer", "rms"])
def test_every_mixer_fits_into_the_model(mixer, norm):
    config = ModelConfig(width=16, mlp=None, mixer=mixer, options={"n_heads": 2}, norm=norm)
    model = SequenceModel(config, vocab=7, classes=5).double()
    tokens = torch.randint(0, 7, (3, 9))
    logits = model(tokens)
    assert logits.shape == (3, 9, 5)
    changed = tokens.clone()
    changed[:, 5:] = 0
    early = {"method": "mixer", "dtype": torch.float64, "quantity": "future"}
    assert_agree(model(changed)[:, :5], logits[:, :5], **early)


def test_dynamics_are_those_that_forward_uses():
    config = ModelConfig(width=16, mlp=16, options={"n_heads": 2}, position="rotary")
    model = SequenceModel(config, vocab=7)
    tokens = torch.randint(0, 7, (3, 9))
    found = model.dynamics(tokens)
    assert [one.coefficients().shape for one in found] == [(3, 2, 9, 9)] * 2
    x = model.embed(tokens)
    for block, dynamics in zip(model.blocks, found, strict=True):
        mixer, inner = block.mixer, block.mixer_norm(x)
        y = dynamics.apply(mixer.dynamics(inner)[1])
        torch.testing.assert_close(mixer(inner), mixer.output(y, inner))
        x = block(x)


def test_weight_decay_exemptions_are_named_parameters():
    config = ModelConfig(width=16, mixer="Mamba2", options={"n_heads": 2})
    model = SequenceModel(config, vocab=7)
    names = model.no_weight_decay_names()
    assert names
    assert names <= {name for name, _ in model.named_parameters()}


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ModelConfig(block="gatde"), "did you mean 'gated'"),
        (lambda: ModelConfig(norm="batch"), "norm must be one of"),
        (lambda: ModelConfig(layers=0), "at least 1"),
        (lambda: ModelConfig.from_dict({"widht": 3}), "did you mean 'width'"),
        (lambda: build_mixer(ModelConfig(mixer="Mamba3")), "did you mean 'Mamba2'"),
        (lambda: build_mixer(ModelConfig(options={"heads": 4})), "does not take these options"),
        (
            lambda: SequenceModel(ModelConfig(options={"n_heads": 4}, position="learned"), vocab=8),
            "needs length",
        ),
    ],
)
def test_errors_name_the_remedy(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_learned_positions_refuse_a_longer_sequence():
    config = ModelConfig(width=16, options={"n_heads": 2}, position="learned")
    model = SequenceModel(config, vocab=8, length=4)
    with pytest.raises(ValueError, match="holds 4 positions"):
        model(torch.zeros(1, 5, dtype=torch.int64))
