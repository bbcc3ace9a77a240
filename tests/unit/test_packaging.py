"""The metadata, the pins and the two ways to install agree, and the import arrows hold."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from graphlib import TopologicalSorter
from importlib.metadata import distributions

import grimp
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import coefdyn
from book.tools import pins
from book.tools.chapters import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
PINS = pins.read_pins()
CONDA = yaml.safe_load((ROOT / "environment.yml").read_text())
ENVIRONMENTS = pins.environments()


def declared() -> list[Requirement]:
    """Everything pyproject.toml asks for."""
    groups = [PROJECT["dependencies"], *EXTRAS.values()]
    return [Requirement(line) for group in groups for line in group]


def pinned_version(name: str, environment: dict[str, str]) -> str | None:
    """The one version pinned for an environment, None when the pin does not apply there."""
    fits = [
        pin
        for pin in PINS.get(pins.canonical(name), [])
        if pin.marker is None or pin.marker.evaluate(environment)
    ]
    assert len(fits) <= 1, f"{name} is pinned twice for {environment}"
    return next(iter(fits[0].specifier)).version if fits else None


@pytest.mark.parametrize("requirement", declared(), ids=str)
def test_every_declared_package_is_pinned_within_its_range(requirement: Requirement) -> None:
    for environment in ENVIRONMENTS:
        if requirement.marker is None or requirement.marker.evaluate(environment):
            version = pinned_version(requirement.name, environment)
            assert version, f"{requirement} has no pin for {environment}: run 'make pins'"
            assert requirement.specifier.contains(version, prereleases=True)


TOP = """.ci .github .gitignore .pre-commit-config.yaml ARCHITECTURE.md CHANGELOG.md CITATION.cff
CONTRIBUTING.md LICENSE LOG.md Makefile README.md _config.yml book coefdyn conftest.py data
environment.yml pins.txt pyproject.toml tests"""


def test_nothing_stray_lies_at_the_top_of_the_repository() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    assert listed.returncode == 0, listed.stderr
    assert {name.split("/")[0] for name in listed.stdout.splitlines()} == set(TOP.split())


def test_every_pin_is_exact() -> None:
    for pin in (pin for several in PINS.values() for pin in several):
        assert [spec.operator for spec in pin.specifier] == ["=="], str(pin)
        assert "*" not in str(pin.specifier)


def test_what_is_installed_is_what_is_pinned() -> None:
    """This environment holds no pinned package in another version."""
    system = {"linux": "linux", "darwin": "darwin"}[sys.platform]
    here = {"python_full_version": sys.version.split()[0], "sys_platform": system}
    here["python_version"] = ".".join(map(str, sys.version_info[:2]))
    environment = {**ENVIRONMENTS[0], **here}
    wrong = {}
    for distribution in distributions():
        pinned = pinned_version(distribution.name, environment)
        if pinned and distribution.version.split("+")[0] != pinned:
            wrong[distribution.name] = f"{distribution.version}, pinned {pinned}"
    assert not wrong


def test_conda_installs_the_same_pins_and_extras() -> None:
    dependencies = CONDA["dependencies"]
    (pip,) = [entry["pip"] for entry in dependencies if isinstance(entry, dict)]
    assert pip[0] == "-c pins.txt"
    (extras,) = re.findall(r"^-e \.\[(.*)\]$", pip[1])
    assert f"-e '.[{extras}]'" in (ROOT / "Makefile").read_text()
    assert set(extras.split(",")) <= set(EXTRAS)


def test_conda_asks_for_the_same_python() -> None:
    (python,) = [d for d in CONDA["dependencies"] if str(d).startswith("python ")]
    assert SpecifierSet(python.split(" ", 1)[1]) == SpecifierSet(PROJECT["requires-python"])


def test_pythons_of_the_pins_are_those_of_the_project() -> None:
    allowed = SpecifierSet(PROJECT["requires-python"])
    tried = {environment["python_version"] for environment in ENVIRONMENTS}
    assert tried == {f"3.{minor}" for minor in range(8, 20) if f"3.{minor}.0" in allowed}


#: an import's name, where it is not its package's
PACKAGES = {"IPython": "ipython", "PIL": "pillow", "sklearn": "scikit-learn", "yaml": "pyyaml"}
PACKAGES |= {"importlinter": "import-linter", "fla": "fla-core", "_pytest": "pytest"}
PACKAGES |= {"py_mini_racer": "mini-racer", "bs4": "beautifulsoup4"}
#: what an extra brings along by its own declaration: an import -> the declared package
BROUGHT = {"IPython": "ipykernel", "matplotlib_inline": "ipykernel", "traitlets": "ipywidgets"}
BROUGHT |= {"yaml": "jupyter-book", "pybtex": "sphinxcontrib-bibtex", "PIL": "matplotlib"}
BROUGHT |= {"filelock": "torch", "dask": "distributed", "cloudpickle": "distributed"}
BROUGHT |= {"packaging": "jupyterlab", "docutils": "sphinx", "grimp": "import-linter"}
BROUGHT |= {"sphinx_multitoc_numbering": "jupyter-book", "pygments": "sphinx"}

#: imports of a program that runs in an environment of its own (`make lens-peers`)
ELSEWHERE = {"kvpress"}


def imported(folder: str) -> set[str]:
    """The top-level names that the Python files below a folder import, at any place in them."""
    found = set()
    for path in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module.split(".")[0])
    return found


@pytest.mark.parametrize(
    ("folder", "extras"),
    [
        ("coefdyn", [one for one in EXTRAS if one not in ("test", "lint", "peers", "lens-models")]),
        ("book/tools", ["book", "lint"]),
        ("tests", ["book", "test", "lint", "peers"]),
    ],
)
def test_every_import_is_declared(folder: str, extras: list[str]) -> None:
    """By the dependencies or an extra, or brought along by a package that is declared."""
    lines = [*PROJECT["dependencies"], *(line for extra in extras for line in EXTRAS[extra])]
    ours = {pins.canonical(Requirement(line).name) for line in lines}
    local = {path.stem for path in (ROOT / "tests").glob("*.py")} | {"coefdyn", "book", "tests"}
    local |= {path.stem for path in (ROOT / "tests").glob("*/")}
    local |= {path.stem for path in (ROOT / "tests").glob("*/*.py")}
    local |= {path.stem for path in (ROOT / "data").glob("*/*.py")}
    others = imported(folder) - set(sys.stdlib_module_names) - local
    names = {name: pins.canonical(PACKAGES.get(name, name)) for name in others}
    missing = {name for name, package in names.items() if package not in ours} - ELSEWHERE
    assert {name for name in missing if BROUGHT.get(name) not in ours} == set()


def test_versions_agree() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert coefdyn.__version__ == PROJECT["version"] == citation["version"]


def test_no_files_import_each_other_in_a_ring() -> None:
    """Imports inside functions and for annotations count; the exception is `apply` of a design."""
    graph = grimp.build_graph("coefdyn", exclude_type_checking_imports=False, cache_dir=None)
    imports = {
        name: graph.find_modules_directly_imported_by(name) - {name} for name in graph.modules
    }
    handed_over = {x for x in imports["coefdyn.dynamics.coefficients"] if ".execution." in x}
    assert handed_over, "the named arrow"
    imports["coefdyn.dynamics.coefficients"] -= handed_over
    TopologicalSorter(imports).prepare()  # raises CycleError, with the ring


def test_the_library_imports_with_torch_and_numpy_alone() -> None:
    """Core packages import, and tasks draw, where no Jupyter, SciPy or jaxtyping is installed."""
    code = """
import sys
allowed = {"torch", "numpy"}
blocked = ("matplotlib", "anywidget", "ipywidgets", "IPython", "jaxtyping", "beartype", "scipy",
           "sklearn", "triton", "pandas", "einops", "yaml", "datasets", "tokenizers", "PIL")
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in blocked and not any("torch" in f for f in callers()):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
def callers():
    frame = sys._getframe(2)
    while frame:
        yield frame.f_code.co_filename
        frame = frame.f_back
sys.meta_path.insert(0, Block())
import importlib
import coefdyn.lab.tasks as t
for name, drawn in (("digits", 1438), ("byte-text", 3200), ("noisy-recall", 12800)):
    assert len(t.splits(t.make_config(name, "quick"), 0).train.inputs) == drawn
names = "dynamics execution mixers models lab.training lab.experiments"
for name in names.split():
    importlib.import_module(f"coefdyn.{name}")
import coefdyn.lab.__main__
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
