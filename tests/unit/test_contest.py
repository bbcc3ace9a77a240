"""Contests: every entrant is trained on the same sequences, and what came out is told as it is."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from coefdyn.lab.contest import (
    CONTESTS,
    TASKS,
    Contest,
    Entrant,
    guessing,
    standard_words,
)
from coefdyn.lab.contest.catalogue import CHAPTERS
from coefdyn.lab.tasks import IGNORE, ForgetConfig, MqarConfig, splits

BOOK = Path(__file__).resolve().parents[2] / "book" / "architectures"
SMALL = Contest(
    task=MqarConfig(vocab_size=10, seq_len=8, pairs=2, train_examples=64, test_examples=32),
    entrants={
        "one": Entrant(mixer="LinearAttention", options={"n_heads": 1}),
        "two": Entrant(mixer="DeltaNet", options={"n_heads": 1}),
    },
    steps=4,
    width=8,
    mlp=None,
)


def test_every_contest_is_of_a_chapter_that_runs_it() -> None:
    for name in CONTESTS:
        assert f'CONTESTS["{name}"].run(' in (BOOK / f"{name}.md").read_text("utf-8")


@pytest.mark.parametrize("name", sorted(CONTESTS))
def test_entrants_differ_in_the_mixer_and_its_positions_alone(name: str) -> None:
    configs = [CONTESTS[name].config(entrant) for entrant in CONTESTS[name].entrants]
    assert len({(one.task, one.train, one.seed, one.model.width) for one in configs}) == 1
    assert len({(one.model.layers, one.model.mlp, one.model.block) for one in configs}) == 1
    assert len({one.key for one in configs}) == len(configs)


#: a row of the page -> the mixer that it is
MIXERS = {
    "softmax_attention": "SoftmaxAttention",
    "linear_attention": "LinearAttention",
    "normalized_attention": "NormalizedAttention",
    "gla": "GLA",
    "mamba2": "Mamba2",
    "deltanet": "DeltaNet",
    "gated_deltanet": "GatedDeltaNet",
    "mlstm": "MLSTM",
}
#: trains another task in the page than in its cell, and says so
ANOTHER = {"linear_attention": "The page itself can train a smaller contest: at every token"}


@pytest.mark.parametrize("name", sorted(CONTESTS))
def test_the_page_trains_an_entrant_of_the_cell_on_the_cells_task(name: str) -> None:
    """A smaller size of it, so that a reader who presses Train sees the contest just read."""
    contest, page = CONTESTS[name], CHAPTERS[name].page
    task = TASKS[page["task"]]
    if name in ANOTHER:
        assert ANOTHER[name] in (BOOK / f"{name}.md").read_text("utf-8")
    else:
        assert task.cell == contest.task and type(task.page) is type(task.cell)
    row = page.get("left", "softmax_attention")
    assert MIXERS[row] in {one.mixer for one in contest.entrants.values()}
    assert task.page.seq_len < contest.task.seq_len


def test_a_contest_trains_everyone_and_keeps_what_they_read() -> None:
    result = SMALL.run(seeds=2)
    for name in SMALL.entrants:
        one = result.trained[name]
        assert len(one.accuracy) == 2 and one.steps[-1] == 4
        assert result.accuracy(name) == pytest.approx(sum(one.accuracy) / 2)
        alpha = result.coefficients(name)
        assert alpha.shape[-2:] == (8, 8) and alpha.isfinite().all()
        torch.testing.assert_close(alpha, alpha.tril())
        assert len(result.reads(name).splitlines()) == 2
    assert "2 seeds" in result.words() and "guessing" in result.words()
    assert len(result.figure().axes) == 1 and len(result.matrices(["two"]).axes) == 2


def test_the_model_kept_is_the_one_whose_accuracy_is_told() -> None:
    result = SMALL.run()
    test = splits(SMALL.task, 0).test
    model = result.trained["two"].model
    said = model(test.inputs).argmax(-1)
    asked = test.targets != IGNORE
    share = (said[asked] == test.targets[asked]).double().mean()
    assert share.item() == pytest.approx(result.accuracy("two"), abs=1e-6)


def test_the_same_contest_twice_is_the_same() -> None:
    first, second = SMALL.run(), SMALL.run()
    assert first.words() == second.words()
    torch.testing.assert_close(first.coefficients("one"), second.coefficients("one"))


def test_what_is_learned_does_not_depend_on_the_page_it_runs_in() -> None:
    first = SMALL.run()
    torch.set_default_dtype(torch.float64)
    second = SMALL.run()
    assert torch.get_default_dtype() is torch.float64
    torch.testing.assert_close(first.coefficients("two"), second.coefficients("two"))


def test_guessing_is_the_most_frequent_answer() -> None:
    half = guessing(ForgetConfig(vocab_size=16, test_examples=64))
    assert half == pytest.approx(0.5)  # of four keys two were not told again


def test_the_paper_profile_is_larger_and_has_three_seeds() -> None:
    quick, paper = (SMALL.config("one", profile) for profile in ("quick", "paper"))
    assert paper.train.steps == 10 * quick.train.steps
    assert paper.model.width == 2 * quick.model.width
    assert paper.model.layers == 2 * quick.model.layers


def test_wrong_calls_are_answered_in_words() -> None:
    with pytest.raises(ValueError, match="quick"):
        SMALL.run("quik")
    with pytest.raises(ValueError, match="no number of seeds"):
        SMALL.run(seeds=0)
    with pytest.raises(ValueError, match="two"):
        replace(SMALL).config("tow")
    with pytest.raises(ValueError, match="scoreboard"):
        standard_words("scorebord", "recall", ["DeltaNet"])


def test_what_was_not_run_is_said_to_be_not_run() -> None:
    assert "no such row" in standard_words("scoreboard", "recall", ["no such row"])
    assert "not run" in standard_words("scoreboard", "recall", ["no such row"])


@pytest.mark.parametrize("seeds", ["3", "two", True, 0, -1, 1.5, [], [0, "1"]])
def test_no_number_of_seeds_is_refused_in_words(seeds: object) -> None:
    from coefdyn.lab.experiments import principle_3

    said = re.escape(f"seeds={seeds!r} ({type(seeds).__name__}) is no number of seeds")
    for run in (CONTESTS["linear_attention"].run, principle_3.run):
        with pytest.raises(ValueError, match=said):
            run("quick", seeds=seeds)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_gpu_that_is_not_here_is_named() -> None:
    with pytest.raises(ValueError, match="asks for a GPU, but torch"):
        CONTESTS["linear_attention"].run("quick", device="cuda")
