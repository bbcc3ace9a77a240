"""``coefdyn.ops`` against the published recurrences, in float64 and float32, and against fla."""

from __future__ import annotations

import inspect
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tolerances import assert_agree
from torch.nn import functional

from coefdyn import ops

Inputs = dict[str, Any]
F32, F64 = torch.float32, torch.float64
RECORD = Path(__file__).parents[1] / "golden" / "ops_signatures.json"
#: where each operation is in fla
HOMES = {
    "chunk_gated_delta_rule": "gated_delta_rule",
    "fused_recurrent_gated_delta_rule": "gated_delta_rule",
    "chunk_delta_rule": "delta_rule",
    "chunk_gla": "gla",
    "chunk_simple_gla": "simple_gla",
    "chunk_retention": "retention",
    "chunk_kda": "kda",
    "chunk_linear_attn": "linear_attn",
}
BATCH, LENGTH, HEADS, GROUPED, KEYS, VALUES = 2, 70, 2, 4, 5, 3


def drawn(dtype: torch.dtype, grouped: bool = False, length: int = LENGTH, batch: int = BATCH):
    """Inputs of every name, leaves of a graph; q and k have ``HEADS`` heads, the rest may more."""
    noise = torch.Generator().manual_seed(5)
    heads = GROUPED if grouped else HEADS

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=noise, dtype=F64).to(dtype)

    rows = (batch, length)
    found = {
        "q": normal(*rows, HEADS, KEYS),
        "k": functional.normalize(normal(*rows, HEADS, KEYS), dim=-1),
        "v": normal(*rows, heads, VALUES),
        "g": -0.2 * normal(*rows, heads).square(),
        "gk": -0.2 * normal(*rows, heads, KEYS).square(),
        "beta": normal(*rows, heads).sigmoid(),
        "state": normal(batch, heads, KEYS, VALUES),
        "A_log": 0.3 * normal(heads),
        "dt_bias": 0.3 * normal(heads),
        "dt_bias_k": 0.3 * normal(heads * KEYS),
    }
    return {name: x.detach().requires_grad_() for name, x in found.items()}


def recurrence(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    decay: torch.Tensor,
    beta: torch.Tensor | None,
    scale: float,
    state: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The equation, token by token: decay (B, T, HV, K or 1) and a delta rule unless beta is None.

    S <- exp(g) S;  S <- S + k (beta (v - S^T k))^T or S + k v^T;  o = scale S^T q.
    """
    shared = v.shape[2] // q.shape[2]
    q, k = (x.repeat_interleave(shared, dim=2) for x in (q, k))
    held = v.new_zeros(v.shape[0], v.shape[2], k.shape[-1], v.shape[-1])
    held = held if state is None else state
    rows = []
    for t in range(q.shape[1]):
        held = held * decay[:, t].exp()[..., None]
        written = v[:, t]
        if beta is not None:
            read = torch.einsum("bhkv,bhk->bhv", held, k[:, t])
            written = beta[:, t, :, None] * (written - read)
        held = held + k[:, t, :, :, None] * written[:, :, None, :]
        rows.append(scale * torch.einsum("bhkv,bhk->bhv", held, q[:, t]))
    return torch.stack(rows, 1), held


def unit(x: torch.Tensor) -> torch.Tensor:
    return x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt()


def gate(x: Inputs) -> torch.Tensor:
    return -x["A_log"].exp() * functional.softplus(x["g"] + x["dt_bias"])


def channel_gate(x: Inputs, bound: float | None = None) -> torch.Tensor:
    heads = x["v"].shape[2]
    raw = x["gk"] + x["dt_bias_k"].view(heads, KEYS)
    rate = x["A_log"].exp()[:, None]
    return -rate * functional.softplus(raw) if bound is None else bound * (rate * raw).sigmoid()


def retention_decay(x: Inputs) -> torch.Tensor:
    fixed = (1 - 2.0 ** (-5.0 - torch.arange(HEADS, dtype=F32))).log().to(x["q"].dtype)
    return fixed[:, None].expand(*x["q"].shape[:3], 1)


def none(x: Inputs) -> torch.Tensor:
    return torch.zeros_like(x["v"][..., :1])


DEFAULT = KEYS**-0.5
#: case -> (ours, the same by the equation: q, k, decay, beta, scale), both of inputs
CASES: dict[str, tuple[Callable, Callable, bool]] = {
    "chunk_gated_delta_rule": (
        lambda x, **o: ops.chunk_gated_delta_rule(x["q"], x["k"], x["v"], x["g"], x["beta"], **o),
        lambda x: (x["q"], x["k"], x["g"][..., None], x["beta"], DEFAULT),
        True,
    ),
    "chunk_gated_delta_rule raw": (
        lambda x, **o: ops.chunk_gated_delta_rule(
            *(x["q"], x["k"], x["v"], x["g"], x["beta"]),
            scale=0.7,
            use_qk_l2norm_in_kernel=True,
            use_gate_in_kernel=True,
            use_beta_sigmoid_in_kernel=True,
            allow_neg_eigval=True,
            A_log=x["A_log"],
            dt_bias=x["dt_bias"],
            **o,
        ),
        lambda x: (
            *(unit(x["q"]), unit(x["k"]), gate(x)[..., None]),
            *(2 * x["beta"].sigmoid(), 0.7),
        ),
        True,
    ),
    "fused_recurrent_gated_delta_rule": (
        lambda x, **o: ops.fused_recurrent_gated_delta_rule(
            x["q"], x["k"], x["v"], x["g"], x["gk"], beta=x["beta"], **o
        ),
        lambda x: (x["q"], x["k"], x["g"][..., None] + x["gk"], x["beta"], DEFAULT),
        True,
    ),
    "fused_recurrent_gated_delta_rule bare": (
        lambda x, **o: ops.fused_recurrent_gated_delta_rule(x["q"], x["k"], x["v"], **o),
        lambda x: (x["q"], x["k"], none(x), torch.ones_like(x["v"][..., 0]), DEFAULT),
        True,
    ),
    "fused_recurrent_gated_delta_rule raw": (
        lambda x, **o: ops.fused_recurrent_gated_delta_rule(
            *(x["q"], x["k"], x["v"], x["g"]),
            beta=x["beta"],
            use_gate_in_kernel=True,
            A_log=x["A_log"],
            dt_bias=x["dt_bias"],
            **o,
        ),
        lambda x: (x["q"], x["k"], gate(x)[..., None], x["beta"], DEFAULT),
        True,
    ),
    "chunk_delta_rule": (
        lambda x, **o: ops.chunk_delta_rule(x["q"], x["k"], x["v"], x["beta"], **o),
        lambda x: (x["q"], x["k"], none(x), x["beta"], DEFAULT),
        False,
    ),
    "chunk_gla": (
        lambda x, **o: ops.chunk_gla(x["q"], x["k"], x["v"], x["gk"], **o),
        lambda x: (x["q"], x["k"], x["gk"], None, DEFAULT),
        False,
    ),
    "chunk_simple_gla": (
        lambda x, **o: ops.chunk_simple_gla(x["q"], x["k"], x["v"], x["g"], scale=1.0, **o),
        lambda x: (x["q"], x["k"], x["g"][..., None], None, 1.0),
        False,
    ),
    "chunk_simple_gla fixed": (
        lambda x, **o: ops.chunk_simple_gla(x["q"], x["k"], x["v"], g_gamma=x["A_log"], **o),
        lambda x: (
            *(x["q"], x["k"], x["A_log"][:, None].expand(*x["q"].shape[:3], 1)),
            *(None, DEFAULT),
        ),
        False,
    ),
    "chunk_simple_gla bare": (
        lambda x, **o: ops.chunk_simple_gla(x["q"], x["k"], x["v"], **o),
        lambda x: (x["q"], x["k"], none(x), None, DEFAULT),
        False,
    ),
    "chunk_retention": (
        lambda x, **o: ops.chunk_retention(x["q"], x["k"], x["v"], **o),
        lambda x: (x["q"], x["k"], retention_decay(x), None, DEFAULT),
        False,
    ),
    "chunk_kda": (
        lambda x, **o: ops.chunk_kda(x["q"], x["k"], x["v"], x["gk"], x["beta"], **o),
        lambda x: (x["q"], x["k"], x["gk"], x["beta"], DEFAULT),
        True,
    ),
    "chunk_kda raw": (
        lambda x, **o: ops.chunk_kda(
            *(x["q"], x["k"], x["v"], x["gk"], x["beta"]),
            use_gate_in_kernel=True,
            use_beta_sigmoid_in_kernel=True,
            A_log=x["A_log"],
            dt_bias=x["dt_bias_k"],
            **o,
        ),
        lambda x: (x["q"], x["k"], channel_gate(x), x["beta"].sigmoid(), DEFAULT),
        True,
    ),
    "chunk_kda bounded": (
        lambda x, **o: ops.chunk_kda(
            *(x["q"], x["k"], x["v"], x["gk"], x["beta"]),
            use_gate_in_kernel=True,
            safe_gate=True,
            lower_bound=-3.0,
            A_log=x["A_log"],
            dt_bias=x["dt_bias_k"],
            **o,
        ),
        lambda x: (x["q"], x["k"], channel_gate(x, -3.0), x["beta"], DEFAULT),
        True,
    ),
    "chunk_linear_attn": (
        lambda x, **o: ops.chunk_linear_attn(x["q"], x["k"], x["v"], normalize=False, **o),
        lambda x: (x["q"], x["k"], none(x), None, DEFAULT),
        False,
    ),
}


def by_the_equation(name: str, x: Inputs, state: torch.Tensor | None) -> tuple:
    q, k, decay, beta, scale = CASES[name][1](x)
    return recurrence(q, k, x["v"], decay, beta, scale, state)


def agree(mine: tuple, theirs: tuple, x: Inputs) -> None:
    """Outputs and states, and the gradient of every input by a loss of both."""
    dtype = theirs[0].dtype
    for a, b in zip(mine, theirs, strict=True):
        assert a.dtype == dtype
        assert_agree(a, b, method="peer", dtype=dtype, quantity="output")
    leaves = list(x.values())

    def gradients(found: tuple) -> list[torch.Tensor | None]:
        loss = sum(
            (torch.linspace(-1, 2, y.numel(), dtype=dtype).view_as(y) * y).sum() for y in found
        )
        return list(torch.autograd.grad(loss, leaves, allow_unused=True))

    used = 0
    for name, a, b in zip(x, gradients(mine), gradients(theirs), strict=True):
        assert (a is None) == (b is None), name
        if a is not None and b is not None:
            used += 1
            assert_agree(a, b, method="peer", dtype=dtype, quantity="gradient", what=name)
    assert used >= 3


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_outputs_states_and_gradients_are_those_of_the_equation(
    name: str, dtype: torch.dtype
) -> None:
    ours, _, grouped = CASES[name]
    for start in (False, True):
        x = drawn(dtype, grouped)
        state = x["state"] if start else None
        mine = ours(x, initial_state=state, output_final_state=True)
        agree(mine, by_the_equation(name, x, state), x)
    plain, nothing = ours(x)
    assert nothing is None
    torch.testing.assert_close(plain, by_the_equation(name, x, None)[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_packed_documents_are_separate_ones(name: str) -> None:
    """Two of them hold no token: their states stay as they are."""
    ours, _, grouped = CASES[name]
    bounds = [0, 9, 9, 66, LENGTH, LENGTH]
    x = drawn(F64, grouped, batch=1)
    start = torch.randn(5, *x["state"].shape[1:], dtype=F64, requires_grad=True)
    for first in (None, start):
        mine = ours(
            x, cu_seqlens=torch.tensor(bounds), initial_state=first, output_final_state=True
        )
        rows, states = [], []
        for place, (a, b) in enumerate(itertools.pairwise(bounds)):
            part = {n: v[:, a:b] if v.ndim > 2 and n != "state" else v for n, v in x.items()}
            held = None if first is None else first[place : place + 1]
            if a == b:
                states.append(torch.zeros_like(x["state"]) if held is None else held)
                continue
            y, after = by_the_equation(name, part, held)
            rows.append(y)
            states.append(after)
        leaves = dict(x) if first is None else {**x, "start": start}
        agree(mine, (torch.cat(rows, 1), torch.cat(states)), leaves)
    none_left = {n: v[:, :0] if v.ndim > 2 and n != "state" else v for n, v in x.items()}
    y, after = ours(
        none_left, cu_seqlens=torch.tensor([0, 0]), initial_state=start[:1], output_final_state=True
    )
    assert y.shape[1] == 0 and torch.equal(after, start[:1])


@pytest.mark.parametrize(
    "name", [n for n in CASES if "state_v_first" in ops.ARGUMENTS[n.split()[0]]]
)
def test_states_may_hold_values_first(name: str) -> None:
    ours, _, grouped = CASES[name]
    x = drawn(F64, grouped)
    y, after = ours(x, initial_state=x["state"], output_final_state=True)
    turned = {"initial_state": x["state"].mT, "output_final_state": True}
    y_turned, after_turned = ours(x, state_v_first=True, **turned)
    assert torch.equal(y, y_turned) and torch.equal(after, after_turned.mT)
    if "transpose_state_layout" in ops.ARGUMENTS[name.split()[0]]:
        assert torch.equal(ours(x, transpose_state_layout=True, **turned)[0], y)


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("packed", [False, True])
def test_linear_attention_divides_and_carries_its_sums(dtype: torch.dtype, packed: bool) -> None:
    x = drawn(dtype, batch=1 if packed else 2)
    x = {
        **x,
        "q": x["q"].detach().abs().requires_grad_(),
        "k": x["k"].detach().abs().requires_grad_(),
    }
    count = 3 if packed else 2
    state = torch.randn(count, HEADS, KEYS, VALUES, dtype=dtype, requires_grad=True)
    sums = torch.rand(count, 1, HEADS, KEYS, dtype=dtype).requires_grad_()
    bounds = [0, 30, 30, LENGTH] if packed else [0, LENGTH]
    given = {"cu_seqlens": torch.tensor(bounds) if packed else None}
    for pair in (None, state, (state, sums)):
        mine, (last, total) = ops.chunk_linear_attn(
            x["q"], x["k"], x["v"], initial_state=pair, output_final_state=True, **given
        )
        before = pair[0] if isinstance(pair, tuple) else pair
        z0 = pair[1] if isinstance(pair, tuple) else torch.zeros_like(sums)
        rows, states, ends = [], [], []
        for place, (a, b) in enumerate(itertools.pairwise(bounds)):
            at = slice(place, place + 1) if packed else slice(None)
            q, k, v = (x[n][:, a:b] for n in "qkv")
            z = torch.cat([z0[at], k], 1).cumsum(1)
            held = torch.zeros_like(state[at]) if before is None else before[at]
            if b > a:
                flat = torch.zeros_like(v[..., :1])
                y, held = recurrence(q, k, v, flat, None, DEFAULT, held)
                rows.append(y / ((DEFAULT * q * z[:, 1:]).sum(-1, keepdim=True) + 1e-10))
            states.append(held)
            ends.append(z[:, -1:])
        leaves = {**{n: x[n] for n in "qkv"}, "state": state, "sums": sums}
        agree((mine, last, total), (torch.cat(rows, 1), torch.cat(states), torch.cat(ends)), leaves)
    assert ops.chunk_linear_attn(x["q"], x["k"], x["v"])[1][0] is None


def test_half_precision_comes_back_as_it_went_in() -> None:
    """Computed in float32, so as near to float64 as the rounding of the inputs allows."""
    for name, (ours, _, grouped) in CASES.items():
        x = {n: v.detach() for n, v in drawn(torch.bfloat16, grouped).items()}
        y, state = ours(x, output_final_state=True)
        assert y.dtype == torch.bfloat16 and state.dtype == F32, name
        wide = {n: v.double() for n, v in x.items()}
        exact = by_the_equation(name, wide, None)
        assert_agree(y, exact[0], method="chunked", dtype=torch.bfloat16, quantity="output")


def scans(dtype: torch.dtype, length: int = 40) -> Inputs:
    noise = torch.Generator().manual_seed(6)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=noise, dtype=F64).to(dtype)

    found = {
        **{"u": normal(2, 4, length), "delta": normal(2, 4, length)},
        **{"A": -normal(4, 3).exp(), "B": normal(2, 3, length), "C": normal(2, 3, length)},
        **{"D": normal(4), "z": normal(2, 4, length), "bias": normal(4)},
        **{"B_groups": normal(2, 2, 3, length), "C_groups": normal(2, 2, 3, length)},
        **{"B_fixed": normal(4, 3), "C_fixed": normal(4, 3)},
        **{"x": normal(2, length, 4, 5), "dt": normal(2, length, 4), "a": -normal(4).exp()},
        **{"b": normal(2, length, 2, 3), "c": normal(2, length, 2, 3), "start": normal(2, 4, 5, 3)},
        **{"D_wide": normal(4, 5), "z_heads": normal(2, length, 4, 5)},
    }
    return {name: value.requires_grad_() for name, value in found.items()}


def selective_scan(x: Inputs, kind: str) -> tuple[torch.Tensor, torch.Tensor]:
    """The equation of Mamba-1, token by token."""
    length = x["u"].shape[-1]

    def rows(name: str) -> torch.Tensor:  # (B, D, N, L)
        if kind == "fixed":
            return x[f"{name}_fixed"][None, :, :, None].expand(2, -1, -1, length)
        if kind == "groups":
            return x[f"{name}_groups"].repeat_interleave(2, dim=1)
        return x[name][:, None].expand(-1, 4, -1, -1)

    step = functional.softplus(x["delta"] + x["bias"][:, None])
    held, found = torch.zeros_like(rows("B")[..., 0]), []
    for t in range(length):
        wrote = (step * x["u"])[:, :, t, None] * rows("B")[..., t]
        held = (step[:, :, t, None] * x["A"]).exp() * held + wrote
        found.append((held * rows("C")[..., t]).sum(-1))
    y = torch.stack(found, -1) + x["D"][:, None] * x["u"]
    return y * functional.silu(x["z"]), held


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("kind", ["shared", "groups", "fixed"])
def test_selective_scan(kind: str, dtype: torch.dtype) -> None:
    x = scans(dtype)
    B, C = (x[n if kind == "shared" else f"{n}_{kind}"] for n in "BC")
    given = (x["u"], x["delta"], x["A"], B, C, x["D"], x["z"], x["bias"], True)
    agree(ops.selective_scan_fn(*given, True), selective_scan(x, kind), x)
    plain = ops.selective_scan_fn(*given)
    torch.testing.assert_close(plain, selective_scan(x, kind)[0], rtol=1e-4, atol=1e-5)


def chunk_scan(
    x: Inputs, documents: torch.Tensor | None, start: bool, D: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, list[torch.Tensor]]:
    """The equation of Mamba-2, token by token; a new document sees nothing before it."""
    step = functional.softplus(x["dt"]).clamp(0.1, 1.0)
    b, c = (x[n].repeat_interleave(2, dim=2) for n in "bc")
    held = torch.zeros_like(x["start"])
    if start:
        first = torch.zeros(2) if documents is None else documents[:, 0]
        held = x["start"] * (first == 0)[:, None, None, None]
    rows, states = [], []
    for t in range(step.shape[1]):
        if documents is not None and t:
            same = documents[:, t] == documents[:, t - 1]
            held = torch.where(same[:, None, None, None], held, torch.zeros_like(held))
        decay = (step[:, t] * x["a"]).exp()[..., None, None]
        held = decay * held + (step[:, t, :, None] * x["x"][:, t])[..., None] * b[:, t, :, None]
        states.append(held)
        rows.append((held * c[:, t, :, None]).sum(-1))
    y = torch.stack(rows, 1) + (D if D.ndim == 2 else D[:, None]) * x["x"]
    return y * functional.silu(x["z_heads"]), held, states


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("skip", ["D", "D_wide"])
@pytest.mark.parametrize("divided", [None, (0, 0), (1, 0)])
def test_chunk_scan(dtype: torch.dtype, skip: str, divided: tuple[int, int] | None) -> None:
    x = scans(dtype)
    documents = None
    if divided is not None:
        place = torch.arange(x["x"].shape[1])
        documents = torch.stack([(place >= 7).int() + 2 * (place >= 30).int(), (place >= 25).int()])
        documents = documents + torch.tensor(divided)[:, None]
    options = {"D": x[skip], "z": x["z_heads"], "dt_softplus": True, "dt_limit": (0.1, 1.0)}
    for start in (False, True):
        mine = ops.mamba_chunk_scan_combined(
            *(x["x"], x["dt"], x["a"], x["b"], x["c"], 64),
            **options,
            initial_states=x["start"] if start else None,
            seq_idx=documents,
            return_final_states=True,
        )
        agree(mine, chunk_scan(x, documents, start, x[skip])[:2], x)


def test_states_of_packed_documents() -> None:
    x = {n: v[:1] if v.ndim > 2 else v for n, v in scans(F64).items()}
    documents = (torch.arange(40) >= 11).int()[None]
    given = (x["x"], x["dt"], x["a"], x["b"], x["c"], 16)
    options = {"seq_idx": documents, "dt_softplus": True, "dt_limit": (0.1, 1.0)}
    bounds = torch.tensor([0, 11, 11, 40])
    y, last, states = ops.mamba_chunk_scan_combined(
        *given, **options, cu_seqlens=bounds, return_final_states=True, return_varlen_states=True
    )
    plain = {**x, "z_heads": torch.full_like(x["z_heads"], 1.0)}
    _, held, every = chunk_scan(plain, documents, False, torch.zeros(4))
    torch.testing.assert_close(last, held)
    torch.testing.assert_close(states[0], every[10][0])
    torch.testing.assert_close(states[2], held[0])
    assert not states[1].any()
    alone = ops.mamba_chunk_scan_combined(*given, **options, cu_seqlens=bounds)
    assert torch.equal(alone, y)
    for wrong in ({"cu_seqlens": None}, {"initial_states": x["start"]}, {"seq_idx": None}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            ops.mamba_chunk_scan_combined(
                *given, **{**options, "cu_seqlens": bounds, **wrong}, return_varlen_states=True
            )


def signatures() -> dict[str, list[list[Any]]]:
    """Arguments and defaults of fla's operations where fla is there, else as they were recorded."""
    kept = json.loads(RECORD.read_text())
    try:
        from importlib import import_module
        from importlib.metadata import version

        found = version("fla-core")
        homes = {name: import_module(f"fla.ops.{home}") for name, home in HOMES.items()}
    except ImportError:
        return kept["signatures"]
    assert f"fla-core {found}" in kept["packages"]
    return kept["signatures"] | {
        name: [
            [one.name, None if one.default is one.empty else repr(one.default)]
            for one in inspect.signature(getattr(home, name)).parameters.values()
            if one.kind is not one.VAR_KEYWORD
        ]
        for name, home in homes.items()
    }


def test_the_record_of_signatures_is_that_of_the_packages() -> None:
    assert signatures() == json.loads(RECORD.read_text())["signatures"]


@pytest.mark.parametrize("name", ops.ARGUMENTS)
def test_every_argument_is_in_the_table_and_in_its_place(name: str) -> None:
    theirs = signatures()[name]
    ours = inspect.signature(getattr(ops, name)).parameters
    assert list(ours) == list(dict.fromkeys([*(one for one, _ in theirs), *ours]))
    assert set(ops.ARGUMENTS[name]) == set(ours)
    assert set(json.loads(RECORD.read_text())["keywords"].get(name, [])) == set(ours) - {
        one for one, _ in theirs
    }
    for argument, default in theirs:
        given = ours[argument]
        assert (None if given.default is given.empty else repr(given.default)) == default
        assert given.kind is given.POSITIONAL_OR_KEYWORD
    reasons = set(ops.ARGUMENTS[name].values())
    assert all(reason.split(":")[0] in ("served", "refused") for reason in reasons)


@pytest.mark.parametrize(
    ("name", "argument"),
    [(n, a) for n, table in ops.ARGUMENTS.items() for a, r in table.items() if r[:7] == "refused"],
)
def test_what_is_refused_is_refused_by_its_name(name: str, argument: str) -> None:
    x = drawn(F32)
    values = {"gv": x["v"], "max_num_seqs": 3, "cp_context": object()}
    for value in [values.get(argument, True), *([False] if argument == "head_first" else [])]:
        with pytest.raises(ValueError, match=rf"{name} does not take {argument}="):
            CASES[name][0](x, **{argument: value})


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("chunk_gated_delta_rule", {"use_gate_in_kernel": True}, "A_log"),
        ("chunk_gated_delta_rule", {"allow_neg_eigval": True}, "use_beta_sigmoid_in_kernel"),
        ("chunk_gated_delta_rule", {"chunk_size": 48}, "chunk_size"),
        ("chunk_gated_delta_rule", {"cu_seqlens": torch.tensor([0, LENGTH])}, "B must be 1"),
        ("chunk_kda", {"use_gate_in_kernel": True, "safe_gate": True, "A_log": 1}, "lower_bound"),
        ("chunk_simple_gla", {"g_gamma": torch.zeros(HEADS)}, "g_gamma"),
        ("chunk_simple_gla", {"chunk_size": 48}, "chunk_size"),
        ("chunk_kda", {"state_v_first": True, "transpose_state_layout": True}, "transpose_state"),
    ],
)
def test_bad_input_is_told_by_its_name(name: str, given: Inputs, words: str) -> None:
    given = {n: drawn(F32)["A_log"] if n == "A_log" else v for n, v in given.items()}
    with pytest.raises(ValueError, match=words):
        CASES[name][0](drawn(F32), **given)


def test_wrong_boundaries_and_states(no_shape_checks: None) -> None:
    x = drawn(F32, batch=1)
    ours = CASES["chunk_gla"][0]
    for bounds in ([0, 9], [0, LENGTH + 1], [1, LENGTH], [0, 20, 10, LENGTH]):
        with pytest.raises(ValueError, match="cu_seqlens"):
            ours(x, cu_seqlens=torch.tensor(bounds))
    with pytest.raises(ValueError, match="initial_state"):
        ours(x, cu_seqlens=torch.tensor([0, 9, LENGTH]), initial_state=x["state"])
    y = scans(F32)
    with pytest.raises(ValueError, match="complex"):
        ops.selective_scan_fn(y["u"], y["delta"], y["A"].to(torch.complex64), y["B"], y["C"])
    with pytest.raises(ValueError, match="chunk_size"):
        ops.mamba_chunk_scan_combined(y["x"], y["dt"], y["a"], y["b"], y["c"], 0)
