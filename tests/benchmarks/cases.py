"""Cases of the comparison: our design and a peer's function on the same numbers."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional

from coefdyn import CoefficientDynamics, evolution, mask, normalizer, readout

__all__ = ["CASES", "Case", "Pair", "Size"]

#: tokens that one reads under the sliding window
WINDOW = 512


@dataclass(frozen=True, kw_only=True)
class Size:
    """Shapes of one benchmark."""

    batch: int = 4
    heads: int = 4
    length: int = 4096
    dim: int = 64


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One comparison: both functions take their leaves and return y, (batch, heads, L, dim)."""

    ours: Callable[..., Tensor]
    peer: Callable[..., Tensor]
    our_leaves: list[Tensor]
    peer_leaves: list[Tensor]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A named comparison with its target ratios (peer time / our time)."""

    name: str
    peer: str
    build: Callable[[Size], Pair]
    forward_target: float | None = None
    both_target: float | None = None
    forward_repeats: int = 7
    both_repeats: int = 5
    memory_target: float | None = None
    #: whether both sides compute the same; otherwise the peer is a yardstick
    same: bool = True
    #: sizes of this case that differ from those of the others
    sizes: dict[str, int] = field(default_factory=dict)


def _draw(size: Size) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    lead = (size.batch, size.heads, size.length)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*lead, *shape, generator=generator)

    return {
        "q": normal(size.dim),
        "k": functional.normalize(normal(size.dim), dim=-1),
        "v": normal(size.dim),
        "beta": torch.sigmoid(normal()),
        "step": functional.softplus(normal() - 4.0),
        "log_decay": -functional.softplus(normal() - 3.0),
        "log_gates": functional.logsigmoid(normal(size.dim)) / 16,
    }


def _leaves(*tensors: Tensor) -> list[Tensor]:
    return [x.clone().requires_grad_() for x in tensors]


def _sequence_first(*tensors: Tensor) -> list[Tensor]:
    """(batch, L, heads, ...), the layout of transformers and fla."""
    return [x.transpose(1, 2).contiguous().requires_grad_() for x in tensors]


#: what a case says nothing of
LINEAR = {"evolution": evolution.Identity(), "readout": readout.identity}
LINEAR |= {"normalizer": normalizer.One()}
ATTENTION = {**LINEAR, "readout": readout.exp, "normalizer": normalizer.RowSum()}


def _pair(
    parts: list[Tensor],
    ingredients: Callable[..., dict[str, object]],
    peer: Callable[..., Tensor],
    *,
    turned: bool = False,
    peer_reads: int | None = None,
) -> Pair:
    """q, k, v and gates through both; ``ingredients`` gets k and the gates.

    A ``turned`` peer takes and gives (batch, L, heads, ...); ``peer_reads`` counts the leaves that
    it has a use for.
    """

    def ours(q: Tensor, k: Tensor, v: Tensor, *gates: Tensor) -> Tensor:
        return CoefficientDynamics(q=q, k=k, **ingredients(k, *gates)).apply(v, method="chunked")

    def theirs(*leaves: Tensor) -> Tensor:
        y = peer(*leaves)
        return y.transpose(1, 2) if turned else y

    of_peer = (_sequence_first if turned else _leaves)(*parts[:peer_reads])
    return Pair(ours=ours, peer=theirs, our_leaves=_leaves(*parts), peer_leaves=of_peer)


def _gated_delta_rule(size: Size, peer: Callable[..., tuple]) -> Pair:
    x = _draw(size)

    def ingredients(k: Tensor, g: Tensor, beta: Tensor) -> dict[str, object]:
        a = evolution.Householder(direction=k, beta=beta, log_decay=g)
        return {**LINEAR, "evolution": a, "scaling": beta * size.dim**-0.5}

    def theirs(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor) -> Tensor:
        return peer(q, k, v, g=g, beta=beta)[0]

    parts = [x[name] for name in ("q", "k", "v", "log_decay", "beta")]
    return _pair(parts, ingredients, theirs, turned=True)


def gated_delta_transformers(size: Size) -> Pair:
    from transformers.models.qwen3_next import modeling_qwen3_next as source

    return _gated_delta_rule(size, inspect.unwrap(source.torch_chunk_gated_delta_rule))


def gated_delta_fla(size: Size) -> Pair:
    from fla.ops.gated_delta_rule.naive import naive_chunk_gated_delta_rule

    return _gated_delta_rule(size, naive_chunk_gated_delta_rule)


def _delta_rule_per_channel(size: Size, peer: Callable[..., tuple]) -> Pair:
    """Kimi delta attention: A_t = (I - beta k k^T) diag(exp(g))."""
    x = _draw(size)

    def ingredients(k: Tensor, g: Tensor, beta: Tensor) -> dict[str, object]:
        left, right = beta[..., None] * k, g.exp() * k
        a = evolution.DiagonalPlusRankOne(log_decay=g, left=left, right=right)
        return {**LINEAR, "evolution": a, "scaling": beta * size.dim**-0.5}

    def theirs(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor) -> Tensor:
        return peer(q, k, v, g=g, beta=beta)[0]

    parts = [x[name] for name in ("q", "k", "v", "log_gates", "beta")]
    return _pair(parts, ingredients, theirs, turned=True)


def kimi_transformers(size: Size) -> Pair:
    from transformers.models.kimi_linear import modeling_kimi_linear as source

    return _delta_rule_per_channel(size, inspect.unwrap(source.chunk_kimi_delta_attention))


def kimi_fla(size: Size) -> Pair:
    from fla.ops.kda.naive import naive_recurrent_kda

    return _delta_rule_per_channel(size, naive_recurrent_kda)


def mamba2_transformers(size: Size) -> Pair:
    from transformers.models.mamba2 import modeling_mamba2 as source

    scan = inspect.unwrap(source.mamba2_chunk_scan)
    rate = -torch.linspace(0.5, 2.0, size.heads)
    x = _draw(size)

    def ingredients(k: Tensor, step: Tensor) -> dict[str, object]:
        return {
            **LINEAR,
            "evolution": evolution.Scalar(log_decay=step * rate[:, None]),
            "scaling": step,
        }

    def theirs(q: Tensor, k: Tensor, v: Tensor, step: Tensor) -> Tensor:
        return scan(v, step, rate, k, q, chunk_size=64)

    parts = [x[name] for name in ("q", "k", "v", "step")]
    return _pair(parts, ingredients, theirs, turned=True)


def gla_fla(size: Size) -> Pair:
    from fla.ops.gla.naive import naive_recurrent_gla

    x = _draw(size)

    def ingredients(k: Tensor, g: Tensor) -> dict[str, object]:
        return {
            **LINEAR,
            "evolution": evolution.Diagonal(log_decay=g),
            "scaling": size.dim**-0.5,
        }

    def theirs(q: Tensor, k: Tensor, v: Tensor, g: Tensor) -> Tensor:
        return naive_recurrent_gla(q, k, v, g)[0]

    parts = [x[name] for name in ("q", "k", "v", "log_gates")]
    return _pair(parts, ingredients, theirs, turned=True)


def _attention(
    size: Size, peer: Callable[..., Tensor], faded: bool = False, reads: int = 3, **more: object
) -> Pair:
    """Softmax attention, or what ``more`` makes of it; ``faded`` by an outer decay."""
    x = _draw(size)
    parts = [x["q"], x["k"] * size.dim**0.5, x["v"], *([x["log_decay"]] if faded else [])]

    def ingredients(k: Tensor, *decay: Tensor) -> dict[str, object]:
        outer = {"outer_log_decay": decay[0]} if faded else {}
        return {**ATTENTION, "scaling": size.dim**-0.5, **outer, **more}

    return _pair(parts, ingredients, peer, peer_reads=reads)


def _torch_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def softplus_matrix(size: Size) -> Pair:
    def theirs(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        alpha = functional.softplus(q @ k.transpose(-1, -2) * size.dim**-0.5).tril()
        return (alpha @ v) / alpha.sum(-1, keepdim=True)

    return _attention(size, theirs, readout=readout.softplus)


def softmax_torch(size: Size) -> Pair:
    return _attention(size, _torch_attention)


def outer_decay_matrix(size: Size) -> Pair:
    def theirs(q: Tensor, k: Tensor, v: Tensor, c: Tensor) -> Tensor:
        sums = c.cumsum(-1)
        bias = sums[..., :, None] - sums[..., None, :]
        future = torch.ones(size.length, size.length, dtype=torch.bool).triu(1)
        scores = q @ k.transpose(-1, -2) * size.dim**-0.5 + bias
        return scores.masked_fill(future, -torch.inf).softmax(-1) @ v

    return _attention(size, theirs, faded=True, reads=4)


def outer_decay_plain(size: Size) -> Pair:
    """Cost of the decay: the peer is softmax attention without one."""
    return _attention(size, _torch_attention, faded=True)


def window_torch(size: Size) -> Pair:
    """Sliding window of 512 tokens; torch reads it from a mask."""
    near = torch.ones(size.length, size.length, dtype=torch.bool).tril().triu(1 - WINDOW)

    def theirs(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=near)

    return _attention(size, theirs, mask=mask.Window(WINDOW))


CASES = (
    Case(
        name="Gated DeltaNet",
        peer="transformers torch_chunk_gated_delta_rule",
        build=gated_delta_transformers,
        forward_target=1.5,
        both_target=3.0,
    ),
    Case(
        name="Gated DeltaNet",
        peer="fla naive_chunk_gated_delta_rule",
        build=gated_delta_fla,
        forward_repeats=3,
        both_repeats=3,
    ),
    Case(
        name="KDA (diagonal plus rank one)",
        peer="transformers chunk_kimi_delta_attention",
        build=kimi_transformers,
        both_target=3.0,
        forward_repeats=3,
        both_repeats=3,
    ),
    Case(
        name="KDA (diagonal plus rank one)",
        peer="fla naive_recurrent_kda",
        build=kimi_fla,
        both_target=10.0,
        forward_repeats=3,
        both_repeats=1,
    ),
    Case(
        name="Mamba-2 (scalar)",
        peer="transformers mamba2_chunk_scan, chunk 64",
        build=mamba2_transformers,
        forward_target=1.8,
        both_target=1.8,
        forward_repeats=9,
        both_repeats=7,
    ),
    Case(
        name="GLA (diagonal)",
        peer="fla naive_recurrent_gla",
        build=gla_fla,
        both_target=20.0,
        forward_repeats=3,
        both_repeats=1,
    ),
    Case(
        name="softplus readout",
        peer="the L x L matrix in plain torch",
        build=softplus_matrix,
        forward_target=3.0,
        both_target=3.0,
        forward_repeats=5,
        both_repeats=3,
        memory_target=0.1,
    ),
    Case(
        name="softmax attention",
        peer="torch scaled_dot_product_attention",
        build=softmax_torch,
        forward_target=0.95,
        both_target=0.95,
        forward_repeats=9,
        both_repeats=7,
    ),
    Case(
        name="softmax with an outer decay",
        peer="torch scaled_dot_product_attention without one",
        build=outer_decay_plain,
        both_target=1 / 1.2,
        both_repeats=7,
        same=False,
    ),
    Case(
        name="softmax with an outer decay",
        peer="the L x L matrix in plain torch",
        build=outer_decay_matrix,
        forward_repeats=3,
        both_repeats=3,
    ),
    Case(
        name="sliding window of 512, L = 16,384",
        peer="torch scaled_dot_product_attention with a mask",
        build=window_torch,
        both_target=5.0,
        forward_repeats=1,
        both_repeats=1,
        sizes={"batch": 1, "length": 16_384},
    ),
)
