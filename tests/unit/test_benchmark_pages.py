"""Benchmark files as tables: what stands in the file stands in the table, and nothing else."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from made_up_results import result_of

from coefdyn.lab.experiments import get_experiment
from coefdyn.lab.pages.benchmarks import (
    cpu_markdown,
    gpu_markdown,
    growth_markdown,
    load_benchmark,
    masks_markdown,
    times_markdown,
    verification_markdown,
)
from coefdyn.lab.pages.evidence import caption_markdown

CASE = {
    "name": "Mamba-2", "peer": "a peer", "batch": 4, "heads": 2, "length": 4096, "dim": 64,
    "forward": {"ratio": 2.661}, "forward_backward": {"ratio": 0.949},
    "peak_mib": {"ours": 104.8, "peer": 484.4},
}  # fmt: skip
HERE = {
    "provenance": {
        "cpu": "a CPU", "threads": 1, "torch": "2.13", "peers": {"fla-core": "0.6"},
        "date": "2026-11-21",
    },
    "cases": [CASE, {**CASE, "name": "GLA", "peak_mib": {"ours": None, "peer": None}}],
    "growth": [
        {"structure": "scaled_householder", "length": length, "us_per_token": time}
        for length, time in ((8192, 9.81), (2048, 10.24))
    ],
}  # fmt: skip
OURS = {"forward_ms": 2.0, "both_ms": 8.0, "forward_host_ms": 0.1, "both_host_ms": 0.2}
DEVICE = {
    "provenance": {
        "device": "a GPU", "torch": "2.11", "triton": "3.6", "date": "2026-12-01T10:00",
        "size": {"batch": 3, "heads": 5},
    },
    "verified": {
        "scalar exp row_sum  torch.bfloat16 D=64 L=300": {
            "ok": True, "output": 1e-3, "gradient": 4e-3, "worst_gradient": "q",
        },
        "scalar exp row_sum  torch.bfloat16 D=64 L=320": {
            "ok": True, "output": 2e-3, "gradient": 3e-3, "worst_gradient": "k",
        },
        "diagonal exp row_sum  torch.bfloat16 D=64 L=300": {"ok": False, "error": "no room"},
        "scalar exp row_sum log_scaled torch.float32 D=64 L=300": {"ok": False, "output": 9.0},
    },
    "timed": {
        "identity exp D=64 L=4096": {
            "triton": OURS,
            "torch_sdpa": {"forward_ms": 1.0, "both_ms": 10.0},
            "flex_attention": {"error": "RuntimeError: no"},
            "roofline_share": {"forward": 0.514, "both": 0.4},
        },
        "diagonal exp D=128 L=4096": {"ok": False, "error": "no room"},
        "scalar exp D=64 L=2048": {
            "triton": OURS, "roofline_share": {"forward": 0.1, "both": 0.2},
        },
    },
}  # fmt: skip


def rows(markdown: str) -> list[list[str]]:
    lines = [line for line in markdown.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def test_masks_by_structure_and_readout():
    kept = [
        {"readout": phi, "structure": "scaled_householder", "length": 2048, "window": 16,
         "ratio": ratio}
        for phi, ratio in (("identity", 1.734), ("exp", 0.352))
    ]  # fmt: skip
    masks = {"provenance": {**HERE["provenance"], "peers": {}, "date": "2026-11-25"}, "rows": kept}
    told = masks_markdown({**HERE, "masks": masks})
    assert rows(told) == [["scaled householder", "1.73", "0.35"]]
    assert "identity, window 16" in told
    assert "2026-11-25" in told
    assert "not measured" in masks_markdown(HERE)


def test_cpu_ratios_and_memory():
    told = cpu_markdown(HERE)
    assert rows(told) == [
        ["Mamba-2", "2.66x", "0.95x", "105 of 484 MiB", "a peer"],
        ["GLA", "2.66x", "0.95x", "not measured", "a peer"],
    ]
    caption = "*Batch 4, 2 heads, L = 4,096, n = d_v = 64, a CPU, 1 thread, torch 2.13, "
    assert told.endswith(caption + "fla-core 0.6, 2026-11-21.*")


def test_growth_by_length():
    assert rows(growth_markdown(HERE)) == [["scaled householder", "10.2", "9.8"]]
    assert "L = 2,048 | L = 8,192" in growth_markdown(HERE)


def test_gpu_times_at_one_length():
    told = times_markdown(DEVICE)
    assert rows(told) == [
        ["identity", "exp", "64", "2.00 ms", "8.00 ms", "51 % / 40 %",
         "torch_sdpa 0.50x / 1.25x; flex_attention failed"],
        ["diagonal", "exp", "128", "failed", "", "", ""],
    ]  # fmt: skip
    assert "*Batch 3, 5 heads of D channels, L = 4,096, bfloat16; medians of CUDA events, " in told
    assert told.endswith("a GPU, torch 2.11, triton 3.6, 2026-12-01.*")
    assert rows(times_markdown(DEVICE, length=2048))[0][-1] == "none"


def test_verification_by_dtype():
    assert rows(verification_markdown(DEVICE)) == [
        ["bfloat16", "2 of 3", "2.0e-03", "4.0e-03"],
        ["float32", "0 of 1", "", ""],
    ]


@pytest.mark.parametrize("table", [gpu_markdown, times_markdown, verification_markdown])
@pytest.mark.parametrize("found", [None, {**DEVICE, "verified": {}, "timed": {}}])
def test_what_was_not_measured_is_said(table, found):
    assert table(found) == "GPU: not measured. `make gpu` does it, on a machine that has one."


def test_files_are_found_by_name(tmp_path):
    assert cpu_markdown(load_benchmark("cpu", tmp_path)).startswith("CPU: not measured")
    assert growth_markdown(None) == cpu_markdown(None)
    (tmp_path / "gpu.json").write_text(json.dumps(DEVICE))
    assert load_benchmark("gpu", tmp_path) == DEVICE
    assert cpu_markdown(load_benchmark("cpu")).count("| transformers ") >= 2
    with pytest.raises(ValueError, match="cpu, gpu"):
        load_benchmark("tpu")


HOSTILE = "<script>alert(1)</script> [x](y) `z`"


def test_what_a_result_file_says_is_shown_and_not_obeyed():
    """Files may come from another machine: no HTML, no link and no markup of theirs."""
    experiment = get_experiment("principle-3")
    result = result_of(experiment, "quick", lambda facets, run: (0.5, None))
    records = tuple({**one, "device": HOSTILE, "wall_s": 1.0} for one in result.records)
    result = replace(result, records=records)
    text = caption_markdown(result)
    assert "&lt;script&gt;alert(1)&lt;/script&gt; \\[x\\](y) \\`z\\`" in text
    assert "<" not in text
