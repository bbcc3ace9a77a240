"""``check`` finds seeded faults, each by its name, and passes healthy classes."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
import zoo
from torch import nn
from transformers import Cache
from transformers.utils import ModelOutput

from coefdyn.lens import CheckReport, check
from coefdyn.models import ModelConfig, SequenceModel

HEALTHY = (
    "LlamaForCausalLM",
    "MistralForCausalLM",
    "GPT2LMHeadModel",
    "Qwen3NextForCausalLM",
    "KimiLinearForCausalLM",
    "Mamba2ForCausalLM",
    "BambaForCausalLM",
    "OlmoHybridForCausalLM",
)


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_classes_pass(name: str) -> None:
    report = check(zoo.build(name))
    assert not report.broken, str(report)
    assert all(one.kept for one in report.findings), str(report)


def peeks(model: nn.Module) -> None:
    def shift(_: nn.Module, __: tuple, out: torch.Tensor) -> torch.Tensor:
        return out + 0.01 * out.roll(-1, dims=1)

    model.model.embed_tokens.register_forward_hook(shift)


def mixes_batch_entries(model: nn.Module) -> None:
    def mix(_: nn.Module, __: tuple, out: torch.Tensor) -> torch.Tensor:
        return out + 0.01 * out.mean(0, keepdim=True)

    model.model.embed_tokens.register_forward_hook(mix)


def ignores_the_mask(model: nn.Module) -> None:
    def drop(_: nn.Module, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        mask = kwargs["attention_mask"]
        return args, {**kwargs, "attention_mask": None if mask is None else mask * 0 + 1}

    model.model.register_forward_pre_hook(drop, with_kwargs=True)


def forgets_position_ids(model: nn.Module) -> None:
    def restart(_: nn.Module, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        ids = kwargs.get("position_ids", args[1] if len(args) > 1 else None)
        fresh = torch.arange(ids.shape[1]).expand_as(ids)
        return (args[0],), {
            **{k: v for k, v in kwargs.items() if k != "position_ids"},
            "position_ids": fresh,
        }

    model.model.rotary_emb.register_forward_pre_hook(restart, with_kwargs=True)


def drops_its_state_between_chunks(model: nn.Module) -> None:
    def forget(_: nn.Module, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        past = next((kept for kept in kwargs.values() if isinstance(kept, Cache)), None)
        several = args[0].shape[1] > 1 if args else kwargs["hidden_states"].shape[1] > 1
        if past is not None and several:
            layer = past.layers[1]
            if layer.is_initialized:
                layer.keys, layer.values = 0 * layer.keys, 0 * layer.values
        return args, kwargs

    model.model.layers[1].self_attn.register_forward_pre_hook(forget, with_kwargs=True)


def remembers_the_last_call(model: nn.Module) -> None:
    kept: list[torch.Tensor] = []

    def leak(_: nn.Module, __: tuple, out: torch.Tensor) -> torch.Tensor:
        kept.append(out.detach().mean())
        return out + 0.01 * len(kept)

    model.model.norm.register_forward_hook(leak)


def loses_its_gradient(model: nn.Module) -> None:
    model.lm_head.weight.register_hook(lambda grad: grad / 0)


FAULTS: dict[str, tuple[Callable[[nn.Module], None], str]] = {
    "peeks": (peeks, "no future"),
    "mixes batch entries": (mixes_batch_entries, "batch of one"),
    "ignores the mask": (ignores_the_mask, "left padding"),
    "forgets position ids": (forgets_position_ids, "token by token"),
    "drops its state": (drops_its_state_between_chunks, "prompt in two parts"),
    "remembers the last call": (remembers_the_last_call, "same twice"),
    "loses its gradient": (loses_its_gradient, "finite gradients"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_seeded_fault_is_found_and_named(fault: str) -> None:
    model = zoo.build("LlamaForCausalLM")
    seed, promise = FAULTS[fault]
    seed(model)
    report = check(model)
    assert promise in report.broken, str(report)
    assert report[promise].deviation > 1e-3
    assert "BROKEN" in str(report) and promise in str(report)


def test_one_fault_does_not_blame_the_rest() -> None:
    model = zoo.build("LlamaForCausalLM")
    drops_its_state_between_chunks(model)
    assert check(model).broken == ("prompt in two parts",)


def test_what_the_interface_does_not_offer_is_not_run() -> None:
    torch.manual_seed(0)
    config = ModelConfig(width=16, layers=1, mixer="GatedDeltaNet", options={"n_heads": 2})
    model = SequenceModel(config, vocab=zoo.VOCAB).train()
    report = check(model, zoo.VOCAB)
    assert isinstance(report, CheckReport) and not report.broken, str(report)
    assert report["token by token"].kept is None and "takes no cache" in str(report)
    assert report["left padding"].kept, str(report)  # the mask is one of its **masks
    assert model.training and all(weight.grad is None for weight in model.parameters())
    with pytest.raises(ValueError, match="check needs vocab"):
        check(model)
    with pytest.raises(ValueError, match="length >= 8"):
        check(model, zoo.VOCAB, length=3)
    for few in (0, 1):
        with pytest.raises(ValueError, match="vocab must be a whole number >= 2"):
            check(model, few)


@pytest.mark.parametrize("vocab", [2, 3, 4])
def test_few_token_ids_still_tell_the_entries_of_a_batch_apart(vocab: int) -> None:
    model = zoo.build("LlamaForCausalLM")
    assert not check(model, vocab).broken
    mixes_batch_entries(model)
    assert "batch of one" in check(model, vocab).broken


def test_a_tolerance_of_zero_is_zero() -> None:
    model = zoo.build("LlamaForCausalLM")
    report = check(model, tolerance=0)
    assert report.tolerance == 0 and report["same twice"].kept
    assert "token by token" in report.broken  # rounding
    with pytest.raises(ValueError, match="tolerance must be a finite number >= 0"):
        check(model, tolerance=-1.0)


def test_an_unknown_finding_is_a_key_error_that_names_the_findings() -> None:
    report = check(zoo.build("LlamaForCausalLM"))
    with pytest.raises(KeyError, match=r"did you mean 'left padding'.*finite gradients"):
        report["padding"]


def test_gradients_of_the_caller_are_restored() -> None:
    model = zoo.build("LlamaForCausalLM")
    weight = model.lm_head.weight
    weight.grad = kept = torch.ones_like(weight)
    check(model)
    assert weight.grad is kept and bool((kept == 1).all())
    assert model.model.norm.weight.grad is None


@pytest.mark.parametrize(
    "name", ["MambaForCausalLM", "FalconMambaForCausalLM", "Mamba2ForCausalLM"]
)
def test_steps_of_healthy_models_are_not_accused_and_nothing_is_deprecated(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        report = check(zoo.build(name))
    assert report["token by token"].kept, str(report)


class Deaf(nn.Module):
    """A model that takes any argument and listens to the ids alone, as ``**kwargs`` do."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = zoo.build("LlamaForCausalLM")
        self.config = self.inner.config

    def forward(self, input_ids: torch.Tensor, **kwargs: object) -> ModelOutput:
        answer = self.inner(input_ids, use_cache=True)
        return ModelOutput(logits=answer.logits, later_cache=next(iter(dict(answer).values())))


def test_an_argument_that_never_arrived_is_not_the_models_fault() -> None:
    report = check(Deaf())
    assert not report.broken, str(report)
    for name in ("token by token", "prompt in two parts"):
        assert report[name].kept is None and "not taken" in report[name].words
    assert "later_cache" in report["token by token"].words
    assert report["left padding"].kept is None and "not taken" in report["left padding"].words


def test_a_state_that_is_dropped_as_a_whole_is_found() -> None:
    model = zoo.build("LlamaForCausalLM")
    for layer in model.model.layers:

        def forget(_: nn.Module, args: tuple, kwargs: dict) -> None:
            for past in kwargs.values():
                if isinstance(past, Cache):
                    for kept in past.layers:
                        if kept.is_initialized:
                            kept.keys, kept.values = 0 * kept.keys, 0 * kept.values

        layer.self_attn.register_forward_pre_hook(forget, with_kwargs=True)
    assert {"token by token", "prompt in two parts"} <= set(check(model).broken)
