"""What transformers asks of a decoder in the common tests of its own models, line by line.

Each line is passed, or refused with a reason that the reference page gives. Lines that need a GPU,
a network or a class of another kind of model (encoders, images) are left out. One table, and
therefore one file of more than 400 lines.
"""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

transformers = pytest.importorskip("transformers", reason="the extra lens is not installed")

from transformers import (  # noqa: E402
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    GenerationMixin,
)

from coefdyn.models import ModelConfig  # noqa: E402
from coefdyn.models.hugging_face import CoefdynConfig, CoefdynForCausalLM  # noqa: E402

PAGE = Path(__file__).parents[2] / "book" / "api" / "hugging_face.md"
VOCAB = 23
CLOSE = {"rtol": 1e-5, "atol": 1e-5}
Line = Callable[[Path], object]
PASSED: dict[str, Line] = {}
#: line -> (what is tried, the words of the error; None where nothing is raised, the page's reason)
REFUSED: dict[str, tuple[Line, str | None, str]] = {}


def config(**given: Any) -> CoefdynConfig:
    options = {"width": 16, "layers": 2, "mlp": 24, "options": {"n_heads": 2}}
    sizes = ModelConfig(mixer=("GatedDeltaNet", "SoftmaxAttention"), **options)
    return CoefdynConfig(model=sizes, vocab_size=VOCAB, **given)


def build(**given: Any) -> CoefdynForCausalLM:
    torch.manual_seed(0)
    return CoefdynForCausalLM(config(**given)).eval()


def ids(rows: int = 2) -> torch.Tensor:
    return torch.randint(1, VOCAB, (rows, 9), generator=torch.Generator().manual_seed(1))


def left() -> torch.Tensor:
    """A mask that pads the first row on the left."""
    mask = torch.ones(2, 9, dtype=torch.int64)
    mask[0, :3] = 0
    return mask


def run(model: CoefdynForCausalLM, x: torch.Tensor, **how: Any) -> Any:
    plain = {"max_new_tokens": 5, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    plain["attention_mask"] = torch.ones_like(x)
    return model.generate(x, **{**plain, **how})


def trainer_of(folder: Path, **asked: Any) -> tuple[Any, list[dict[str, torch.Tensor]]]:
    """A Trainer that evaluates the model, and its data."""
    pytest.importorskip("accelerate", reason="the extra test is not installed")
    data = [{"input_ids": row, "labels": row} for row in ids(4)]
    asked |= {"per_device_eval_batch_size": 2, "report_to": [], "use_cpu": True}
    arguments = transformers.TrainingArguments(str(folder), disable_tqdm=True, **asked)
    return transformers.Trainer(model=build(), args=arguments, eval_dataset=data), data


def passes(name: str) -> Callable[[Line], Line]:
    return lambda tried: PASSED.setdefault(name, tried)


def refuses(name: str, words: str | None, reason: str) -> Callable[[Line], object]:
    return lambda tried: REFUSED.setdefault(name, (tried, words, reason))


def same(mine: CoefdynForCausalLM, other: CoefdynForCausalLM) -> None:
    torch.testing.assert_close(mine(ids()).logits, other(ids()).logits, **CLOSE)


# --- configuration and files ---


@passes("a configuration comes back from its dict, its text and its file")
def _(folder: Path) -> None:
    one = config()
    one.save_pretrained(folder)
    back = CoefdynConfig.from_pretrained(folder)
    for other in (back, CoefdynConfig.from_dict(one.to_dict())):
        assert other.to_dict() == back.to_dict() and other.model == one.model
    assert '"model_type": "coefdyn"' in one.to_json_string()


@passes("sizes are read and set under the usual names")
def _(_: Path) -> None:
    one = config()
    found = (one.hidden_size, one.num_hidden_layers, one.num_attention_heads, one.vocab_size)
    assert found == (16, 2, 2, VOCAB)
    one.hidden_size, one.num_hidden_layers, one.num_attention_heads = 8, 3, 4
    found = CoefdynForCausalLM(one)(ids(), output_hidden_states=True, output_attentions=True)
    assert found.hidden_states[3].shape[2] == 8 and found.attentions[1].shape[1] == 4
    told = CoefdynConfig(hidden_size=8, num_hidden_layers=3, num_attention_heads=4)
    assert (told.hidden_size, told.num_hidden_layers, told.num_attention_heads) == (8, 3, 4)


@passes("weights are saved and loaded")
def _(folder: Path) -> None:
    build().save_pretrained(folder)
    back, info = CoefdynForCausalLM.from_pretrained(folder, output_loading_info=True)
    assert not any(info.values())
    same(back, build())


@passes("weights are loaded from a dict, without a checkpoint")
def _(_: Path) -> None:
    model = build()
    back = CoefdynForCausalLM.from_pretrained(
        None, config=model.config, state_dict=model.state_dict()
    )
    same(back, model)


@passes("weights are loaded in a dtype")
def _(folder: Path) -> None:
    build().save_pretrained(folder)
    for dtype in (torch.bfloat16, "float16"):
        back = CoefdynForCausalLM.from_pretrained(folder, dtype=dtype)
        assert str(dtype).endswith(str(back.dtype).removeprefix("torch."))


@passes("a dtype under its old name, as that of the file, and in a configuration")
def _(folder: Path) -> None:
    build().to(torch.bfloat16).save_pretrained(folder)
    assert CoefdynForCausalLM.from_pretrained(folder, dtype="auto").dtype == torch.bfloat16
    assert CoefdynForCausalLM.from_pretrained(folder, torch_dtype="float16").dtype == torch.float16
    made = AutoModelForCausalLM.from_config(config(dtype="bfloat16"))
    assert made.dtype == torch.bfloat16


@passes("a device map, with parts on the disk")
def _(folder: Path) -> None:
    pytest.importorskip("accelerate", reason="the extra test is not installed")
    build().save_pretrained(folder / "model")
    places = {f"model.{part}": "cpu" for part in ("embedding", "blocks.0", "norm", "head")}
    for places_of in ("auto", {**places, "model.blocks.1": "disk"}):
        back = CoefdynForCausalLM.from_pretrained(
            folder / "model", device_map=places_of, offload_folder=folder / "offloaded"
        )
        same(back, build())
    assert next(back.model.blocks[1].parameters()).device.type == "meta"
    assert torch.equal(run(back, ids()), run(build(), ids()))


@passes("a model is built on the meta device, and under a device")
def _(folder: Path) -> None:
    with torch.device("meta"):
        assert CoefdynForCausalLM(config())(ids().to("meta"), use_cache=False).logits.is_meta
    build().save_pretrained(folder)
    with torch.device("cpu"):
        same(CoefdynForCausalLM.from_pretrained(folder), build())


@passes("tied weights are one, are saved once, and may be untied")
def _(folder: Path) -> None:
    tied = build(tie_word_embeddings=True)
    tied.save_pretrained(folder)
    back = CoefdynForCausalLM.from_pretrained(folder)
    assert back.model.head.weight is back.model.embedding.weight
    same(back, tied)
    apart = CoefdynForCausalLM.from_pretrained(folder, tie_word_embeddings=True)
    assert apart.get_output_embeddings().weight.shape == (VOCAB, 16)


@passes("all tensors are parameters or buffers")
def _(_: Path) -> None:
    model = build().to(torch.float64)
    found = {one.data_ptr() for one in (*model.parameters(), *model.buffers())}
    kept = [x for m in model.modules() for x in vars(m).values() if isinstance(x, torch.Tensor)]
    assert all(x.data_ptr() in found for x in kept) and model(ids()).logits.dtype == torch.float64


@passes("the Auto classes know it")
def _(folder: Path) -> None:
    assert isinstance(AutoModelForCausalLM.from_config(config()), CoefdynForCausalLM)
    build().save_pretrained(folder)
    same(AutoModelForCausalLM.from_pretrained(folder), build())


@refuses(
    "the Auto class of models without a head knows it",
    "Unrecognized configuration class",
    "`AutoModel`, which has no head",
)
def _(folder: Path) -> None:
    build().save_pretrained(folder)
    AutoModel.from_pretrained(folder)


@passes("weights of another shape are drawn where that is asked for, and the others loaded")
def _(folder: Path) -> None:
    for tied in (False, True):
        saved = build(tie_word_embeddings=tied)
        saved.save_pretrained(folder)
        for given in ({"vocab_size": VOCAB + 7}, {"hidden_size": 8}):
            with pytest.raises(RuntimeError, match="ignore_mismatched_sizes"):
                CoefdynForCausalLM.from_pretrained(folder, **given)
            torch.manual_seed(3)
            back, info = AutoModelForCausalLM.from_pretrained(
                folder, ignore_mismatched_sizes=True, output_loading_info=True, **given
            )
            torch.manual_seed(3)
            new = CoefdynForCausalLM(back.config).state_dict()
            old, found = saved.state_dict(), back.state_dict()
            other = {name for name in new if new[name].shape != old[name].shape}
            assert {one[0] for one in info["mismatched_keys"]} | {"model.head.weight"} == other
            assert {"model.embedding.weight", "model.head.weight"} <= other and other != set(new)
            for name, weight in found.items():
                assert torch.equal(weight, (new if name in other else old)[name])
            assert (back.model.head.weight is back.model.embedding.weight) == tied
            assert back(ids()).logits.shape[-1] == given.get("vocab_size", VOCAB)


@refuses(
    "weights that a checkpoint lacks are drawn",
    "holds no weights for model.norm.bias of CoefdynForCausalLM",
    "a checkpoint in which a weight is missing",
)
def _(_: Path) -> None:
    weights = build().state_dict()
    del weights["model.norm.bias"]
    CoefdynForCausalLM.from_pretrained(None, config=config(), state_dict=weights)


# --- embeddings ---


@passes("embeddings are read and set")
def _(_: Path) -> None:
    model, new = build(), torch.nn.Embedding(10, 16)
    model.set_input_embeddings(new)
    assert model.get_input_embeddings() is new and model(ids() % 10).logits.shape[-1] == VOCAB


@passes("embeddings grow and shrink, tied or not, and are saved so")
def _(folder: Path) -> None:
    for tied in (False, True):
        for size, multiple in ((VOCAB + 10, None), (VOCAB - 8, None), (VOCAB, 8)):
            model = build(tie_word_embeddings=tied)
            model.resize_token_embeddings(size, pad_to_multiple_of=multiple)
            rows = model.get_input_embeddings().weight.shape[0]
            assert rows == model.config.vocab_size == -(-size // (multiple or 1)) * (multiple or 1)
            model.save_pretrained(folder)
            got = CoefdynForCausalLM.from_pretrained(folder)(ids() % size).logits
            want, kept = build(tie_word_embeddings=tied)(ids() % size).logits, min(size, VOCAB)
            assert got.shape[-1] == rows
            torch.testing.assert_close(got[..., :kept], want[..., :kept], **CLOSE)


@passes("embeddings of ids in place of ids")
def _(_: Path) -> None:
    model = build()
    x = model.get_input_embeddings()(ids())
    torch.testing.assert_close(model(inputs_embeds=x).logits, model(ids()).logits, **CLOSE)


# --- a forward pass ---


@passes("the main input is the first argument")
def _(_: Path) -> None:
    first = list(inspect.signature(CoefdynForCausalLM.forward).parameters)[1]
    assert CoefdynForCausalLM.main_input_name == first == "input_ids"


@passes("two passes are equal, and a row of a batch is as alone")
def _(_: Path) -> None:
    model = build()
    assert torch.equal(model(ids()).logits, model(ids()).logits)
    alone = model(ids()[:1], output_hidden_states=True)
    batch = model(ids(), output_hidden_states=True)
    for mine, whole in zip(alone.hidden_states, batch.hidden_states, strict=True):
        torch.testing.assert_close(mine, whole[:1], **CLOSE)


@passes("padding on the left changes nothing")
def _(_: Path) -> None:
    padded, alone = build()(ids(), attention_mask=left()).logits, build()(ids()[:1, 3:]).logits
    torch.testing.assert_close(padded[:1, 3:], alone, **CLOSE)


@passes("hidden states are returned, by an argument and by the configuration")
def _(_: Path) -> None:
    for found in (
        build()(ids(), output_hidden_states=True),
        build(output_hidden_states=True)(ids()),
    ):
        assert [tuple(one.shape) for one in found.hidden_states] == [(2, 9, 16)] * 3


@passes("attentions are returned, by an argument and by the configuration")
def _(_: Path) -> None:
    told = build()(ids(), output_attentions=True), build(output_attentions=True)(ids())
    for found in told:
        assert [tuple(one.shape) for one in found.attentions] == [(2, 2, 9, 9)] * 2


@passes("hidden states keep their gradients")
def _(_: Path) -> None:
    found = build()(ids(), output_hidden_states=True)
    for one in found.hidden_states:
        one.retain_grad()
    found.logits.sum().backward()
    assert all(one.grad is not None for one in found.hidden_states)


@refuses("attentions keep their gradients", None, "no gradient of the loss reaches them")
def _(_: Path) -> None:
    found = build()(ids(), output_attentions=True)
    for one in found.attentions:
        one.retain_grad()
    found.logits.sum().backward()
    assert all(one.grad is None for one in found.attentions)


@passes("a tuple holds what the output holds")
def _(_: Path) -> None:
    how = {"labels": ids(), "output_hidden_states": True, "use_cache": False}
    found, plain = build()(ids(), **how), build()(ids(), return_dict=False, **how)
    assert len(plain) == len(found.to_tuple()) == 3
    assert torch.equal(plain[1], found.logits)


@passes("logits of some tokens")
def _(_: Path) -> None:
    want = build()(ids()).logits
    torch.testing.assert_close(build()(ids(), logits_to_keep=1).logits, want[:, -1:], **CLOSE)


@passes("a graph is exported")
def _(_: Path) -> None:
    model = build()
    program = torch.export.export(model, (ids(),), {"use_cache": False}, strict=False)
    torch.testing.assert_close(
        program.module()(ids(), use_cache=False).logits, model(ids()).logits, **CLOSE
    )


@refuses(
    "a mask of four axes hides any pair",
    "attention_mask must be",
    "a mask of four axes",
)
def _(_: Path) -> None:
    build()(ids(), attention_mask=torch.ones(2, 1, 9, 9))


@refuses(
    "positions that begin anew part packed documents",
    "packed documents go to",
    "takes packed documents in",
)
def _(_: Path) -> None:
    build()(ids(), position_ids=torch.arange(9)[None] % 4)


@refuses(
    "an attention implementation is chosen (sdpa, flash, flex)",
    "does not support an attention implementation",
    "`attn_implementation`",
)
def _(_: Path) -> None:
    AutoModelForCausalLM.from_config(config(), attn_implementation="sdpa")


@refuses(
    "heads for sequences, tokens and questions",
    "Unrecognized configuration class",
    "heads for classes",
)
def _(_: Path) -> None:
    AutoModelForSequenceClassification.from_config(config())


# --- training ---


@passes("every parameter gets a gradient")
def _(_: Path) -> None:
    model = build().train()
    model(ids(), attention_mask=left(), labels=ids()).loss.backward()
    assert all(one.grad is not None for one in model.parameters())


@passes("the loss counts items of a whole batch")
def _(_: Path) -> None:
    loss = build()(ids(), labels=ids()).loss
    told = build()(ids(), labels=ids(), num_items_in_batch=torch.tensor(8)).loss
    torch.testing.assert_close(told, loss * 2)


@passes("gradient checkpointing is switched on and off, with frozen embeddings too")
def _(_: Path) -> None:
    model = build().train()
    model.gradient_checkpointing_enable()
    assert model.is_gradient_checkpointing
    model.requires_grad_(False)
    model.model.blocks[0].requires_grad_(True)
    model.enable_input_require_grads()
    model(ids(), labels=ids(), use_cache=False).loss.backward()
    assert all(one.grad is not None for one in model.model.blocks[0].parameters())
    model.gradient_checkpointing_disable()
    assert not model.is_gradient_checkpointing


@passes("it learns a sentence by heart, and says it")
def _(_: Path) -> None:
    model, x = build().train(), ids(1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _step in range(60):
        loss = model(x, labels=x).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    assert loss < 0.1
    assert torch.equal(run(model.eval(), x[:, :2], max_new_tokens=7), x)


@passes("adapters are added, trained, saved and loaded by the model itself")
def _(folder: Path) -> None:
    least = transformers.integrations.peft.MIN_PEFT_VERSION
    peft = pytest.importorskip("peft", least, reason="the extra test is not installed")
    targets = [f"model.blocks.{one}.mlp.up" for one in (0, 1)]
    model = build()
    model.add_adapter(peft.LoraConfig(target_modules=targets))
    model.gradient_checkpointing_enable()
    model.train()(ids(), labels=ids()).loss.backward()
    learning = [name for name, one in model.named_parameters() if one.grad is not None]
    assert len(learning) == 4 and all("lora" in name for name in learning)
    with torch.no_grad():
        for name in learning:
            model.get_parameter(name).add_(0.1)
    model.save_pretrained(folder)
    back = build()
    back.load_adapter(str(folder))
    same(back.eval(), model.eval())
    assert (back(ids()).logits - build()(ids()).logits).abs().max() > 1e-2


@passes("Trainer evaluates it, and predicts")
def _(folder: Path) -> None:
    trainer, data = trainer_of(folder)
    loss = build()(ids(4), labels=ids(4)).loss
    assert trainer.evaluate()["eval_loss"] == pytest.approx(loss.item(), rel=1e-5)
    torch.testing.assert_close(
        torch.tensor(trainer.predict(data).predictions), build()(ids(4)).logits, **CLOSE
    )


@passes("Trainer smooths labels that it shifts")
def _(folder: Path) -> None:
    trainer, _data = trainer_of(folder, label_smoothing_factor=0.1)
    logs = build()(ids(4)).logits[:, :-1].log_softmax(-1)
    next_ = logs.gather(-1, ids(4)[:, 1:, None]).mean()
    want = -(0.9 * next_ + 0.1 * logs.mean())
    assert trainer.evaluate()["eval_loss"] == pytest.approx(want.item(), rel=1e-5)


@passes("Trainer trains it, with checkpointing, and resumes")
def _(folder: Path) -> None:
    pytest.importorskip("accelerate", reason="the extra test is not installed")
    data = [{"input_ids": row, "labels": row} for row in ids(4)]

    def trained(steps: int, **how: Any) -> CoefdynForCausalLM:
        asked = {"max_steps": steps, "save_steps": 2, "report_to": [], "logging_steps": 1}
        asked |= {"per_device_train_batch_size": 2, "disable_tqdm": True, "use_cpu": True}
        asked |= {"lr_scheduler_type": "constant", "gradient_checkpointing": True}
        arguments = transformers.TrainingArguments(str(folder), **asked)
        model = build()
        transformers.Trainer(model=model, args=arguments, train_dataset=data).train(**how)
        return model

    whole = trained(4)
    again = trained(4, resume_from_checkpoint=str(folder / "checkpoint-2"))
    for mine, other in zip(whole.parameters(), again.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=0)


# --- generation ---


@passes("it is a model that generates")
def _(_: Path) -> None:
    assert issubclass(CoefdynForCausalLM, GenerationMixin) and CoefdynForCausalLM.can_generate()


@passes("greedy, sampled, in beams, and several answers to a prompt")
def _(_: Path) -> None:
    sampled = {"do_sample": True, "num_return_sequences": 3}
    for how, rows in (
        ({}, 2),
        (sampled, 6),
        ({"num_beams": 3}, 2),
        ({"num_beams": 2, **sampled}, 6),
    ):
        how = {**how, "num_beams": 3} if rows == 6 and "num_beams" in how else how
        assert run(build(), ids(), **how).shape == (rows, 14)


@passes("a cache changes no token")
def _(_: Path) -> None:
    for how in ({}, {"num_beams": 3}, {"attention_mask": left()}):
        found = [run(build(), ids(), use_cache=one, **how) for one in (True, False)]
        assert torch.equal(*found)


@passes("scores, logits and hidden states of each step, with a cache and without")
def _(_: Path) -> None:
    wanted = ("output_scores", "output_logits", "output_hidden_states", "return_dict_in_generate")
    for use_cache in (True, False):
        for beams in (1, 2):
            how = {"use_cache": use_cache, "num_beams": beams, **dict.fromkeys(wanted, True)}
            found = run(build(), ids(), **how)
            assert len(found.scores) == len(found.logits) == len(found.hidden_states) == 5
            assert len(found.hidden_states[1]) == 3


@passes("attentions of each step, without a cache")
def _(_: Path) -> None:
    how = {"output_attentions": True, "return_dict_in_generate": True, "use_cache": False}
    found = run(build(), ids(), **how)
    assert [len(one) for one in found.attentions] == [2] * 5


@refuses(
    "attentions of each step, with a cache",
    "needs all tokens of a sequence at once",
    "`output_attentions` after a cache",
)
def _(_: Path) -> None:
    run(build(), ids(), output_attentions=True, return_dict_in_generate=True)


@passes("generation begins with nothing but a first token")
def _(_: Path) -> None:
    found = build().generate(bos_token_id=1, max_new_tokens=4, do_sample=False, pad_token_id=0)
    assert found.shape == (1, 5)


@passes("generation from embeddings")
def _(_: Path) -> None:
    model = build()
    x, how = model.get_input_embeddings()(ids()), {"max_new_tokens": 5, "do_sample": False}
    got = model.generate(inputs_embeds=x, pad_token_id=0, **how)
    assert torch.equal(got, run(model, ids())[:, 9:])
    both = run(model, ids(), inputs_embeds=x)
    assert torch.equal(both[:, -5:], got)


@passes("generation goes on from a cache")
def _(_: Path) -> None:
    model = build()
    first = run(model, ids(), max_new_tokens=2, return_dict_in_generate=True)
    name = "cache" if "cache" in first else "past_key_values"
    assert torch.equal(
        run(model, first.sequences, max_new_tokens=3, **{name: first[name]}), run(model, ids())
    )


@passes("a prompt padded on the left has the answer that it has alone")
def _(_: Path) -> None:
    padded = run(build(), ids(), attention_mask=left())
    assert torch.equal(padded[:1, 3:], run(build(), ids()[:1, 3:]))


@passes("positions that are told change no token")
def _(_: Path) -> None:
    places = (left().cumsum(-1) - 1).masked_fill(left() == 0, 1)
    for mask, told in ((left(), places), (torch.ones_like(left()), torch.arange(9).expand(2, 9))):
        got = run(build(), ids(), attention_mask=mask, position_ids=told)
        assert torch.equal(got, run(build(), ids(), attention_mask=mask))


@passes("a copied cache serves two answers")
def _(_: Path) -> None:
    model = build()
    first = run(model, ids(), max_new_tokens=2, return_dict_in_generate=True)
    name = "cache" if "cache" in first else "past_key_values"
    for _answer in range(2):
        more = {name: copy.deepcopy(first[name]), "max_new_tokens": 3}
        assert torch.equal(run(model, first.sequences, **more), run(model, ids()))


@passes("a streamer is given each token, and the probabilities of an answer are computed")
def _(_: Path) -> None:
    class Heard(transformers.generation.BaseStreamer):
        tokens: list[int] = []  # noqa: RUF012

        def put(self, value: torch.Tensor) -> None:
            self.tokens.extend(value.flatten().tolist())

        def end(self) -> None:
            self.ended = True

    heard, model = Heard(), build()
    answer = run(model, ids(1), streamer=heard)
    assert heard.tokens == answer[0].tolist() and heard.ended
    found = run(model, ids(), output_scores=True, return_dict_in_generate=True)
    told = model.compute_transition_scores(found.sequences, found.scores, normalize_logits=True)
    logs = model(found.sequences).logits[:, 8:-1].log_softmax(-1)
    want = logs.gather(-1, found.sequences[:, 9:, None])[..., 0]
    torch.testing.assert_close(told, want, **CLOSE)


@passes("what an answer should be like is saved with it")
def _(folder: Path) -> None:
    model = build()
    model.generation_config.update(max_new_tokens=4, pad_token_id=0, repetition_penalty=1.5)
    model.save_pretrained(folder)
    back = CoefdynForCausalLM.from_pretrained(folder)
    assert torch.equal(back.generate(ids()), run(model, ids(), max_new_tokens=4))
    assert not torch.equal(back.generate(ids()), run(build(), ids(), max_new_tokens=4))


@passes("an end token ends a row")
def _(_: Path) -> None:
    whole = run(build(), ids())
    end = whole[0, 10].item()
    found = run(build(), ids(), eos_token_id=end)
    assert (found[0, 11:] == 0).all() or found.shape[1] == 11


@passes("drafts by prompt lookup and by an assistant change no token")
def _(_: Path) -> None:
    x, model = ids(1)[:, [0, 1, 2] * 3], build()
    for how in ({"prompt_lookup_num_tokens": 3}, {"assistant_model": build()}):
        assert torch.equal(run(model, x, **how), run(model, x))


@passes("generation computes the logits of the last token, and hands arguments on")
def _(_: Path) -> None:
    assert "logits_to_keep" in inspect.signature(CoefdynForCausalLM.forward).parameters
    inputs = build().prepare_inputs_for_generation(ids(), output_hidden_states=True)
    assert inputs["output_hidden_states"] is True


@refuses("a static cache, and a graph of it", "static cache", "a static cache")
def _(_: Path) -> None:
    run(build(), ids(), cache_implementation="static")


@refuses(
    "a layer of the cache holds keys and values",
    "takes no keys and values",
    "keys and values",
)
def _(_: Path) -> None:
    found = build()(ids(), use_cache=True)
    cache = found["cache"] if "cache" in found else found["past_key_values"]
    cache.update(torch.zeros(2, 2, 1, 8), torch.zeros(2, 2, 1, 8), 0)


@passes("a pipeline generates text")
def _(_: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers", reason="the extra lens is not installed")
    letters = {letter: index for index, letter in enumerate("_abcdefghijklmnopqrstuv")}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(letters, unk_token="_"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Split("", "isolated")
    inner.decoder = tokenizers.decoders.Fuse()
    given = {"pad_token": "_", "padding_side": "left"}
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=inner, **given)
    pipe = transformers.pipeline("text-generation", model=build(), tokenizer=tokenizer)
    how = {"max_new_tokens": 4, "do_sample": False, "return_full_text": False}
    together = pipe(["cabbage", "bad"], batch_size=2, **how)
    assert [one[0]["generated_text"] for one in together] == [
        pipe(text, **how)[0]["generated_text"] for text in ("cabbage", "bad")
    ]


@pytest.mark.parametrize("name", [*PASSED, *REFUSED])
def test_a_line_is_passed_or_refused_with_a_reason(name: str, tmp_path: Path) -> None:
    if name in PASSED:
        PASSED[name](tmp_path)
        return
    tried, words, reason = REFUSED[name]
    page = " ".join(PAGE.read_text().partition("## What is not supported")[2].split())
    assert reason in page
    if words is None:
        tried(tmp_path)
        return
    with pytest.raises(ValueError, match=words):
        tried(tmp_path)


def test_at_most_a_fifth_is_refused() -> None:
    total = len(PASSED) + len(REFUSED)
    assert 5 * len(REFUSED) <= total
    told = re.search(r"of its (\d+) lines (\d+) are passed", PAGE.read_text())
    assert told is not None and (int(told[1]), int(told[2])) == (total, len(PASSED))
    assert not set(PASSED) & set(REFUSED)
    assert all(re.match(r"[a-z]|Trainer", name) for name in (*PASSED, *REFUSED))
