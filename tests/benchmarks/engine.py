"""Other people's classes with the engine and without it: time, memory, and how far they differ.

    python tests/benchmarks/engine.py                        sixteen classes, 512 and 2 048 tokens
    python tests/benchmarks/engine.py --classes mamba --tokens 1024
    python tests/benchmarks/engine.py --out engine.json      rows in the file are kept, not repeated
    python tests/benchmarks/engine.py --share                also how much the mixing can gain
    python tests/benchmarks/engine.py --page data/benchmarks/engine.json      the tables of the page

Width 512, two layers with the linear mixer, heads of the size that the released models have, random
weights, float32, one thread, a batch of one. Times are CPU times: medians of five passes after a
warming one, of the warming one alone where it takes longer than 6 s. Each side runs in a process of
its own, which is stopped when its forward and backward pass has taken 120 s ("more than"). Memory
is the most that such a pass adds. A class that the engine leaves to its own code counts as 1.00.
The forward passes without gradients, where both sides are often nearly as fast, are taken in turn
in one process, so that neither has the memory of the other's better warmed. Differences are
relative to the largest number of a tensor; that of gradients is the largest over all parameters
whose gradient is not rounding alone. ``--double`` adds both sides' differences from a run in
float64, also to rows that are kept. There the class's own casts to float32 are casts to float64,
since its delta rules would be float32 without. Under ``--share`` a third process has the mixing
exchanged for a mean of its inputs: the time and the memory of its forward and backward pass lie
outside of the mixing, and no mixing could make the model need less.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from measure import cpu_ms, peak_mib, provenance
from torch import nn
from torch.overrides import TorchFunctionMode

from coefdyn.execution.state import LinearState

LIMIT_S, REPEATS, ENOUGH_S = 120.0, 5, 6.0
#: gradients below this share of the largest one of the model are rounding
NEGLIGIBLE = 1e-6

BASE = {
    "vocab_size": 1000,
    "hidden_size": 512,
    "intermediate_size": 1024,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 8192,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
LINEAR = {"layer_types": ["linear_attention", "linear_attention"]}
HEADS = {"linear_key_head_dim": 128, "linear_value_head_dim": 128}
SSD = {
    "mamba_n_heads": 16,
    "mamba_d_head": 64,
    "mamba_d_state": 128,
    "mamba_n_groups": 1,
    "mamba_expand": 2,
    "mamba_chunk_size": 256,
}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 256}

#: name -> (stem of the classes, options)
CLASSES: dict[str, tuple[str, dict[str, Any]]] = {
    "qwen3_next": (
        "Qwen3Next",
        BASE
        | LINEAR
        | HEADS
        | EXPERTS
        | {
            "head_dim": 128,
            "linear_num_key_heads": 4,
            "linear_num_value_heads": 8,
            "shared_expert_intermediate_size": 256,
        },
    ),
    "qwen3_5": (
        "Qwen3_5Text",
        BASE
        | LINEAR
        | HEADS
        | {"head_dim": 128, "linear_num_key_heads": 8, "linear_num_value_heads": 8},
    ),
    "olmo_hybrid": (
        "OlmoHybrid",
        BASE
        | {
            "layer_types": ["linear_attention", "full_attention"],
            "linear_num_key_heads": 4,
            "linear_num_value_heads": 4,
            "linear_key_head_dim": 96,
            "linear_value_head_dim": 192,
        },
    ),
    "kimi_linear": (
        "KimiLinear",
        BASE
        | LINEAR
        | {
            "kv_lora_rank": 128,
            "qk_rope_head_dim": 64,
            "qk_nope_head_dim": 128,
            "v_head_dim": 128,
            "linear_head_dim": 128,
            "linear_num_heads": 8,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "num_key_value_heads": 4,
            "moe_intermediate_size": 256,
        },
    ),
    "bamba": ("Bamba", BASE | SSD | {"attn_layer_indices": []}),
    "falcon_h1": ("FalconH1", BASE | SSD | {"mamba_d_ssm": 768, "mamba_n_heads": 12}),
    "granitemoehybrid": (
        "GraniteMoeHybrid",
        BASE
        | SSD
        | {
            "layer_types": ["mamba", "mamba"],
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "shared_intermediate_size": 256,
        },
    ),
    "jamba": (
        "Jamba",
        BASE
        | {
            "attn_layer_period": 8,
            "attn_layer_offset": 4,
            "num_experts": 2,
            "mamba_d_state": 16,
            "mamba_expand": 2,
        },
    ),
    "zamba2": (
        "Zamba2",
        BASE
        | {
            "layers_block_type": ["mamba", "mamba"],
            "num_key_value_heads": 4,
            "mamba_ngroups": 1,
            "n_mamba_heads": 16,
            "mamba_headdim": 64,
            "mamba_d_state": 64,
            "chunk_size": 256,
        },
    ),
    "nemotron_h": (
        "NemotronH",
        BASE
        | {
            "layers_block_type": ["mamba", "mamba"],
            "head_dim": 128,
            "mamba_num_heads": 16,
            "mamba_head_dim": 64,
            "ssm_state_size": 128,
            "n_groups": 2,
            "chunk_size": 128,
        },
    ),
    "mamba": ("Mamba", BASE | {"state_size": 16}),
    "falcon_mamba": ("FalconMamba", BASE | {"state_size": 16}),
    "mamba2": (
        "Mamba2",
        BASE
        | {"num_heads": 16, "head_dim": 64, "state_size": 128, "n_groups": 1, "chunk_size": 256},
    ),
    "xlstm": (
        "xLSTM",
        BASE | {"num_heads": 1, "mode": "train", "chunk_size": 64, "use_cache": False},
    ),
    "recurrent_gemma": (
        "RecurrentGemma",
        BASE | {"block_types": ["recurrent", "recurrent"], "lru_width": 512, "head_dim": 128},
    ),
    "minimax": ("MiniMax", BASE | LINEAR | {"head_dim": 128, "num_local_experts": 4}),
}
#: names on the page
LABELS = {
    "qwen3_next": "Qwen3-Next",
    "qwen3_5": "Qwen3.5",
    "olmo_hybrid": "OLMo hybrid",
    "kimi_linear": "Kimi Linear",
    "bamba": "Bamba",
    "falcon_h1": "Falcon-H1",
    "granitemoehybrid": "Granite hybrid",
    "jamba": "Jamba",
    "zamba2": "Zamba2",
    "nemotron_h": "Nemotron-H",
    "mamba": "Mamba",
    "falcon_mamba": "FalconMamba",
    "mamba2": "Mamba-2",
    "xlstm": "xLSTM",
    "recurrent_gemma": "RecurrentGemma",
    "minimax": "MiniMax",
}
MAMBA1 = ("jamba", "mamba", "falcon_mamba")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--classes", nargs="+", choices=list(CLASSES), default=list(CLASSES))
    parser.add_argument("--tokens", nargs="+", type=int, default=[512, 2048])
    parser.add_argument("--double", action="store_true", help="also a float64 run of the class")
    parser.add_argument("--share", action="store_true", help="also the model but for the mixing")
    parser.add_argument("--out", type=Path, help="JSON file for the rows")
    parser.add_argument(
        "--page", type=Path, help="print a file's rows as Markdown, measure nothing"
    )
    asked = parser.parse_args()
    if asked.page:
        rows = json.loads(asked.page.read_text())["rows"]
        for tokens in asked.tokens:
            print("\n".join([*page(rows, tokens), ""]))
        return
    torch.set_num_threads(1)
    for package in ("fla", "mamba_ssm", "causal_conv1d"):
        sys.modules[package] = None  # type: ignore[assignment]
    rows: list[dict[str, Any]] = []
    about: dict[str, Any] = {}  # of the times
    if asked.out and asked.out.exists():
        kept = json.loads(asked.out.read_text())
        rows, about = kept["rows"], kept["provenance"]
    known = {(row["class"], row["tokens"]): row for row in rows}
    print(f"{'':<18} {'':>6} {'forward':>23} {'forward + backward':>25} {'memory, MiB':>13}")
    sides = [
        "forward",
        "theirs",
        "ours",
        *(["double"] if asked.double else []),
        *(["rest"] if asked.share else []),
    ]
    for tokens in asked.tokens:
        for name in asked.classes:
            row = known.get((name, tokens))
            if row is None:
                row = measure(name, tokens, sides)
                rows.append(row)
                about = provenance({"transformers": _version()})
            elif asked.double and "left" not in row and "ours_from_double" not in row:
                again = measure(name, tokens, ["theirs", "ours", "double"])
                row |= {key: found for key, found in again.items() if key.endswith("_from_double")}
            else:
                continue
            print(line(row), flush=True)
            if asked.out:
                told = json.dumps({"provenance": about, "rows": rows}, indent=1)
                asked.out.write_text(told + "\n")
        print(summary([row for row in rows if row["tokens"] == tokens], tokens))


def _version() -> str:
    import transformers

    return transformers.__version__


def measure(name: str, tokens: int, sides: list[str]) -> dict[str, Any]:
    """One class at one length: all sides, and how far they are from each other; or why none."""
    if (reason := why_left(build(name))) is not None:
        return {"class": name, "tokens": tokens, "left": reason}
    with tempfile.TemporaryDirectory() as folder:
        found: dict[str, dict[str, Any]] = {}
        for side in sides:
            told = Path(folder) / f"{side}.txt"
            status = in_a_process(side, name, tokens, Path(folder) / f"{side}.pt", told)
            stopped = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGPROF
            if status and not stopped:
                raise RuntimeError(f"{name}, {side}: {told.read_text()[-2000:]}")
            found[side] = {"stopped_s": LIMIT_S} if stopped else {}
            for text in told.read_text().splitlines():
                if text.startswith("{"):
                    found[side] |= json.loads(text)
        kept = {
            side: torch.load(Path(folder) / f"{side}.pt")
            for side in sides
            if "stopped_s" not in found[side] and side not in ("forward", "rest")
        }
    for side, forward_ms in found.pop("forward", {}).items():
        found[side]["forward_ms"] = forward_ms
    row: dict[str, Any] = {"class": name, "tokens": tokens, **found}
    if "theirs" in kept:
        row["differences"] = differences(kept["ours"], kept["theirs"])
    if "double" in kept:
        row["ours_from_double"] = differences(kept["ours"], kept["double"])
        if "theirs" in kept:
            row["theirs_from_double"] = differences(kept["theirs"], kept["double"])
    return row


def in_a_process(side: str, name: str, tokens: int, file: Path, told: Path) -> int:
    """``run_side`` in a process of its own, which has imported what this one has; its status."""
    if process := os.fork():
        return os.waitpid(process, 0)[1]
    try:
        with told.open("w") as out:
            os.dup2(out.fileno(), 1)
            os.dup2(out.fileno(), 2)
        run_side(side, name, tokens, file)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def run_side(side: str, name: str, tokens: int, file: Path) -> None:
    """Print what one side takes, as JSON, and write its logits and gradients."""
    model, ids = build(name), inputs(tokens)
    if side == "double":
        model.double().config._experts_implementation = "eager"  # the other has no float64
        Double().__enter__()  # until the process ends
    if side in ("ours", "rest"):
        from coefdyn.lens import install
        from coefdyn.lens.run import engine

        if side == "rest":
            engine.mix = without_mixing
        install(model)

    def forward() -> torch.Tensor:
        with torch.no_grad():
            return model(ids, use_cache=False).logits

    def both() -> torch.Tensor:
        model.zero_grad()
        logits = model(ids, use_cache=False).logits
        logits.square().mean().backward()
        return logits.detach()

    def first() -> None:
        nonlocal logits, first_s
        start = time.process_time()
        logits = both()
        first_s = time.process_time() - start

    if side == "forward":
        print(json.dumps(in_turn(model, forward)), flush=True)
        return
    logits, first_s = torch.empty(0), 0.0
    # The signal's default is to end the process, also inside a backward pass, where no line of
    # Python would run.
    signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
    peak = peak_mib(first)
    signal.setitimer(signal.ITIMER_PROF, 0.0)
    if side != "rest":
        gradients = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
        torch.save({"logits": logits, **gradients}, file)
    if side == "double":
        return
    both_ms = 1e3 * first_s
    if first_s < ENOUGH_S:
        both_ms, peak = median_ms(both, warm=False), peak_mib(both)
    print(json.dumps({"both_ms": both_ms, "peak_mib": peak}), flush=True)


class Double(TorchFunctionMode):
    """Has casts to float32, and tensors made in it, in float64."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        def up(x: Any) -> Any:
            return torch.float64 if x is torch.float32 else x

        func = torch.Tensor.double if func is torch.Tensor.float else func
        return func(*map(up, args), **{name: up(x) for name, x in (kwargs or {}).items()})


def in_turn(model: nn.Module, run: Callable[[], object]) -> dict[str, float]:
    """Milliseconds of a pass with the model's own code and with the engine's, one after another."""
    from coefdyn.lens import running

    times: dict[str, list[float]] = {"theirs": [], "ours": []}
    run()  # warms
    while len(times["ours"]) < REPEATS and sum(times["theirs"]) < 1e3 * ENOUGH_S:
        times["theirs"].append(cpu_ms(run))
        with running(model):
            times["ours"].append(cpu_ms(run))
    return {side: statistics.median(some) for side, some in times.items()}


def without_mixing(taken: Any) -> tuple[torch.Tensor, LinearState | None]:
    """The values, with a mean of what else the mixing reads, so that all of it has gradients."""
    read, evolution = taken.dynamics, taken.dynamics.evolution
    gates = [read.scaling, getattr(evolution, "beta", None), getattr(evolution, "log_decay", None)]
    few = [x for x in gates if torch.is_tensor(x) and x.numel() <= taken.values.numel()]
    y, after = taken.values + sum(x.mean() for x in (read.q, read.k, *few)), None
    if taken.keeps:
        sizes = *y.shape[:2], y.shape[-1] + read.normalizer.cancels_scale, read.key_dim
        after = LinearState(matrix=y.new_zeros(sizes), offset=y.new_zeros(sizes[:2]))
    return y, after


def median_ms(run: Callable[[], object], warm: bool = True) -> float:
    """Median of five calls after a warming one, of fewer where that takes too long."""
    times = []
    if warm:
        first = cpu_ms(run)
        if first > 1e3 * ENOUGH_S:
            return first
    while len(times) < REPEATS and sum(times) < 1e3 * ENOUGH_S:
        times.append(cpu_ms(run))
    return statistics.median(times)


def why_left(model: nn.Module) -> str | None:
    """What the engine says where it leaves the whole model to its own code."""
    from coefdyn.lens import install

    try:
        install(model).uninstall()
    except ValueError as error:
        return str(error)
    return None


def build(name: str) -> nn.Module:
    """The model of this class, with the same weights for both sides."""
    import transformers

    transformers.logging.set_verbosity_error()
    stem, options = CLASSES[name]
    torch.manual_seed(0)
    config = getattr(transformers, f"{stem}Config")(**options)
    return getattr(transformers, f"{stem.removesuffix('Text')}ForCausalLM")(config).eval()


def inputs(tokens: int) -> torch.Tensor:
    """Random tokens."""
    return torch.randint(3, 1000, (1, tokens), generator=torch.Generator().manual_seed(1))


def differences(mine: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> dict[str, float]:
    """Largest differences of logits and of gradients, relative to the largest number of each."""
    names = [name for name in theirs if name != "logits"]
    largest = max(float(theirs[name].abs().max()) for name in names)
    names = [name for name in names if float(theirs[name].abs().max()) > NEGLIGIBLE * largest]
    return {
        "logits": _gap(mine["logits"], theirs["logits"]),
        "gradients": max(_gap(mine[name], theirs[name]) for name in names),
    }


def _gap(mine: torch.Tensor, theirs: torch.Tensor) -> float:
    return float((mine.double() - theirs.double()).abs().max() / theirs.double().abs().max())


def ratio(row: dict[str, Any], key: str) -> float:
    """How many times faster; a side that was stopped counts as its limit, a class left as 1."""
    if "left" in row:
        return 1.0
    theirs = row["theirs"].get(key, 1e3 * LIMIT_S)
    return theirs / row["ours"][key]


def line(row: dict[str, Any]) -> str:
    """One row of the table."""
    if "left" in row:
        return f"{row['class']:<18} {row['tokens']:>6}  left to its own code: {row['left']}"
    ours, theirs = row["ours"], row["theirs"]
    stopped = "both_ms" not in theirs
    more = ">" if stopped else ""
    memory = f"{'':>5}" if stopped else f"{theirs['peak_mib'] or 0:5.0f}"
    gaps = row.get("differences")
    text = (
        f"{row['class']:<18} {row['tokens']:>6} "
        f"{theirs['forward_ms']:8.0f} {ours['forward_ms']:7.0f} {ratio(row, 'forward_ms'):6.2f} "
        f"{more + format(theirs.get('both_ms', 1e3 * LIMIT_S), '.0f'):>9} {ours['both_ms']:7.0f} "
        f"{more + format(ratio(row, 'both_ms'), '.2f'):>7} {memory} -> {ours['peak_mib'] or 0:5.0f}"
    )
    if "rest" in row and not stopped:
        text += f"  outside of the mixing {row['rest']['both_ms'] / theirs['both_ms']:4.0%}"
    if gaps:
        text += f"  logits {gaps['logits']:.0e} gradients {gaps['gradients']:.0e}"
    for side in ("ours", "theirs"):
        if f"{side}_from_double" in row:
            text += f"  {side} from float64 {row[f'{side}_from_double']['gradients']:.0e}"
    return text


def page(rows: list[dict[str, Any]], tokens: int) -> list[str]:
    """Rows of one length as a table in Markdown, the largest gain first."""
    lines = [
        f"| class, {tokens} tokens | times as fast | its own code, s | here, s | "
        "outside of the mixing | memory, MiB |",
        "|:--|--:|--:|--:|--:|--:|",
    ]
    chosen = [row for row in rows if row["tokens"] == tokens and "left" not in row]
    for row in sorted(chosen, key=lambda row: -ratio(row, "both_ms")):
        theirs, ours = row["theirs"], row["ours"]
        stopped = "both_ms" not in theirs
        more, took = ("> ", 1e3 * LIMIT_S) if stopped else ("", theirs["both_ms"])
        outside = "" if stopped else f"{row['rest']['both_ms'] / took:.0%}"
        before = "" if stopped else f"{theirs['peak_mib']:.0f} "
        rest = f" ({row['rest']['peak_mib']:.0f})"
        lines.append(
            f"| {LABELS[row['class']]} | {more}{ratio(row, 'both_ms'):.1f} | "
            f"{more}{_seconds(took)} | {_seconds(ours['both_ms'])} | "
            f"{outside} | {before}→ {ours['peak_mib']:.0f}{rest} |"
        )
    return lines


def _seconds(ms: float) -> str:
    return f"{ms / 1e3:.2f}" if ms < 1e4 else f"{ms / 1e3:.1f}"


def summary(rows: list[dict[str, Any]], tokens: int) -> str:
    """Geometric means at one length."""

    def mean(chosen: list[dict[str, Any]]) -> str:
        if not chosen:
            return "-"
        return f"{math.exp(statistics.mean(math.log(ratio(r, 'both_ms')) for r in chosen)):.2f}"

    least = min(min(ratio(row, "forward_ms"), ratio(row, "both_ms")) for row in rows)
    others = [row for row in rows if row["class"] not in MAMBA1]
    return (
        f"{tokens} tokens: forward + backward {mean(rows)} times as fast (geometric mean), without "
        f"Mamba-1 {mean(others)}; the least ratio of any pass {least:.2f}"
    )


if __name__ == "__main__":
    main()
