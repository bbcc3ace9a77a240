"""The figure that trains in the page: what Python checks before a page is written."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from book.tools.chapters import ROOT
from coefdyn.lab import train
from coefdyn.lab.contest import TASKS as CONTEST_TASKS
from coefdyn.lab.tasks import config_from_dict
from coefdyn.lab.train import PageTraining
from coefdyn.lab.train.kept_runs import kept_run, kept_still
from coefdyn.lab.train.offers import (
    CHAPTERS,
    CHOICES,
    ROWS,
    SIZE,
    contests,
    design_words,
    offered,
)
from coefdyn.lab.train.source import page_source
from coefdyn.mixers.design import (
    EVOLUTIONS,
    NORMALIZERS,
    READOUTS,
    SCALINGS,
    DesignMixer,
)
from coefdyn.widgets import Explorer

JS = Path(train.__file__).parent / "js"
#: bytes that the figure may add to a page
HEAVIEST = 80_000


def test_the_figure_is_light() -> None:
    """Its stylesheet is the explorer's, which a page carries once for all its figures."""
    record = {"settings": PageTraining("gla", "mamba2").settings, "contests": contests()}
    assert len(PageTraining._esm.encode()) + len(json.dumps(record)) < HEAVIEST
    assert PageTraining._css == Explorer._css


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_opens_its_contest_and_has_a_kept_run_of_it(chapter: str) -> None:
    folders = {"index": "", "principle": "principles/"}
    folder = folders.get(chapter.partition("_")[0], "architectures/")
    text = (ROOT / "book" / f"{folder}{chapter}.md").read_text(encoding="utf-8")
    assert f'PageTraining.contest("{chapter}")' in text
    figure = PageTraining.contest(chapter)
    kept = kept_run(figure.settings)
    assert kept is not None
    assert [run["name"] for run in kept.runs] == [
        design_words(figure.settings[side]) for side in ("left", "right") if figure.settings[side]
    ]
    for run in kept.runs:
        assert run["name"] in figure.words()
        assert len(run["steps"]) == len(run["accuracy"]) == len(run["loss"])
        assert (run["matrix"] is None) == bool(run["stopped"])
    drawn = kept_still(kept)
    assert len(drawn.axes) == 1 + sum(run["matrix"] is not None for run in kept.runs)


def test_settings_that_were_never_kept_have_no_run() -> None:
    assert kept_run(PageTraining("gla", seed=4321).settings) is None


def test_an_unknown_chapter_is_named_with_the_nearest() -> None:
    with pytest.raises(ValueError, match="mamba2"):
        PageTraining.contest("mamba3")


def test_equal_figures_share_a_module() -> None:
    assert PageTraining("gla")._esm == PageTraining("mamba2", seed=4)._esm
    text = json.dumps(offered(), ensure_ascii=False)
    assert page_source(text) == PageTraining._esm


def test_the_wheel_carries_every_file() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = project["tool"]["setuptools"]["package-data"]["coefdyn.lab.train"]
    carried = {path for pattern in patterns for path in JS.parent.glob(pattern)}
    files = [path for kind in ("*.js", "*.css") for path in JS.parent.rglob(kind)]
    assert len(files) > 30
    assert set(files) <= carried


def test_every_row_is_a_mixer_of_the_library() -> None:
    for row in ROWS.values():
        DesignMixer(d_model=SIZE["width"], n_heads=SIZE["heads"], **row["options"])


def test_every_choice_of_the_mixer_is_offered() -> None:
    known = {"evolution": EVOLUTIONS, "readout": READOUTS}
    known |= {"normalizer": NORMALIZERS, "scaling": SCALINGS}
    assert {key: set(found) for key, found in CHOICES.items()} == {
        key: set(found) for key, found in known.items()
    }


def test_every_choice_is_a_mixers() -> None:
    for key, known in CHOICES.items():
        for name in known:
            DesignMixer(d_model=SIZE["width"], n_heads=SIZE["heads"], **{key: name})


def test_contests_carry_their_configuration_and_what_a_guess_scores() -> None:
    for name, contest in contests().items():
        assert config_from_dict(contest["config"]) == CONTEST_TASKS[name].page
        assert 1 / contest["config"]["vocab_size"] < contest["base"] < 0.8  # a fifth to learn


def test_a_link_names_everything() -> None:
    figure = PageTraining({"constant": 1.05, "evolution": "constant"}, "gla", seed=3)
    assert figure.link().startswith("#cd-train?task=selective-copying&rate=0.01&seed=3")
    assert "left=own%2Cconstant%2C1.05%2Cexp%2Crow_sum%2Cinverse_sqrt" in figure.link()
    assert "right=gla" in figure.link()
    assert "A = 1.05 I" in figure.words() and "Gated linear attention" in figure.words()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"left": "softmax"}, "unknown row 'softmax'"),
        ({"left": {"readout": "epx"}}, "did you mean 'exp'"),
        ({"left": {"phi": "exp"}}, "unknown ingredient 'phi'"),
        ({"left": {"constant": 0}}, "not be 0"),
        ({"left": {"constant": 9.0}}, "must lie within -1.2 and 1.2"),
        ({"task": "recal"}, "task"),
        ({"learning_rate": 0.5}, "must be one of 0.001"),
        ({"seed": -1}, "seed must lie between 0 and 9999"),
        ({"layer": 3}, "layer must lie between 1 and 2"),
        ({"name": "a b"}, "cannot stand in an address"),
        ({"heads": 3}, "unknown setting 'heads'"),
    ],
)
def test_what_cannot_be_is_said_in_words(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        PageTraining(**given)
