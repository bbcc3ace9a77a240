"""Packages and tables whose modules are loaded when one of their names is first used."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

PACKAGES = ("coefdyn.lab.tasks", "coefdyn.lens", "coefdyn.mixers", "coefdyn.widgets")
#: a name of a package, and a module in it that need not be loaded for it
UNUSED = {
    "coefdyn.lab.tasks.MqarConfig": "coefdyn.lab.tasks.listops",
    "coefdyn.lens.window": "coefdyn.lens.cache.memory",
    "coefdyn.mixers.GLA": "coefdyn.mixers.mamba2",
    "coefdyn.widgets.StepView": "coefdyn.widgets.explorer",
}


@pytest.mark.parametrize("package", PACKAGES)
def test_all_names_are_there_and_told(package: str) -> None:
    module = import_module(package)
    assert set(module.__all__) <= set(dir(module))
    found = {name: getattr(module, name) for name in module.__all__}
    assert not [name for name, value in found.items() if isinstance(value, type(sys))]
    with pytest.raises(AttributeError, match="nothing_like_it"):
        module.nothing_like_it  # noqa: B018


@pytest.mark.parametrize("name", UNUSED)
def test_what_is_not_used_is_not_loaded(name: str) -> None:
    package, _, attribute = name.rpartition(".")
    code = f"import sys; from {package} import {attribute}; print({UNUSED[name]!r} in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "False"


def test_a_task_is_loaded_by_its_name_and_each_is_set_by_its_module() -> None:
    code = (
        "import sys; from coefdyn.lab.tasks import TASKS; n = len(TASKS); TASKS['mqar']\n"
        "print(n, 'coefdyn.lab.tasks.text' in sys.modules, len(dict(TASKS)), not TASKS.waiting)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["22", "False", "22", "True"]
