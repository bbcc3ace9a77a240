"""Stacked models through the Triton kernels: vmap folds them into the kernels' batch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from passed import KERNELS, RUNS
from tolerances import tolerance

TESTS = Path(__file__).parents[1]
#: a process of its own: the interpreter and the compiler cannot share one
SCRIPT = """
import json
import torch
from training_runs import TASK, tiny_model, tiny_run
from tolerances import relative_error
from torch.func import functional_call, grad_and_value, stack_module_state, vmap
from coefdyn.lab.tasks import sample, split_generator
from coefdyn.lab.training.loop import initial_model
from coefdyn.lab.training.metrics import masked_loss

torch.set_num_threads(1)
DESIGNS = {
    "pointwise": {"readout": "softplus", "evolution": "constant"},
    "scalar": {"mixer": "Mamba2"},
    "diagonal": {"mixer": "GLA"},
    "householder": {"readout": "identity", "evolution": "householder_learned", "normalizer": "one"},
}
drawn = sample(TASK, 4, split_generator(0, "train"))
inputs, targets = (x.reshape(2, 2, -1) for x in drawn)

def both(runs, dtype, method):
    models = [initial_model(run).to(dtype) for run in runs]
    stacked, _ = stack_module_state(models)

    def loss(parameters, inputs, targets):
        logits = functional_call(models[0], parameters, (inputs,), {"method": method})
        return masked_loss(logits, targets)

    gradients, losses = vmap(grad_and_value(loss))(stacked, inputs, targets)
    return losses, torch.cat([one.flatten(1) for one in gradients.values()], dim=1)

for name, design in DESIGNS.items():
    model = tiny_model(layers=1, mlp=None, n_heads=1, width=8, **design)
    runs = [tiny_run(seed=seed, model=model) for seed in (0, 1)]
    losses, gradients = both(runs, torch.float32, "triton")
    exact_losses, exact = both(runs, torch.float64, "parallel")
    print(json.dumps({
        "design": name,
        "output": relative_error(losses, exact_losses),
        "gradient": max(map(relative_error, gradients, exact)),
    }))
"""


@pytest.mark.dear("an interpreter runs every instruction of the kernels in Python")
@pytest.mark.reads(f"{KERNELS} {RUNS}")
def test_stacked_models_through_the_kernels_agree_with_float64():
    pytest.importorskip("triton", "3.5", reason="the kernels need triton 3.5, a Linux package")
    paths = os.pathsep.join([str(TESTS), str(TESTS.parent)])
    environment = {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": paths}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["design"] for row in rows] == ["pointwise", "scalar", "diagonal", "householder"]
    for row in rows:
        for quantity in ("output", "gradient"):
            limit = tolerance("triton", torch.float32, quantity)
            assert row[quantity] <= limit, f"{row['design']}: {quantity} {row[quantity]:.1e}"
