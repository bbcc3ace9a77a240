"""Outer decays, windows and blocks of softmax attention through torch's fused kernel."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tolerances import assert_agree

from coefdyn import CoefficientDynamics, evolution, mask, normalizer, readout
from coefdyn.execution.chunked import fused

F64, F32 = torch.float64, torch.float32
#: nats per token of three heads; a mask; tokens
CASES: dict[str, tuple[tuple[float, ...] | None, mask.Mask | None, int]] = {
    "slow": ((-0.01, -0.01, -0.01), None, 150),
    "as different as ALiBi": ((-0.5, -0.05, -0.001), None, 700),
    "growing": ((0.02, -0.3, 0.0), None, 200),
    "window": (None, mask.Window(50), 300),
    "window of one": (None, mask.Window(1), 70),
    "window longer than all": (None, mask.Window(500), 70),
    "window and decay": ((-1.0, -0.1, 0.0), mask.Window(90), 400),
    "blocks": (None, mask.Blocks(32), 200),
    "blocks and decay": ((-0.2, -0.02, 0.1), mask.Blocks(48, before=1), 300),
}


def design(case: str, dtype: torch.dtype) -> tuple[CoefficientDynamics, list[torch.Tensor]]:
    rates, restriction, length = CASES[case]
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> torch.Tensor:
        drawn = torch.randn(2, 3, length, *shape, generator=generator, dtype=F64)
        return drawn.to(dtype).requires_grad_()

    q, k, v, b = normal(6), normal(6), normal(6), normal()
    leaves, c = [q, k, v, b], None
    if rates is not None:
        rate = torch.tensor(rates, dtype=F64)[:, None]
        c = (rate * (1 + 0.5 * normal().detach().double())).to(dtype).requires_grad_()
        leaves.append(c)
    d = CoefficientDynamics(
        q=q,
        k=k,
        evolution=evolution.Identity(),
        scaling=b,
        readout=readout.exp,
        normalizer=normalizer.RowSum(),
        outer_log_decay=c,
        mask=restriction,
    )
    return d, leaves


@pytest.mark.parametrize("dtype", [F64, F32], ids=["float64", "float32"])
@pytest.mark.parametrize("case", CASES)
def test_outputs_and_gradients(case: str, dtype: torch.dtype) -> None:
    d, leaves = design(case, dtype)
    assert fused.fused_rows(d, torch.zeros_like(d.q)) is not None
    wide = [x.detach().double().requires_grad_() for x in leaves]
    exact = CoefficientDynamics(
        q=wide[0],
        k=wide[1],
        evolution=evolution.Identity(),
        scaling=wide[3],
        readout=readout.exp,
        normalizer=normalizer.RowSum(),
        outer_log_decay=wide[4] if len(wide) > 4 else None,
        mask=d.mask,
    )
    y, want = d.apply(leaves[2], method="chunked"), exact.apply(wide[2], method="parallel")
    assert_agree(y, want, method="chunked", dtype=dtype, quantity="output")
    weights = torch.linspace(-1, 2, y.numel(), dtype=F64).reshape(y.shape)
    mine = torch.autograd.grad((y * weights.to(dtype)).sum(), leaves)
    other = torch.autograd.grad((want * weights).sum(), wide)
    for name, got, expected in zip("qkvbc", mine, other, strict=False):
        if expected.norm() > 1e-9:  # a window of one token has one weight, 1
            assert_agree(
                got, expected, method="chunked", dtype=dtype, quantity="gradient", what=name
            )


def test_heads_that_forget_at_other_rates_have_tiles_of_their_own() -> None:
    d = design("as different as ALiBi", F32)[0]
    rows = fused.fused_rows(d, d.q)
    assert rows is not None
    assert len(rows[0].unique()) == 3


def test_keys_behind_a_window_are_not_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    d, leaves = design("window", F64)
    seen: list[tuple[int, int]] = []

    def spy(q: torch.Tensor, k: torch.Tensor, *rest: object, **named: object) -> object:
        seen.append((q.shape[-2], k.shape[-2]))
        return run(q, k, *rest, **named)

    run = fused.forward_part
    monkeypatch.setattr(fused, "forward_part", spy)
    d.apply(leaves[2], method="chunked")
    assert sum(rows for rows, _ in seen) == 300
    assert all(columns <= rows + 49 for rows, columns in seen)


def test_faded_keys_are_not_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    d, leaves = design("as different as ALiBi", F32)
    seen: list[int] = []

    def spy(q: torch.Tensor, k: torch.Tensor, *rest: object, **named: object) -> object:
        seen.append(q.shape[0] * q.shape[-2] * k.shape[-2])
        return run(q, k, *rest, **named)

    run = fused.forward_part
    monkeypatch.setattr(fused, "forward_part", spy)
    d.apply(leaves[2], method="chunked")
    assert sum(seen) < 0.7 * 6 * 700**2


@pytest.mark.parametrize("nats", [-1e9, torch.finfo(F32).min, 300.0])
def test_decays_that_are_masks_are_left_to_plain_rows(nats: float) -> None:
    d, leaves = design("slow", F32)
    with torch.no_grad():
        leaves[4][..., 70] = nats
    y = d.apply(leaves[2], method="chunked")
    want = d.to(F64).apply(leaves[2].double(), method="parallel")
    assert_agree(y, want, method="chunked", dtype=F32, quantity="output")


def test_what_is_not_taken() -> None:
    d, _ = design("window", F64)
    assert fused.fused_rows(d, d.q[..., :5]) is None  # d_v differs from n
    allowed = torch.ones(300, 300, dtype=torch.bool)
    for changed in (
        {"mask": mask.Given(allowed)},
        {"mask": None},
        {"readout": readout.softplus},
        {"normalizer": normalizer.RowSum(sink=0.0)},
        {"own": torch.ones(2, 3, 300, dtype=F64)},
        {"evolution": evolution.Scalar(log_decay=-torch.ones(2, 3, 300, dtype=F64))},
    ):
        assert fused.fused_rows(replace(d, **changed), d.q) is None
