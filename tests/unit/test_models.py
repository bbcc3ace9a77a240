"""Blocks and models: parameter counts of the papers, block designs, options, errors."""

from __future__ import annotations

import json

import pytest
import torch
from tolerances import assert_agree

from coefdyn.mixers import MIXERS
from coefdyn.models import ModelConfig, SequenceModel, SwiGLU, build_mixer, language_model_config
from coefdyn.models.config import BLOCKS

F64 = torch.float64


def seeded(config: ModelConfig, **sizes: int) -> SequenceModel:
    """A model of 7 tokens in float64; torch's own generator is left alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return SequenceModel(config, vocab=7, **sizes).double()


def ids(*shape: int) -> torch.Tensor:
    return torch.randint(0, 7, shape, generator=torch.Generator().manual_seed(1))


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


#: one mixer of every kind, with a convolution where it can have one, and both kinds of positions
EXTENDED = [
    *((name, {"n_heads": 2}, block, "none") for name in MIXERS for block in BLOCKS),
    ("SoftmaxAttention", {"n_heads": 2}, "transformer", "rotary"),
    ("SoftmaxAttention", {"n_heads": 2}, "transformer", "learned"),
    ("GatedDeltaNet", {"n_heads": 2}, "gated", "learned"),
    ("LinearAttention", {"n_heads": 2}, "gated", "rotary"),
    ("S6", {"key_dim": 4}, "transformer", "none"),
    ("RGLRU", {}, "transformer", "none"),
    ("QLSTM", {}, "gated", "learned"),
    ("S4D", {"state_dim": 4}, "transformer", "none"),
    ("LRU", {"state_dim": 3}, "transformer", "none"),
]


@pytest.mark.parametrize(("mixer", "options", "block", "position"), EXTENDED)
@torch.no_grad()
def test_extending_is_the_whole_sequence(mixer, options, block, position):
    config = ModelConfig(
        width=8, mlp=8, mixer=mixer, options=options, block=block, position=position
    )
    model, tokens = seeded(config, length=12), ids(2, 12)
    whole = model(tokens)
    first, state = model.extend(tokens[:, :7])
    pieces = [first]
    sizes = set()
    for t in range(7, 12):
        logits, state = model.extend(tokens[:, t : t + 1], state)
        pieces.append(logits)
        sizes.add(state.numbers())
    assert_agree(torch.cat(pieces, -2), whole, method="mixer", dtype=F64, quantity="step")
    fixed = all(layer.mixer.state_size() is not None for layer in model.blocks)
    assert (len(sizes) == 1) == fixed
    assert state.position == 12
    # greedy: every new token is the likeliest after everything before it
    new = model.generate(tokens[:, :5], 6)
    read = torch.cat([tokens[:, :5], new], dim=-1)
    assert torch.equal(model(read[:, :-1])[:, 4:].argmax(-1), new)


def test_generating_draws_with_its_generator_and_temperature():
    model, prompt = seeded(ModelConfig(width=8, mlp=None, options={"n_heads": 2})), ids(400, 3)

    def draw(temperature: float, seed: int = 0) -> torch.Tensor:
        return model.generate(prompt, 4, temperature, torch.Generator().manual_seed(seed))

    assert draw(1.0).shape == (400, 4)
    assert torch.equal(draw(1.0), draw(1.0))
    assert not torch.equal(draw(1.0), draw(1.0, seed=1))
    assert torch.equal(draw(1e-6), model.generate(prompt, 4))
    expected = torch.softmax(model(prompt)[:, -1] / 0.5, dim=-1).mean(0)
    found = torch.bincount(draw(0.5)[:, 0], minlength=7) / 400
    assert (found - expected).abs().max() < 0.1  # four standard deviations of a share of 400
    assert model.generate(prompt[0], 2).shape == (2,)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m: m.generate(ids(1, 0), 2), "prompt must hold at least one token"),
        (lambda m: m.generate(ids(1, 2), 0), "n must be a whole number >= 1, got 0"),
        (lambda m: m.generate(ids(1, 2), 2, -1.0), "temperature must be a finite number >= 0"),
        (lambda m: m.generate(ids(1, 2), 2, float("nan")), "temperature must be a finite number"),
        (lambda m: m.generate(ids(1, 2), 2, 1.0), "give generator=torch.Generator"),
        (lambda m: m.generate(ids(1, 2), 4), "holds 4 positions; 2 of the prompt and 4 new"),
        (lambda m: m.extend(ids(1, 2), 3), "must be what the previous call returned, got int"),
        (lambda m: m.extend(ids(1, 3), m.extend(ids(1, 2))[1]), "a sequence of 5"),
        (lambda m: m.extend(ids(3, 1), m.extend(ids(1, 2))[1]), "the state was made for leading"),
        (lambda m: m(torch.tensor([[1, 7]])), "token ids must lie in 0 .. 6 .*got 1 .. 7"),
        (lambda m: m(torch.tensor([[-1, 2]])), "token ids must lie in 0 .. 6 .*got -1 .. 2"),
        (lambda m: m(torch.zeros(1, 2)), "tokens must be whole numbers"),
    ],
)
def test_words_for_calls_that_cannot_be_met(call, words, no_shape_checks):
    config = ModelConfig(width=8, mlp=None, options={"n_heads": 2}, position="learned")
    with pytest.raises(ValueError, match=words):
        call(seeded(config, length=4))


def test_classes_that_are_no_tokens_cannot_be_generated():
    model = seeded(ModelConfig(width=8, mlp=None, options={"n_heads": 2}), classes=5)
    with pytest.raises(ValueError, match="one logit per token; this model has 5 classes and 7"):
        model.generate(ids(1, 2), 2)
    other = seeded(ModelConfig(width=8, layers=1, mlp=None, options={"n_heads": 2}))
    with pytest.raises(ValueError, match="a model of 2 layers, this one has 1"):
        other.extend(ids(1, 2), model.extend(ids(1, 2))[1])


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
        (lambda: ModelConfig(layers=0), "layers must be a whole number >= 1, got 0"),
        (lambda: ModelConfig(layers=True), "layers must be a whole number >= 1, got True"),
        (lambda: ModelConfig(width=1.5), "width must be a whole number >= 1, got 1.5"),
        (lambda: ModelConfig(mlp=0), "None for no SwiGLU"),
        (lambda: ModelConfig(embedding_std=-1), "embedding_std must be a finite number >= 0"),
        (lambda: ModelConfig(options=3), "options must be a dict"),
        (lambda: SequenceModel(ModelConfig(options={"n_heads": 4}), vocab=0), "vocab must be"),
        (lambda: SequenceModel(ModelConfig(options={"n_heads": 4}), vocab=-1), "vocab must be"),
        (
            lambda: SequenceModel(ModelConfig(options={"n_heads": 4}), vocab=3, classes=0),
            "classes must be a whole number",
        ),
        (lambda: ModelConfig.from_dict({"widht": 3}), "did you mean 'width'"),
        (lambda: build_mixer(ModelConfig(mixer="Mamba22")), "did you mean 'Mamba2'"),
        (
            lambda: build_mixer(ModelConfig(options={"heads": 4})),
            r"with options=\{'heads': 4\} .*no option 'heads'; did you mean 'n_heads'",
        ),
        (
            lambda: SequenceModel(ModelConfig(mixer="GatedDeltaNet"), vocab=8),
            r"with options=\{\} .* needs n_heads\. Give them in ModelConfig, such as options=",
        ),
        (
            lambda: SequenceModel(ModelConfig(options={"n_heads": 4}, position="learned"), vocab=8),
            "needs length",
        ),
    ],
)
def test_errors_name_the_remedy(make, words, no_shape_checks):
    with pytest.raises(ValueError, match=words):
        make()


HYBRID = {
    "width": 16,
    "layers": 5,
    "mixer": ("GatedDeltaNet", "SoftmaxAttention"),
    "options": ({"n_heads": 4, "key_heads": 2}, {"n_heads": 2, "position": "rotary"}),
}


def test_a_pattern_of_mixers_repeats_over_the_layers() -> None:
    model = SequenceModel(ModelConfig(**HYBRID), vocab=11)
    kinds = [type(block.mixer).__name__ for block in model.blocks]
    assert kinds == ["GatedDeltaNet", "SoftmaxAttention"] * 2 + ["GatedDeltaNet"]
    assert [block.mixer.n_heads for block in model.blocks] == [4, 2, 4, 2, 4]
    ids = torch.randint(0, 11, (2, 9), generator=torch.Generator().manual_seed(0))
    state, logits = None, []
    for t in range(9):
        one, state = model.extend(ids[:, t : t + 1], state)
        logits.append(one)
    assert torch.allclose(torch.cat(logits, 1), model(ids), atol=1e-5)


def test_a_pattern_survives_json() -> None:
    config = ModelConfig(**HYBRID)
    assert ModelConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    one = {**HYBRID, "mixer": ["DeltaNet", "KDA"], "options": {"n_heads": 2}}
    assert ModelConfig(**one).mixer_name(3) == "KDA"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"mixer": ("GatedDeltaNt", "KDA")}, "no mixer is named 'GatedDeltaNt'; did you mean 'Gat"),
        ({"mixer": "HeadMixer"}, "no mixer is named 'HeadMixer'"),
        ({"mixer": ("KDA",) * 6, "options": {}}, "1 to layers=5 names"),
        ({"mixer": ()}, "got 0 names"),
        ({"mixer": ("KDA",)}, "one for each of the 1 names of mixer; got 2"),
        ({"options": ({"n_heads": 2}, 3)}, "a tuple of such"),
        ({"mixer": 3}, "no mixer is named 3"),
    ],
)
def test_a_pattern_that_does_not_fit_is_told_early(changes: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words) as raised:
        ModelConfig(**{**HYBRID, **changes})
    assert len(str(raised.value)) < 300


def test_any_temperature_draws_a_token_or_says_why_not() -> None:
    net, prompt = generating(), torch.arange(3).expand(50, 3)
    likeliest = net.generate(prompt, 2)
    for dtype in (torch.float32, torch.float64):
        for temperature in (1e-8, 1e-40, 5e-324):
            seed = torch.Generator().manual_seed(0)
            assert net.to(dtype).generate(prompt, 2, temperature, seed).equal(likeliest)
    flat = net.generate(prompt, 1, 1e30, torch.Generator().manual_seed(0))
    assert len(flat.unique()) > 5
    with torch.no_grad():
        net.head.bias.zero_()
        net.head.weight.zero_()  # ties stay ties
    ties = net.generate(prompt, 1, 5e-324, torch.Generator().manual_seed(0))
    assert len(ties.unique()) > 5
    for broken in (torch.nan, torch.inf):
        with torch.no_grad():
            net.head.bias[0] = broken
        for temperature in (0.0, 1.0):
            with pytest.raises(ValueError, match="logits hold NaN or infinity"):
                net.generate(prompt, 2, temperature, torch.Generator().manual_seed(0))


def generating() -> SequenceModel:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = ModelConfig(width=16, mixer="LinearAttention", options={"n_heads": 2})
        return SequenceModel(config, vocab=13)
