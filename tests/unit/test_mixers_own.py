"""A mixer of one's own: checked by the library, found by models."""

from __future__ import annotations

import pytest
import torch

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.mixers import (
    GatedDeltaNet,
    Mixer,
    NormalizedAttention,
    SoftmaxAttention,
    check_mixer,
    register_mixer,
)
from coefdyn.mixers.registry import REGISTERED
from coefdyn.models import ModelConfig, SequenceModel

X = torch.randn(2, 20, 8, generator=torch.Generator().manual_seed(0))


def build(form: type[Mixer], **options) -> Mixer:
    torch.manual_seed(1)
    return form(d_model=8, n_heads=2, **options)


@pytest.mark.parametrize("form", [SoftmaxAttention, GatedDeltaNet])
def test_the_contract_of_a_sound_mixer_holds(form):
    mixer = build(form)
    contract = check_mixer(mixer, X)
    assert contract.holds, str(contract)
    assert "chunked" in contract.outputs
    assert ("recurrent" in contract.outputs) == (form is GatedDeltaNet)
    assert next(mixer.parameters()).dtype == torch.float32


class Peeking(SoftmaxAttention):
    """Adds a mean over the whole sequence to every key."""

    def tokens(self, x, state=None):
        return super().tokens(x + x.mean(-2, keepdim=True), state)


class Idle(SoftmaxAttention):
    """Has a parameter that nothing reads."""

    def __init__(self, *, d_model: int, n_heads: int) -> None:
        super().__init__(d_model=d_model, n_heads=n_heads)
        self.idle = torch.nn.Parameter(torch.zeros(3))


class Counting(NormalizedAttention):
    """Divides by the position inside the piece, not inside the sequence."""

    def build(self, tokens):
        count = torch.arange(1.0, tokens.x.shape[-2] + 1).to(tokens.q)
        return CoefficientDynamics(
            q=tokens.q,
            k=tokens.k,
            evolution=evolution.Identity(),
            scaling=1.0,
            readout=readout.identity,
            normalizer=normalizer.Given(count),
        )


def test_a_look_at_the_future_is_found():
    contract = check_mixer(build(Peeking), X)
    assert contract.future > 1e-3
    assert not contract.holds
    assert "causal                             error" in str(contract)


def test_a_step_that_differs_from_the_whole_is_found():
    contract = check_mixer(build(Counting), X)
    assert contract.future <= 1e-9
    assert contract.steps > 1e-3
    assert not contract.holds


def test_a_parameter_without_gradient_is_named():
    contract = check_mixer(build(Idle), X)
    assert contract.without_gradient == ("idle",)
    assert not contract.holds


def test_one_token_is_too_few():
    with pytest.raises(ValueError, match="at least 2 tokens, got 1"):
        check_mixer(build(SoftmaxAttention), X[:, :1])


def test_a_model_finds_a_registered_mixer():
    config = ModelConfig(width=8, layers=1, mlp=None, mixer="Peeking", options={"n_heads": 2})
    with pytest.raises(ValueError, match=r"mixer must be one of .*got 'Peeking'"):
        SequenceModel(config, vocab=5)
    try:
        assert register_mixer(Peeking) is Peeking
        model = SequenceModel(config, vocab=5)
        assert type(model.blocks[0].mixer) is Peeking
    finally:
        REGISTERED.clear()


def test_only_new_names_of_mixers_can_be_registered(no_shape_checks):
    with pytest.raises(ValueError, match="takes a subclass of Mixer, got"):
        register_mixer(torch.nn.Linear)
    with pytest.raises(ValueError, match=r"GatedDeltaNet' is a name of coefdyn\.mixers"):
        register_mixer(type("GatedDeltaNet", (SoftmaxAttention,), {}))
