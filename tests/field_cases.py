"""The map's lines that are rows: their ingredients, and what the authors' own functions make.

Each case states a line of ``book/since/field.yml`` in a few lines of code and returns its output
beside that of fla's naive function (transformers' for RWKV-4 and T5).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from fla.modules.long_conv import fft_conv
from fla.modules.token_shift import token_shift_ref
from fla.ops.abc.naive import naive_recurrent_abc
from fla.ops.attn.naive import naive_parallel_attn
from fla.ops.based.naive import naive_parallel_based
from fla.ops.cyfa import naive as cyfa
from fla.ops.cyfa import utils as cyfa_utils
from fla.ops.dsa.naive import naive_dsa, naive_dsa_indexer
from fla.ops.hgrn.naive import naive_recurrent_hgrn
from fla.ops.nsa.naive import naive_nsa_compression, naive_nsa_selection, naive_nsa_topk
from fla.ops.precond_gated_delta_rule.naive import naive_recurrent_precond_gated_delta_rule
from fla.ops.precond_kda.naive import naive_recurrent_precond_kda
from fla.ops.rebased.naive import naive_parallel_rebased
from torch.nn import functional
from transformers.models.rwkv.modeling_rwkv import rwkv_linear_attention_cpu
from transformers.models.t5.configuration_t5 import T5Config
from transformers.models.t5.modeling_t5 import T5Attention
from widened import time_first

from coefdyn import CoefficientDynamics, evolution, mask, normalizer, readout

__all__ = ["CASES", "DV", "ROOT", "B", "Draw", "H", "L", "N", "Pair"]
__all__ += ["back", "causal", "chosen_blocks", "softmax"]

B, H, L, N, DV = 2, 2, 24, 4, 3
ROOT = N**-0.5
BLOCK = 4
Pair = tuple[torch.Tensor, torch.Tensor]


class Draw:
    """Random tensors (B, H, L, ...) of one dtype."""

    def __init__(self, dtype: torch.dtype, seed: int = 0) -> None:
        self.dtype, self.generator = dtype, torch.Generator().manual_seed(seed)

    def __call__(self, *shape: int, heads: int = H) -> torch.Tensor:
        drawn = torch.randn(B, heads, L, *shape, generator=self.generator, dtype=torch.float64)
        return drawn.to(self.dtype)

    def qkv(self) -> list[torch.Tensor]:
        return [self(N), self(N), self(DV)]


def dynamics(q: torch.Tensor, k: torch.Tensor, **ingredients: object) -> CoefficientDynamics:
    """A_t = I, b = 1, phi = Id and eta = 1 where nothing else is said."""
    plain = {
        "evolution": evolution.Identity(),
        "scaling": 1.0,
        "readout": readout.identity,
        "normalizer": normalizer.One(),
    }
    return CoefficientDynamics(q=q, k=k, **{**plain, **ingredients})


def softmax(q: torch.Tensor, k: torch.Tensor, **ingredients: object) -> CoefficientDynamics:
    plain = {"readout": readout.exp, "normalizer": normalizer.RowSum(), "scaling": ROOT}
    return dynamics(q, k, **{**plain, **ingredients})


def back(y: torch.Tensor | tuple) -> torch.Tensor:
    """fla's (B, L, H, d_v), perhaps with more, to (B, H, L, d_v)."""
    return (y[0] if isinstance(y, tuple) else y).transpose(1, 2)


def per_head(one: torch.Tensor) -> torch.Tensor:
    """(H,) to (B, H, L)."""
    return one[:, None].expand(B, H, L)


def causal(strict: bool = False) -> torch.Tensor:
    return torch.ones(L, L, dtype=torch.bool).tril(-1 if strict else 0)


def attention(draw: Draw) -> Pair:
    """exp(c_{j+1} + ... + c_i) exp(q.k / sqrt n) in a window, over the row's sum and a sink."""
    q, k, v = draw.qkv()
    g, sink = functional.logsigmoid(draw()), draw()[0, :, 0]
    ours = softmax(
        q,
        k,
        outer_log_decay=g,
        mask=mask.Window(7),
        normalizer=normalizer.RowSum(sink=per_head(sink)),
    )
    theirs = naive_parallel_attn(
        *time_first(q, k, v), window_size=7, g=g.transpose(1, 2), sink_bias=sink
    )
    return ours.apply(v), back(theirs)


def taylor(draw: Draw) -> Pair:
    """Based: the first terms of exp."""
    q, k, v = draw.qkv()
    phi = readout.Pointwise(lambda s: 1 + s + s**2 / 2, name="taylor")
    eta = normalizer.RowSum(sink=math.log(1e-6))
    return softmax(q, k, readout=phi, normalizer=eta).apply(v), naive_parallel_based(q, k, v)


def square(draw: Draw) -> Pair:
    """ReBased."""
    q, k, v = draw.qkv()
    phi, eta = (
        readout.Pointwise(torch.square, name="square"),
        normalizer.RowSum(sink=math.log(1e-6)),
    )
    return softmax(q, k, readout=phi, normalizer=eta).apply(v), naive_parallel_rebased(q, k, v)


def abc(draw: Draw) -> Pair:
    """Slots: the key is exp(s_j - z_j), A_t = diag(exp(z_{t-1} - z_t)), the query a softmax."""
    (q, k, v), s = draw.qkv(), draw(5)
    z = s.logcumsumexp(2)
    weights = (s[:, :, None] - z[:, :, :, None]).exp() * causal()[..., None]
    asked = torch.einsum("bhij,bhijm->bhim", q @ k.mT * ROOT, weights).softmax(-1)
    before = torch.cat([z[:, :, :1], z[:, :, :-1]], 2)
    moved = evolution.Diagonal(log_decay=before - z)
    ours = dynamics(asked, (s - z).exp(), evolution=moved)
    return ours.apply(v), naive_recurrent_abc(q, k, v, s)[0]


def cyclic(draw: Draw) -> Pair:
    """CyFA: a turning write vector as the key, a scalar decay, the query a softmax of a pass."""
    q, k, v = draw.qkv()
    q_norm, k_norm = (draw(N)[0, 0, 0] for _ in range(2))
    g, beta, delta = functional.logsigmoid(draw()), draw().sigmoid(), draw()
    slots = 6
    table = draw(slots - 1)[0, :, : slots - 1]
    cyfa_utils._readout_basis.cache_clear()  # it holds no dtype
    theirs = cyfa.naive_recurrent_cyfa(
        *time_first(q, k, v, g, delta, beta), table, q_norm, k_norm, 1e-6, 1e-6
    )
    q, k = (
        one * (one.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * weight
        for one, weight in ((q, q_norm), (k, k_norm))
    )
    clock = delta.cumsum(-1)
    write = torch.stack([cyfa._rotate_atom(clock[:, :, i], slots) for i in range(L)], 2)
    decay = evolution.Scalar(log_decay=g)
    raw = dynamics(q, k, evolution=decay, scaling=beta * ROOT).apply(write)

    def turned(how: Callable, one: torch.Tensor) -> torch.Tensor:
        """Their rotation, token by token."""
        return torch.stack([how(clock[:, :, i], one[:, :, i], slots) for i in range(L)], 2)

    basis = cyfa.build_readout_table(table)
    logits = torch.einsum("hrm,bhim->bhir", basis, turned(cyfa._rotate_modal_pos, raw))
    share = torch.einsum("hrm,bhir->bhim", basis, logits.softmax(-1))
    asked = turned(cyfa._rotate_modal_neg, share)
    ours = dynamics(asked, write, evolution=decay, scaling=beta)
    return ours.apply(v), back(theirs)


def dsa(draw: Draw) -> Pair:
    """Softmax attention; the mask is the indexer's choice for each query."""
    q, k, v = draw.qkv()
    q_idx, k_idx, w_idx = draw(5, heads=3), draw(5, heads=1)[:, 0], draw(heads=3)
    asked = q_idx.transpose(1, 2), k_idx, w_idx.transpose(1, 2)
    chosen = naive_dsa_indexer(*asked, topk=6, activation="relu")
    allowed = torch.zeros(B, L, L + 1, dtype=torch.bool)
    allowed.scatter_(-1, chosen.masked_fill(chosen < 0, L), True)
    allowed = allowed[:, None, :, :L].expand(B, H, L, L)
    theirs = naive_dsa(*time_first(q, k, v), *asked, topk=6)
    return softmax(q, k, mask=mask.Given(allowed)).apply(v), back(theirs)


def chosen_blocks(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """NSA's choice for one group of queries, (B, L, 1, 3)."""
    means = k.unflatten(2, (-1, BLOCK)).mean(3)
    return naive_nsa_topk(*time_first(q, means), block_counts=3, block_size=BLOCK, scale=ROOT)


def nsa_selection(draw: Draw) -> Pair:
    """Softmax attention; the mask is the choice of blocks."""
    q, k, v = draw(N, heads=4), draw(N, heads=1), draw(DV, heads=1)
    blocks = chosen_blocks(q, k)
    allowed = torch.zeros(B, L, L // BLOCK + 1, dtype=torch.bool)
    kept = blocks[:, :, 0]
    allowed.scatter_(-1, kept.masked_fill(kept < 0, L // BLOCK), True)
    allowed = allowed[..., :-1].repeat_interleave(BLOCK, -1)[:, None].expand(B, 4, L, L)
    theirs = naive_nsa_selection(*time_first(q, k, v), blocks, block_size=BLOCK)
    k, v = (one.expand(B, 4, L, -1) for one in (k, v))
    return softmax(q, k, mask=mask.Given(allowed)).apply(v), back(theirs)


def nsa_compression(draw: Draw) -> Pair:
    """Softmax attention to the mean key of each block that is complete."""
    q, k, v = draw.qkv()
    means = [one.unflatten(2, (-1, BLOCK)).mean(3) for one in (k, v)]
    theirs = naive_nsa_compression(*time_first(q, *means), block_size=BLOCK, scale=ROOT)
    block = torch.arange(L) // BLOCK
    complete = (block + 1) * BLOCK - 1 <= torch.arange(L)[:, None]
    spread = means[0].repeat_interleave(BLOCK, 2)
    return softmax(q, spread, mask=mask.Given(complete)).apply(v), back(theirs)


def hgrn(draw: Draw) -> Pair:
    """Each channel a head with one key: q = k = 1."""
    x, g = draw(DV), functional.logsigmoid(draw(DV))
    one = torch.ones(B, H, DV, L, 1, dtype=draw.dtype)
    ours = dynamics(one, one, evolution=evolution.Scalar(log_decay=g.mT))
    theirs = naive_recurrent_hgrn(x.flatten(0, 1), g.flatten(0, 1))[0]
    return ours.apply(x.mT[..., None])[..., 0].mT, theirs.unflatten(0, (B, H))


def rwkv4(draw: Draw) -> Pair:
    """Each channel a head with the key e^k, read before it decays, over the row's sum."""
    k, v, decay, first = draw(DV)[:, 0], draw(DV)[:, 0], draw(DV)[0, 0, 0], draw(DV)[0, 0, 0]
    theirs = rwkv_linear_attention_cpu(decay, first, k, v)[0]
    fade = -decay.exp()[:, None].expand(B, DV, L)
    written = k.mT.exp()
    ours = dynamics(
        (-fade).exp()[..., None],
        written[..., None],
        evolution=evolution.Scalar(log_decay=fade),
        own=written * (first.exp()[:, None] - (-fade).exp()),
        normalizer=normalizer.RowSum(),
    )
    return ours.apply(v.mT[..., None])[..., 0].mT, theirs


def _preconditioned(k: torch.Tensor, g: torch.Tensor, beta: torch.Tensor) -> torch.Tensor:
    """k / x^s: s squashes the log of the decayed sum of k^2 (x = 1.5, centre -0.2)."""
    seen = dynamics(
        torch.ones_like(k[..., :1]), beta[..., None], evolution=evolution.Scalar(log_decay=g)
    )
    apart = (seen.apply(k.square()) + 1e-6).log() + 0.2
    return k * 1.5 ** (-apart / (1 + apart.abs()))


def preconditioned_gdn(draw: Draw) -> Pair:
    """a (I - beta p k^T), written at p."""
    q, k, v = draw.qkv()
    g, g2 = (functional.logsigmoid(draw()) for _ in range(2))
    beta, beta2 = (draw().sigmoid() for _ in range(2))
    theirs = naive_recurrent_precond_gated_delta_rule(*time_first(q, k, v, g2, g, beta2, beta))
    q, k = (functional.normalize(one, dim=-1) for one in (q, k))
    p = _preconditioned(k, g2, beta2)
    moved = evolution.DiagonalPlusRankOne(
        log_decay=g[..., None].expand_as(k), left=beta[..., None] * p, right=g.exp()[..., None] * k
    )
    return dynamics(q, p, evolution=moved, scaling=beta * ROOT).apply(v), back(theirs)


def preconditioned_kda(draw: Draw) -> Pair:
    """(I - beta p k^T) diag(a), written at p."""
    q, k, v = draw.qkv()
    k = functional.normalize(k, dim=-1)
    g, g2 = functional.logsigmoid(draw(N)), functional.logsigmoid(draw())
    beta, beta2 = (draw().sigmoid() for _ in range(2))
    theirs = naive_recurrent_precond_kda(*time_first(q, k, v, g, g2, beta2, beta))
    p = _preconditioned(k, g2, beta2)
    moved = evolution.DiagonalPlusRankOne(log_decay=g, left=beta[..., None] * p, right=g.exp() * k)
    return dynamics(q, p, evolution=moved, scaling=beta * ROOT).apply(v), back(theirs)


def distance(draw: Draw) -> Pair:
    """T5: a key and its age, which a shift counts up to the distance where the biases end."""
    ages = 17
    config = T5Config(
        d_model=H * N,
        d_kv=N,
        num_heads=H,
        is_decoder=True,
        relative_attention_num_buckets=8,
        relative_attention_max_distance=ages - 1,
        attn_implementation="eager",
    )
    layer = T5Attention(config, has_relative_attention_bias=True, layer_idx=0).eval().to(draw.dtype)
    for weight in layer.parameters():
        drawn = torch.randn(weight.shape, generator=draw.generator, dtype=torch.float64)
        weight.copy_(drawn.to(draw.dtype) / 2)
    x = draw(H * N, heads=1)[:, 0]
    past = torch.zeros(1, 1, L, L, dtype=draw.dtype).masked_fill(~causal(), -torch.inf)
    theirs = layer(x, mask=past)[0]
    q, k, v = (
        part(x).unflatten(-1, (H, N)).transpose(1, 2) for part in (layer.q, layer.k, layer.v)
    )
    biases = layer.compute_bias(L, L)[0, :, -1].flip(-1)[:, None, :ages].expand(B, H, L, ages)
    first = functional.one_hot(torch.tensor(0), ages).to(draw.dtype).expand(B, H, L, ages)
    older = torch.ones(ages - 1, dtype=draw.dtype).diag(-1)
    older[-1, -1] = 1
    step = torch.block_diag(torch.eye(N, dtype=draw.dtype), older).expand(L, N + ages, N + ages)
    ours = softmax(
        torch.cat([q, biases], -1),
        torch.cat([k, first], -1),
        evolution=evolution.Dense(matrix=step),
        scaling=1.0,
    )
    return layer.o(ours.apply(v).transpose(1, 2).flatten(-2)), theirs


def token_shift(draw: Draw) -> Pair:
    """The token before, less the token itself: a state of two values that moves on by one."""
    x = draw(DV)[:, 0]
    shift = torch.tensor([[0.0, 0.0], [1.0, 0.0]], dtype=draw.dtype).expand(B, L, 2, 2)
    q, k = (
        torch.tensor(pair, dtype=draw.dtype).expand(B, L, 2) for pair in ((-1.0, 1.0), (1.0, 0.0))
    )
    ours = dynamics(q, k, evolution=evolution.Dense(matrix=shift))
    return ours.apply(x), token_shift_ref(x)


def long_convolution(draw: Draw) -> Pair:
    """A kernel as long as the text, one per channel, and the token itself."""
    x, kernel = draw(DV)[:, 0], draw(DV)[0, 0]
    shift = torch.ones(L - 1, dtype=draw.dtype).diag(-1).expand(DV, L, L, L)
    q = kernel.mT[:, None].expand(DV, L, L)
    k = functional.one_hot(torch.tensor(0), L).to(draw.dtype).expand(DV, L, L)
    own = torch.ones(DV, L, dtype=draw.dtype)
    ours = dynamics(q, k, evolution=evolution.Dense(matrix=shift), own=own)
    expected = fft_conv(x.mT, kernel.mT, dropout_mask=None, gelu=False)
    return ours.apply(x.permute(2, 1, 0)).permute(2, 1, 0), expected.mT


#: name of a case -> the case; lines of the map name them
CASES = {
    "attention": attention,
    "taylor": taylor,
    "square": square,
    "abc": abc,
    "cyclic": cyclic,
    "dsa": dsa,
    "nsa selection": nsa_selection,
    "nsa compression": nsa_compression,
    "hgrn": hgrn,
    "rwkv4": rwkv4,
    "preconditioned gdn": preconditioned_gdn,
    "preconditioned kda": preconditioned_kda,
    "distance": distance,
    "token shift": token_shift,
    "long convolution": long_convolution,
}
