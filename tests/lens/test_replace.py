"""Interventions: exact in every class, for the heads that they name, and gone afterwards."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import zoo
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional
from torch.nn.functional import scaled_dot_product_attention as attend

from coefdyn import evolution, normalizer, readout
from coefdyn.lab.places import data_folder
from coefdyn.lab.scripts import lens_models
from coefdyn.lens import (
    effects,
    patched,
    replaced,
    torch_operations,
    trace,
    using,
    window,
    without_decay,
    without_erasure,
)
from coefdyn.lens.change.replace import OUTPUTS, _takes
from coefdyn.models import ModelConfig, SequenceModel


def run(model: nn.Module, x: torch.Tensor, changes: dict | None = None, **kwargs) -> torch.Tensor:
    """Logits with some changes."""
    with torch.no_grad(), torch_operations(model):
        if changes is None:
            return model(x, **kwargs).logits
        with replaced(model, changes):
            return model(x, **kwargs).logits


def gap(mine: torch.Tensor, theirs: torch.Tensor) -> float:
    return ((mine - theirs).abs().max() / theirs.abs().max()).item()


def hooks_of(model: nn.Module) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


def projection_of(model: nn.Module, name: str, channels: int) -> nn.Module:
    """The only module below, or beside, a mixer that is named as an output projection."""
    for place in (name, name.rpartition(".")[0]):
        found = [
            part
            for key, part in model.get_submodule(place).named_modules()
            if key.rpartition(".")[2] in OUTPUTS and _takes(part) == channels
        ]
        if found:
            (one,) = found
            return one
    raise AssertionError(name)


@pytest.mark.parametrize("name", zoo.EVERY)
def test_the_identity_changes_nothing(name: str) -> None:
    model, x = zoo.build(name), zoo.ids()
    want = run(model, x)
    assert gap(run(model, x, {"*": lambda design: design}), want) <= 1e-6
    assert torch.equal(run(model, x), want) and hooks_of(model) == 0


@pytest.mark.parametrize("name", [name for name in zoo.EVERY if name != "xLSTMForCausalLM"])
def test_the_identity_changes_nothing_in_bfloat16(name: str) -> None:
    """Not one bit: what a change leaves alone is never rounded again."""
    model, x = zoo.build(name).bfloat16(), zoo.ids()
    assert torch.equal(run(model, x, {"*": lambda design: design}), run(model, x))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_change_in_half_precision_is_that_of_float32_rounded(dtype: torch.dtype) -> None:
    model, x = zoo.build("LlamaForCausalLM"), zoo.ids()
    changes = {(0, 1): window(5, sink=2), (1, 0): "ablate"}
    wide, half = run(model, x, changes), run(zoo.build("LlamaForCausalLM").to(dtype), x, changes)
    assert half.dtype == dtype
    assert gap(wide, run(model, x)) > 0.1 and gap(half.float(), wide) <= 0.05


@pytest.mark.parametrize("name", zoo.NAMES)
def test_ablating_a_head_zeroes_its_slice_of_the_output_projection(name: str) -> None:
    model, x = zoo.build(name), zoo.ids()
    last = {layer.mechanism: layer for layer in trace(model, x)}
    for layer in last.values():
        head, width = layer.heads - 1, layer.values.shape[-1]
        got = run(model, x, {(layer.name, head): "ablate"})
        place = layer.name.partition(" ")[0]
        weight = projection_of(model, place, layer.heads * width).weight
        kept, slice_ = weight.detach().clone(), slice(head * width, (head + 1) * width)
        with torch.no_grad():
            if "GPT2" in name:
                weight[slice_] = 0
            else:
                weight[:, slice_] = 0
        want = run(model, x)
        with torch.no_grad():
            weight.copy_(kept)
        assert gap(want, run(model, x)) > 1e-4  # the head does something
        # a module that runs at several places has one weight for all of them
        if name != "Zamba2ForCausalLM" or layer.mechanism != "softmax attention":
            assert gap(got, want) <= 1e-6, layer


#: without a norm that spans heads between y and the projection
APART = ("LlamaForCausalLM", "GPT2LMHeadModel", "Qwen3NextForCausalLM", "KimiLinearForCausalLM")


@pytest.mark.parametrize("name", [*APART, "MambaForCausalLM"])
def test_the_slice_of_the_projection_is_that_of_the_silenced_head(name: str) -> None:
    model, x = zoo.build(name), zoo.ids()
    for layer in {layer.mechanism: layer for layer in trace(model, x)}.values():
        width, heard = layer.values.shape[-1], []
        projection = projection_of(model, layer.name, layer.heads * width)
        hook = projection.register_forward_pre_hook(lambda _, i, heard=heard: heard.append(i[0]))
        run(model, x)
        hook.remove()
        with torch.no_grad(), replaced(model, {(layer.name, 1): "silence"}):
            # behind the hooks of the context, which may change what enters
            hook = projection.register_forward_pre_hook(
                lambda _, i, heard=heard: heard.append(i[0])
            )
            model(x)
            hook.remove()
        changed = (heard[0] != heard[1]).flatten(0, -2).any(0).unflatten(-1, (-1, width)).any(-1)
        assert changed.nonzero().flatten().tolist() == [1], layer


def test_grouped_keys_are_changed_by_the_heads_of_the_queries() -> None:
    model, x = zoo.build("LlamaForCausalLM"), zoo.ids()  # four heads of two keys
    seen = trace(model, x)
    two = {(0, 1): "ablate", (0, 3): "ablate"}
    assert torch.equal(run(model, x, two), run(model, x, {(seen[0].name, (1, 3)): "ablate"}))
    with torch.no_grad(), replaced(model, {(0, 1): "silence"}):
        after = trace(model, x)
    assert torch.equal(after[0].output, seen[0].output)  # what it computed, before the change
    assert after[1].error <= 1e-5 and not torch.equal(after[1].values, seen[1].values)


def test_a_design_is_replaced_as_the_equation_says() -> None:
    model, x = zoo.build("Qwen3NextForCausalLM"), zoo.ids()
    layer = trace(model, x)[0]
    heard: list[torch.Tensor] = []
    norm = model.get_submodule(layer.name).norm
    for change in (without_erasure, without_decay, lambda d: replace(d, scaling=2.0 * d.scaling)):
        want = layer.output.clone()
        want[:, 2] = change(layer.dynamics).apply(layer.values)[:, 2]
        with torch.no_grad(), replaced(model, {(0, 2): change}):
            hook = norm.register_forward_pre_hook(lambda _, inputs: heard.append(inputs[0]))
            model(x)
            hook.remove()
        got = heard[-1].reshape(2, 37, 4, -1).transpose(1, 2)
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5 * want.abs().max().item())


def test_without_decay_is_the_structure_with_its_decay_at_one() -> None:
    d = trace(zoo.build("Mamba2ForCausalLM"), zoo.ids())[0].dynamics
    assert isinstance(without_decay(d).evolution, evolution.Identity)
    falcon = trace(zoo.build("FalconForCausalLM with ALiBi"), zoo.ids())[0].dynamics
    assert falcon.outer_log_decay is not None and without_decay(falcon).outer_log_decay is None
    k = functional.normalize(torch.randn(1, 2, 9, 4), dim=-1)
    g, beta = -torch.rand(1, 2, 9, 4), torch.rand(1, 2, 9)
    kda = evolution.DiagonalPlusRankOne(log_decay=g, left=beta[..., None] * k, right=g.exp() * k)
    both = [
        replace(d, q=k, k=k, scaling=1.0, own=None, evolution=one)
        for one in (kda, evolution.Householder(direction=k, beta=beta))
    ]
    torch.testing.assert_close(
        without_decay(both[0]).coefficients(), both[1].coefficients(), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("change", ["mean", window(4, sink=2), window(5), "without erasure"])
@pytest.mark.parametrize("name", ["LlamaForCausalLM", "Qwen3NextForCausalLM", "Mamba2ForCausalLM"])
def test_padding_is_no_part_of_a_change(name: str, change: object, side: str) -> None:
    """Each sequence of a padded batch as by itself; the mean is that of all real tokens."""
    model = zoo.build(name)
    rows = [zoo.ids(length, 1, seed=length) for length in (23, 17)]
    pad = (6, 0) if side == "left" else (0, 6)
    x = torch.cat([rows[0], functional.pad(rows[1], pad, value=5)])
    real = torch.ones_like(x)
    real[1] = functional.pad(torch.ones_like(rows[1][0]), pad)
    got = run(model, x, {(0, 1): change}, attention_mask=real)
    place = real[1].bool()
    if change == "mean":
        noise = x.clone()
        noise[1, ~place] = 7  # another padding
        same = run(model, noise, {(0, 1): change}, attention_mask=real)
        assert gap(same[real.bool()], got[real.bool()]) <= 1e-5
        return
    for mine, ids in ((got[0], rows[0]), (got[1][place], rows[1])):
        assert gap(mine, run(model, ids, {(0, 1): change})[0]) <= 1e-5


def test_packed_documents_stay_apart_under_a_window_with_a_sink() -> None:
    model = zoo.build("LlamaForCausalLM")
    model.set_attn_implementation("eager")
    rows = [zoo.ids(length, 1, seed=length) for length in (20, 16)]
    number = torch.tensor([0] * 20 + [1] * 16)
    pairs = ((number[:, None] == number) & torch.ones(36, 36).bool().tril())[None, None]
    mask = torch.zeros(pairs.shape).masked_fill(~pairs, torch.finfo(torch.float32).min)
    positions = torch.cat([torch.arange(20), torch.arange(16)])[None]
    packed = {"attention_mask": mask, "position_ids": positions}
    change = {"*": window(4, sink=2)}
    got = run(model, torch.cat(rows, 1), change, **packed)
    for mine, ids in zip(got[0].split([20, 16]), rows, strict=True):
        causal = torch.ones(ids.shape[1], ids.shape[1]).bool().tril()[None, None]
        alone = torch.zeros(causal.shape).masked_fill(~causal, torch.finfo(torch.float32).min)
        assert gap(mine, run(model, ids, change, attention_mask=alone)[0]) <= 1e-5


def test_a_window_reads_the_last_tokens_and_the_sink() -> None:
    """A window of everything changes nothing, one of one token is its own value."""
    model, x = zoo.build("LlamaForCausalLM"), zoo.ids()
    assert gap(run(model, x, {"*": window(37)}), run(model, x)) <= 1e-6
    seen: list[torch.Tensor] = []
    layer = trace(model, x)[0]
    with torch.no_grad(), replaced(model, {(0, 0): window(1)}):
        hook = model.model.layers[0].self_attn.o_proj.register_forward_pre_hook(
            lambda _, inputs: seen.append(inputs[0])
        )
        model(x)
        hook.remove()
    torch.testing.assert_close(seen[0][..., :8], layer.values[:, 0], rtol=1e-4, atol=1e-5)
    assert torch.equal(seen[0][..., 8:], layer.output.transpose(1, 2).flatten(2)[..., 8:])


def test_patching_from_another_run() -> None:
    model, x, y = zoo.build("Qwen3NextForCausalLM"), zoo.ids(), zoo.ids(seed=1)
    own, other = trace(model, x), trace(model, y)
    want = run(model, x)
    for part in ("output", "values", "coefficients"):
        assert gap(run(model, x, {"*": patched(own, part)}), want) <= 1e-6
        assert gap(run(model, x, {(0, 1): patched(other, part)}), want) > 1e-4
    # all heads of the last layer from another run: only what skips the layer is left of this one
    heard: list[torch.Tensor] = []
    with torch.no_grad(), replaced(model, {3: patched(other)}):
        hook = model.model.layers[3].self_attn.o_proj.register_forward_pre_hook(
            lambda _, inputs: heard.append(inputs[0])
        )
        seen = trace(model, x)
        hook.remove()
    assert torch.equal(seen[3].output, own[3].output) and not torch.equal(
        seen[3].output, other[3].output
    )
    assert len(heard) == 1
    with pytest.raises(ValueError, match="same batch and length"):
        run(model, x[:, :20], {0: patched(other)})


def test_another_readout_and_normalizer() -> None:
    model, x = zoo.build("LlamaForCausalLM"), zoo.ids()
    same = {"*": using(readout=readout.exp, normalizer=normalizer.RowSum())}
    assert gap(run(model, x, same), run(model, x)) <= 1e-6
    changed = run(model, x, {0: using(readout=readout.softplus)})
    assert torch.isfinite(changed).all() and gap(changed, run(model, x)) > 1e-3
    with pytest.raises(ValueError, match="changes nothing"):
        using()


def test_contexts_nest() -> None:
    model, x = zoo.build("GPT2LMHeadModel"), zoo.ids()
    with torch.no_grad():
        with replaced(model, {(0, 0): "ablate"}), replaced(model, {(1, 2): "silence"}):
            both = model(x).logits
            with replaced(model, {(0, 0): lambda d: d}):
                assert torch.equal(model(x).logits, both)
        assert torch.equal(run(model, x, {(0, 0): "ablate", (1, 2): "silence"}), both)
        with replaced(model, {(0, 0): "silence"}), replaced(model, {(0, 0): lambda d: d}):
            assert torch.equal(model(x).logits, run(model, x))  # the inner one holds
    assert hooks_of(model) == 0


def test_nothing_is_left_behind_after_an_exception() -> None:
    model, x = zoo.build("Qwen3NextForCausalLM"), zoo.ids()
    want = run(model, x)

    def stop(_: object) -> None:
        raise RuntimeError("stopped")

    for changes in ({0: stop}, {0: "ablate", 3: stop}):
        with pytest.raises(RuntimeError, match="stopped"):
            run(model, x, changes)
        assert hooks_of(model) == 0 and torch.equal(run(model, x), want)


def test_this_library_s_own_mixers() -> None:
    torch.manual_seed(0)
    config = ModelConfig(width=16, layers=2, mixer="GatedDeltaNet", options={"n_heads": 2})
    model, x = SequenceModel(config, vocab=zoo.VOCAB), zoo.ids()
    with torch.no_grad():
        want = model(x)
        with replaced(model, {"*": lambda d: d}):
            assert gap(model(x), want) <= 1e-6
        for change in ("ablate", "silence", "mean", "without erasure"):
            with replaced(model, {(0, 1): change}):
                assert gap(model(x), want) > 1e-5, change


class FromTorch(nn.Module):
    """A block of students: torch's attention by an imported name, or ``nn.MultiheadAttention``."""

    def __init__(self, whole: bool) -> None:
        super().__init__()
        self.into, self.out_proj = nn.Linear(16, 48), nn.Linear(16, 16)
        self.whole = nn.MultiheadAttention(16, 4, batch_first=True) if whole else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.whole is not None:
            mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
            return self.whole(x, x, x, attn_mask=mask, is_causal=True, need_weights=False)[0]
        q, k, v = self.into(x).unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4)
        y = attend(q, k, v, is_causal=True)
        return self.out_proj(y.transpose(1, 2).flatten(2))


@pytest.mark.parametrize("whole", [False, True])
def test_attention_of_torch(whole: bool) -> None:
    torch.manual_seed(0)
    model, x = FromTorch(whole).eval(), torch.randn(2, 9, 16)
    projection = model.out_proj if model.whole is None else model.whole.out_proj
    with torch.no_grad():
        want = model(x)
        with replaced(model, {0: lambda d: d}):
            assert gap(model(x), want) <= 1e-6
            seen = trace(model, x)  # hears below the context
            assert seen[0].error <= 1e-5
        with replaced(model, {(0, 2): "ablate"}), replaced(model, {(0, 0): lambda d: d}):
            got = model(x)
        projection.weight[:, 8:12] = 0
        assert gap(got, model(x)) <= 1e-6 < gap(got, want)


@pytest.mark.parametrize("name", ["LlamaForCausalLM", "Qwen3NextForCausalLM", "Mamba2ForCausalLM"])
def test_generation_with_and_without_a_cache(name: str) -> None:
    model, x = zoo.build(name), zoo.ids(11, 1)
    options = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}

    def told(changes: dict, cached: bool) -> torch.Tensor:
        with torch.no_grad(), replaced(model, changes):
            made = model.generate(
                x, use_cache=cached, output_logits=True, return_dict_in_generate=True, **options
            )
            return torch.stack(made.logits)

    ablated = {(0, 1): "ablate", (1, 0): "ablate"}
    plain, cached = told(ablated, False), told(ablated, True)
    assert gap(cached, plain) <= 1e-5
    assert gap(told({}, True), plain) > 1e-4
    change = {0: window(3, sink=1)}
    plain = told(change, False)
    if name == "LlamaForCausalLM":
        assert gap(told(change, True), plain) <= 1e-5
    else:
        with pytest.raises(ValueError, match="use_cache=False"):
            told(change, True)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({9: "ablate"}, "no layer 9 ran"),
        ({"model.layers.0.self_atn": "ablate"}, "did you mean 'model.layers.0.self_attn'"),
        ({(0, 4): "ablate"}, "heads 0 to 3, got 4"),
        ({(0, -1): "ablate"}, "a number from 0"),
        ({(0, 1): "ablate", 0: "silence"}, "named twice"),
        ({0: "ablat"}, "did you mean 'ablate'"),
        ({0: 3}, "a function from a design to a design"),
        ({0: lambda d: None}, "must return a CoefficientDynamics"),
        ({0: lambda d: d.narrow(0, 5)}, "keep the length"),
        ({None: "ablate"}, "a layer is a number"),
        ([0], "a mapping"),
    ],
)
@pytest.mark.usefixtures("no_shape_checks")
def test_what_cannot_be_done_is_said(changes: object, words: str) -> None:
    model = zoo.build("LlamaForCausalLM")
    with pytest.raises(ValueError, match=words):
        run(model, zoo.ids(), changes)
    assert hooks_of(model) == 0


def facts_model() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    model = lens_models.build_model().eval()
    model.load_state_dict(load_file(data_folder() / "lens" / "facts.safetensors"))
    config = lens_models.FactsConfig(batch=64)
    ids, answers = lens_models.facts(config, torch.Generator().manual_seed(10_000))
    return model, ids, answers


def test_one_head_alone_answers_every_question() -> None:
    """In the small model of the chapter: the cause, where a map only shows where heads look."""
    model, ids, answers = facts_model()
    asked = answers != -100

    def accuracy(output) -> float:
        return (output.logits.argmax(-1) == answers)[asked].double().mean().item()

    rows = effects(model, ids, metric=accuracy, use_cache=False, progress=False)
    first, second = (layer.name for layer in trace(model, ids[:1], use_cache=False))
    by_head = {(row["layer"], row["head"]): row["metric"] for row in rows}
    answers_all = min(by_head, key=by_head.get)
    assert answers_all[0] == first and by_head[answers_all] < 0.4
    assert all(value > 0.99 for head, value in by_head.items() if head != answers_all)
    heads = {layer: sum(1 for one, _ in by_head if one == layer) for layer in (first, second)}
    others = tuple(head for head in range(heads[first]) if head != answers_all[1])
    alone = {(first, others): "ablate", second: "ablate"}
    (row,) = effects(
        model, ids, changes={"alone": alone}, metric=accuracy, use_cache=False, progress=False
    )
    assert row["changes"] == "alone" and row["metric"] > 0.99


@pytest.mark.parametrize("name", ["loss", "head", "logit_change"])
def test_a_metric_overwrites_no_column(name: str) -> None:
    model, ids, _ = facts_model()
    with pytest.raises(ValueError, match=f"'{name}' would overwrite the column"):
        effects(model, ids, metric=lambda output: {name: 0.0}, use_cache=False, progress=False)
    twice = {"a": 0.0, "a_change": 0.0}
    with pytest.raises(ValueError, match="'a_change' would overwrite the column"):
        effects(model, ids, metric=lambda _: twice, use_cache=False, progress=False)


#: a head of this class -> changes that find nothing there, and what is said
NOTHING = {
    "LlamaForCausalLM": {
        "no decay in softmax attention": (without_decay, "without decay"),
        "no erasure in softmax attention": (without_erasure, "without erasure"),
        "already readout exp in softmax attention": (using(readout=readout.exp),),
    },
    "Mamba2ForCausalLM": {
        "no erasure in mamba-2": (without_erasure, "without erasure"),
        "already readout identity, normalizer One in mamba-2": (
            using(readout=readout.identity, normalizer=normalizer.One()),
        ),
    },
}


@pytest.mark.parametrize("name", NOTHING)
def test_a_change_with_nothing_to_change_is_a_missing_value(name: str) -> None:
    model, x = zoo.build(name), zoo.ids(12)
    want = run(model, x)
    for words, changes in NOTHING[name].items():
        for change in changes:
            with pytest.warns(UserWarning, match=f"changed nothing: {words}"):
                assert torch.equal(run(model, x, {0: change}), want)
            row = effects(model, x, changes={"set": {(0, 1): change}}, progress=False)[0]
            assert row["note"] == words
            assert row["logit_change"] != row["logit_change"] and row["loss_change"] != 0.0
    row = effects(model, x, changes=changes[0], metric=lambda _: 3.0, layers=[0], progress=False)[0]
    assert row["metric"] == 3.0 and row["metric_change"] != row["metric_change"]
    both = {"set": {(0, 1): change, (1, 1): "ablate"}}
    row = effects(model, x, changes=both, progress=False)[0]
    assert "note" not in row and row["logit_change"] > 0


@pytest.mark.filterwarnings("error::UserWarning")
def test_a_change_of_all_layers_is_quiet_where_one_has_it() -> None:
    """A hybrid's softmax layers have no erasure; its others do."""
    model, x = zoo.build("Qwen3NextForCausalLM"), zoo.ids(12)
    assert (run(model, x, {"*": "without erasure"}) != run(model, x)).any()


def test_effects_leave_padding_out_and_say_what_was_done() -> None:
    model, x = zoo.build("LlamaForCausalLM"), zoo.ids(12)
    real = torch.ones_like(x)
    real[0, :4] = 0
    other = x.clone()
    other[0, :4] = 9
    rows = [effects(model, one, attention_mask=real, progress=False) for one in (x, other)]
    assert len(rows[0]) == 2 * 4
    for mine, theirs in zip(*rows, strict=True):
        assert mine["layer"] == theirs["layer"] and mine["change"] == "ablate"
        assert mine["logit_change"] > 1e-4
        for key in ("logit_change", "loss_change"):
            assert mine[key] == pytest.approx(theirs[key], rel=1e-3, abs=1e-5)
    logits, changed = run(model, x), run(model, x, {(1, 2): "ablate"})
    loss = [
        functional.cross_entropy(one[:, :-1].flatten(0, 1), x[:, 1:].flatten()).item()
        for one in (logits, changed)
    ]
    row = effects(model, x, layers=[1], progress=False)[2]
    assert row["loss_change"] == pytest.approx(loss[1] - loss[0], abs=1e-5)
    assert row["logit_change"] == pytest.approx(gap(changed, logits), rel=1e-5)
    with torch.no_grad():
        cache = model(x, use_cache=True).past_key_values
    with pytest.raises(ValueError, match="call effects without it"):
        effects(model, x, past_key_values=cache)
