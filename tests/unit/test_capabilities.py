"""What rows can do: constructions decide, and fail without what carries them; lemmas hold."""

from __future__ import annotations

import re

import pytest
import torch

from book.tools.chapters import ROOT
from coefdyn.lab.capabilities.cells import CONSTRUCTIONS, LEAST, MEETS, cells, construct
from coefdyn.lab.capabilities.certificate import best_margin, gap_between_hulls, gaps, optimised
from coefdyn.lab.capabilities.check import decides, measure
from coefdyn.lab.capabilities.hand import Hand, before_silu
from coefdyn.lab.capabilities.lemmas import LEMMAS, witness
from coefdyn.lab.capabilities.neighbours import NEIGHBOURS, carried_by
from coefdyn.lab.capabilities.two_layers import follow
from coefdyn.lab.capabilities.words import answered, own_length, random_words, small_words
from coefdyn.lab.experiments.board import ROWS, tasks_of
from coefdyn.lab.pages.capabilities import capabilities_html, contradictions, learned_seeds
from coefdyn.lab.scripts.capabilities import main
from coefdyn.lab.tasks.tracking import S3

BUILT = [(one.task, one.row) for one in cells() if one.mark in ("can", "to a length")]
CLOSED = [(name, *cell) for name, found in LEMMAS.items() for cell in found]


@pytest.mark.parametrize(("task", "row"), BUILT)
def test_construction_decides_and_fails_without_what_carries_it(task, row):
    member, own = construct(task, row), own_length(task)
    always = row in CONSTRUCTIONS[task][1]
    right, margin = decides(member, task, own, 16, shorter=always)
    assert right and margin > (LEAST if always else 0)
    change = NEIGHBOURS[carried_by(task, row)][1]
    length = 512 if task == "count" else max(own, 64)
    accuracy, margin = measure(member, random_words(task, length, 8), change=change)
    assert accuracy < 1 or margin < LEAST / 10
    assert accuracy < 1 or (task, row) == ("count", "mLSTM")  # right, with a vanishing margin


@pytest.mark.parametrize(("lemma", "task", "row"), CLOSED)
def test_hulls_of_the_large_class_meet(lemma, task, row):
    shown = witness(lemma, task, row)
    assert gaps(row, shown, 3) <= MEETS
    assert optimised(row, shown, steps=5) <= MEETS


#: one cell of every lemma and task
WITNESSES = {(name, task): (name, task, row) for name, task, row in CLOSED}.values()


@pytest.mark.parametrize(("lemma", "task", "row"), WITNESSES)
def test_a_row_outside_of_the_lemma_is_told_apart_by_the_same_words(lemma, task, row):
    shown = witness(lemma, task, row)
    assert gaps("DeltaProduct", shown, 3) > 1e-3
    assert optimised("DeltaProduct", shown, steps=5) > 1e-3


def test_a_number_of_small_size_is_not_hidden_by_a_large_one():
    y = torch.tensor([[1e3, 1.0], [1e3, 0.0], [1e3, 0.5], [1e3, 1.5]], dtype=torch.float64)
    second = torch.tensor([False, False, True, True])
    assert gap_between_hulls(y, second) <= MEETS
    y[2:, 1] += 1.0
    assert gap_between_hulls(y, second) > 0.1 and best_margin(y, second) > 0.01


def answer(task, word):
    """The right answer at the last token of a word, from the task's definition."""
    if task == "parity":
        return sum(word) % 2
    if task == "S3":
        state = (0, 1, 2)
        for token in word:
            state = tuple(S3[token][x] for x in state)
        return state
    if task == "copy":
        mark = word.index(15)
        return [token for token in word[:mark] if token < 14][len(word) - mark - 2]
    if task == "recall":
        return word[word.index(word[-1]) + 1]
    return int(answered(torch.tensor([word[:-1] + [word[-1]] * 4])).targets[0, -1])


@pytest.mark.parametrize(("lemma", "task", "row"), CLOSED)
def test_words_have_the_answers_that_the_lemma_says(lemma, task, row):
    shown = witness(lemma, task, row)
    found = {True: set(), False: set()}
    lines = zip(shown.words.tolist(), shown.read.tolist(), shown.second.tolist(), strict=True)
    for word, read, second in lines:
        assert read < own_length(task)
        found[second].add(answer(task, word[: read + 1]))
    assert len(found[True]) == len(found[False]) == 1 and found[True] != found[False]


@pytest.mark.dear("the command checks every entry of the table")
def test_every_cell_has_one_mark_and_the_command_prints_it(capsys):
    assert [(one.task, one.row) for one in cells()] == [(t, r) for t in tasks_of() for r in ROWS]
    assert main(["--only", "S3", "--random", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(ROWS) + 1
    assert lines[-2].split()[:3] == ["S3", "DeltaProduct", "can"]
    assert sum(one.mark == "open" for one in cells()) <= 18


def test_no_seed_solved_what_is_proved_impossible():
    assert contradictions(learned_seeds()) == []
    solved = {("parity", "LRU"): [0.4, 1.0], ("parity", "GLA"): [1.0]}
    assert contradictions(solved) == ["parity, LRU"]


def test_before_silu_is_its_inverse():
    value = torch.tensor([-0.27, -0.01, 0.0, 1e-3, 1.0, 32.0], dtype=torch.float64)
    assert torch.allclose(torch.nn.functional.silu(before_silu(value)), value, atol=1e-12)


@pytest.mark.parametrize("length", [None, 24, 512, 4096])
def test_two_layers_that_only_add_up_follow_s3(length):
    words = (
        small_words("S3")
        if length is None
        else random_words("S3", length, 64 if length < 100 else 2)
    )
    assert (follow(words.inputs) == words.targets).all()
    if length is not None:
        assert (follow(words.inputs, count_swaps=False) != words.targets).any(1).all()


def test_the_table_has_a_box_per_task_and_the_bytes_of_every_state():
    page = capabilities_html({})
    assert page.count('type="checkbox"') == len(tasks_of())
    for row in ROWS:
        mixer = Hand(row).mixer
        first, growth = re.search(
            rf'row">{row}</th>.*?data-first="(\d+)" data-growth="(\d+)"', page
        ).groups()
        assert int(growth) == 4 * mixer.state_growth()
        assert mixer.state_size() is None or int(first) == 4 * mixer.state_size()
    chapter = (ROOT / "book" / "by_hand.md").read_text("utf-8")
    places = set(re.findall(r'href="by_hand.html#([^"]+)"', page))
    assert len(places) == 10 and all(f"({one})=" in chapter for one in places)


def test_principle_4_counts_the_cells_that_are_closed():
    marks = {(one.task, one.row): one.mark for one in cells()}
    for task, count in (("parity", 7), ("S3", 9), ("copy", 5)):
        column = [marks[task, row] for row in ROWS]
        assert column.count("cannot") == count and column.count("can") == 1
    chapter = (ROOT / "book" / "principles" / "principle_4.md").read_text("utf-8")
    assert "for seven, nine and five rows" in " ".join(chapter.split())


def test_the_chapter_counts_the_open_cells():
    chapter = (ROOT / "book" / "by_hand.md").read_text("utf-8")
    count = sum(one.mark == "open" for one in cells())
    assert f"is *open*, {count} cells of 99." in chapter
