"""The operations that fla's layers call, by fla's names and with fla's signatures.

They are computed by ``coefdyn.ops``, which test_peers_ops.py compares with fla's plain functions.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable

import pytest
import torch
import zoo
from torch import Tensor, nn

from coefdyn import evolution, normalizer, ops
from coefdyn.lens import trace
from coefdyn.lens.adapters import ADAPTERS
from coefdyn.lens.adapters.fla import FlaOperation

#: fla's module -> its functions that adapters listen to
FUNCTIONS = {
    "gla": ("chunk_gla", "fused_recurrent_gla"),
    "delta_rule": ("chunk_delta_rule", "fused_recurrent_delta_rule"),
    "linear_attn": (
        "chunk_linear_attn",
        "fused_chunk_linear_attn",
        "fused_recurrent_linear_attn",
    ),
    "simple_gla": (
        "chunk_simple_gla",
        "fused_chunk_simple_gla",
        "fused_recurrent_simple_gla",
        "parallel_simple_gla",
    ),
    "retention": (
        "chunk_retention",
        "fused_chunk_retention",
        "fused_recurrent_retention",
        "parallel_retention",
    ),
    "gated_delta_rule": ("chunk_gated_delta_rule", "fused_recurrent_gated_delta_rule"),
    "kda": ("chunk_kda", "fused_recurrent_kda"),
}
HOME = {name: module for module, names in FUNCTIONS.items() for name in names}

MECHANISMS = {
    "gla": "gated linear attention",
    "delta_rule": "deltanet",
    "linear_attn": "linear attention",
    "simple_gla": "simple gated linear attention",
    "retention": "retention",
    "gated_delta_rule": "gated deltanet",
    "kda": "kimi delta attention",
}


#: fla's module -> the operation here that computes it, whichever way it is run
OPERATIONS: dict[str, Callable[..., tuple]] = {
    "gla": ops.chunk_gla,
    "delta_rule": ops.chunk_delta_rule,
    "linear_attn": ops.chunk_linear_attn,
    "simple_gla": ops.chunk_simple_gla,
    "retention": ops.chunk_retention,
    "gated_delta_rule": ops.fused_recurrent_gated_delta_rule,
    "kda": ops.chunk_kda,
}
MEANT = ("q", "k", "v", "g", "g_gamma", "beta", "scale", "normalize", "use_qk_l2norm_in_kernel")


def plain(module: str, given: dict) -> Tensor:
    """What the arguments of a call mean; a gate that is left out does not act.

    A call that the lens refuses is computed in part, since the model runs before it is read.
    """
    one, given = torch.ones_like(given["k"]), dict(given)
    if module == "gla":
        gate = given.get("g", given.get("gk"))
        given["g"] = 0 * one if gate is None else gate
    if module == "delta_rule":
        beta = one if given["beta"] is None else given["beta"]
        given["beta"] = beta if beta.ndim < 4 else beta[..., 0]
    if module == "simple_gla" and given.get("g") is not None:
        given["g_gamma"] = None
    operation = OPERATIONS[module]
    known = [name for name in MEANT if name in inspect.signature(operation).parameters]
    return operation(**{name: given[name] for name in known if name in given})[0]


def signature(name: str) -> inspect.Signature:
    return inspect.signature(getattr(importlib.import_module(f"fla.ops.{HOME[name]}"), name))


def stand_in(name: str) -> Callable[..., tuple[Tensor, None]]:
    """fla's function with its own signature, computed here."""

    def operation(*args: object, **kwargs: object) -> tuple[Tensor, None]:
        bound = signature(name).bind(*args, **kwargs)
        bound.apply_defaults()
        return plain(HOME[name], dict(bound.arguments)), None

    operation.__name__ = name
    operation.__signature__ = signature(name)
    return operation


globals().update({name: stand_in(name) for name in HOME})

GATES = {"g", "gk", "beta", "g_gamma"}


class Layer(nn.Module):
    """Calls an operation of this module by its name, with the gates that are asked for."""

    def __init__(self, name: str, gates: tuple[str, ...], **flags: object) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(zoo.VOCAB, 32)
        self.project = nn.Linear(32, 4 * 4 * 6)
        self.name, self.gates, self.flags = name, gates, flags

    def forward(self, ids: Tensor) -> Tensor:
        q, k, v, g = self.project(self.embedding(ids)).unflatten(-1, (4, 4, 6)).unbind(-3)
        if HOME[self.name] == "linear_attn":
            q, k = nn.functional.elu(q) + 1, nn.functional.elu(k) + 1
        per_channel = HOME[self.name] in ("gla", "kda")
        g = nn.functional.logsigmoid(g)
        known = {
            "g": g if per_channel else g[..., 0],
            "gk": g,
            "beta": v[..., 1].sigmoid(),
            "g_gamma": -torch.arange(1.0, 5.0) / 10,
        }
        given = {gate: known[gate] for gate in self.gates}
        v = v[..., :5]  # the values are narrower than the keys
        return globals()[self.name](q=q, k=k, v=v, **given, **self.flags)[0]


UNIT = {"use_qk_l2norm_in_kernel": True}
CASES: list[tuple[str, tuple[str, ...], dict]] = [
    ("chunk_gla", ("g",), {}),
    ("chunk_gla", ("g",), {"scale": 0.7}),
    ("fused_recurrent_gla", ("gk",), {}),
    ("fused_recurrent_gla", (), {}),
    ("chunk_delta_rule", ("beta",), UNIT),
    ("chunk_delta_rule", ("beta",), UNIT | {"scale": 0.7}),
    ("fused_recurrent_delta_rule", ("beta",), UNIT),
    ("fused_recurrent_delta_rule", (), UNIT),
    ("chunk_linear_attn", (), {}),
    ("chunk_linear_attn", (), {"normalize": False, "scale": 0.7}),
    ("fused_chunk_linear_attn", (), {"scale": 0.7}),
    ("fused_recurrent_linear_attn", (), {}),
    ("fused_recurrent_linear_attn", (), {"normalize": True}),
    ("chunk_simple_gla", ("g",), {}),
    ("chunk_simple_gla", ("g_gamma",), {"scale": 0.7}),
    ("fused_chunk_simple_gla", (), {}),
    ("fused_recurrent_simple_gla", ("g",), {}),
    ("parallel_simple_gla", ("g",), {}),
    ("chunk_retention", (), {}),
    ("fused_chunk_retention", (), {"scale": 0.7}),
    ("fused_recurrent_retention", (), {}),
    ("parallel_retention", (), {}),
    ("chunk_gated_delta_rule", ("g", "beta"), UNIT),
    ("fused_recurrent_gated_delta_rule", ("g", "beta"), UNIT | {"scale": 0.7}),
    ("fused_recurrent_gated_delta_rule", (), UNIT),
    ("chunk_kda", ("g", "beta"), UNIT),
    ("fused_recurrent_kda", ("g", "beta"), UNIT | {"scale": 0.7}),
]


@pytest.mark.parametrize(("name", "gates", "flags"), CASES)
def test_an_operation_of_fla_is_reproduced(name: str, gates: tuple[str, ...], flags: dict) -> None:
    model, x = Layer(name, gates, **flags), zoo.ids()
    with torch.no_grad():
        want = model(x)
    seen = trace(model, x, probe=True)
    assert torch.equal(seen.model_output, want)
    assert [layer.mechanism for layer in seen] == [MECHANISMS[HOME[name]]] and not seen.unsupported
    assert seen[0].values.shape == (2, 4, 37, 5)
    assert seen[0].error <= 1e-5 and seen[0].probe_error <= 1e-5


def test_every_function_of_the_list_is_tried() -> None:
    assert {name for name, _, _ in CASES} == set(HOME)


def test_a_row_sum_is_read_only_where_fla_divides() -> None:
    for normalize, kind in ((True, normalizer.RowSum), (False, normalizer.One)):
        seen = trace(Layer("chunk_linear_attn", (), normalize=normalize), zoo.ids())
        assert type(seen[0].dynamics.normalizer) is kind


def test_rows_that_read_nothing_are_zero_in_both() -> None:
    """With ReLU features a row may be all zero; fla then divides zero by 1e-10."""
    model, nothing = Layer("chunk_linear_attn", ()), torch.zeros(2, 37, 4, 6)
    operation = "chunk_linear_attn"
    model.forward = lambda _: globals()[operation](q=nothing, k=nothing, v=nothing + 1)[0]
    seen = trace(model, zoo.ids())
    assert len(seen) == 1 and seen[0].error == 0 and not seen[0].output.any()


def test_the_structures_are_those_of_the_mechanisms() -> None:
    kinds = {
        "chunk_gla": evolution.Diagonal,
        "chunk_delta_rule": evolution.Householder,
        "chunk_linear_attn": evolution.Identity,
        "chunk_simple_gla": evolution.Scalar,
        "chunk_retention": evolution.Scalar,
    }
    for name, kind in kinds.items():
        gates = next(gates for known, gates, _ in CASES if known == name)
        flags = UNIT if name == "chunk_delta_rule" else {}
        assert type(trace(Layer(name, gates, **flags), zoo.ids())[0].dynamics.evolution) is kind


@pytest.mark.parametrize(
    ("name", "flags", "reason"),
    [
        ("fused_recurrent_gla", {"reverse": True}, "reverse.*not causal"),
        ("fused_recurrent_gla", {"gv": torch.zeros(2, 37, 4, 5)}, "gv.*channel of the values"),
        ("fused_recurrent_linear_attn", {"reverse": True}, "reverse.*not causal"),
        ("fused_recurrent_retention", {"reverse": True}, "reverse.*not causal"),
        ("chunk_gla", {"cu_seqlens": torch.tensor([0, 20, 37])}, "cu_seqlens.*several sequences"),
        (
            "chunk_retention",
            {"cu_seqlens": torch.tensor([0, 37])},
            "cu_seqlens.*without attention_mask",
        ),
        ("chunk_gated_delta_rule", {"cp_context": object()}, "cp_context.*several devices"),
        ("fused_recurrent_gated_delta_rule", {"gk": torch.zeros(2, 37, 4, 6)}, "gk.*second decay"),
        ("fused_recurrent_gated_delta_rule", {"use_gate_in_kernel": True}, "use_gate_in_kernel"),
        ("fused_recurrent_kda", {"use_beta_sigmoid_in_kernel": True}, "use_beta_sigmoid"),
        (
            "fused_recurrent_delta_rule",
            {"beta": torch.full((2, 37, 4, 5), 0.1)},
            "a beta per channel of the values",
        ),
        ("chunk_simple_gla", {"g_gamma": torch.full((4,), -0.1)}, "both g and g_gamma"),
    ],
)
def test_what_is_not_read_is_named(name: str, flags: dict, reason: str) -> None:
    gates = () if "beta" in flags else next(gates for known, gates, _ in CASES if known == name)
    with pytest.raises(ValueError, match=reason):
        trace(Layer(name, gates, **flags), zoo.ids())


CONTINUED = [("fused_recurrent_gla", {}), ("fused_recurrent_gated_delta_rule", UNIT)]


@pytest.mark.parametrize(("name", "flags"), CONTINUED)
def test_a_state_that_is_continued_is_refused_and_an_empty_one_is_not(
    name: str, flags: dict
) -> None:
    state = torch.zeros(2, 4, 6, 5)
    seen = trace(Layer(name, (), initial_state=state, **flags), zoo.ids())
    assert len(seen) == 1 and seen[0].error <= 1e-5
    with pytest.raises(ValueError, match="Run trace on the whole sequence"):
        trace(Layer(name, (), initial_state=state + 1, **flags), zoo.ids())


def test_a_key_sum_that_is_continued_is_refused() -> None:
    states = (torch.zeros(2, 4, 6, 5), torch.ones(2, 1, 4, 6))
    with pytest.raises(ValueError, match="Run trace on the whole sequence"):
        trace(Layer("chunk_linear_attn", (), initial_state=states), zoo.ids())


#: arguments that say how fla computes or what else it returns, or that count only beside a flag
#: that is refused
HARMLESS = {
    *("output_final_state", "output_attentions", "return_intermediate_states", "state_v_first"),
    *("cu_seqlens_cpu", "chunk_indices", "disable_recompute", "use_graph", "max_num_seqs"),
    *("A_log", "dt_bias", "lower_bound", "allow_neg_eigval", "kwargs"),
}
READ = {"q", "k", "v", "scale", "initial_state", "use_qk_l2norm_in_kernel", "normalize", *GATES}


@pytest.mark.parametrize("name", sorted(HOME))
def test_every_argument_of_fla_is_read_or_refused_or_harmless(name: str) -> None:
    adapter = next(a for a in ADAPTERS if isinstance(a, FlaOperation) and name in a.names)
    known = READ | set(adapter.refused) | HARMLESS
    assert set(signature(name).parameters) <= known
