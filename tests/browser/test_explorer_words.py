"""Words, values and an answer: the reader's own text in the explorer, whatever it holds."""

from __future__ import annotations

from typing import Any

import pytest
from browser.explorer_pages import Open, heard, open_page, press, settle, text  # noqa: F401

from coefdyn.widgets import Explorer
from coefdyn.widgets.interpreter import ask

pytestmark = pytest.mark.browser


def tell(page: Any, words: str) -> None:
    page.evaluate(
        """(words) => {
          const box = document.querySelector("[data-cd=control-text]");
          box.focus();
          box.value = words;
          box.dispatchEvent(new Event("input", { bubbles: true }));
        }""",
        words,
    )
    settle(page)


def test_a_sentence_of_one_s_own(open_page: Open) -> None:
    page = open_page(Explorer("deltanet"))
    tell(page, "the sun is hot. The sun is cold. What is the sun?")
    assert text(page, "answer-words") == "Asked for “sun”, this mixer answers: cold 1.00."
    told = Explorer("deltanet", text="the sun is hot. The sun is cold. What is the sun?")
    assert heard(page) == pytest.approx(told.shown().answer)
    tell(page, "the sun is hot; ask: moon")
    assert text(page, "answer-words") == "Asked for “moon”, this mixer answers: nothing."


HOSTILE = {
    "novel": "It was the best of times, it was the worst of times; " * 4000,
    "script": "<img src=x onerror=window.bad=1> is <script>window.bad=1</script>; ask: b",
    "right to left": "\u202eהחתול הוא שחור\u202c ; القط = أسود ؛ ماذا القط؟",
    "halves": "\ud83d is \ude00; ask: x",
    "punctuation and names": "__proto__ is toString; hasOwnProperty is valueOf; ask: __proto__",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_words_are_only_words(name: str, open_page: Open) -> None:
    page = open_page(Explorer("gated_deltanet"))
    tell(page, HOSTILE[name])
    page.dispatch_event("[data-cd=control-text]", "change")
    settle(page)
    assert page.evaluate("window.bad") is None
    assert page.locator(".cdx :is(img, script, iframe)").count() == 0
    raw = HOSTILE[name].encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    told = ask("told", HOSTILE[name])
    assert 2 <= told["length"] <= 64, raw
    kept = page.evaluate("document.querySelector('[data-cd=control-text]').value")
    assert kept == told["text"]
    label = page.get_attribute("[data-cd=matrix]", "aria-label")
    assert label.startswith(f"{told['length']} by {told['length']} coefficients")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    if name == "novel":
        assert "That is a long text; its first 64 words are used" in text(page, "note")
    address = page.evaluate("location.href")
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector("[data-cd=explorer]")
    assert page.evaluate("document.querySelector('[data-cd=control-text]').value") == kept


@pytest.mark.parametrize("empty", ["", "; . !\x00"])
def test_an_empty_box_says_so_and_shows_the_example(empty: str, open_page: Open) -> None:
    page = open_page(Explorer("deltanet", text="the sun is hot; ask: sun"))
    tell(page, empty)
    assert "There is no word in the box; the example stands in" in text(page, "note")
    assert text(page, "answer-words").endswith("white 1.00.")
    with pytest.raises(ValueError, match="at least one word"):
        Explorer("deltanet", text=empty)


def test_letters_and_random_tokens_remain(open_page: Open) -> None:
    page = open_page(Explorer("gla"))
    assert page.is_hidden("[data-cd=control-length]")
    page.select_option("[data-cd=control-tokens]", "repeating")
    settle(page)
    assert page.is_hidden("[data-cd=control-text]")
    assert text(page, "value-length") == "12"
    assert text(page, "answer-words").startswith("Output 12, the letter ")
    assert heard(page) == pytest.approx(Explorer("gla", tokens="repeating").shown().answer)
    page.select_option("[data-cd=control-tokens]", "facts")
    settle(page)
    assert heard(page) == pytest.approx(Explorer("gla").shown().answer)


def test_a_length_alone_means_drawn_tokens() -> None:
    assert Explorer("gla", length=9).settings["tokens"] == "repeating"
    assert Explorer("gla").settings["length"] == 13
    explorer = Explorer("gla")
    explorer.settings = {"length": 20}
    assert (explorer.settings["tokens"], explorer.settings["length"]) == ("repeating", 20)
    explorer.settings = {"tokens": "facts"}
    assert explorer.shown().answer == Explorer("gla").shown().answer


def test_a_link_that_names_no_tokens_keeps_those_of_the_page(open_page: Open) -> None:
    page = open_page(Explorer("gla", tokens="random", length=20), fragment="#cd?preset=mamba2")
    assert text(page, "value-length") == "20"
    assert page.input_value("[data-cd=control-tokens]") == "random"
    link = Explorer("deltanet", text="the sun is hot; ask: sun").link()
    page = open_page(Explorer("gla", tokens="random", length=20), fragment=link)
    assert text(page, "answer-words") == "Asked for “sun”, this mixer answers: hot 1.00."
