"""Self-checks: a choice explains itself, the first answer is kept, and can be taken back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from browser.conftest import Visit

pytestmark = pytest.mark.browser

CHAPTER = "design/judge.html"


def opened(visit: Callable[..., Visit], **options: Any) -> tuple[Visit, Any]:
    seen = visit(CHAPTER, **options)
    box = seen.page.locator(".admonition.selfcheck").first
    box.locator(".cd-answered").wait_for()
    return seen, box


def marks(box: Any) -> list[str]:
    return list(
        box.locator("details").evaluate_all("folds => folds.map((fold) => fold.dataset.mark)")
    )


def test_a_wrong_answer_is_marked_explained_and_kept(visit: Callable[..., Visit]) -> None:
    seen, box = opened(visit, width=360)
    assert marks(box) == ["", "", ""] and box.locator("button").is_hidden()
    wrong = box.locator("details:not(.cd-right)").first
    wrong.locator("summary").click()
    assert wrong.evaluate("fold => fold.open") and "No. " in wrong.inner_text()
    assert "not quite" in box.locator(".cd-answered").inner_text()
    assert sorted(marks(box)) == ["", "right", "wrong"]

    box.locator(".cd-right summary").click()  # reading on is no second answer
    assert "not quite" in box.locator(".cd-answered").inner_text()
    assert seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth")

    seen.page.reload()
    box.locator(".cd-answered").wait_for()
    assert "not quite" in box.locator(".cd-answered").inner_text()
    assert not (seen.console or seen.failed or seen.foreign)


def test_an_answer_by_keyboard_can_be_taken_back(visit: Callable[..., Visit]) -> None:
    seen, box = opened(visit)
    box.locator(".cd-right summary").focus()
    seen.page.keyboard.press("Enter")
    assert "right" in box.locator(".cd-answered").inner_text()
    assert sorted(marks(box)) == ["", "", "right"]

    box.locator("button").click()
    assert marks(box) == ["", "", ""] and box.locator("button").is_hidden()
    assert box.locator("details[open]").count() == 0
    assert seen.page.evaluate("document.activeElement.tagName") == "SUMMARY"
    seen.page.reload()
    box.locator(".cd-answered").wait_for()
    assert "Choose one" in box.locator(".cd-answered").inner_text()


def test_all_questions_of_the_concept_test_are_asked_alike(visit: Callable[..., Visit]) -> None:
    seen = visit("concept_test.html")
    boxes = seen.page.locator(".admonition.selfcheck").all()
    assert len(boxes) == 24
    for box in boxes:
        assert marks(box) == [""] * 4
        box.locator(".cd-right summary").click()
        assert "“" in box.locator(".cd-right").inner_text() and sorted(marks(box))[-1] == "right"
        assert box.locator("details a").count() == 4
    assert not (seen.console or seen.failed or seen.foreign)
