"""Models that call torch's own attention: a GPT in sixty lines, torch's layers, students' code."""

from __future__ import annotations

import math

import pytest
import torch
import zoo
from torch import nn
from torch.nn import functional
from torch.nn.functional import scaled_dot_product_attention as attend

from coefdyn import mask
from coefdyn.lens import effects, induction, looks, output_sizes, replaced, trace


class CausalSelfAttention(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.into = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, -1).transpose(1, 2)
            for part in self.into(x).chunk(3, -1)
        )
        y = functional.scaled_dot_product_attention(
            q, k, v, dropout_p=self.dropout if self.training else 0.0, is_causal=True
        )
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.before, self.behind = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = CausalSelfAttention(width, heads, dropout)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.before(x))
        return x + self.mlp(self.behind(x))


class GPT(nn.Module):
    """Token and position embeddings, blocks, a tied head."""

    def __init__(self, width: int = 32, heads: int = 4, layers: int = 2, dropout: float = 0.1):
        super().__init__()
        self.token, self.place = nn.Embedding(zoo.VOCAB, width), nn.Embedding(64, width)
        self.blocks = nn.ModuleList(Block(width, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, zoo.VOCAB, bias=False)
        self.head.weight = self.token.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.token(ids) + self.place(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def exact(model: nn.Module, *inputs: torch.Tensor, **kwargs: torch.Tensor) -> list:
    """The layers of a trace that leaves the output as it is."""
    with torch.no_grad():
        want = model(*inputs, **kwargs)
    seen = trace(model, *inputs, probe=True, **kwargs)
    got = seen.model_output
    want, got = (x[0] if isinstance(x, tuple) else x for x in (want, got))
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6)
    assert not seen.unsupported
    assert max(max(layer.error, layer.probe_error) for layer in seen) <= 1e-5
    return list(seen)


def test_a_gpt_in_sixty_lines() -> None:
    torch.manual_seed(0)
    model, ids = GPT().eval(), zoo.ids()
    layers = exact(model, ids)
    assert [layer.name for layer in layers] == ["blocks.0.attn", "blocks.1.attn"]
    assert layers[0].dynamics.batch_shape == (2, 4) and layers[0].dynamics.key_dim == 8
    assert torch.equal(trace(model, ids).model_output, model(ids))


def test_its_dropout_is_named() -> None:
    torch.manual_seed(0)
    with pytest.raises(ValueError, match=r"dropout is at work.*model\.eval"):
        trace(GPT().train(), zoo.ids())


class Student(nn.Module):
    """One head, three axes, and the function by a name of its own."""

    def __init__(self, hidden: float = -math.inf) -> None:
        super().__init__()
        self.hidden = hidden
        self.parts = nn.Linear(16, 48)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.parts(x).chunk(3, -1)
        bias = torch.full((x.shape[1], x.shape[1]), self.hidden).triu(1)
        return attend(q, k, v, attn_mask=bias, scale=0.3)


@pytest.mark.parametrize("hidden", [-math.inf, -1e9])
def test_a_function_that_was_imported_by_name(hidden: float) -> None:
    torch.manual_seed(0)
    (layer,) = exact(Student(hidden), torch.randn(2, 21, 16))
    assert layer.dynamics.batch_shape == (2, 1) and layer.dynamics.mask is None


def test_a_number_that_hides_little_is_not_causal() -> None:
    with pytest.raises(ValueError, match="encoder"):
        trace(Student(-1e4), torch.randn(2, 21, 16))


class Grouped(nn.Module):
    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.causal = causal
        self.attention = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q = self.attention(x).unflatten(-1, (4, 4)).transpose(1, 2)
        return functional.scaled_dot_product_attention(
            q, q[:, :2], q[:, 2:], is_causal=self.causal, enable_gqa=True
        )


def test_grouped_keys_and_a_map_that_is_not_causal() -> None:
    torch.manual_seed(0)
    (layer,) = exact(Grouped(causal=True), torch.randn(2, 21, 16))
    assert layer.dynamics.batch_shape == (2, 4)
    with pytest.raises(ValueError, match="encoder"):
        trace(Grouped(causal=False), torch.randn(2, 21, 16))


def causal(length: int) -> torch.Tensor:
    return nn.Transformer.generate_square_subsequent_mask(length)


@pytest.mark.parametrize("first", [True, False])
def test_the_encoder_layers_of_torch(first: bool) -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(32, 4, 48, batch_first=first, norm_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    x = torch.randn(2, 19, 32) if first else torch.randn(19, 2, 32)
    layers = exact(model, x, mask=causal(19), is_causal=True)
    assert [one.name for one in layers] == [f"layers.{i}.self_attn" for i in range(2)]
    assert layers[0].dynamics.batch_shape == (2, 4)


@pytest.mark.parametrize("weights", [True, False])
def test_multihead_attention_with_and_without_weights(weights: bool) -> None:
    torch.manual_seed(0)
    model, x = nn.MultiheadAttention(32, 4, batch_first=True).eval(), torch.randn(2, 19, 32)
    window = ~mask.Window(5).rows(0, 19, 0, x.device) | ~torch.ones(19, 19).bool().tril()
    (layer,) = exact(model, x, x, x, attn_mask=window, need_weights=weights)
    assert isinstance(layer.dynamics.mask, mask.Window) and layer.dynamics.mask.size == 5


def test_multihead_attention_between_two_sequences_is_refused() -> None:
    model = nn.MultiheadAttention(32, 4, batch_first=True).eval()
    with pytest.raises(ValueError, match="another sequence"):
        trace(model, torch.randn(2, 19, 32), *torch.randn(2, 2, 11, 32))


@pytest.mark.parametrize("nested", [True, False])
def test_padding_that_only_a_mask_shows_is_refused_by_what_takes_means(nested: bool) -> None:
    """``src_key_padding_mask`` of torch: nothing names the padding as (B, L) for the lens."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(32, 4, 48, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=nested).eval()
    x, ids = torch.randn(2, 10, 32), zoo.ids(10)
    padding = torch.zeros(2, 10).masked_fill(torch.arange(10) >= 7, -torch.inf)
    padding[0] = 0
    given = {"mask": causal(10), "src_key_padding_mask": padding, "is_causal": True}
    seen = trace(model, x, **given)
    assert max(one.error for one in seen) <= 1e-6 and seen[0].segments is None
    for read in (looks, output_sizes, lambda one: induction(one, ids), lambda _: seen.rows()):
        with pytest.raises(ValueError, match="hides some tokens from all others"):
            read(seen[0])
    with pytest.raises(ValueError, match="mean needs to know"), replaced(model, {0: "mean"}):
        model(x, **given)
    assert looks(trace(model, x, mask=causal(10), is_causal=True)[0]).first.shape == (2, 4)


class Looped(GPT):
    """All blocks run twice."""

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.token(ids)
        for block in (*self.blocks, *self.blocks):
            x = block(x)
        return self.head(self.norm(x))


def test_each_call_of_a_module_that_runs_twice_has_its_own_effect() -> None:
    torch.manual_seed(0)
    model, x = Looped(layers=1, heads=2).eval(), zoo.ids(9)
    rows = effects(model, x, progress=False)
    named = [(row["layer"], row["head"]) for row in rows]
    assert named == [(f"blocks.0.attn{turn}", head) for turn in ("", " (2)") for head in (0, 1)]
    for row, place in zip(rows, [(0, 0), (0, 1), (1, 0), (1, 1)], strict=True):
        by_number = effects(model, x, changes={"one": {place: "ablate"}}, progress=False)[0]
        assert row["logit_change"] == by_number["logit_change"] > 0
    both, first = ({name: "ablate"} for name in ("blocks.0.attn", "blocks.0.attn (1)"))
    found = effects(model, x, changes={"both": both, "first": first, "0": {0: "ablate"}})
    changes = [row["logit_change"] for row in found]
    assert changes[0] != changes[1] == changes[2]
