"""The wheel, installed alone and used from the folder of somebody else's project."""

from __future__ import annotations

import json
import os
import shutil
import site
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
import torch

import coefdyn
from book.tools.chapters import ROOT

USE = """
import json

import torch
import coefdyn.analysis, coefdyn.lab.pages.evidence, coefdyn.plots
from coefdyn import mixers
from coefdyn.lab import __main__ as command
from coefdyn.lab.films import Film
from coefdyn.lab.tasks import DigitsConfig, NoisyRecallConfig, TokenTextConfig, splits
from coefdyn.lab.training import ResultFile, RunConfig, RunOptions, TrainConfig, train_runs
from coefdyn.models import ModelConfig
from coefdyn.widgets import Explorer

said = {"package": coefdyn.__file__}
said["mixers"] = {
    name: list(getattr(mixers, name)(d_model=8, n_heads=2)(torch.randn(1, 5, 8)).shape)
    for name in ("SoftmaxAttention", "GatedDeltaNet", "MLSTM", "GLA")
}
task = NoisyRecallConfig(
    vocab_size=10, seq_len=12, noise_vocab=2, train_examples=32, test_examples=16
)
model = ModelConfig(width=8, layers=1, mlp=8, options={"n_heads": 1})
train = TrainConfig(steps=4, batch=8, evaluate_every=2)
runs = [RunConfig(task=task, model=model, train=train, seed=seed) for seed in range(2)]
options = RunOptions(device="cpu", workers=2, progress=False)
kept = train_runs(runs, ResultFile("out.jsonl"), options)
said["revisions"] = sorted({record["revision"] for record in kept})
said["explorer"] = Explorer().coefficients().shape[-1]
said["list"] = command.main(["list"])
said["missing"] = []
for needs in (
    lambda: splits(DigitsConfig.quick(), 0),
    lambda: splits(TokenTextConfig.quick(), 0),
    lambda: Film.load("principle-3"),
):
    try:
        needs()
    except (FileNotFoundError, ValueError) as error:
        said["missing"].append(str(error))
print("SAID" + json.dumps(said))
"""


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A command outside of this environment; its output if it failed."""
    own = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    environment = {name: value for name, value in os.environ.items() if name not in own}
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, built from a copy: a build leaves folders behind."""
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "coefdyn", source / "coefdyn", ignore=ignore)
    command = ("-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--no-index")
    run(sys.executable, *command, "-w", "made", ".", cwd=source)
    return next((source / "made").glob("coefdyn-*.whl"))


def test_the_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    """Code, styles, scripts and the mark that its annotations count."""
    held = set(zipfile.ZipFile(wheel).namelist())
    files = (path for path in (ROOT / "coefdyn").rglob("*") if path.is_file())
    want = {p.relative_to(ROOT).as_posix() for p in files if "__pycache__" not in p.parts}
    assert "coefdyn/py.typed" in held
    assert want <= held
    assert {name.split("/")[0] for name in held - want} == {
        f"coefdyn-{coefdyn.__version__}.dist-info"
    }


@pytest.fixture(scope="module")
def said(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> dict:
    """Output of a program that uses the wheel, in an environment inside another git project."""
    project = tmp_path_factory.mktemp("theirs")
    run("git", "init", "-q", ".", cwd=project)
    author = ("-c", "user.name=A", "-c", "user.email=a@b.c")
    run("git", *author, "commit", "-q", "--allow-empty", "-m", "theirs", cwd=project)
    venv.create(project / ".venv", with_pip=False, symlinks=True)
    python = project / ".venv" / "bin" / "python"
    install = ("install", "-q", "--no-deps", "--no-index", wheel)
    run(sys.executable, "-m", "pip", "--python", python, *install, cwd=project)
    packages = next((project / ".venv" / "lib").glob("python*")) / "site-packages"
    shared = [*site.getsitepackages(), str(Path(torch.__file__).parents[1])]
    (packages / "shared.pth").write_text("\n".join(dict.fromkeys(shared)) + "\n")
    (project / "use.py").write_text(USE)
    done = run(python, "use.py", cwd=project)
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("SAID"))
    left = {path.name for path in project.iterdir()} - {".git", ".venv", "use.py"}
    return json.loads(line[4:]) | {"stderr": done.stderr, "place": str(project), "left": left}


def test_it_runs_from_another_folder(said: dict) -> None:
    """Mixers, training in two processes, explorer and command line, by the installed files."""
    assert said["package"].startswith(said["place"])
    assert set(map(tuple, said["mixers"].values())) == {(1, 5, 8)}
    assert said["explorer"] > 1
    assert said["list"] == 0
    assert said["left"] == {"out.jsonl"}


def test_records_carry_its_version_and_no_commit_of_theirs(said: dict) -> None:
    assert said["revisions"] == [f"version {coefdyn.__version__}"]


def test_what_needs_the_repository_says_so_with_the_remedy(said: dict) -> None:
    assert "is installed without the repository" in said["stderr"]
    assert f"{said['place']}/data" in said["stderr"]
    digits, text, film = said["missing"]
    assert all("run this from the top folder of a checkout" in one for one in (digits, text))
    assert "lie in the repository of the book" in film
