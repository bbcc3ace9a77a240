"""Initial values drawn again: untrained models, and building on the meta device."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from mixer_cases import CASES, SIZES
from torch import nn

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.mixers import HeadMixer, Mixer, Tokens
from coefdyn.models import ModelConfig, SequenceModel

MODELS: dict[str, Callable[[], nn.Module]] = {
    "rotary": lambda: _model(position="rotary", mixer="GatedDeltaNet", block="gated"),
    "learned": lambda: _model(position="learned", norm="rms"),
    "plain": lambda: _model(mlp=None, mixer="S6", options={"key_dim": 4}),
}
EVERY: dict[str, Callable[[], nn.Module]] = {
    **{case: lambda case=case: CASES[case](**SIZES) for case in CASES},
    **{f"model-{name}": make for name, make in MODELS.items()},
}


def _model(**choices: object) -> SequenceModel:
    options = choices.pop("options", {"n_heads": 2})
    config = ModelConfig(width=16, mlp=choices.pop("mlp", 8), options=options, **choices)
    return SequenceModel(config, vocab=11, length=20)


def drawn(make: Callable[[], nn.Module], seed: int) -> dict[str, torch.Tensor]:
    torch.manual_seed(seed)
    return {name: value.detach().clone() for name, value in make().named_parameters()}


def from_meta(make: Callable[[], nn.Module]) -> nn.Module:
    """Built without memory, then given memory that holds nothing of use."""
    with torch.device("meta"):
        module = make()
    module.to_empty(device="cpu")
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.fill_(float("nan"))
    return module


@pytest.mark.parametrize("name", EVERY)
def test_a_seed_gives_the_same_weights_again(name: str) -> None:
    """After training, and from the meta device: the constructor's draws, in its order."""
    make = EVERY[name]
    wanted, module = drawn(make, 3), from_meta(make)
    torch.manual_seed(3)
    module.reset_parameters()
    found = dict(module.named_parameters())
    assert list(found) == list(wanted)
    for key, value in wanted.items():
        assert torch.equal(found[key], value), key


@pytest.mark.parametrize("order", ["outer first", "inner first"])
@pytest.mark.parametrize("name", EVERY)
def test_every_module_on_its_own_is_torchs_recipe(name: str, order: str) -> None:
    """Each module's ``reset_parameters`` in either order: nothing is left or redrawn otherwise."""
    make = EVERY[name]
    module, one, two = from_meta(make), drawn(make, 1), drawn(make, 2)
    modules = list(module.modules())
    for part in modules if order == "outer first" else reversed(modules):
        if hasattr(part, "reset_parameters"):
            part.reset_parameters()
    for key, value in module.named_parameters():
        assert torch.isfinite(value).all(), key
        if torch.equal(one[key], two[key]):
            assert torch.equal(value, one[key]), f"{key} starts at the same numbers for every seed"
        else:
            widest = torch.stack([one[key].abs().amax(), two[key].abs().amax()]).amax()
            assert value.abs().amax() < 4 * widest, key


class Unsaid(HeadMixer):
    """A mixer of one's own, whose parameter nothing fills."""

    def __init__(self) -> None:
        super().__init__(d_model=4, n_heads=2)
        self.gain = nn.Parameter(torch.ones(2))

    def build(self, tokens: Tokens) -> CoefficientDynamics:
        return CoefficientDynamics(
            q=tokens.q,
            k=tokens.k,
            evolution=evolution.Identity(),
            scaling=1.0,
            readout=readout.exp,
            normalizer=normalizer.RowSum(),
        )


def test_a_parameter_without_an_initial_value_is_named() -> None:
    with pytest.raises(ValueError, match=r"Unsaid has the parameters gain.*define start\(self\)"):
        Unsaid().reset_parameters()

    class Said(Unsaid):
        @torch.no_grad()
        def start(self) -> None:
            self.gain.fill_(2.0)

    mixer = Said()
    mixer.reset_parameters()
    assert mixer.gain.tolist() == [2.0, 2.0]


def test_a_wrapped_module_without_initial_values_is_named() -> None:
    class Bare(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2))

    mixer: Mixer = Unsaid()
    mixer.start = lambda: mixer.gain.fill_(1.0)  # type: ignore[method-assign]
    mixer.extra = Bare()
    with pytest.raises(ValueError, match="Bare has the parameters weight"):
        mixer.reset_parameters()
