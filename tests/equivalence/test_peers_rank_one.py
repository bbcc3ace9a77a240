"""Rows beyond Table 1 whose A_t is diagonal plus rank one, against their authors' references.

fla-core's naive functions compute in float32; ``widened`` lets them compute in float64, so that
outputs and gradients can be told apart to 1e-10.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest
import torch
from fla.ops.comba.naive import naive_chunk_comba, naive_recurrent_comba
from fla.ops.gated_delta_product.naive import naive_recurrent_gated_delta_product
from fla.ops.gdn2.naive import naive_chunk_gdn2, naive_recurrent_gdn2
from fla.ops.generalized_delta_rule.dplr.naive import dplr_recurrence
from fla.ops.kda.naive import naive_chunk_kda, naive_recurrent_kda
from mixer_cases import build, tokens
from tolerances import assert_agree
from torch.nn import functional
from transformers.models.kimi_linear.modeling_kimi_linear import chunk_kimi_delta_attention
from widened import agrees_with_peer, fla, widened

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.analysis import probe
from coefdyn.mixers.projections import split_heads

Leaves = dict[str, torch.Tensor]
LENGTH, N, DV = 64, 8, 6
ROOT = N**-0.5


def draw(seed: int = 0) -> Leaves:
    """Leaves in float64, all with gradients; keys of unit norm."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(2, 3, LENGTH, *shape, generator=generator, dtype=torch.float64)

    leaves = {
        "q": normal(N),
        "k": functional.normalize(normal(N), dim=-1),
        "v": normal(DV),
        "p": functional.normalize(normal(N), dim=-1),
        "gate": normal(N),
        "erase": normal(N),
        "write": normal(DV),
        "beta": normal(),
        "decay": normal(),
    }
    return {name: value.requires_grad_() for name, value in leaves.items()}


def linear(
    x: Leaves, evolved: evolution.Evolution, scaling: torch.Tensor | float
) -> CoefficientDynamics:
    return CoefficientDynamics(
        q=x["q"],
        k=x["k"],
        evolution=evolved,
        scaling=scaling,
        readout=readout.identity,
        normalizer=normalizer.One(),
    )


def kda(x: Leaves) -> tuple[CoefficientDynamics, torch.Tensor]:
    """(I - beta k k^T) diag(a) (arXiv 2510.26692)."""
    beta, g = x["beta"].sigmoid(), functional.logsigmoid(x["gate"])
    evolved = evolution.DiagonalPlusRankOne(
        log_decay=g, left=beta[..., None] * x["k"], right=g.exp() * x["k"]
    )
    return linear(x, evolved, beta * ROOT), x["v"]


def kda_peer(x: Leaves, run: Callable) -> torch.Tensor:
    g, beta = functional.logsigmoid(x["gate"]), x["beta"].sigmoid()
    return fla(run, x["q"], x["k"], x["v"], g, beta)


def gdn2(x: Leaves) -> tuple[CoefficientDynamics, torch.Tensor]:
    """(I - k (b * k)^T) diag(a), values w * v (arXiv 2605.22791)."""
    g, b = functional.logsigmoid(x["gate"]), x["erase"].sigmoid()
    evolved = evolution.DiagonalPlusRankOne(log_decay=g, left=x["k"], right=g.exp() * b * x["k"])
    return linear(x, evolved, ROOT), x["write"].sigmoid() * x["v"]


def gdn2_peer(x: Leaves, run: Callable) -> torch.Tensor:
    g, b, w = functional.logsigmoid(x["gate"]), x["erase"].sigmoid(), x["write"].sigmoid()
    return fla(run, x["q"], x["k"], x["v"], g, b, w)


def _comba(x: Leaves, right: torch.Tensor) -> tuple[CoefficientDynamics, torch.Tensor]:
    beta, g = x["beta"].sigmoid(), functional.logsigmoid(x["decay"])
    evolved = evolution.DiagonalPlusRankOne(
        log_decay=g[..., None].expand_as(x["k"]), left=beta[..., None] * x["k"], right=right
    )
    return linear(x, evolved, beta * ROOT), x["v"]


def comba(x: Leaves) -> tuple[CoefficientDynamics, torch.Tensor]:
    """a I - beta k p^T: scalar plus low rank (arXiv 2506.02475), as fla's chunked function."""
    return _comba(x, x["p"])


def comba_decay_first(x: Leaves) -> tuple[CoefficientDynamics, torch.Tensor]:
    """a (I - beta k p^T): fla's recurrent function decays before it reads."""
    return _comba(x, x["decay"].sigmoid()[..., None] * x["p"])


def comba_recurrent(x: Leaves) -> torch.Tensor:
    beta, g = x["beta"].sigmoid(), functional.logsigmoid(x["decay"])
    return fla(naive_recurrent_comba, x["q"], x["k"], x["v"], x["p"], beta, g)


def comba_chunked(x: Leaves) -> torch.Tensor:
    beta, g = x["beta"].sigmoid(), functional.logsigmoid(x["decay"])
    return fla(naive_chunk_comba, x["q"], x["k"], x["v"], x["p"], g, beta, chunk_size=16)


def rwkv7(x: Leaves) -> tuple[CoefficientDynamics, torch.Tensor]:
    """diag(w) - (eta * kappa) kappa^T without the bonus of a token for itself (2503.14456)."""
    evolved = evolution.DiagonalPlusRankOne(
        log_decay=functional.logsigmoid(x["gate"]),
        left=x["erase"].sigmoid() * x["p"],
        right=x["p"],
    )
    return linear(x, evolved, ROOT), x["v"]


def rwkv7_peer(x: Leaves) -> torch.Tensor:
    low, g = x["erase"].sigmoid() * x["p"], functional.logsigmoid(x["gate"])
    with widened():
        return dplr_recurrence(x["q"], x["k"], x["v"], -x["p"], low, g)[0]


ROWS: dict[str, tuple[Callable, Callable]] = {
    "kda-recurrent": (kda, lambda x: kda_peer(x, naive_recurrent_kda)),
    "kda-chunked": (kda, lambda x: kda_peer(x, naive_chunk_kda)),
    "kda-transformers": (
        kda,
        lambda x: kda_peer(x, inspect.unwrap(chunk_kimi_delta_attention)),
    ),
    "gdn2-recurrent": (gdn2, lambda x: gdn2_peer(x, naive_recurrent_gdn2)),
    "gdn2-chunked": (gdn2, lambda x: gdn2_peer(x, naive_chunk_gdn2)),
    "comba-recurrent": (comba_decay_first, comba_recurrent),
    "comba-chunked": (comba, comba_chunked),
    "rwkv7-without-bonus": (rwkv7, rwkv7_peer),
}


@pytest.mark.parametrize("method", ["chunked", "recurrent"])
@pytest.mark.parametrize("row", ROWS)
def test_row_is_its_authors(row: str, method: str) -> None:
    ours, theirs = ROWS[row]
    leaves = draw()
    dynamics, values = ours(leaves)
    agrees_with_peer(leaves, dynamics.apply(values, method=method), theirs(leaves))


@pytest.mark.parametrize("row", ["kda-recurrent", "gdn2-recurrent", "rwkv7-without-bonus"])
def test_the_probe_reads_the_same_coefficients_off_the_peer(row: str) -> None:
    ours, theirs = ROWS[row]
    leaves = draw()
    if row.startswith("gdn2"):
        leaves["write"] = torch.full_like(leaves["write"], 50.0)  # the gate of the values is open
    with torch.no_grad():
        found = probe(lambda v: theirs({**leaves, "v": v}), leaves["v"].detach())
        assert found.has_coefficients(1e-12), str(found)
        want = ours(leaves)[0].coefficients(normalized=True)
        assert_agree(
            found.coefficients, want, method="peer", dtype=torch.float64, quantity="output"
        )


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("steps", [2, 3])
def test_delta_product_is_virtual_tokens_read_at_the_last(steps: int, gated: bool) -> None:
    """A_t = a_t prod_m (I - beta_m k_m k_m^T): m tokens per token, the decay on the first."""
    generator = torch.Generator().manual_seed(1)

    def normal(length: int, *shape: int) -> torch.Tensor:
        return torch.randn(2, 3, length, *shape, generator=generator, dtype=torch.float64)

    many = steps * LENGTH
    x = {
        "q": normal(LENGTH, N),
        "k": functional.normalize(normal(many, N), dim=-1),
        "v": normal(many, DV),
        "beta": normal(many),
        "decay": normal(LENGTH),
    }
    x = {name: value.requires_grad_() for name, value in x.items()}
    beta, g = x["beta"].sigmoid(), functional.logsigmoid(x["decay"])
    first = torch.stack([g, *[torch.zeros_like(g)] * (steps - 1)], -1).flatten(-2)
    evolved = (
        evolution.Householder(direction=x["k"], beta=beta, log_decay=first)
        if gated
        else evolution.Householder(direction=x["k"], beta=beta)
    )
    dynamics = CoefficientDynamics(
        q=x["q"].repeat_interleave(steps, dim=-2),
        k=x["k"],
        evolution=evolved,
        scaling=beta * ROOT,
        readout=readout.identity,
        normalizer=normalizer.One(),
    )
    ours = dynamics.apply(x["v"])[..., steps - 1 :: steps, :]
    q, k, v, b, g = (value.transpose(1, 2) for value in (x["q"], x["k"], x["v"], beta, g))
    with widened():
        theirs = naive_recurrent_gated_delta_product(
            q, k, v, g if gated else None, b, ROOT, num_householder=steps
        )[0].transpose(1, 2)
    agrees_with_peer(x, ours, theirs)


def layer_sees(mixer, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """q, k and v as they leave the projections, before the mixer's own gates touch them."""
    found = super(type(mixer), mixer).tokens(x)[0]
    return found.q, found.k, found.v


def test_gated_deltanet2_builds_what_its_authors_compute() -> None:
    mixer, x = build("GatedDeltaNet2"), tokens(2, LENGTH)
    q, k, v = layer_sees(mixer, x)
    erase, write = (split_heads(part(x).sigmoid(), 2) for part in (mixer.erase, mixer.write))
    theirs = fla(naive_recurrent_gdn2, q, k, v, mixer.decay(x), erase, write)
    dynamics, values = mixer.dynamics(x)
    agrees_with_peer(
        {"x": dict(mixer.named_parameters())["project.key.linear.weight"]},
        dynamics.apply(values),
        theirs,
    )


def test_comba_builds_what_its_authors_compute() -> None:
    mixer, x = build("Comba"), tokens(2, LENGTH)
    q, k, v = layer_sees(mixer, x)
    q = q - mixer.correction[:, None, None] * k
    p = mixer.feedback.sigmoid()[:, None, None] * k
    theirs = fla(naive_chunk_comba, q, k, v, p, mixer.decay(x)[0], mixer.beta(x), chunk_size=16)
    dynamics, values = mixer.dynamics(x)
    agrees_with_peer(
        {"feedback": mixer.feedback, "correction": mixer.correction}, dynamics.apply(values), theirs
    )
