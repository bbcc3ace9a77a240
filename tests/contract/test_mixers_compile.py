"""Mixers under torch.compile: one graph, the same numbers, forward and gradients.

Runs without run-time shape checks, which the compiler cannot trace
(``pytest -m compile --no-shape-checks``).
"""

from __future__ import annotations

import pytest
import torch
from mixer_cases import build, tokens
from passed import MODELS
from tolerances import assert_agree

from coefdyn.mixers import MIXERS

pytestmark = [pytest.mark.compile, pytest.mark.reads(MODELS)]

F64 = torch.float64
#: what the default compiler sees before it writes machine code, with its decompositions
GRAPH = "aot_eager_decomp_partition"


def check(case: str, backend: str, length: int = 20) -> None:
    """Outputs and gradients of the compiled mixer are those of the eager one."""
    torch._dynamo.reset()
    mixer, x = build(case), tokens(2, length)
    compiled = torch.compile(mixer, backend=backend, fullgraph=True)
    y, expected = compiled(x), mixer(x)
    assert_agree(y, expected, method="mixer", dtype=F64, quantity="output")
    parameters = list(mixer.parameters())
    got = torch.autograd.grad(y.square().sum(), parameters)
    want = torch.autograd.grad(expected.square().sum(), parameters)
    for (name, _), a, b in zip(mixer.named_parameters(), got, want, strict=True):
        assert_agree(a, b, method="mixer", dtype=F64, quantity="gradient", what=name)


@pytest.mark.parametrize("case", [*MIXERS, "Design-diagonal-mamba2-exp"])
def test_one_graph(case: str) -> None:
    check(case, GRAPH)


@pytest.mark.parametrize(
    ("case", "length"), [("LinearAttention", 20), ("Mamba2", 80), ("GatedDeltaNet", 80)]
)
def test_without_decompositions(case: str, length: int) -> None:
    """Layouts of gradients are as promised, in the whole matrix and in chunks."""
    check(case, "aot_eager", length)


@pytest.mark.parametrize("case", ["GatedDeltaNet", "SoftmaxAttention", "MLSTM"])
def test_states_go_in_and_out_of_a_graph(case: str) -> None:
    torch._dynamo.reset()
    mixer, x = build(case), tokens(2, 20)

    def pieces(x: torch.Tensor) -> torch.Tensor:
        first, state = mixer(x[:, :12], return_state=True)
        return torch.cat([first, mixer(x[:, 12:], state=state.index([0, 1]).detach())], 1)

    y = torch.compile(pieces, backend="eager", fullgraph=True)(x)
    assert_agree(y, mixer(x), method="mixer", dtype=F64, quantity="output")
    state = mixer(x[:, :12], return_state=True)[1]
    y, after = torch.compile(mixer.extend, backend="eager", fullgraph=True)(x[:, 12:], state)
    assert_agree(y, mixer(x)[:, 12:], method="mixer", dtype=F64, quantity="output")
    assert after.position == 20
