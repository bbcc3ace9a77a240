"""Packages and tables whose modules are loaded when one of their names is first used."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module

import pytest

PACKAGES = ("coefdyn.lab.tasks", "coefdyn.lens", "coefdyn.mixers", "coefdyn.widgets")
#: a name of a package, and a module in it that need not be loaded for it, used one after another
UNUSED = {
    "coefdyn.mixers.GLA": "coefdyn.mixers.mamba2",
    "coefdyn.lab.tasks.MqarConfig": "coefdyn.lab.tasks.listops",
    "coefdyn.widgets.StepView": "coefdyn.widgets.explorer",
    "coefdyn.lens.window": "coefdyn.lens.cache.memory",
}


@pytest.mark.parametrize("package", PACKAGES)
def test_all_names_are_there_and_told(package: str) -> None:
    module = import_module(package)
    assert set(module.__all__) <= set(dir(module))
    found = {name: getattr(module, name) for name in module.__all__}
    assert not [name for name, value in found.items() if isinstance(value, type(sys))]
    with pytest.raises(AttributeError, match="nothing_like_it"):
        module.nothing_like_it  # noqa: B018


#: what one process has loaded, after each of the things that a user may do with it
LOADED = """
import json, sys
from time import process_time
begin = process_time()
import torch
before, middle = set(sys.modules), process_time()
import coefdyn.mixers
share = (process_time() - middle) / (middle - begin)
mixers = set(sys.modules) - before
mixer = coefdyn.mixers.GatedDeltaNet(d_model=16, n_heads=2)
mixer(torch.randn(2, 200, 16)).sum().backward()
mixer.dynamics(torch.randn(10, 16))[0].coefficients()
output = set(sys.modules)
for package, name, unused in UNUSED:
    getattr(__import__(package, fromlist=[name]), name)
    assert unused not in sys.modules, unused
from coefdyn.lab.tasks import TASKS
known = len(TASKS)
TASKS["mqar"]
assert "coefdyn.lab.tasks.text" not in sys.modules
assert known == len(dict(TASKS)) and not TASKS.waiting
from coefdyn.widgets import Explorer
Explorer("gla", decay=0.9)
assert "py_mini_racer" not in sys.modules
print(json.dumps([share, sorted(mixers), sorted(output)]))
"""


def test_what_is_not_used_is_not_loaded_and_the_mixers_cost_little_beyond_torch() -> None:
    """0.35 of torch's own time in the best of five processes; no compiler, kernel or interpreter.

    ``torch.broadcast_shapes`` alone would import sympy, which takes about a second.
    """
    unused = [(*name.rsplit(".", 1), module) for name, module in UNUSED.items()]
    shares: list[float] = []
    while len(shares) < 5 and min(shares, default=1.0) >= 0.35:
        command = [sys.executable, "-c", f"UNUSED = {unused!r}\n{LOADED}"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        share, modules, after = json.loads(done.stdout)
        shares.append(share)
    compilers = ("torch._dynamo", "torch._inductor", "torch.fx.experimental")
    assert not [name for name in modules if name.startswith(compilers)]
    packages = {name.partition(".")[0] for name in modules} - set(sys.stdlib_module_names)
    assert packages <= {"coefdyn", "jaxtyping", "numpy"}
    kernels = [name for name in modules if name.startswith("coefdyn.execution.triton.")]
    assert kernels == ["coefdyn.execution.triton.dispatch"]
    assert not {"sympy", "torch._dynamo"} & set(after)
    assert min(shares) < 0.35, shares


#: one process in which packages are missing, or too old, tells what each import says
LACKING = """
import importlib.metadata, sys
from importlib import import_module

def tell(module):
    try:
        import_module(module)
    except ImportError as error:
        print(error)

real = importlib.metadata.version
importlib.metadata.version = lambda name: "5.2.0" if name == "transformers" else real(name)
tell("coefdyn.lens")
tell("coefdyn.models.hugging_face")
importlib.metadata.version = real
for module, package in (("plots", "matplotlib"), ("widgets", "anywidget"),
                        ("models.hugging_face", "transformers")):
    sys.modules[package] = None
    tell(f"coefdyn.{module}")
"""


def test_a_missing_extra_and_an_old_package_are_named_with_the_command() -> None:
    done = subprocess.run([sys.executable, "-c", LACKING], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lens, model, plots, widgets, lacking = done.stdout.splitlines()
    for module, told in (("coefdyn.lens", lens), ("coefdyn.models.hugging_face", model)):
        assert f"{module} needs transformers 5.20 or newer, found 5.2.0: pip" in told
    assert "needs matplotlib, an extra: pip install 'coefdyn[plots]'" in plots
    assert "needs anywidget, an extra: pip install 'coefdyn[widgets]'" in widgets
    assert "needs transformers, an extra: pip install 'coefdyn[lens]'" in lacking
