"""The lens: how exact on which class, and what a trace costs beside the plain forward pass.

    python tests/benchmarks/lens.py            all three tables
    python tests/benchmarks/lens.py classes    class, mechanism, error, error of the probe
    python tests/benchmarks/lens.py cost       time and memory of trace, replaced, plan, 512 tokens
    python tests/benchmarks/lens.py contract   what `check` finds broken in each class, by how much

Random weights, on this CPU, float32. Times are the least of some runs, the two kinds in turn.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lens"))
import zoo

from coefdyn.lens import Trace, check, plan, replaced, torch_operations, trace
from coefdyn.lens.change.replace import Changes

#: one class per mechanism, wider than the tests' where the plain pass would cost next to nothing
WIDE = {"hidden_size": 128, "intermediate_size": 256, "max_position_embeddings": 1024}
COSTS: dict[str, tuple[str, dict]] = {
    "softmax attention": ("LlamaForCausalLM", WIDE),
    "sliding window": ("MistralForCausalLM", {**WIDE, "sliding_window": 64}),
    "softcap": ("Gemma2ForCausalLM", {**WIDE, "sliding_window": 64, "head_dim": 32}),
    "sinks": ("GptOssForCausalLM", {**WIDE, "sliding_window": 64, "head_dim": 32}),
    "gated deltanet": ("Qwen3NextForCausalLM", {}),
    "kimi delta attention": ("KimiLinearForCausalLM", {}),
    "mamba-2": ("Mamba2ForCausalLM", {}),
    "mamba-1": ("MambaForCausalLM", {}),
    "mlstm": ("xLSTMForCausalLM", {}),
    "lightning attention": ("MiniMaxForCausalLM", {}),
    "rg-lru": ("RecurrentGemmaForCausalLM", {}),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", nargs="?", choices=("classes", "cost", "contract"))
    parser.add_argument("--length", type=int, default=512, help="tokens of the cost table")
    parser.add_argument("--repeats", type=int, default=5, help="timed runs of each kind")
    asked = parser.parse_args()
    warnings.filterwarnings("ignore")
    if asked.table in (None, "classes"):
        print_classes()
    if asked.table in (None, "cost"):
        print_costs(asked.length, asked.repeats)
    if asked.table in (None, "contract"):
        print_contract()


def print_classes() -> None:
    """Every class of the tests on 2 x 37 random tokens."""
    print(f"{'class':<30} {'mechanisms':<40} {'error':>8} {'probe':>8}")
    for name in zoo.NAMES:
        seen = trace(zoo.build(name), zoo.ids(), probe=True)
        error = max(layer.error for layer in seen)
        probed = max(layer.probe_error or 0.0 for layer in seen)
        print(
            f"{name:<30} {', '.join(sorted(zoo.mechanisms(name))):<40} {error:8.1e} {probed:8.1e}"
        )


def print_costs(length: int, repeats: int) -> None:
    """Time and most memory of trace beside the plain pass, and what a trace keeps of all layers."""
    print(
        f"{length} tokens; times of trace, of replaced with an ablated head, of replaced with a new"
    )
    print("design of all heads, and of plan where there is a cache to plan, over that of the plain")
    print(
        "pass. MB at the most while it runs (weights aside): plain, trace, trace of one layer, new"
    )
    print("design. kB kept: all layers, one.")
    print(
        f"{'mechanism':<22} {'class':<26} {'plain ms':>8} {'trace':>6} {'ablate':>6} {'design':>6} "
        f"{'plan':>6} "
        f"{'plain':>7} {'trace':>7} {'one':>7} {'design':>7} {'all kB':>7} {'one kB':>7}"
    )
    for name, (kind, options) in COSTS.items():
        model, ids = zoo.build(kind, **options), zoo.ids(length, batch=1)
        actions = (
            lambda m=model, x=ids: plain_pass(m, x),
            lambda m=model, x=ids: trace(m, x),
            lambda m=model, x=ids: trace(m, x, layers=[0]),
            lambda m=model, x=ids: changed_pass(m, x, {"*": lambda design: design}),
            lambda m=model, x=ids: changed_pass(m, x, {(0, 0): "ablate"}),
        )
        plain, traced = alternately(*actions[:2], repeats)
        ratios = [traced / plain]
        for action in (actions[4], actions[3]):
            beside, changed = alternately(actions[0], action, repeats)
            ratios.append(changed / beside)
        ratios.append(_plan_ratio(model, ids, actions[0], repeats))
        most = " ".join(f"{most_memory(action) / 1e6:7.1f}" for action in actions[:4])
        whole, one = (kept(trace(model, ids, layers=layers)) for layers in (None, [0]))
        print(
            f"{name:<22} {kind:<26} {1e3 * plain:8.1f} "
            f"{' '.join(f'{ratio:6.2f}' if ratio else '     -' for ratio in ratios)} "
            f"{most} {whole / 1e3:7.0f} {one / 1e3:7.0f}"
        )


def _plan_ratio(model: nn.Module, ids: torch.Tensor, plain: Callable, repeats: int) -> float | None:
    """Time of a plan over that of the plain pass; None where no layer has a cache."""

    def planned() -> None:
        with torch_operations(model):
            plan(model, ids, progress=False)

    try:
        beside, spent = alternately(plain, planned, repeats)
    except ValueError:
        return None
    return spent / beside


def print_contract() -> None:
    """The promises that each class of the tests does not keep, on small random models."""
    for name in zoo.NAMES:
        report = check(zoo.build(name))
        print(f"{name:<30} {'keeps all that could be tried' if not report.broken else ''}")
        for broken in report.broken:
            print(f"    {report[broken]}")


@torch.no_grad()
def plain_pass(model: nn.Module, ids: torch.Tensor) -> None:
    with torch_operations(model):
        model(ids)


@torch.no_grad()
def changed_pass(model: nn.Module, ids: torch.Tensor, changes: Changes) -> None:
    with replaced(model, changes):
        model(ids)


def alternately(first: Callable, second: Callable, repeats: int) -> tuple[float, float]:
    """The least time of each, run in turn so that both meet the same neighbours."""
    times: tuple[list[float], list[float]] = ([], [])
    for run in range(repeats + 1):
        for spent, action in zip(times, (first, second), strict=True):
            began = time.perf_counter()
            action()
            if run:  # the first run warms up
                spent.append(time.perf_counter() - began)
    return min(times[0]), min(times[1])


def most_memory(action: Callable) -> int:
    """Most bytes held at once of what an action allocates."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        action()
    events = [one for one in seen.profiler.kineto_results.events() if one.name() == "[memory]"]
    events.sort(key=lambda one: one.start_ns())
    return max(accumulate(one.nbytes() for one in events))


def kept(seen: Trace) -> int:
    """Bytes of all tensors that the layers hold, each storage once."""
    found: dict[int, int] = {}
    for layer in seen:
        dynamics = layer.dynamics
        parts = [layer.values, layer.output, *dynamics._named_tensors().values()]
        parts += [] if dynamics.mask is None else dynamics.mask.tensors().values()
        for part in parts:
            tensor = part[0] if isinstance(part, tuple) else part
            storage = tensor.untyped_storage()
            found[storage.data_ptr()] = storage.nbytes()
    return sum(found.values())


if __name__ == "__main__":
    main()
