"""A reader's own mixer by the book's protocol: what is let in, what is kept, what is said."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest
import torch
from made_up_results import result_of
from torch import nn

from book.tools.chapters import ROOT
from coefdyn.lab.__main__ import main
from coefdyn.lab.experiments.board import board_cell, row_model, tasks_of
from coefdyn.lab.experiments.plan import STANDARD, standard_training
from coefdyn.lab.headline.judge import as_judged
from coefdyn.lab.headline.runs import PILOT, SEEDS
from coefdyn.lab.judge import DESCRIBED, Comparison, compare_designs
from coefdyn.lab.judge.admit import check_design, find_task, frame
from coefdyn.lab.judge.compare import _Judgement
from coefdyn.lab.tasks import TASKS, Batch, TaskConfig, explanation, make_config
from coefdyn.lab.tasks import register_task as register
from coefdyn.lab.training import RunConfig, RunOptions, runs, train_runs
from coefdyn.mixers import GatedDeltaNet
from coefdyn.mixers.registry import REGISTERED

SOURCE = '''
from dataclasses import dataclass

import torch
from torch import nn

from coefdyn.lab.tasks import IGNORE, Batch, TaskConfig, register_task


class Fading(nn.Module):
    """A sum of past tokens that fades by half a step."""

    def __init__(self, width):
        super().__init__()
        self.inner, self.outer = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        at = torch.arange(x.shape[1])
        weights = (0.5 ** (at[:, None] - at).clamp(min=0)).tril()
        return self.outer(weights @ self.inner(x))


class Peeking(Fading):
    def forward(self, x):
        return super().forward(x + 0.1 * x.mean(1, keepdim=True))


@dataclass(frozen=True, kw_only=True)
class EchoConfig(TaskConfig):
    """The token before."""

    vocab_size: int = 4
    seq_len: int = 6
    train_examples: int = 64
    test_examples: int = 32

    def draw(self, n, generator, split):
        tokens = torch.randint(self.vocab_size, (n, self.seq_len), generator=generator)
        targets = tokens.roll(1, dims=1)
        targets[:, 0] = IGNORE
        return Batch(tokens, targets)


echo = register_task("echo", EchoConfig)(seq_len=5)
'''
CALL = ["judge", "my_parts:Fading", "--task", "my_parts:echo", "--against", "LinearAttention",
        "--seeds", "2", "--steps", "3", "--quiet"]  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A reader's folder with one module."""
    path = tmp_path_factory.mktemp("reader")
    (path / "my_parts.py").write_text(SOURCE)
    return path


@pytest.fixture
def folder(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same as the current folder, its module not yet imported."""
    monkeypatch.chdir(place)
    monkeypatch.delitem(sys.modules, "my_parts", raising=False)
    return place


def contents(path: Path) -> dict[str, int]:
    return {str(one): one.stat().st_mtime_ns for one in path.rglob("*") if one.is_file()}


@pytest.fixture(scope="module")
def after(place: Path) -> Path:
    """The folder after the command; the book's data are as they were."""
    before, known = contents(ROOT / "data"), [(one, dict(one)) for one in (TASKS, REGISTERED)]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.delitem(sys.modules, "my_parts", raising=False)  # its task is registered anew
        assert main(CALL) == 0
    for registry, content in known:  # what is registered in a test is forgotten after it
        registry.clear()
        registry.update(content)
    assert contents(ROOT / "data") == before
    return place


@pytest.fixture
def judged(after: Path, folder: Path) -> Path:
    return after


def records(folder: Path) -> list[dict]:
    lines = (folder / "judged/runs/standard.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_pilots_search_the_rate_and_fresh_seeds_are_judged(judged: Path) -> None:
    found = records(judged)
    assert {one["seed"] for one in found} == {*PILOT, *SEEDS[:2]}
    assert {one["variant"]["design"] for one in found} == {"Fading", "LinearAttention"}
    for design in ("Fading", "LinearAttention"):
        rates = [
            {one["config"]["train"]["learning_rate"] for one in found
             if one["variant"]["design"] == design and (one["seed"] in PILOT) == pilot}
            for pilot in (True, False)
        ]  # fmt: skip
        assert len(rates[0]) >= 3 and len(rates[1]) == 1 and rates[1] <= rates[0]


def test_a_second_call_trains_nothing_and_an_edited_design_anew(
    judged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "train_run", lambda *_: pytest.fail("trained again"))
    assert main(CALL) == 0
    shutil.copytree("judged", "again")
    path = judged / "my_parts.py"
    path.write_text(SOURCE.replace("0.5 **", "0.75 **"))
    monkeypatch.delitem(sys.modules, "my_parts")
    assert main([*CALL, "--budget", "0", "--out", "again"]) == 1  # those of the new version lack
    assert "16 not yet run" in (judged / "again/fading.html").read_text()
    path.write_text(SOURCE)


def test_the_page_needs_nothing_else(judged: Path) -> None:
    page = (judged / "judged/fading.html").read_text()
    for outside in ("http", "src=", "href=", "url(", "@import", "<script", "<link"):
        assert outside not in page, outside
    assert "2 seeds describe" in page and "What 2 seeds cannot decide" in page
    assert "3 steps: the protocol has 2000" in page
    assert len(re.findall("<polyline", page)) == 4, "a curve per design and seed"
    assert "2 layers of width 64 with a SwiGLU of 128." in page
    assert "not known" in page, "the state of a module that is no Mixer"


@pytest.mark.nightly("the package alone in test_wheel.py, a whole judgement here")
def test_it_works_without_the_repository(folder: Path, tmp_path: Path) -> None:
    """The package alone, as a wheel brings it, from another folder."""
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "coefdyn", tmp_path / "site/coefdyn", ignore=ignore)
    work = tmp_path / "work"
    work.mkdir()
    shutil.copy(folder / "my_parts.py", work)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "OMP_NUM_THREADS": "1"}

    def call(*more: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "coefdyn.lab", *CALL, *more]
        return subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True)

    done = call("--budget", "0")
    assert done.returncode == 1 and "not run" in done.stdout, done.stderr
    assert "installed without" not in done.stderr
    asked = call("--tasks", "digits")
    assert asked.returncode == 1 and "data/digits/digits.npz is needed" in asked.stderr
    assert {one.name for one in work.iterdir()} - {"__pycache__"} == {"my_parts.py", "judged"}


def module_of(forward, **parts):
    """A maker of modules with these parts and this forward."""

    class Made(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            for name, make in parts.items():
                setattr(self, name, make(width))

        def forward(self, x):
            return forward(self, x)

    return Made


def silent(width: int) -> nn.Linear:
    layer = nn.Linear(width, width)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def linear(width: int) -> nn.Linear:
    return nn.Linear(width, width)


def gru(**options):
    return lambda width: nn.GRU(width, width, **options)


CAUSAL = {
    "a cumulative mean": module_of(lambda m, x: m.a(x.cumsum(1)), a=linear),
    "a GRU": module_of(lambda m, x: m.a(x)[0], a=gru(batch_first=True)),
    "dropped units": module_of(lambda m, x: m.a(m.b(x)), a=linear, b=lambda _: nn.Dropout(0.5)),
    "a silent start": module_of(lambda m, x: m.a(x.cumsum(1)), a=silent),
    "width by name": lambda *, d_model: nn.Linear(d_model, d_model),
}
REFUSED = {
    "the mean of all": (module_of(lambda m, x: m.a(x + x.mean(1, True)), a=linear), "not causal"),
    "behind a silent start": (
        module_of(lambda m, x: m.a(x + x.mean(1, True)), a=silent), "not causal"
    ),
    "one token ahead": (module_of(lambda m, x: m.a(x.roll(-1, 1)), a=linear), "not causal"),
    "statistics of a batch": (
        module_of(lambda m, x: m.b(m.a(x).mT).mT, a=linear, b=nn.BatchNorm1d), "mixes the sequences"
    ),
    "time as the first axis": (module_of(lambda m, x: m.a(x)[0], a=gru()), "mixes the sequences"),
    "a pair": (module_of(lambda m, x: m.a(x), a=gru(batch_first=True)), "got tuple"),
    "another width": (lambda width: nn.Linear(width, 3), r"got \(3, 7, 3\)"),
    "a constant": (module_of(lambda m, x: torch.ones_like(x)), "does not depend on its input"),
    "nothing finite": (module_of(lambda m, x: x / 0), "NaN or infinity"),
    "an error": (module_of(lambda m, x: m.missing), "fails on x of shape"),
    "one module": (nn.Linear(64, 64), "makes a new module for every layer"),
    "no width": (lambda: nn.Identity(), "cannot be built with width 64"),
}  # fmt: skip


@pytest.mark.parametrize("name", CAUSAL)
def test_a_causal_module_is_let_in(folder: Path, name: str) -> None:
    check_design(name, frame(name, CAUSAL[name], kept=False), 7)


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_judged_is_refused_in_words(folder: Path, name: str) -> None:
    design, words = REFUSED[name]
    with pytest.raises(ValueError, match=words):
        check_design(name, frame(name, design, kept=False), 7)


def test_the_command_refuses_in_words(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for design, words in (
        ("my_parts:Peeking", "not causal: outputs before token 1"),
        ("my_parts:Fadin", "did you mean 'Fading'?"),
        ("no_such_parts:Fading", "there is none in"),
        ("GatedDeltaNett", "did you mean 'GatedDeltaNet'?"),
    ):
        assert main(["judge", design, "--task", "my_parts:echo"]) == 1
        assert words in capsys.readouterr().err
    for task, words in (("recal", "did you mean 'recall'?"), ("byte-text", "judged by perplexity")):
        assert main(["judge", "my_parts:Fading", "--tasks", task]) == 1
        assert words in capsys.readouterr().err
    book = str(ROOT / "data/results")
    assert main([*CALL, "--out", book]) == 1
    assert "belongs to the book" in capsys.readouterr().err
    assert not list((ROOT / "data/results").glob("runs"))


def test_a_design_may_be_a_row_a_class_or_fields_of_a_model(folder: Path) -> None:
    assert frame("a", "GatedDeltaNet", kept=True) == row_model("Gated DeltaNet")
    assert frame("a", GatedDeltaNet, kept=True).options == row_model("Gated DeltaNet").options
    assert frame("a", "my_parts:Fading", kept=True).options == {}
    narrow = frame("a", {"mixer": "my_parts:Fading", "width": 16}, kept=True)
    assert narrow.width == 16 and re.fullmatch("a#[0-9a-f]{8}", narrow.mixer)
    assert REGISTERED[narrow.mixer](d_model=16)(torch.ones(1, 2, 16)).shape == (1, 2, 16)
    with pytest.raises(ValueError, match="widht"):
        frame("a", {"mixer": "GLA", "widht": 16}, kept=True)


def test_the_name_of_a_design_changes_with_what_it_imports_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    (tmp_path / "own_mixer.py").write_text("from own_parts import layer\n\nMade = layer\n")
    (tmp_path / "own_unrelated.py").write_text("x = 1\n")

    def name(layer: str) -> str:
        (tmp_path / "own_parts.py").write_text(
            f"from torch import nn\n\n\ndef layer(width):\n    return {layer}  # {len(layer)}\n"
        )
        for one in ("own_mixer", "own_parts"):
            monkeypatch.delitem(sys.modules, one, raising=False)
        return str(frame("a", "own_mixer:Made", kept=True).mixer)

    first = name("nn.Linear(width, width)")
    __import__("own_unrelated")
    assert name("nn.Linear(width, width)") == first
    assert name("nn.Linear(width, width, bias=False)") != first


def test_a_design_without_a_file_is_not_kept(folder: Path) -> None:
    def typed(width: int) -> nn.Module:
        return nn.Linear(width, width)

    typed.__module__ = "__main__of_a_notebook"
    for hidden in (typed, partial(nn.Linear, 64), module_of(lambda m, x: m.a(x), a=linear)):
        with pytest.raises(ValueError, match="at the top of a module with a file"):
            frame("typed", hidden, kept=True)
    assert frame("typed", typed, kept=False).mixer == "typed#here"


@dataclass(frozen=True, kw_only=True)
class BitsConfig(TaskConfig):
    """Bits, each of which is its own target."""

    vocab_size: int = 2
    seq_len: int = 4

    def draw(self, n, generator, split):
        bits = torch.randint(2, (n, self.seq_len), generator=generator)
        return Batch(bits, bits)


def test_a_task_of_one_s_own_is_known_everywhere(folder: Path) -> None:
    register("bits", BitsConfig, about="repeat the bit.")
    register("bits", BitsConfig, about="repeat the bit.")  # a cell that is run twice
    assert "repeat the bit." in explanation(BitsConfig())
    label, config = find_task(BitsConfig())
    assert label == "bits" and config.task_name.startswith("bits#")
    other = find_task(BitsConfig(seq_len=5))[1]
    assert other.task_name != config.task_name, "other sequences, other runs"
    assert find_task("recall") == ("recall", tasks_of()["recall"])
    assert find_task("selective-copying")[1] == make_config("selective-copying", "quick")


def test_what_is_no_task_is_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match="a task of the library"):
        register("parity", BitsConfig)
    with pytest.raises(ValueError, match="a method draw"):
        register("without", TaskConfig)
    with pytest.raises(ValueError, match="subclass of TaskConfig"):
        register("wrong", int)  # type: ignore[type-var]

    def task(name: str, draw) -> TaskConfig:
        return register(name, type(name, (BitsConfig,), {"draw": draw}))()

    def ones(n: int) -> torch.Tensor:
        return torch.ones(n, 4, dtype=torch.long)

    wrong = {
        "other sequences": lambda s, n, g, _: Batch(torch.randint(2, (n, 4)), ones(n)),
        "below 2": lambda s, n, g, _: Batch(ones(n), 2 * ones(n)),
        r"\(n, 4\)": lambda s, n, g, _: Batch(ones(n)[:, :3], ones(n)),
        "scores no position": lambda s, n, g, _: Batch(ones(n), -100 * ones(n)),
        "not -100": lambda s, n, g, _: Batch(ones(n), -ones(n)),
        "must draw a Batch": lambda s, n, g, _: (ones(n), ones(n)),
        r"inputs must be whole numbers .* torch.float32": lambda s, n, g, _: Batch(
            ones(n).float(), ones(n)
        ),
    }
    for words, draw in wrong.items():
        with pytest.raises(ValueError, match=words):
            find_task(task("off", draw))


def test_units_are_dropped_while_it_learns_and_not_while_it_is_measured(folder: Path) -> None:
    seen: set[tuple[bool, bool]] = set()

    def watch(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
        seen.add((torch.is_grad_enabled(), module.training))
        return module.a(x)

    register("bits", BitsConfig)
    model = frame("watched", module_of(watch, a=linear), kept=False)
    task = BitsConfig(train_examples=32, test_examples=8)
    train = standard_training(3, evaluate_every=1, validation=8)
    train_runs([RunConfig(task=task, model=model, train=train)], options=RunOptions(workers=1))
    assert seen == {(True, True), (False, False)}


def comparison(seeds: int, accuracy: dict[str, float | tuple[float, ...]]) -> Comparison:
    """A comparison on parity with chosen accuracies, one for all seeds or one for each in turn."""

    def level(facets, run):
        chosen = accuracy[facets["design"]]
        chosen = chosen if isinstance(chosen, tuple) else (chosen,)
        return chosen[run.seed % len(chosen)], None

    variants = tuple(
        board_cell({"task": "parity", "design": one}, tasks_of()["parity"], row_model(one))
        for one in accuracy
    )
    experiment = _Judgement(variants, range(seeds), 2000)
    result = result_of(experiment, STANDARD, level)
    made = [replace_cost(one) for one in result.records]
    return Comparison(
        result=as_judged(replace(result, records=tuple(made))), mine=next(iter(accuracy))
    )


def replace_cost(record: dict) -> dict:
    return {**record, "steps_done": 100, "wall_s": 2.0}


def test_four_seeds_describe_and_twelve_give_a_verdict() -> None:
    apart = {"DeltaProduct": 1.0, "GLA": 0.6}
    ((_, status, told),) = comparison(4, apart).verdicts()
    assert status == DESCRIBED and "4 of 4 against 0 of 4" in told
    assert any("4 seeds describe" in one for one in comparison(4, apart).limits())
    ((_, status, told),) = comparison(12, apart).verdicts()
    assert status == "held" and "12 of 12 against 0 of 12" in told
    assert not any("describe" in one for one in comparison(12, apart).limits())
    ((_, status, told),) = comparison(12, dict(reversed(apart.items()))).verdicts()
    assert status == "no test" and "0 of 12 against 12 of 12" in told


def test_rows_count_seeds_and_cost() -> None:
    mine, other = comparison(4, {"DeltaProduct": 1.0, "softmax attention": 0.6}).rows()
    assert (mine["solved"], mine["seeds"], other["solved"]) == (4, 4, 0)
    assert (mine["share"].low, mine["share"].high) == (pytest.approx(0.025**0.25), 1.0)
    assert mine["seconds_per_step"] == pytest.approx(0.02)
    assert other["state"] is None and other["state_growth"] >= 2 * 2 * 64
    assert mine["state"] >= 2 * 64 * 16 and mine["parameters"] > 10_000
    assert mine["guess"] == pytest.approx(0.5, abs=0.02)


def test_no_interval_of_an_accuracy_leaves_zero_and_one() -> None:
    mine, other = comparison(2, {"DeltaProduct": (0.47, 0.98), "GLA": (0.01, 0.3)}).rows()
    assert mine["accuracy"].high == 1 and 0 <= mine["accuracy"].low < 0.725
    assert other["accuracy"].low == 0 and 0.155 < other["accuracy"].high <= 1


def test_compare_designs_checks_what_it_is_given() -> None:
    for designs in ({}, ["GLA"]):
        with pytest.raises(ValueError, match="designs maps names to designs"):
            compare_designs(designs, "parity")
    with pytest.raises(ValueError, match="at least one task"):
        compare_designs({"a": "GLA"}, [])
    with pytest.raises(ValueError, match="seeds must be a whole number"):
        compare_designs({"a": "GLA"}, "parity", 0)
    with pytest.raises(ValueError, match="same name"):
        compare_designs({"a": "GLA"}, ["parity", "parity"])
