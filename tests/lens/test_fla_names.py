"""Layers that import fla's operations by name, with stand-ins that run on a CPU."""

from __future__ import annotations

import pytest
import torch
import zoo
from torch import nn
from transformers.models.kimi_linear import modeling_kimi_linear
from transformers.models.qwen3_next import modeling_qwen3_next

from coefdyn.lens import trace

GATED = modeling_qwen3_next.torch_chunk_gated_delta_rule.__wrapped__
PER_CHANNEL = modeling_kimi_linear.chunk_kimi_delta_attention.__wrapped__


def chunk_gated_delta_rule(q, k, v, g, beta, scale=None, use_qk_l2norm_in_kernel=False, **_):
    """fla's names and order; its scale is free."""
    factor = 1.0 if scale is None else scale * q.shape[-1] ** 0.5
    y, state = GATED(q, k, v, g, beta, use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel)
    return factor * y, state


def chunk_kda(q, k, v, g, beta, use_qk_l2norm_in_kernel=False, **_):
    return PER_CHANNEL(q, k, v, g, beta, use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel)


class Layer(nn.Module):
    """Calls an operation of this module by its name, as the layers of fla do."""

    def __init__(self, per_channel: bool, **flags: object) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(zoo.VOCAB, 32)
        self.project = nn.Linear(32, 2 * 4 * 8)
        self.per_channel, self.flags = per_channel, flags

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embedding(ids)
        q, k, v, g = self.project(x).unflatten(-1, (2, 4, 8)).unbind(-2)
        g = nn.functional.logsigmoid(g)
        given = {"q": q, "k": k, "v": v, "g": g if self.per_channel else g[..., 0]}
        given["beta"] = v[..., 1].sigmoid()
        op = chunk_kda if self.per_channel else chunk_gated_delta_rule
        return op(**given, use_qk_l2norm_in_kernel=True, **self.flags)[0]


@pytest.mark.parametrize("per_channel", [False, True])
def test_an_operation_called_by_flas_name_is_heard(per_channel: bool) -> None:
    model, x = Layer(per_channel), zoo.ids()
    with torch.no_grad():
        want = model(x)
    seen = trace(model, x, probe=True)
    assert torch.equal(seen.model_output, want)
    assert len(seen) == 1 and seen[0].error <= 1e-5 and seen[0].probe_error <= 1e-5


def test_flas_own_scale_is_used() -> None:
    seen = trace(Layer(False, scale=0.7), zoo.ids())
    assert seen[0].error <= 1e-5


def test_raw_inputs_are_named() -> None:
    with pytest.raises(ValueError, match="use_gate_in_kernel"):
        trace(Layer(False, use_gate_in_kernel=True), zoo.ids())
