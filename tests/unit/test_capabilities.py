"""What rows can do: constructions decide, and fail without what carries them; lemmas hold."""

from __future__ import annotations

import re

import pytest
import torch

from book.tools.chapters import ROOT
from coefdyn.lab.capabilities.cells import CONSTRUCTIONS, LEAST, MEETS, cells, construct
from coefdyn.lab.capabilities.certificate import best_margin, gap_between_hulls, gaps, optimised
from coefdyn.lab.capabilities.check import decides, measure
from coefdyn.lab.capabilities.hand import WIDTH, Hand, before_silu, layer_output, pieces
from coefdyn.lab.capabilities.lemmas import LEMMAS, witness
from coefdyn.lab.capabilities.neighbours import NEIGHBOURS, carried_by
from coefdyn.lab.capabilities.two_layers import follow
from coefdyn.lab.capabilities.words import (
    FAR,
    answered,
    copied,
    own_length,
    random_words,
    small_words,
)
from coefdyn.lab.experiments.board import ROWS, tasks_of
from coefdyn.lab.pages.capabilities import capabilities_html, found_note
from coefdyn.lab.pages.learned import (
    Seeds,
    contradictions,
    disagreement,
    disagreements_markdown,
    further_note,
    learned_note,
    learned_seeds,
    missed,
)
from coefdyn.lab.scripts import step_times
from coefdyn.lab.scripts.capabilities import main
from coefdyn.lab.tasks.tracking import S3

BUILT = [(one.task, one.row) for one in cells() if one.mark in ("can", "to a length")]
CAN = {(one.task, one.row) for one in cells() if one.mark == "can"}
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


def dynamics_of(task, row, tokens):
    """A construction's dynamics and values on one word."""
    x = torch.nn.functional.one_hot(torch.tensor(tokens), WIDTH).double()
    with torch.no_grad():
        return construct(task, row).mixer.dynamics(x)


@pytest.mark.parametrize(("task", "most"), [("parity", 2.3e-9), ("S3", 2.33e-7)])
def test_mirrors_keep_a_million_tokens(task, most):
    lost = []
    for token in range(2 if task == "parity" else 6):
        z = dynamics_of(task, "DeltaProduct", [token] * 6)[0].evolution.direction[0, -2:]
        length = z.square().sum(-1)
        lost.append(float((2 * (1 - length))[length > 0].sum()))
    assert max(lost) <= most and FAR * max(lost) < 0.25


def steps_of(dynamics, v, at):
    """What token ``at`` does to a state (heads, n, d_v): a matrix, and what it writes."""
    kept, written = torch.eye(16).double().expand(4, 16, 16), torch.zeros(4, 16, 16).double()
    for i in (2 * at, 2 * at + 1):
        z, beta = dynamics.evolution.direction[:, i], dynamics.evolution.beta[:, i, None, None]
        step = torch.eye(16).double() - beta * z[:, :, None] * z[:, None]
        b = dynamics.scaling[:, i, None, None]
        kept = step @ kept
        written = step @ written + b * dynamics.k[:, i, :, None] * v[:, i, None]
    return kept, written


def test_s3_reads_the_word_that_wears_down_two_directions():
    member, power = construct("S3", "DeltaProduct"), torch.linalg.matrix_power
    swaps = {g: steps_of(*dynamics_of("S3", "DeltaProduct", [g] * 6), 5)[0] for g in (2, 5)}
    dynamics, v = dynamics_of("S3", "DeltaProduct", [5, 5])
    start = steps_of(dynamics, v, 0)[1]
    short = torch.einsum("hn,hnd->hd", dynamics.q[:, 1], start).flatten()
    y = layer_output(member.mixer, torch.tensor([[5]]))[0, 0]
    torch.testing.assert_close(short, y)
    for first in (0, 300_000, 754_000):
        state = power(swaps[5], FAR - 1 - first) @ power(swaps[2], first) @ start
        y = torch.einsum("hn,hnd->hd", dynamics.q[:, 1], state).flatten()
        even = first % 2 == 0 and (FAR - 1 - first) % 2 == 0
        right = answer("S3", [5] if even else [5, 5])
        assert S3[int((member.weight @ y).argmax())] == right


@pytest.mark.parametrize(("row", "most"), [("GLA", 0.75), ("DeltaProduct", 0.48), ("LRU", 0.02)])
def test_no_word_outvotes_the_place_that_is_asked_for(row, most):
    member, words = construct("position", row), torch.full((2, 500), 3)
    words[1, 300] = 7
    y = layer_output(member.mixer, words).detach()
    answers = ((y[1] - y[0])[300:] @ member.weight.T)[:, 7]
    share = answers / answers[8]
    assert 1 < float(share.abs().sum()) < 1 + most
    sizes = (y[1] - y[0])[300:].norm(dim=-1).sum() / 2**0.5  # no word has a larger output
    apart = (member.weight[7] - member.weight[3]).norm()
    assert (2 - share.abs().sum()) * answers[8] / (apart * sizes) > LEAST or row == "LRU"


def test_softmax_finds_one_place_among_a_million():
    dynamics, _ = dynamics_of("position", "softmax attention", [3] * 24)
    turn = 1e4 ** (-torch.arange(8).double() / 8)
    angle = torch.arange(FAR).double()[:, None] * turn
    q, k = dynamics.q[0, 0], dynamics.k[0, 0]
    along, across = q[:8] * k[:8] + q[8:] * k[8:], q[:8] * k[8:] - q[8:] * k[:8]
    scores = (angle.cos() @ along + angle.sin() @ across) * dynamics.scaling
    near = (dynamics.q[0, 23] @ dynamics.k[0].T).flip(0)[:24] * dynamics.scaling
    torch.testing.assert_close(scores[:24], near)
    weights = (scores - scores[5]).exp()
    assert int(scores.argmax()) == 5 and float(weights.sum() - weights[5]) < 2e-11


def test_what_is_written_stays_until_a_write_or_a_reset():
    word = [1, 16, 2, 17, 0, 3, 18, 1]
    for task, row in BUILT:
        evolution = dynamics_of(task, row, word)[0].evolution
        fade = getattr(evolution, "log_decay", None)
        if task in ("recall", "long memory") and fade is not None and row != "LRU":
            assert float(fade.abs().amax()) < 1e-20
        if task == "forget" and (task, row) in CAN:
            assert fade[:, 4].max() < -16  # the reset leaves less than 1e-7
            assert row == "Mamba-2" or not fade[:, 3].any() or fade[:, 3].abs().max() < 1e-20
            assert row != "Mamba-2" or fade[:, 3].exp().min() > 0.83
    for row, at in (("DeltaNet", 3), ("Gated DeltaNet", 3), ("DeltaProduct", 7)):
        z = dynamics_of("overwrite", row, word)[0].evolution.direction[:, at]
        assert 0 < float((1 - z.square().sum(-1)).amax()) < 4.1e-6
    fade = dynamics_of("overwrite", "GLA", word)[0].evolution.log_decay[:, 2].exp()
    torch.testing.assert_close(fade.amin(-1), torch.full((4,), 0.1).double())


def test_copy_is_right_on_all_texts_of_eight_letters():
    texts = [[0]]
    for _ in range(7):  # letters by their first appearance: all others are these renamed
        texts = [[*text, z] for text in texts for z in range(max(text) + 2)]
    words = copied([[*text, 15, *[14] * 8] for text in texts])
    right, margin = measure(construct("copy", "DeltaProduct"), words)
    assert right == 1 and 0.034 < margin < 0.035


@pytest.mark.parametrize("row", ["GLA", "DeltaProduct", "linear attention"])
def test_pieces_are_the_whole(row):
    mixer = construct("count", row).mixer
    tokens = random_words("count", 40, 2).inputs
    found = torch.cat(list(pieces(mixer, tokens, 16)), dim=-2)
    torch.testing.assert_close(found, layer_output(mixer, tokens))


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
@pytest.mark.reads("book/tools coefdyn data/capabilities")
def test_every_cell_has_one_mark_and_the_command_prints_it(capsys):
    assert [(one.task, one.row) for one in cells()] == [(t, r) for t in tasks_of() for r in ROWS]
    assert main(["--only", "S3", "--random", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(ROWS) + 2
    assert lines[-3].split()[:3] == ["S3", "DeltaProduct", "can"]
    assert re.fullmatch(r"\d+ s of one core, \d+ s in all", lines[-1])
    assert sum(one.mark == "open" for one in cells()) <= 18


def test_no_seed_solved_what_is_proved_impossible_or_open_and_most_that_can_is_learned():
    kept = learned_seeds()
    assert contradictions(kept) == []
    assert [len(kept[one.task, one.row].accuracies) for one in cells()] == [4] * 99
    solved = [one for one in cells() if kept[one.task, one.row].solved]
    assert "open" not in {one.mark for one in solved}
    left = CAN - {(one.task, one.row) for one in solved}
    assert len(left) == 4 and sum(task == "long memory" for task, _ in left) == 3
    chapter = " ".join((ROOT / "book" / "scoreboard.md").read_text("utf-8").split())
    assert "in all but four cells, three of them on *long memory*." in chapter
    one = Seeds(accuracies=(0.4, 1.0), solved=1)
    assert contradictions({("parity", "LRU"): one, ("parity", "GLA"): one}) == ["parity, LRU"]


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


def test_where_can_and_learns_disagree_a_sentence_says_so():
    failed = Seeds(accuracies=(0.5, 0.62), solved=0, rate=0.01, edge=True, grown=0.1)
    everywhere = dict.fromkeys(((one.task, one.row) for one in cells()), failed)
    for learned in (learned_seeds(), everywhere):
        page, listed = capabilities_html(learned), disagreements_markdown(learned)
        for one in cells():
            seeds = learned.get((one.task, one.row))
            said = disagreement(one, seeds)
            unfound = seeds is not None and not seeds.solved and one.mark in ("can", "to a length")
            assert bool(said) == (unfound or bool(seeds and seeds.solved and one.mark == "open"))
            assert said in page and (f"| {one.task}, {one.row} |" in listed) == unfound
    further = {("S3", "DeltaProduct"): Seeds(accuracies=(0.9994,), solved=1, rate=0.03)}
    line = "| S3, DeltaProduct | can | 0.620 | 0.01, at the edge | +0.10 | solved, rate 0.03 |"
    assert f"{line} 0 of 12 |" in disagreements_markdown(everywhere, further)
    again = further_note(everywhere, {**further, ("overwrite", "GLA"): failed})
    assert "Of 2 cells" in again and "solved 0 at the rate 0.01 and 1 only at 0.03; 1 stay" in again
    assert again.endswith(f" {len(missed(everywhere)) - 2} cells are still to be run.")
    all_but_one = {(one.task, one.row): failed for one in missed(everywhere)[1:]}
    assert further_note(everywhere, all_but_one).endswith(" 1 cell is still to be run.")
    assert further_note(everywhere, {}) == "No cell has been given more steps yet."
    (unproved,) = [one for one in cells() if (one.task, one.row) == ("parity", "GLA")]
    solved = Seeds(accuracies=(0.5, 1.0), solved=1)
    assert disagreement(unproved, solved).startswith("A seed solved it")
    words = learned_note({("parity", "GLA"): solved, ("S3", "DeltaProduct"): failed})
    assert "solved 0 of the 1 cells marked *can*, 1 of the 1 cells marked *open*. 97 cells" in words


def test_the_table_has_a_time_for_every_row_and_says_what_the_program_found(monkeypatch):
    page = capabilities_html({})
    assert page.count("data-times=") == len(ROWS) and page.count("<small>step") == len(ROWS)
    assert "24 cells marked *cannot*" in found_note() and "1,000 random" in found_note()
    ticks = iter(range(10_000))
    monkeypatch.setattr(step_times.time, "process_time", lambda: next(ticks) * 1e-3)
    found = step_times.times_of("GLA", (8, 16), rounds=1)
    assert found["step"] == [1000.0, 1000.0] and found["pass"] == [125.0, 62.5]


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


def test_principles_say_what_one_layer_learned():
    solved = {cell: seeds.solved for cell, seeds in learned_seeds().items()}

    def column(task):
        return {row: solved[task, row] for row in ROWS if solved[task, row]}

    def says(name, sentence):
        chapter = (ROOT / "book" / "principles" / f"{name}.md").read_text("utf-8")
        assert sentence in " ".join(chapter.split())

    assert column("recall").keys() == {*ROWS} - {"LRU"}
    says("principle_1", "solved the task in each of the ten rows, and none did in the LRU.")
    assert column("position") == {"softmax attention": 4, "LRU": 4, "DeltaProduct": 1}
    says("principle_3", "one of four of DeltaProduct, and none of any other row: GLA could,")
    mirrors = [column(task) for task in ("parity", "S3", "copy")]
    assert mirrors == [{"DeltaProduct": 4}, {"DeltaProduct": 2}, {"DeltaProduct": 1}]
    says("principle_4", "with four, two and one of four seeds, and no other row with any.")
    can = {row for row in ROWS if ("overwrite", row) in CAN}
    assert can == {"GLA", "DeltaNet", "Gated DeltaNet", "DeltaProduct"}
    assert column("overwrite") == dict.fromkeys([*can, "softmax attention"], 4)
    says("principle_4", "the 2000 steps of these runs only softmax attention of them learned it.")
    assert {column("long memory")[f"{kind} attention"] for kind in ("softmax", "linear")} == {4}
    says("principle_2", "Every seed of both [learned it in one layer]")
    assert column("count") == dict.fromkeys(ROWS, 4)
    says("principle_6", "every seed of every row [solved it in one layer]")


def test_the_chapter_counts_the_open_cells():
    chapter = (ROOT / "book" / "by_hand.md").read_text("utf-8")
    count = sum(one.mark == "open" for one in cells())
    assert f"is *open*, {count} cells of 99." in chapter


def test_the_chapter_counts_the_constructions_that_are_read_piece_by_piece():
    chapter = " ".join((ROOT / "book" / "by_hand.md").read_text("utf-8").split())
    can = [cell for cell in cells() if cell.mark == "can" and cell.row != "LRU"]
    states = [construct(cell.task, cell.row).mixer.state_size() for cell in can]
    assert f"each of the {sum(one is not None for one in states)} constructions" in chapter
