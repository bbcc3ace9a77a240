"""Packages and tables whose modules are loaded when one of their names is first used."""

from __future__ import annotations

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


def test_what_is_not_used_is_not_loaded() -> None:
    """Neither for a name nor for a task, each of which its own module sets."""
    code = "import sys\n"
    for name, unused in UNUSED.items():
        package, _, attribute = name.rpartition(".")
        code += f"from {package} import {attribute}; assert {unused!r} not in sys.modules\n"
    code += (
        "from coefdyn.lab.tasks import TASKS; n = len(TASKS); TASKS['mqar']\n"
        "print(n, 'coefdyn.lab.tasks.text' in sys.modules, len(dict(TASKS)), not TASKS.waiting)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert told.stdout.split() == ["22", "False", "22", "True"], told.stderr
