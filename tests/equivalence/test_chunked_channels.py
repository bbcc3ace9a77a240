"""One head per channel (S6): a diagonal evolution with d_v = 1 runs token by token."""

from __future__ import annotations

import pytest
import torch
from chunked_cases import agrees_with_reference, draw_rounded
from designs import NORMALIZERS, Inputs

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.execution.chunked import diagonal_tokens
from coefdyn.execution.chunked.diagonal_tokens import diagonal_tokens_kernel
from coefdyn.execution.policy import choose
from coefdyn.mixers import S6

CHANNELS = (2, 9)


def chunked(d: CoefficientDynamics, v: torch.Tensor) -> torch.Tensor:
    return d.apply(v, method="chunked")


@pytest.fixture(autouse=True)
def runs(monkeypatch: pytest.MonkeyPatch) -> list[tuple]:
    """Blocks of four tokens, so that states are carried; records every forward pass."""
    seen: list[tuple] = []
    forward = diagonal_tokens_kernel.forward

    def recorded(q, *rest):
        seen.append(tuple(q.shape))
        return forward(q, *rest)

    monkeypatch.setattr(diagonal_tokens_kernel, "forward", recorded)
    monkeypatch.setattr(diagonal_tokens, "BLOCK_BYTES", 1)
    return seen


@pytest.mark.parametrize("log_scaled", [False, True])
@pytest.mark.parametrize("eta", NORMALIZERS)
def test_every_normalizer(eta: str, log_scaled: bool, runs: list) -> None:
    narrow, wide = draw_rounded(torch.float32, batch=CHANNELS, length=30, dv=1, seed=31)

    def build(x: Inputs) -> CoefficientDynamics:
        return x.dynamics("diagonal", "identity", eta, log_scaled)

    expected = agrees_with_reference(chunked, build, wide)
    if eta != "row_sum":  # a row sum that cancels magnifies rounding without bound
        agrees_with_reference(chunked, build, narrow, expected)
    assert runs, "these shapes run token by token"


@pytest.mark.parametrize("nats", [40.0, 1e4])
def test_no_decay_is_too_strong(nats: float) -> None:
    narrow, _ = draw_rounded(torch.float32, batch=CHANNELS, length=30, dv=1, seed=33)
    leaves = dict(narrow.leaves)
    decay = leaves["channel_decay"].detach()
    hard = torch.where(decay < -0.8, nats * decay, decay)
    inputs = Inputs({**leaves, "channel_decay": hard.requires_grad_()}, narrow.signs)
    agrees_with_reference(chunked, lambda x: x.dynamics("diagonal", "identity", "one"), inputs)


@pytest.mark.parametrize("dv", [1, 2])
@pytest.mark.parametrize("groups", [16, 2])
def test_gradcheck_of_states(runs: list, groups: int, dv: int) -> None:
    """Initial and final state, with every optional input, and heads that share q and k."""
    generator = torch.Generator().manual_seed(34)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()

    shared = draw(groups, 6, 2), draw(groups, 6, 2)
    inputs = (*shared, draw(16, 6, dv), draw(16, 6), draw(16, 6, 2), draw(16, 2, dv))

    def scan(*x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return diagonal_tokens_kernel(*x, 0.7)[:2]

    assert torch.autograd.gradcheck(scan, inputs, fast_mode=True)
    assert runs


@pytest.mark.parametrize("dv", [1, 2])
def test_heads_may_share_queries_and_keys(runs: list, dv: int) -> None:
    """As the same q and k once per head, and two sequences stay apart."""
    generator = torch.Generator().manual_seed(37)
    q, k = (torch.randn(2, 1, 21, 3, generator=generator) for _ in range(2))
    v = torch.randn(2, 9, 21, dv, generator=generator)
    g = -torch.rand(2, 9, 21, 3, generator=generator)

    def run(heads: int) -> tuple[torch.Tensor, ...]:
        leaves = [x.clone().requires_grad_() for x in (q, k, v, g)]
        d = CoefficientDynamics(
            q=leaves[0].expand(2, heads, 21, 3),
            k=leaves[1].expand(2, heads, 21, 3),
            evolution=evolution.Diagonal(log_decay=leaves[3]),
            scaling=1.0,
            readout=readout.identity,
            normalizer=normalizer.One(),
        )
        y = chunked(d, leaves[2])
        return y, *torch.autograd.grad(y.square().sum(), leaves)

    for shared, apart in zip(run(1), run(9), strict=True):
        torch.testing.assert_close(shared, apart, rtol=1e-5, atol=1e-5)
    assert runs[0] == (2, 21, 3) and (18, 21, 3) in runs


def test_given_log_decay_is_left_alone() -> None:
    """A single batch entry is laid out as the kernel wants it: nothing may be written into it."""
    q = torch.randn(1, 5, 3, generator=torch.Generator().manual_seed(35))
    g, before = -q.abs(), -q.abs()
    diagonal_tokens.forward(q, q, q[..., :1], None, g, None, 1.0)
    assert torch.equal(g, before)


def test_s6_takes_this_way_by_default(runs: list) -> None:
    mixer = S6(d_model=8, key_dim=4)
    x = torch.randn(2, 20, 8, generator=torch.Generator().manual_seed(36))
    tokens, _ = mixer.tokens(x)
    assert choose(mixer.build(tokens)) == "chunked"
    mixer(x).sum().backward()
    assert runs == [(2, 20, 4)]
