"""Mixers under torch.compile: the same numbers, forward and gradients.

Runs without run-time shape checks, which the compiler cannot trace
(``pytest -m compile --no-shape-checks``).
"""

from __future__ import annotations

import pytest
import torch
from mixer_cases import build, tokens
from tolerances import assert_agree

pytestmark = pytest.mark.compile

F64 = torch.float64
COMPILED = ("SoftmaxAttention", "GatedDeltaNet", "MLSTM", "Design-diagonal-mamba2-exp")


@pytest.mark.parametrize("case", COMPILED)
def test_compiled_is_eager(case: str) -> None:
    torch._dynamo.reset()
    mixer, x = build(case), tokens(2, 20)
    compiled = torch.compile(mixer, backend="aot_eager", fullgraph=True)
    y, expected = compiled(x), mixer(x)
    assert_agree(y, expected, method="mixer", dtype=F64, quantity="output")
    parameters = list(mixer.parameters())
    got = torch.autograd.grad(y.square().sum(), parameters)
    want = torch.autograd.grad(expected.square().sum(), parameters)
    for (name, _), a, b in zip(mixer.named_parameters(), got, want, strict=True):
        assert_agree(a, b, method="mixer", dtype=F64, quantity="gradient", what=name)


def test_compiled_to_machine_code() -> None:
    torch._dynamo.reset()
    mixer, x = build("Mamba2"), tokens(2, 20)
    y = torch.compile(mixer)(x)
    assert_agree(y, mixer(x), method="mixer", dtype=F64, quantity="output")
