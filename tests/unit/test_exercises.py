"""The grader finds solutions right, refuses wrong answers with a hint, and speaks in words."""

from __future__ import annotations

import re

import pytest
import torch
from wrong_numbers import WRONG_NUMBERS
from wrong_rows import WRONG_ROWS
from wrong_steps import WRONG_STEPS

from book.tools.chapters import ROOT
from coefdyn.lab.exercises import EXERCISES, grade

NAMES = sorted(EXERCISES)
MISTAKES = [(name, hint) for name in NAMES for hint in EXERCISES[name].mistakes]
CASES = [(name, number) for name in NAMES for number in range(4, len(EXERCISES[name].cases))]
WRONG = {**WRONG_ROWS, **WRONG_STEPS, **WRONG_NUMBERS}
#: exercise, wrong answer, the first case that refuses it, and what is said
TOLD = re.findall(
    r"^\| (.+?) \| (.+?) \| (\d+, .+?) \| (.+) \|$",
    (ROOT / "tests" / "golden" / "wrong_answers.md").read_text("utf-8"),
    re.MULTILINE,
)


@pytest.mark.parametrize("name", NAMES)
def test_the_solution_is_right(name: str) -> None:
    found = grade(name, EXERCISES[name].solution)
    count = len(EXERCISES[name].cases)
    assert found.right and repr(found).startswith(f"right: {count} of {count} hidden cases agree")


@pytest.mark.parametrize(("name", "hint"), MISTAKES)
def test_a_known_mistake_gets_its_hint(name: str, hint: str) -> None:
    found = grade(name, EXERCISES[name].mistakes[hint])
    assert not found.right and found.words.endswith(f". Hint: {hint}")


@pytest.mark.parametrize(("name", "wrong", "case", "told"), TOLD)
def test_a_wrong_answer_is_refused_and_told(name: str, wrong: str, case: str, told: str) -> None:
    found = grade(name, WRONG[name][wrong])
    number, _, words = case.partition(", ")
    assert not found.right
    assert found.words.startswith(f"case {number} of {len(EXERCISES[name].cases)}, {words}: ")
    assert told in found.words
    if "should be" in found.words:
        assert re.search(r": given .+, .+ is .+ and should be \S+\. Hint: .+", found.words)


def test_each_exercise_refuses_an_answer_that_is_right_on_drawn_numbers() -> None:
    assert {(name, wrong) for name, wrong, *_ in TOLD} == {
        (name, wrong) for name in WRONG for wrong in WRONG[name]
    }
    assert {name for name, *_ in TOLD} == set(EXERCISES)
    computed = [row for row in TOLD if EXERCISES[row[0]].run is None]  # and no construction
    assert all(int(case.partition(",")[0]) > 4 for _, _, case, _ in computed)


@pytest.mark.parametrize(("name", "number"), CASES)
def test_a_case_beyond_the_drawn_ones_differs_from_them(name: str, number: int) -> None:
    case = EXERCISES[name].cases[number]
    assert case.words != "random numbers" and (case.hint or case.demand)


@pytest.mark.parametrize("name", NAMES)
def test_an_unwritten_function_is_right_in_no_case_and_told_what_to_return(name: str) -> None:
    for number in range(1, len(EXERCISES[name].cases) + 1):
        found = grade(name, lambda **_: None, case=number)
        assert not found.right and EXERCISES[name].returns in found.words


def test_one_case_can_be_graded_alone() -> None:
    def starts_at_zero(scores, v):
        return WRONG["one pass"]["starts the maximum at 0"](scores, v)

    right = [grade("one pass", starts_at_zero, case=number).right for number in range(1, 9)]
    assert right == [True] * 4 + [False] + [True] * 3
    with pytest.raises(ValueError, match="cases 1 to 8, got case=9"):
        grade("one pass", starts_at_zero, case=9)


def test_inputs_changed_in_place_do_not_help_or_hurt() -> None:
    def in_place(S, q, k, v, beta):
        S += beta * torch.outer(k, v - k @ S)
        return S, q @ S

    assert grade("delta rule", in_place).right


def test_another_way_of_writing_it_is_right() -> None:
    def erase_and_write(S, q, k, v, beta):
        A = torch.eye(len(k), dtype=k.dtype) - beta * torch.outer(k, k)
        S = A @ S + beta * torch.outer(k, v)
        return S, q @ S

    assert grade("delta rule", erase_and_write).right


def test_a_pass_block_by_block_is_a_single_pass() -> None:
    def blocks(scores, v):
        largest = torch.tensor(-torch.inf, dtype=v.dtype)
        total, summed = torch.zeros((), dtype=v.dtype), torch.zeros(v.shape[1], dtype=v.dtype)
        for s, values in zip(scores.split(8), v.split(8), strict=True):
            higher = torch.maximum(largest, s.max())
            shrink, weights = (largest - higher).exp(), (s - higher).exp()
            total, summed = shrink * total + weights.sum(), shrink * summed + weights @ values
            largest = higher
        return summed / total

    assert grade("one pass", blocks).right


def test_what_is_wrong_is_said_in_words() -> None:
    assert "raised KeyError" in grade("one pass", lambda scores, v: {}["x"]).words
    short = grade("stabilizer", lambda f, i: f[:1])
    assert "shape of (1,)" in short.words and "(L,)" in short.words
    wrong = grade("stabilizer", lambda f, i: f + i)
    assert not wrong.right and "go through the formula" in wrong.words
    infinite = grade("stabilizer", lambda f, i: f * torch.inf)
    assert "not finite" in infinite.words
    near = grade("stabilizer", lambda f, i: EXERCISES["stabilizer"].solution(f, i).float())
    assert "float32" in near.words
    one = grade("delta rule", lambda S, q, k, v, beta: S)
    assert "the function returned a Tensor; it should return (S, y)" in one.words


#: an answer -> what is said of it
ODD = {
    "complex": (lambda x: x + 1e6j, "complex numbers"),
    "complex of real numbers": (lambda x: x + 0j, "complex numbers"),
    "sparse": (lambda x: x.to_sparse(), "to_dense"),
    "meta": (lambda x: x.to("meta"), "holds no numbers"),
    "quantised": (
        lambda x: torch.quantize_per_tensor(x.float(), 0.1, 0, torch.qint8),
        "dequantize",
    ),
    "nested": (lambda x: torch.nested.nested_tensor([x]), "plain"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("name", NAMES)
def test_answers_that_are_no_plain_numbers_are_told_in_words(name: str, odd: str) -> None:
    change, words = ODD[odd]

    def answer(**arguments: object) -> object:
        found = EXERCISES[name].solution(**arguments)
        if isinstance(found, tuple):
            return (change(found[0]), *found[1:])
        return change(found)

    found = grade(name, answer)
    assert not found.right and words in found.words
    assert EXERCISES[name].returns in found.words


def test_bad_calls_are_refused_in_words(no_shape_checks: None) -> None:
    with pytest.raises(ValueError, match="delta rule"):
        grade("delta rul", lambda: None)
    with pytest.raises(ValueError, match="without parentheses"):
        grade("delta rule", torch.zeros(1))
