"""Steps with a cache, ``generate`` and gradients under trace."""

from __future__ import annotations

import pytest
import torch
import zoo

from coefdyn.lens import (
    induction,
    looks,
    patched,
    replaced,
    torch_operations,
    trace,
    tracing,
    window,
)
from coefdyn.lens.adapters.base import CONTINUES

CLOSE = {"rtol": 1e-4, "atol": 1e-5}
CACHED = (
    *("LlamaForCausalLM", "MistralForCausalLM", "Gemma2ForCausalLM", "GptOssForCausalLM"),
    *("GPT2LMHeadModel", "GPTNeoForCausalLM", "GPTJForCausalLM"),
)


def last_part(name: str, pieces: tuple[int, int]) -> tuple:
    """A trace of the whole sequence, and one of its last tokens behind a cache."""
    model, x = zoo.build(name), zoo.ids(sum(pieces))
    whole = trace(model, x, use_cache=False)
    with torch.no_grad(), torch_operations(model):
        before = model(x[:, : pieces[0]], use_cache=True)
    key = next(key for key in dict(before) if "cache" in key or "past" in key)
    return whole, trace(model, x[:, pieces[0] :], probe=True, **{key: before[key]})


@pytest.mark.parametrize("pieces", [(11, 1), (9, 4)])
@pytest.mark.parametrize("name", CACHED)
def test_a_step_shows_its_rows_over_the_cached_keys(name: str, pieces: tuple[int, int]) -> None:
    whole, step = last_part(name, pieces)
    assert len(step) == len(whole) and not step.unsupported
    for mine, theirs in zip(step, whole, strict=True):
        assert mine.output.shape[2] == pieces[1] and mine.error <= 1e-5
        assert mine.probe_error <= 1e-5
        rows = theirs.coefficients()[:, :, pieces[0] :]
        kept = mine.coefficients().shape[-1]  # a cache of a window drops what it cannot read
        torch.testing.assert_close(mine.coefficients(), rows[..., -kept:], rtol=1e-4, atol=1e-5)
        assert (rows[..., : rows.shape[-1] - kept] == 0).all()
        torch.testing.assert_close(
            mine.output, theirs.output[:, :, pieces[0] :], rtol=1e-4, atol=1e-4
        )
        with pytest.raises(ValueError, match="Trace the whole sequence"):
            looks(mine)


@pytest.mark.parametrize("name", ["Qwen3NextForCausalLM", "BambaForCausalLM"])
def test_linear_layers_of_a_step_say_that_they_continue(name: str) -> None:
    whole, step = last_part(name, (11, 1))
    linear = {x.name for x in whole if x.mechanism != "softmax attention"}
    assert linear and set(step.unsupported) == linear
    assert set(step.unsupported.values()) == {CONTINUES}
    assert {x.name for x in step} == {x.name for x in whole} - linear


def test_induction_is_not_read_off_a_step() -> None:
    _, step = last_part("LlamaForCausalLM", (9, 4))
    with pytest.raises(ValueError, match="continues 9 tokens of a cache"):
        induction(step[0], zoo.ids(13))


def test_every_pass_of_a_generation() -> None:
    model, x = zoo.build("LlamaForCausalLM"), zoo.ids(11, 1)
    options = {"max_new_tokens": 4, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    plain = model.generate(x, **options)
    with tracing(model) as passes:
        made = model.generate(x, **options)
    assert torch.equal(made, plain)
    assert [one[0].start for one in passes] == [0, 11, 12, 13]
    whole = trace(model, made[:, :-1])
    for one in passes[1:]:
        for mine, theirs in zip(one, whole, strict=True):
            row = theirs.coefficients()[:, :, mine.start, : mine.start + 1]
            torch.testing.assert_close(mine.coefficients()[:, :, 0], row, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", zoo.NAMES)
def test_gradients_on_request(name: str) -> None:
    model, x = zoo.build(name), zoo.ids(9, 1)
    assert not trace(model, x).model_output.logits.requires_grad
    seen = trace(model, x, gradients=True)
    assert torch.equal(seen.model_output.logits, trace(model, x).model_output.logits)
    loss = seen.model_output.logits.double().logsumexp(-1).mean()
    found = torch.autograd.grad(loss, [layer.output for layer in seen])
    for layer, gradient in zip(seen, found, strict=True):
        assert gradient.shape == layer.output.shape
        assert torch.isfinite(gradient).all() and bool((gradient != 0).any()), layer


def test_the_gradient_is_that_of_what_enters_the_projection() -> None:
    model, x, heard = zoo.build("LlamaForCausalLM"), zoo.ids(9), []
    projection = model.model.layers[0].self_attn.o_proj
    hook = projection.register_forward_pre_hook(lambda _, inputs: heard.append(inputs[0]))
    seen = trace(model, x, gradients=True)
    hook.remove()
    loss = seen.model_output.logits.logsumexp(-1).mean()
    mine, theirs = torch.autograd.grad(loss, [seen[0].output, heard[0]])
    torch.testing.assert_close(mine.transpose(1, 2).flatten(2), theirs)


@torch.no_grad()
def run(model: torch.nn.Module, x: torch.Tensor, changes: dict | None = None) -> torch.Tensor:
    with replaced(model, changes or {}):
        return model(x).logits


@pytest.mark.parametrize("with_mask", [True, False])
def test_a_sink_is_the_first_tokens_and_not_the_oldest_of_the_model_s_own_window(
    with_mask: bool,
) -> None:
    """Against a mask made by hand, in one pass and in steps whose cache has lost the first ones."""
    model, x = zoo.build("MistralForCausalLM"), zoo.ids(21, 1)  # a window of 7
    change = {0: window(3, sink=2)}
    place = torch.arange(21)
    age = place[:, None] - place
    pairs = (age >= 0) & (age < 7) & ((age < 3) | (place < 2))
    bias = torch.zeros(21, 21).masked_fill(~pairs, torch.finfo(torch.float32).min)[None, None]
    hook = model.model.layers[0].self_attn.register_forward_pre_hook(
        lambda _, args, given: (args, {**given, "attention_mask": bias}), with_kwargs=True
    )
    want = run(model, x)
    hook.remove()
    torch.testing.assert_close(run(model, x, change), want, **CLOSE)
    assert (run(model, x) - want).abs().max() > 0.1
    real = torch.ones_like(x)
    step: dict = {}
    logits = []
    with torch.no_grad(), replaced(model, change):
        for start, stop in ((0, 15), *((t, t + 1) for t in range(15, 21))):
            mask = {"attention_mask": real[:, :stop]} if with_mask else {}
            out = model(x[:, start:stop], use_cache=True, **mask, **step)
            step = {"past_key_values": out.past_key_values}
            logits.append(out.logits)
    torch.testing.assert_close(torch.cat(logits, 1), want, **CLOSE)


def test_a_convolution_that_continues_is_named() -> None:
    model, x = zoo.build("Lfm2ForCausalLM"), zoo.ids(12)
    with torch.no_grad():
        cache = model(x[:, :8], use_cache=True).past_key_values
    for length in (3, 1):  # several tokens, and the step of one
        seen = trace(model, x[:, 8 : 8 + length], past_key_values=cache)
        assert "continues an earlier pass" in seen.unsupported["model.layers.0.conv"]


@pytest.mark.parametrize("part", [window(4, sink=1), "without decay", "values", "coefficients"])
def test_the_gradient_through_a_change_is_that_of_the_changed_model(part: object) -> None:
    """Against a difference quotient, in float64."""
    model, x = zoo.build("BloomForCausalLM").double(), zoo.ids(16)
    other = trace(model, zoo.ids(16, seed=4))
    change = patched(other, str(part)) if part in ("values", "coefficients") else part
    generator = torch.Generator().manual_seed(1)
    embedded = model.get_input_embeddings()(x).detach().requires_grad_()
    weights = torch.randn(2, 16, zoo.VOCAB, generator=generator).double()
    along = torch.randn(embedded.shape, generator=generator).double()

    def told(step: float) -> torch.Tensor:
        with replaced(model, {(0, 1): change}):
            return (model(inputs_embeds=embedded + step * along).logits * weights).sum()

    (gradient,) = torch.autograd.grad(told(0.0), embedded)
    with torch.no_grad():
        slope = (told(1e-5) - told(-1e-5)).item() / 2e-5
    assert (gradient * along).sum().item() == pytest.approx(slope, rel=1e-3)
