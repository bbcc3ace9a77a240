"""The grader finds a solution right, names a known mistake, and answers nonsense in words."""

from __future__ import annotations

import pytest
import torch

from coefdyn.lab.exercises import EXERCISES, grade

NAMES = sorted(EXERCISES)
MISTAKES = [(name, hint) for name in NAMES for hint in EXERCISES[name].mistakes]


@pytest.mark.parametrize("name", NAMES)
def test_the_solution_is_right(name: str) -> None:
    found = grade(name, EXERCISES[name].solution)
    assert found.right and repr(found).startswith("right: ")


@pytest.mark.parametrize(("name", "hint"), MISTAKES)
def test_a_known_mistake_gets_its_hint(name: str, hint: str) -> None:
    found = grade(name, EXERCISES[name].mistakes[hint])
    assert not found.right and found.words == hint


@pytest.mark.parametrize("name", NAMES)
def test_an_unwritten_function_is_told_what_to_return(name: str) -> None:
    found = grade(name, lambda **_: None)
    assert not found.right and EXERCISES[name].returns in found.words


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


def test_what_is_wrong_is_said_without_the_answer() -> None:
    assert "raised KeyError" in grade("one pass", lambda scores, v: {}["x"]).words
    short = grade("stabilizer", lambda f, i: f[:1])
    assert "shape of (1,)" in short.words and "(L,)" in short.words
    wrong = grade("stabilizer", lambda f, i: f + i)
    assert not wrong.right and "smallest case" in wrong.words
    infinite = grade("stabilizer", lambda f, i: f * torch.inf)
    assert "not finite" in infinite.words


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
