"""The cache of a plan: logits of the cut model, bytes on the tensors, and what is refused.

Longer than other files: every promise is held against the same models and the same comparison.
"""

from __future__ import annotations

import copy
import threading
from dataclasses import replace

import pytest
import torch
import transformers
import zoo
from passed import LENS
from torch import nn
from transformers.modeling_utils import AttentionInterface

from coefdyn.lens import CachePlan, plan, replaced, running, torch_operations, trace, window
from coefdyn.lens.cache import places

LENGTH, SINK, SIZE = 37, 2, 4
GEMMA3 = "Gemma3ForCausalLM"
CLASSES = (
    *("LlamaForCausalLM", "MistralForCausalLM", "Gemma2ForCausalLM", GEMMA3),
    *("GptOssForCausalLM", "GPT2LMHeadModel", "Qwen3NextForCausalLM"),
)
#: sizes of the parts that a sequence comes in
PARTS = ((LENGTH,), (1,) * LENGTH, (5, 20, 1, 1, 10), (3, 2, 2, 30))


def build(name: str, **changed) -> nn.Module:
    if name != GEMMA3:
        return zoo.build(name, **changed)
    options = {"head_dim": 8, "sliding_window": 9, "query_pre_attn_scalar": 8}
    kinds = {"layer_types": ["sliding_attention", "full_attention"]}
    config = transformers.Gemma3TextConfig(**{**zoo.BASE, **options, **kinds, **changed})
    torch.manual_seed(0)
    return transformers.Gemma3ForCausalLM(config).eval()


def planned(model: nn.Module, cut: int, size: int = SIZE, length: int = LENGTH) -> CachePlan:
    keep = window(size, sink=SINK)
    found = plan(model, zoo.ids(length, 1, seed=3), keep=keep, progress=False)
    return replace(found, cut=cut)


@torch.no_grad()
def wanted(model: nn.Module, found: CachePlan, x: torch.Tensor, **given) -> torch.Tensor:
    with replaced(model, found.changes) if found.cut else torch_operations(model):
        return model(x, use_cache=False, **given).logits


@torch.no_grad()
def read(model: nn.Module, cache: object, x: torch.Tensor, parts: tuple[int, ...]) -> torch.Tensor:
    pieces = x.split(list(parts), -1)
    with torch_operations(model):
        return torch.cat([model(piece, past_key_values=cache).logits for piece in pieces], 1)


def gap(mine: torch.Tensor, theirs: torch.Tensor) -> float:
    assert mine.isfinite().all()
    return ((mine - theirs).abs().max() / theirs.abs().max()).item()


@pytest.mark.parametrize("name", CLASSES)
def test_logits_are_those_of_the_cut_model_and_bytes_those_of_the_plan(name: str) -> None:
    model, x = build(name), zoo.ids(LENGTH, 2)
    found = planned(model, 0)
    for cut in {1, len(found.heads) // 2, len(found.heads)}:
        one = replace(found, cut=cut)
        want = wanted(model, one, x)
        assert gap(wanted(model, replace(found, cut=0), x), want) > 1e-3  # the cut is seen
        with one.cache(model) as cache:
            for parts in PARTS:
                cache.reset()
                assert gap(read(model, cache, x, parts), want) <= 1e-5, (cut, parts)
                assert cache.bytes == 2 * one.bytes
                assert cache.get_seq_length() == LENGTH
        assert cache.bytes == 2 * one.bytes < 2 * one.bytes_full


@pytest.mark.parametrize("name", ["MistralForCausalLM", "Gemma2ForCausalLM"])
@pytest.mark.parametrize(("sink", "size"), [(0, 3), (4, 3), (5, 5), (2, 30)])
def test_a_window_of_the_model_itself(name: str, sink: int, size: int) -> None:
    """Windows of 7 and 9 tokens, with what is kept narrower, as wide, and wider."""
    model, x = build(name), zoo.ids(LENGTH, 2)
    found = plan(model, zoo.ids(LENGTH, 1), keep=window(size, sink=sink), progress=False)
    one = replace(found, cut=len(found.heads) - 1)
    want = wanted(model, one, x)
    with one.cache(model) as cache:
        for parts in PARTS:
            cache.reset()
            assert gap(read(model, cache, x, parts), want) <= 1e-5
            assert cache.bytes == 2 * one.bytes


def test_a_prompt_shorter_than_the_window_and_one_of_many_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = build("LlamaForCausalLM")
    found = planned(model, 3, size=30)
    for length in (1, 2, 5, 31, 32, 33):
        x = zoo.ids(length, 2)
        with found.cache(model) as cache:
            assert gap(read(model, cache, x, (length,)), wanted(model, found, x)) <= 1e-5
            width = found.bytes_full // (4 * LENGTH)
            assert cache.bytes == 2 * width * (length + 3 * min(length, 32))
    monkeypatch.setattr(places, "BLOCK", 3)
    found = planned(model, 3)
    for parts in PARTS:
        with found.cache(model) as cache:
            x = zoo.ids(LENGTH, 2)
            assert gap(read(model, cache, x, parts), wanted(model, found, x)) <= 1e-5


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("name", ["LlamaForCausalLM", "MistralForCausalLM", "GptOssForCausalLM"])
def test_batches_padded_on_the_left(name: str, attention: str) -> None:
    """Rows of many lengths: padding is no first token, and none is read."""
    if name.startswith("GptOss") and attention == "sdpa":
        attention = "eager"  # it has no other
    model, x = build(name), zoo.ids(LENGTH, 4)
    model.set_attn_implementation(attention)
    real = torch.arange(LENGTH) >= torch.tensor([[0], [3], [17], [LENGTH - 2]])
    mask, positions = real.long(), (real.cumsum(-1) - 1).clamp(min=0)
    found = planned(model, 3)
    want = wanted(model, found, x, attention_mask=mask, position_ids=positions)
    with found.cache(model) as cache:
        for parts in (*PARTS, (36, 1), (20, *(1,) * 17)):
            cache.reset()
            start, logits = 0, []
            for size in parts:
                stop = start + size
                given = {"attention_mask": mask[:, :stop], "position_ids": positions[:, start:stop]}
                with torch.no_grad():
                    logits.append(model(x[:, start:stop], past_key_values=cache, **given).logits)
                start = stop
            assert gap(torch.cat(logits, 1)[real], want[real]) <= 1e-5, parts
        assert cache.bytes == 4 * found.bytes
        with pytest.raises(ValueError, match="Hand over attention_mask of all tokens so far"):
            model(x[:, :1], past_key_values=cache)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"num_beams": 3},
        {"num_beams": 2, "num_return_sequences": 2},
        {"prefill_chunk_size": 5},
        {"prompt_lookup_num_tokens": 3},
    ],
    ids=lambda options: next(iter(options), "greedy"),
)
@pytest.mark.parametrize("name", ["LlamaForCausalLM", "Gemma2ForCausalLM", "GptOssForCausalLM"])
def test_generate_gives_the_tokens_of_the_cut_model(name: str, options: dict) -> None:
    model = build(name)
    found = planned(model, 3)
    batch = 1 if "prompt_lookup_num_tokens" in options else 2
    x = zoo.ids(15, batch, seed=7)
    x[:, 8:] = x[:, :7]  # something to look up
    mask = torch.ones_like(x)
    if batch > 1 and "prefill_chunk_size" not in options:
        mask[1, :6] = 0
    given = {"attention_mask": mask, "max_new_tokens": 20, "do_sample": False}
    given |= {"eos_token_id": None, "pad_token_id": 0}
    plain = {key: value for key, value in options.items() if key.startswith("num_")}
    with replaced(model, found.changes):
        want = model.generate(x, use_cache=False, **given, **plain)
    assert not torch.equal(want, model.generate(x, **given, **plain))
    with found.cache(model) as cache:
        for _ in range(2):  # a cache is used again
            got = model.generate(x, past_key_values=cache, **given, **options)
            assert torch.equal(got, want)
            cache.reset()


def test_rows_of_the_batch_are_chosen_and_repeated() -> None:
    model, x = build("LlamaForCausalLM"), zoo.ids(LENGTH, 3)
    mask = torch.ones_like(x)
    mask[1, :9] = 0
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    found, order = planned(model, 3), torch.tensor([1, 1, 0])
    changed = {
        "reorder_cache": (order, order),
        "batch_select_indices": (order[:2], order[:2]),
        "batch_repeat_interleave": (2, torch.tensor([0, 0, 1, 1, 2, 2])),
    }
    for method, (given, rows) in changed.items():
        named = {"attention_mask": mask[rows], "position_ids": positions[rows]}
        want = wanted(model, found, x[rows], **named)[:, 30:]
        with torch.no_grad(), found.cache(model) as cache:
            first = {"attention_mask": mask[:, :30], "position_ids": positions[:, :30]}
            model(x[:, :30], past_key_values=cache, **first)
            getattr(cache, method)(given)
            named["position_ids"] = named["position_ids"][:, 30:]
            got = model(x[rows, 30:], past_key_values=cache, **named).logits
            assert gap(got, want) <= 1e-5, method


@pytest.mark.parametrize("name", ["LlamaForCausalLM", "Gemma2ForCausalLM"])
def test_crop_is_exact_or_refused(name: str) -> None:
    model, x = build(name), zoo.ids(LENGTH, 1)
    found = planned(model, 3)
    other = torch.cat([x[:, :20], zoo.ids(9, 1, seed=5)], -1)
    want = wanted(model, found, other)[:, 20:]
    with found.cache(model) as cache:
        for more in range(4):
            cache.reset()
            read(model, cache, x[:, : 20 + more], (15, 5 + more))
            if more > 1:
                before = [x.clone() for layer in cache.layers for x in layer.tensors()]
                with pytest.raises(ValueError, match=f"{more} of .* tokens .* at most 1 can"):
                    cache.crop(-more)
                after = [x for layer in cache.layers for x in layer.tensors()]
                assert all(map(torch.equal, before, after))
                continue
            cache.crop(-more)
            assert cache.get_seq_length() == 20
            assert gap(read(model, cache, other[:, 20:], (1, 1, 3, 4)), want) <= 1e-5
        cache.reset()
        read(model, cache, x[:, : SINK + SIZE], (SINK + SIZE,))  # nothing has been dropped yet
        cache.crop(-3)
        got = read(model, cache, other[:, 3:], (1, 25))
        assert gap(got, wanted(model, found, torch.cat([x[:, :3], other[:, 3:]], 1))[:, 3:]) <= 1e-5
        cache.reset()
        read(model, cache, x[:, :20], (20,))
        cache.activate_past_recording()
        read(model, cache, x[:, 20:27], (3, 1, 3))
        cache.crop(-7)
        assert cache.bytes == planned(model, 3, length=20).bytes
        assert gap(read(model, cache, other[:, 20:], (9,)), want) <= 1e-5
        with pytest.raises(ValueError, match=r"crop takes the last tokens back: crop\(-4\)"):
            cache.crop(4)


def test_a_copy_goes_on_by_itself() -> None:
    model, x, y = build("LlamaForCausalLM"), zoo.ids(LENGTH, 1), zoo.ids(LENGTH, 1, seed=4)
    y[:, :30] = x[:, :30]
    found = planned(model, 2)
    with found.cache(model) as cache:
        read(model, cache, x[:, :30], (30,))
        other = copy.deepcopy(cache)
        got = [read(model, *pair, (5, 1, 1)) for pair in ((cache, x[:, 30:]), (other, y[:, 30:]))]
    for mine, ids in zip(got, (x, y), strict=True):
        assert gap(mine, wanted(model, found, ids)[:, 30:]) <= 1e-5
    with pytest.raises(ValueError, match="the context of this cache is over"):
        model(x, past_key_values=other)


def test_gradients_are_those_of_the_cut_model() -> None:
    model, x = build("LlamaForCausalLM").train(), zoo.ids(LENGTH, 2)
    found, weights = planned(model, 3), list(model.parameters())
    with replaced(model, found.changes):
        loss = model(x, labels=x, use_cache=False).loss
        want = torch.autograd.grad(loss, weights)
    with found.cache(model) as cache:
        first = model(x[:, :20], past_key_values=cache).logits
        logits = torch.cat([first, model(x[:, 20:], past_key_values=cache).logits], 1)
        mine = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), x[:, 1:].flatten())
    got = torch.autograd.grad(mine, weights)
    assert mine.item() == pytest.approx(loss.item(), rel=1e-5)
    for one, other in zip(got, want, strict=True):
        assert gap(one, other) <= 1e-4


def test_half_precision_and_float64() -> None:
    for dtype, bound in ((torch.float64, 1e-6), (torch.bfloat16, 5e-2)):
        model, x = build("LlamaForCausalLM").to(dtype), zoo.ids(LENGTH, 1)
        found = planned(model, 3)
        with found.cache(model) as cache:
            assert gap(read(model, cache, x, (30, *(1,) * 7)), wanted(model, found, x)) <= bound
            assert cache.bytes == found.bytes


def state(model: nn.Module) -> tuple:
    """What a context could leave behind."""
    return (
        AttentionInterface.get_interface,
        model.config.to_dict(),
        model.config._attn_implementation,
        [sorted(vars(module)) for module in model.modules()],
        [len(module._forward_pre_hooks) for module in model.modules()],
    )


def test_nothing_stays_after_the_context_or_an_exception() -> None:
    model, x = build("LlamaForCausalLM"), zoo.ids(LENGTH, 1)
    found, before = planned(model, 3), state(model)
    want = wanted(model, replace(found, cut=0), x)
    for _ in range(20):
        with pytest.raises(RuntimeError, match="in the context"):
            _break_off(model, found, x)
        assert state(model) == before
    with torch.no_grad():
        assert torch.equal(model(x).logits, want)


def _break_off(model: nn.Module, found: CachePlan, x: torch.Tensor) -> None:
    """A pass that fails in the first layer, what it leaves in the cache, and another failure."""
    with found.cache(model) as cache:
        hook = model.model.layers[0].mlp.register_forward_pre_hook(_fail)
        with pytest.raises(KeyError, match="a layer fails"):
            model(x, past_key_values=cache)
        hook.remove()
        with pytest.raises(ValueError, match=r"was broken off.* call cache.reset\(\)"):
            model(x, past_key_values=cache)
        cache.reset()
        assert gap(read(model, cache, x, (LENGTH,)), wanted(model, found, x)) <= 1e-5
        raise RuntimeError("in the context")


def _fail(*_: object) -> None:
    raise KeyError("a layer fails")


def test_two_models_and_two_threads_do_not_meet() -> None:
    """Two models of one configuration, each with its cache; a third runs as it is."""
    models = [build("LlamaForCausalLM"), build("LlamaForCausalLM"), build("GPT2LMHeadModel")]
    config = models[0].config
    with torch.no_grad():
        models[1].config = config
        for weight in models[1].parameters():
            weight.mul_(1.1)
    x = zoo.ids(LENGTH, 2)
    first, second = planned(models[0], 3), planned(models[1], 2, size=6)
    want = [wanted(models[0], first, x), wanted(models[1], second, x)]
    plain = models[2](x).logits
    with first.cache(models[0]) as one, second.cache(models[1]) as two:
        got: dict[int, torch.Tensor] = {}
        steps = (20, *(1,) * 17)

        def run(place: int, model: nn.Module, cache: object) -> None:
            got[place] = read(model, cache, x, steps)

        pairs = [(0, models[0], one), (1, models[1], two)]
        threads = [threading.Thread(target=run, args=pair) for pair in pairs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert torch.equal(models[2](x).logits, plain)
        one.reset()
        with pytest.raises(ValueError, match="this cache is of another model"):
            models[1](x, past_key_values=one)
    for place in range(2):
        assert gap(got[place], want[place]) <= 1e-5


def test_two_plans_of_one_model_at_once() -> None:
    model, x = build("LlamaForCausalLM"), zoo.ids(LENGTH, 1)
    first, second = planned(model, 1), planned(model, 4, size=6)
    with first.cache(model) as one, second.cache(model) as two:
        for found, cache in ((first, one), (second, two)):
            assert gap(read(model, cache, x, (30, 7)), wanted(model, found, x)) <= 1e-5


def test_the_engine_and_the_cache_work_together() -> None:
    model, x = build("Qwen3NextForCausalLM"), zoo.ids(LENGTH, 1)
    found = planned(model, 1)
    with torch.no_grad(), found.cache(model) as cache, running(model) as report:
        got = torch.cat(
            [model(part, past_key_values=cache).logits for part in x.split([30, 1, 6], -1)], 1
        )
    assert gap(got, wanted(model, found, x)) <= 1e-5
    assert any(layer.calls for layer in report.layers.values())


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("GPTJForCausalLM", "does not ask AttentionInterface for its attention"),
        ("BloomForCausalLM", "does not ask AttentionInterface for its attention"),
        ("FalconH1ForCausalLM", "keeps its keys in a LinearAttentionAndFullAttentionLayer"),
    ],
)
def test_classes_that_keep_their_past_otherwise_are_refused(name: str, words: str) -> None:
    model = build(name)
    with pytest.raises(ValueError, match=words), planned(model, 1).cache(model):
        pass


def test_a_plan_for_another_model_is_refused() -> None:
    found = planned(build("LlamaForCausalLM"), 2)
    told = r"has no layer model\.layers.*; a plan is for its own model"
    with pytest.raises(ValueError, match=told), found.cache(build("GPT2LMHeadModel")):
        pass
    with pytest.raises(ValueError, match="a cache needs a torch"), found.cache("model"):
        pass
    told = "does not keep its past in transformers"
    with pytest.raises(ValueError, match=told), found.cache(nn.Linear(2, 2)):
        pass
    wider = build("LlamaForCausalLM", num_key_value_heads=4)
    told = "caches 4 heads, the plan has 2"
    with pytest.raises(ValueError, match=told), found.cache(wider) as cache:
        wider(zoo.ids(LENGTH, 1), past_key_values=cache)


def test_a_compiled_model_is_refused() -> None:
    model = build("LlamaForCausalLM")
    found = planned(model, 2)
    with pytest.raises(ValueError, match="is compiled"), found.cache(torch.compile(model)):
        pass


def test_a_pass_that_the_cache_does_not_follow_is_refused() -> None:
    model, x = build("LlamaForCausalLM"), zoo.ids(LENGTH, 1)
    with planned(model, 2).cache(model) as cache:
        for given in ({}, {"use_cache": False}, {"past_key_values": transformers.DynamicCache()}):
            with pytest.raises(ValueError, match=r"each pass takes the cache"):
                model(x, **given)
        with pytest.raises(ValueError, match="neither compiled nor traced"):
            trace(model, x, past_key_values=cache)
        assert len(trace(model, x)) == 2  # by itself it looks at the model as it is
        cache.reset()
        blocks = torch.ones(LENGTH, LENGTH).tril()
        blocks[20:, :20] = 0
        with pytest.raises(ValueError, match="as packed documents and blocks do"):
            model(x, attention_mask=blocks.bool()[None, None], past_key_values=cache)
        cache.reset()
        with pytest.raises(ValueError, match="no output_attentions"):
            model(x, past_key_values=cache, output_attentions=True)
        cache.reset()
        per_head = torch.ones(1, 4, LENGTH, LENGTH).tril().bool()
        with pytest.raises(ValueError, match="is not one for all heads"):
            model(x, attention_mask=per_head, past_key_values=cache)


def test_a_way_of_attending_that_the_cache_cannot_cut_is_refused() -> None:
    x = zoo.ids(LENGTH, 1)
    found = planned(build("LlamaForCausalLM"), 2)
    dropping = build("LlamaForCausalLM", attention_dropout=0.1)
    with found.cache(dropping.train()) as cache, pytest.raises(ValueError, match="dropout is at"):
        dropping(x, past_key_values=cache)
    own = build("LlamaForCausalLM")  # flex_attention compiles its mask before the same refusal
    AttentionInterface.register("own", transformers.AttentionInterface()["sdpa"])
    own.set_attn_implementation("own")
    with found.cache(own) as cache, pytest.raises(ValueError, match="runs as 'own'"):
        own(x, past_key_values=cache)


@pytest.mark.dear("torch.compile traces and lowers each graph")
@pytest.mark.reads(LENS)
@pytest.mark.parametrize("layers", [1, 2])
def test_a_model_that_is_compiled_within_the_context_is_refused(layers: int) -> None:
    model, x = build("LlamaForCausalLM", num_hidden_layers=layers), zoo.ids(LENGTH, 1)
    compiled = torch.compile(model, backend="eager")
    with planned(model, 1).cache(model) as cache, pytest.raises(Exception, match="compiled"):
        compiled(x, past_key_values=cache)
    torch.compiler.reset()


def test_gradient_checkpointing_is_refused() -> None:
    model, x = build("LlamaForCausalLM").train(), zoo.ids(LENGTH, 1)
    model.gradient_checkpointing_enable()
    found = planned(model.eval(), 2)
    model.train()
    with found.cache(model) as cache, pytest.raises(ValueError, match="each pass takes the cache"):
        model(x, past_key_values=cache)
