"""The cache of a plan against the model's own: ``python tests/benchmarks/plan_cache.py``.

A small Llama (4 layers of width 512, 8 heads that read 4 key-value heads) with random weights. Both
caches get the same random keys and values for a context, then 32 tokens are decoded one by one. A
line per context and number of key-value heads cut has the tokens per second with the model's own
DynamicCache and with the plan's (CPU time of one thread, best of the rounds, which take turns),
their ratio, and the bytes of both as measured on their tensors. Which heads are cut makes no
difference to them; a plan on a short random text chooses these.
"""

from __future__ import annotations

import argparse
import copy
import time
import warnings
from dataclasses import replace
from typing import Any

import torch
from transformers import Cache, DynamicCache, LlamaConfig, LlamaForCausalLM

from coefdyn.lens import plan, window
from coefdyn.lens.cache.plan_cache import PlanCache

warnings.simplefilter("ignore")
SINK, WINDOW, NEW = 4, 64, 32


def small_llama(longest: int) -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=1000, hidden_size=512, intermediate_size=1408, num_hidden_layers=4,
        num_attention_heads=8, num_key_value_heads=4, max_position_embeddings=longest,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval()


def fill(cache: Cache, model: LlamaForCausalLM, context: int) -> None:
    """Random keys and values in all layers, read by no attention."""
    noise, config = torch.Generator().manual_seed(0), model.config
    shape = (1, config.num_key_value_heads, context, config.head_dim)
    for place, layer in enumerate(model.model.layers):
        keys, values = (torch.randn(shape, generator=noise) for _ in range(2))
        cache.update(keys, values, place)
        if isinstance(cache, PlanCache):
            queries = torch.zeros(1, config.num_attention_heads, context, config.head_dim)
            cache.layers[place].attend(_nothing, layer.self_attn, queries, None, {})


def _nothing(module: object, query: torch.Tensor, *_: Any, **__: Any) -> tuple[torch.Tensor]:
    return (query.transpose(1, 2),)


def held_bytes(cache: Cache) -> int:
    if isinstance(cache, PlanCache):
        return cache.bytes
    held = (x for layer in cache.layers for x in (layer.keys, layer.values))
    return sum(x.untyped_storage().nbytes() for x in held)


@torch.no_grad()
def tokens_per_second(cache: Cache, model: LlamaForCausalLM) -> float:
    ids = torch.zeros(1, 1, dtype=torch.long)
    start = time.process_time()
    for _ in range(NEW):
        ids = model(ids, past_key_values=cache).logits[:, -1:].argmax(-1)
    return NEW / (time.process_time() - start)


def compare(model: LlamaForCausalLM, context: int, share: float, rounds: int) -> str:
    text = torch.randint(1000, (1, 128), generator=torch.Generator().manual_seed(0))
    found = plan(model, text, keep=window(WINDOW, sink=SINK), progress=False)
    found = replace(found, cut=round(share * len(found.heads)))
    best = {"own": 0.0, "plan": 0.0}
    own = DynamicCache(config=model.config)
    fill(own, model, context)
    sizes = {"own": held_bytes(own)}
    with found.cache(model) as small:
        fill(small, model, context)
        sizes["plan"] = held_bytes(small)
    for _ in range(rounds):
        best["own"] = max(best["own"], tokens_per_second(copy.deepcopy(own), model))
        with found.cache(model) as cache:
            fill(cache, model, context)
            best["plan"] = max(best["plan"], tokens_per_second(cache, model))
    mib = {name: size / 2**20 for name, size in sizes.items()}
    return (
        f"{context:6} tokens, {found.cut:2} of {len(found.heads)} heads cut: "
        f"{best['own']:6.1f} -> {best['plan']:6.1f} tokens/s, {best['plan'] / best['own']:.2f} "
        f"times; {mib['own']:6.2f} -> {mib['plan']:6.2f} MiB"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--contexts", type=int, nargs="+", default=[4096, 16384])
    parser.add_argument("--shares", type=float, nargs="+", default=[0.5, 0.75])
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    torch.set_num_threads(1)
    llama = small_llama(max(given.contexts) + NEW)
    for context in given.contexts:
        for share in given.shares:
            print(compare(llama, context, share, given.rounds), flush=True)
