"""The half of ``lens-peers`` that runs in another environment: methods of kvpress cut a cache.

``PYTHON lens_peers_kvpress.py MODEL.gguf TASK.json OUT.json`` needs torch, transformers, gguf,
accelerate and kvpress, and nothing of this library, because kvpress 0.5 asks for an older
transformers than the lens reads. What both halves compute alike (a cache, what is read behind a
cut, its bytes) is here alone.

A text is read up to the cut once, uncut, as kvpress does it too. Each method's own forward hook
then gets what every attention layer got and returned there, with a cache of its own. Methods that
read the text again (KVzip, KVgrad, KVCompose) run in their own context.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

__all__ = [
    "LEFT_OUT",
    "METHODS",
    "attend",
    "copied",
    "forget",
    "held_bytes",
    "judged",
    "main",
    "prefilled",
    "read_both",
    "read_on",
    "stream",
]

#: what no run here can compare, and why
LEFT_OUT = {
    "QFilter, KVzap, FastKVzip, LUKV, RestoreKV, ExpectedAttentionStats": "download weights",
    "DuoAttention with its own patterns or texts": "downloads them; see DuoAttention*",
    "ThinK": "drops channels of keys, and kvpress frees nothing for them",
    "SimLayerKV, DMS": "a threshold sets the bytes, no budget can be given",
    "Finch": "needs the question before the cut",
    "Decoding, CompressionRatioDecoding, PrefillDecoding, CAM": "cut while they decode",
    "Chunk": "is SnapKV up to 1024 tokens",
    "Composed, PerLayerCompression": "tools to build others with",
}
#: name -> the press of kvpress, given kvpress and the share of rows that it removes. Every other
#: setting is kvpress's default.
METHODS: dict[str, Callable[[Any, float], Any]] = {
    "Random": lambda kv, r: kv.RandomPress(r),
    "StreamingLLM": lambda kv, r: kv.StreamingLLMPress(r),
    "KeyRerotation(StreamingLLM)": lambda kv, r: kv.KeyRerotationPress(kv.StreamingLLMPress(r)),
    "Knorm": lambda kv, r: kv.KnormPress(r),
    "KeyDiff": lambda kv, r: kv.KeyDiffPress(r),
    "Block(KeyDiff)": lambda kv, r: kv.BlockPress(kv.KeyDiffPress(r)),
    "LagKV": lambda kv, r: kv.LagKVPress(r),
    "TOVA": lambda kv, r: kv.TOVAPress(r),
    "ObservedAttention": lambda kv, r: kv.ObservedAttentionPress(r),
    "CUR": lambda kv, r: kv.CURPress(r),
    "Cap": lambda kv, r: kv.CapPress(r),
    "LeverageScore": lambda kv, r: kv.LeverageScorePress(r),
    "NonCausalAttn": lambda kv, r: kv.NonCausalAttnPress(r),
    "Compactor": lambda kv, r: kv.CompactorPress(r),
    "SnapKV": lambda kv, r: kv.SnapKVPress(r),
    "PyramidKV": lambda kv, r: kv.PyramidKVPress(r),
    "ChunkKV(SnapKV)": lambda kv, r: kv.ChunkKVPress(kv.SnapKVPress(r)),
    "EntropyGatedChunkKV(SnapKV)": lambda kv, r: kv.EntropyGatedChunkKVPress(kv.SnapKVPress(r)),
    "Merging(SnapKV)": lambda kv, r: kv.MergingPress(kv.SnapKVPress(r)),
    "CriticalKV(SnapKV)": lambda kv, r: kv.CriticalKVPress(kv.SnapKVPress(r)),
    "AdaKV(SnapKV)": lambda kv, r: kv.AdaKVPress(kv.SnapKVPress(r)),
    "CriticalAdaKV(SnapKV)": lambda kv, r: kv.CriticalAdaKVPress(kv.SnapKVPress(r)),
    "ExpectedAttention": lambda kv, r: kv.ExpectedAttentionPress(r),
    "AdaKV(ExpectedAttention)": lambda kv, r: kv.AdaKVPress(kv.ExpectedAttentionPress(r)),
    "KVCompose": lambda kv, r: kv.KVComposePress(compression_ratio=r),
    "KVzip": lambda kv, r: kv.KVzipPress(r),
    "KVgrad": lambda kv, r: kv.KVgradPress(compression_ratio=r),
    "DuoAttention*": lambda kv, r: kv.DuoAttentionPress(r, on_the_fly_scoring=True),
}
#: of these the ones that read the text once more
AGAIN = ("KVCompose", "KVzip", "KVgrad")
BEHIND = "behind a cut"


def attend(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    *,
    scaling: float,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Attention of tokens behind a cut: to every row that is left, and causal among themselves.

    Rows that kvpress marks per head as removed (``masked_key_indices``) get no weight. It does this
    itself with keys of a large norm, which do not exist for many queries at once. Heads of a plan
    (``streaming``) see a sink and a window behind every token, in the prefill too.
    """
    new, rows, group = query.shape[2], key.shape[2], query.shape[1] // key.shape[1]
    sees = torch.ones(new, rows, dtype=torch.bool).tril(rows - new)
    sees = sees.expand(1, key.shape[1], new, rows).clone()
    if (removed := getattr(module, "masked_key_indices", None)) is not None:
        text, head, row = removed
        sees[text, head, :, row] = False
    if (streaming := getattr(module, "streaming", None)) is not None:
        heads, sink, window = streaming
        row, place = torch.arange(rows), torch.arange(rows - new, rows)[:, None]
        sees[:, heads] &= (place - row < window) | (row < sink)
    key, value, sees = (x.repeat_interleave(group, 1) for x in (key, value, sees))
    y = functional.scaled_dot_product_attention(query, key, value, attn_mask=sees, scale=scaling)
    return y.transpose(1, 2), None


def attentions_of(model: nn.Module) -> list[Any]:
    """The attention modules, layer by layer."""
    return [layer.self_attn for layer in model.model.layers]  # type: ignore[union-attr]


def prefilled(model: Any, ids: torch.Tensor, how: str = "sdpa") -> Any:
    """The whole cache of a text; nothing is marked as removed any more."""
    from transformers import AttentionInterface, DynamicCache

    for module in attentions_of(model):
        module.masked_key_indices = None
    AttentionInterface.register(BEHIND, attend)
    model.set_attn_implementation(how)
    cache = DynamicCache()
    with torch.no_grad():
        model.model(input_ids=ids, past_key_values=cache)
    return cache


def copied(cache: Any) -> Any:
    """Another cache with the same rows."""
    other = type(cache)()
    for place, layer in enumerate(cache.layers):
        other.update(layer.keys.clone(), layer.values.clone(), place)
    return other


def stream(model: nn.Module, heads: Mapping[int, Sequence[int]], sink: int, window: int) -> None:
    """Let these heads of each layer see a sink and a window alone, and all others everything."""
    for module in attentions_of(model):
        mine = list(heads.get(module.layer_idx, ()))
        module.streaming = (mine, sink, window) if mine else None


def forget(
    model: nn.Module, heads: Mapping[int, Sequence[int]], rows: int, sink: int, window: int
) -> None:
    """Mark the rows between a sink and a window as removed, of some heads of each layer.

    Rows that come later stay, as with every method here.
    """
    for module in attentions_of(model):
        removed = torch.zeros(1, module.config.num_key_value_heads, rows, dtype=torch.bool)
        removed[:, list(heads.get(module.layer_idx, ())), sink : rows - window] = True
        module.masked_key_indices = removed.nonzero(as_tuple=True)


def held_bytes(model: nn.Module, cache: Any) -> int:
    """Bytes of the keys and values that are left, measured on tensors of these rows alone."""
    held = 0
    for module, layer in zip(attentions_of(model), cache.layers, strict=True):
        stays = torch.ones(layer.keys.shape[:3], dtype=torch.bool)
        if (removed := module.masked_key_indices) is not None:
            stays[removed] = False
        held += sum(x[stays].untyped_storage().nbytes() for x in (layer.keys, layer.values))
    return held


def read_on(
    model: Any, cache: Any, ids: torch.Tensor, start: int, answer: int | None, at: int
) -> tuple[float, bool]:
    """Read the tokens behind a cut, and judge them as ``judged`` does, in nats per token.

    Args:
        model: as the method left it.
        cache: cut; the tokens read here are added.
        ids: ``(1, L)``, the whole text.
        start: tokens before the cut. The first token behind it is read and not judged, because the
            uncut cache has predicted it.
        answer: of ``judged``.
        at: place of the first token read, for rotary positions.
    """
    model.set_attn_implementation(BEHIND)
    new = ids[:, start:-1]
    places = torch.arange(at, at + new.shape[1])[None]
    with torch.no_grad():
        logits = model(input_ids=new, past_key_values=cache, position_ids=places).logits[0]
    return judged(logits, ids[0, start + 1 :], answer)


def read_both(
    model: Any, cache: Any, text: Mapping[str, Any], start: int, at: int
) -> tuple[float, float, bool]:
    """Loss of what follows the cut in a text; loss of its needle's answer, and whether it is right.

    Each is read from a copy of the cache.
    """
    ids = torch.tensor([text["ids"]])
    asked = torch.tensor([[*text["ids"][:start], *text["asked"]]])
    loss, _ = read_on(model, copied(cache), ids, start, None, at)
    return loss, *read_on(model, copied(cache), asked, start, text["answer"], at)


def judged(logits: torch.Tensor, wanted: torch.Tensor, answer: int | None) -> tuple[float, bool]:
    """Mean cross-entropy of the last ``answer`` tokens, or all; whether all were the likeliest."""
    logits, wanted = (x[-answer:] if answer else x for x in (logits.float(), wanted))
    right = bool((logits.argmax(-1) == wanted).all())
    return functional.cross_entropy(logits, wanted).item(), right


class _Recorded:
    """One uncut pass over a text, and what kvpress's hooks are given of it."""

    def __init__(self, kvpress: Any, model: Any, ids: torch.Tensor, how: str) -> None:
        self.kvpress, self.model = kvpress, model
        self.calls: list[tuple[dict[str, Any], Any]] = []
        hooks = [
            module.register_forward_hook(self._keep, with_kwargs=True)
            for module in attentions_of(model)
        ]
        self.cache = prefilled(model, ids, how)
        for hook in hooks:
            hook.remove()
        for module in attentions_of(model):
            module.rotary_emb = model.model.rotary_emb

    def _keep(self, module: nn.Module, given: Any, named: dict[str, Any], output: Any) -> None:
        self.calls.append((named, output))

    def cut(self, name: str, share: float, task: Mapping[str, Any]) -> tuple[Any, list[Any]]:
        """A copy of the cache that a press has cut, and the rows it marks in each layer."""
        self.model.set_attn_implementation("sdpa")
        cache, modules = copied(self.cache), attentions_of(self.model)
        press = METHODS[name](self.kvpress, 1 - share)
        sizes = task["sink"], task["window"]
        if name == "DuoAttention*":  # as many heads as the plan cuts, to the same rows
            config = self.model.config
            heads = config.num_hidden_layers * config.num_key_value_heads
            cut = (1 - share) / (1 - sum(sizes) / task["length"]) * heads
            press.head_compression_ratio = math.ceil(cut - 1e-9) / heads
        press.post_init_from_model(self.model)
        if name == "DuoAttention*":
            press.sink_size, press.recent_size = sizes
        for module, (named, (y, weights)) in zip(modules, self.calls, strict=True):
            module.masked_key_indices = None
            output = (y, weights if name == "ObservedAttention" else None)
            with torch.no_grad():
                press.forward_hook(module, [], {**named, "past_key_values": cache}, output)
        return cache, [module.masked_key_indices for module in modules]


def _again(name: str, press: Any, model: Any, ids: torch.Tensor, shares: Sequence[float]) -> list:
    """Caches and marks, one of each share, of a press that reads the text once more."""
    whole = "cache" if name == "KVCompose" else "_cache"
    cuts = "compress_cache" if name == "KVCompose" else "compress_post"
    found = []

    def cut(_: Any) -> None:
        full = getattr(press, whole)
        for share in shares:
            press.compression_ratio = 1 - share
            setattr(press, whole, copied(full))
            if name == "KVCompose":  # whose budgets of the layers depend on the share
                press.prepare_important_masks()
            getattr(type(press), cuts)(press, model)
            marks = [module.masked_key_indices for module in attentions_of(model)]
            found.append((getattr(press, whole), marks))

    setattr(press, cuts, cut)
    with torch.no_grad(), press(model):  # KVzip would keep the graph of all it reads
        prefilled(model, ids)
    return found


def results(
    kvpress: Any, model: Any, text: Mapping[str, Any], task: Mapping[str, Any]
) -> dict[str, Any]:
    """Rows of ``read_both``, with bytes: uncut, and of each method at each share of bytes."""
    ids, start = torch.tensor([text["ids"]]), task["length"]
    # transformers returns weights of attention from its eager function alone
    how = "eager" if "ObservedAttention" in task["methods"] else "sdpa"
    seen = _Recorded(kvpress, model, ids[:, :start], how)
    full, read = held_bytes(model, seen.cache), read_both(model, seen.cache, text, start, start)
    found: dict[str, Any] = {"uncut": [*read, full], "methods": {}}
    for name in task["methods"]:
        torch.manual_seed(0)
        if name in AGAIN:
            press = METHODS[name](kvpress, 0.5)
            caches = _again(name, press, model, ids[:, :start], task["shares"])
        else:
            caches = [seen.cut(name, share, task) for share in task["shares"]]
        found["methods"][name] = {}
        for share, (cache, marks) in zip(task["shares"], caches, strict=True):
            for module, removed in zip(attentions_of(model), marks, strict=True):
                module.masked_key_indices = removed
            held = held_bytes(model, cache)
            at = cache.get_seq_length() if name.startswith("KeyRerotation") else start
            found["methods"][name][str(share)] = [*read_both(model, cache, text, start, at), held]
    return found


class _Texts(list):
    """Stands for the data set that DuoAttention's scores would download: the plan's texts."""

    def to_pandas(self) -> _Texts:
        return self

    def sample(self, count: int, random_state: int) -> dict[str, Any]:
        return {"chapter": self}

    def tolist(self) -> list[str]:
        return list(self)


def main(arguments: Sequence[str]) -> int:
    """Measure every text; returns 0."""
    import kvpress
    from kvpress.presses import duo_attention_press
    from transformers import AutoModelForCausalLM, AutoTokenizer

    path, task_file, out = map(Path, arguments)
    task = json.loads(task_file.read_text())
    done: dict[str, Any] = {"texts": []}
    named: dict[str, Any] = {"gguf_file": path.name, "local_files_only": True}
    model: Any = AutoModelForCausalLM.from_pretrained(path.parent, dtype=torch.float32, **named)
    tokenizer: Any = AutoTokenizer.from_pretrained(path.parent, **named)
    planned = _Texts(tokenizer.decode(ids) for ids in task["planned"])
    duo_attention_press.load_dataset = lambda *_, **__: planned
    packages = ("torch", "transformers", "kvpress")
    done["versions"] = {package: version(package) for package in packages}
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.chat_template = None  # the texts stand in no template
        tokenizer.save_pretrained(folder)
        model.eval().config.name_or_path = folder  # where KVzip and others look for it
        for text in task["texts"]:
            done["texts"].append(results(kvpress, model, text, task))
            print(f"kvpress: text {len(done['texts'])} of {len(task['texts'])}", flush=True)
    out.write_text(json.dumps(done))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
