"""The map's lines that are no row: coefficients by a formula, and operations that have none."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import fla.ops
import torch
from field_cases import DV, ROOT, B, Draw, H, L, N, Pair, back, causal, softmax
from fla.ops.parallax.naive import naive_parallax
from fla.ops.stickbreaking_attn.naive import naive_stickbreaking_attn
from fla.ops.titans.naive import chunk_titans_linear_ref
from fla.ops.ttt.naive import chunk_ttt_linear_ref
from torch.nn import functional
from transformers.models.neomme.modeling_neomme import NeoMMEExclusiveSelfAttention
from widened import time_first, widened

__all__ = ["FORMULAS", "PROBED"]


def _naive_deltaformer() -> Callable:
    """fla's function by its file, since the folder's package needs layers that fla-core lacks."""
    path = Path(*fla.ops.__path__) / "deltaformer" / "naive.py"
    spec = importlib.util.spec_from_file_location("naive_deltaformer", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.naive_deltaformer_attn


def deltaformer(draw: Draw) -> Pair:
    """softmax(q.k) (I + diag(beta) strict softmax(k.q))^{-1}: coefficients, and no row."""
    (q, k, _), v, beta = draw.qkv(), draw(N), draw().sigmoid()
    scores = q @ k.mT * ROOT
    weights = scores.masked_fill(~causal(), -torch.inf).softmax(-1)
    earlier = scores.masked_fill(~causal(strict=True), -torch.inf).softmax(-1).nan_to_num(0.0)
    solved = torch.eye(L, dtype=draw.dtype) + beta[..., None] * earlier
    ours = weights @ torch.linalg.solve_triangular(solved, v, upper=False)
    return ours, back(_naive_deltaformer()(*time_first(q, k, v, beta)))


def parallax(draw: Draw) -> Pair:
    """p_ij (1 + sum_l p_il r.k_l - r.k_j): each weight reads two scores, and the row's mean."""
    (q, k, _), r, v = draw.qkv(), draw(N), draw(N)
    p = (q @ k.mT * ROOT).masked_fill(~causal(), -torch.inf).softmax(-1)
    other = r @ k.mT
    alpha = p * (1 + (p * other).sum(-1, keepdim=True) - other)
    return alpha @ v, back(naive_parallax(*time_first(q, r, k, v)))


def stick_breaking(draw: Draw) -> Pair:
    """sigma(s_ij) prod_{j<l<i} (1 - sigma(s_il)): each weight reads the scores between."""
    q, k, v = draw.qkv()
    share = (q @ k.mT * ROOT).sigmoid()
    alpha = torch.zeros_like(share)
    for i in range(L):
        left = torch.ones_like(share[..., 0, 0])
        for j in reversed(range(i)):
            alpha[..., i, j] = share[..., i, j] * left
            left = left * (1 - share[..., i, j])
    return alpha @ v, back(naive_stickbreaking_attn(*time_first(q, k, v)))


#: name of a case -> the case; lines of the map name them
FORMULAS = {
    "deltaformer": deltaformer,
    "parallax": parallax,
    "stick breaking": stick_breaking,
}


def _learner(draw: Draw) -> tuple[list[torch.Tensor], list[torch.Tensor], torch.Tensor]:
    """q, k; weight and bias of a LayerNorm; v. In the layout (B, L, H, n)."""
    q, k, v = time_first(draw(N), functional.normalize(draw(N), dim=-1), draw(N))
    return [q, k], [draw(N)[0, :, 0], draw(N)[0, :, 0]], v


def ttt(draw: Draw) -> tuple[Callable, torch.Tensor]:
    """Blocks of 8 tokens and a rate of 1/2."""
    (q, k), norm, v = _learner(draw)
    rate = torch.full((B, L, H, 1), 0.5, dtype=draw.dtype)

    def op(values: torch.Tensor) -> torch.Tensor:
        values = values.transpose(1, 2)
        return back(chunk_ttt_linear_ref(q.clone(), k, values, *norm, rate, mini_batch_size=8))

    return op, v.transpose(1, 2)


def titans(draw: Draw) -> tuple[Callable, torch.Tensor]:
    """Blocks of 8 tokens, a rate of 1/20, a decay of 0.9 and a momentum of 1/2."""
    (q, k), norm, v = _learner(draw)
    rates = [torch.full((B, L, H, 1), rate, dtype=draw.dtype) for rate in (0.05, 0.1, 0.5)]

    def op(values: torch.Tensor) -> torch.Tensor:
        parts = q, k, values.transpose(1, 2), *norm, *rates
        return back(chunk_titans_linear_ref(*parts, chunk_size=8, use_chunk=False))

    return op, v.transpose(1, 2)


def oja(draw: Draw) -> tuple[Callable, torch.Tensor]:
    """The loop of fla's kernel, which has no naive function; values of unit length."""
    q, k, v = draw(N), draw(N), functional.normalize(draw(DV), dim=-1)
    keep, beta = draw(DV).sigmoid(), draw().sigmoid()

    def op(values: torch.Tensor) -> torch.Tensor:
        state, ys = torch.zeros(B, H, N, DV, dtype=draw.dtype), []
        for t in range(L):
            state = state * keep[:, :, t, None]
            missed = k[:, :, t] - (state @ values[:, :, t, :, None])[..., 0]
            written = beta[:, :, t, None] * missed
            state = state + written[..., None] * values[:, :, t, None]
            ys.append((q[:, :, t, None] * ROOT @ state)[..., 0, :])
        return torch.stack(ys, 2)

    return op, v


def exclusive(draw: Draw) -> tuple[Callable, torch.Tensor]:
    """NeoMME's module after softmax attention, with its weight at 1."""
    q, k, v = draw.qkv()
    config = SimpleNamespace(num_attention_heads=H, num_key_value_heads=H)
    layer = NeoMMEExclusiveSelfAttention(config)
    layer.alpha = torch.nn.Parameter(torch.ones(H, dtype=draw.dtype))

    def op(values: torch.Tensor) -> torch.Tensor:
        plain = softmax(q, k).apply(values)
        with widened():
            return layer(plain.transpose(1, 2), values).transpose(1, 2)

    return op, v


#: name of a line -> the map whose deviation from linearity it states
PROBED = {
    "TTT": ttt,
    "Titans": titans,
    "Gated Oja's rule": oja,
    "Exclusive attention (NeoMME)": exclusive,
}
