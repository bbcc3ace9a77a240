"""The concept test and the course: tied to their chapters, and the same in every form."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections import Counter
from html import unescape
from pathlib import Path

import pytest
import yaml

from book.tools import course
from book.tools.chapters import BOOK
from book.tools.questions import LETTERS, gift, items, main, page, paper
from book.tools.quotes import quote, source

PARTS = ("Foundations", "Architectures", "Principles")
#: words that say little by themselves
SHORT = 4


def chapters() -> list[str]:
    toc = yaml.safe_load((BOOK / "_toc.yml").read_text("utf-8"))
    files = [e["file"] for p in toc["parts"] if p["caption"] in PARTS for e in p["chapters"]]
    return [file.removesuffix(".ipynb") for file in files if file.endswith(".ipynb")]


def test_every_chapter_has_one_question_with_three_wrong_answers() -> None:
    assert [one.chapter for one in items()] == chapters() and len(items()) == 24
    for item in items():
        assert [one.right for one in item.answers] == [True, False, False, False]
        assert len({one.says for one in item.answers}) == 4
        assert len({one.because.text for one in item.answers}) == 4
        assert item.ask.endswith("?")


def test_a_sentence_that_a_chapter_does_not_say_is_noticed() -> None:
    for item in items():
        flat = " ".join(source(item.chapter).split())
        assert all(" ".join(one.because.text.split()) in flat for one in item.answers)
    with pytest.raises(ValueError, match="no longer says"):
        quote("architectures/gla", "Every channel remembers everything.")
    with pytest.raises(ValueError, match="no such chapter"):
        quote("architectures/glad", "Neither depends on the token that asks.")


def words(text: str) -> set[str]:
    """The beginnings of the words of a text that are not short."""
    return {word[:5] for word in re.findall(r"[a-zé-]+", text.lower()) if len(word) > SHORT}


def test_the_landing_gives_at_most_half_of_the_answers_away() -> None:
    """A sentence with half of the words of a right answer counts as one that gives it away."""
    said = [words(one) for one in re.split(r"(?<=[.:;!?])\s", source("index"))]
    told = [
        item.number
        for item in items()
        if any(
            2 * len(one & words(item.answers[0].says)) >= len(words(item.answers[0].says))
            for one in said
        )
    ]
    assert len(told) <= len(items()) / 2, told


@pytest.mark.parametrize("seed", [0, 1, 7])
def test_no_place_is_right_more_often_and_another_seed_moves_it(seed: int) -> None:
    for form in "AB":
        asked = [one for one in items() if one.form == form]
        places = [[a.right for a in one.shuffled(seed)].index(True) for one in asked]
        assert Counter(places) == dict.fromkeys(range(4), 3)
        other = [[a.right for a in one.shuffled(seed + 1)].index(True) for one in asked]
        assert places != other


def test_the_page_explains_every_answer() -> None:
    text = page()
    assert text.count(":::{dropdown}") == 4 * len(items()) == 96
    assert text.count("\nRight. “") == text.count("cd-right") == 24
    assert text.count("\nNo. “") == 72
    assert not re.search(r"\]\(\.\./", text)


def test_a_form_shows_no_key_and_the_key_is_of_this_form() -> None:
    for form in "AB":
        sheet, key = paper(form, 5)
        assert "selfcheck" not in sheet and "cd-right" not in sheet
        asked = [one for one in items() if one.form == form]
        lists = re.findall(r"<ol>((?:<li>[^<]*</li>)+)</ol>", sheet)
        for item, listed, line in zip(asked, lists, key.splitlines(), strict=True):
            letter = re.fullmatch(rf"{form} +\d+  ([A-D])  .+", line)
            assert letter
            chosen = re.findall(r"<li>([^<]*)</li>", listed)[LETTERS.index(letter[1])]
            assert unescape(chosen) == item.answers[0].says
            assert all(one.because.text not in sheet for one in item.answers)
    assert paper("A", 5) == paper("A", 5) != paper("A", 6)


def read_gift(text: str) -> dict[str, list[tuple[bool, str, str]]]:
    """Questions by their text, as Moodle reads GIFT: a backslash takes the meaning of a sign."""

    def plain(part: str) -> str:
        return re.sub(r"\\(.)", r"\1", part)

    found = {}
    for asked, block in re.findall(r"^::.*?(?<!\\)::(.*?)(?<!\\)\{\n(.*?)\n\}$", text, re.S | re.M):
        lines = re.findall(r"^([=~])(.*?)(?<!\\)#(.*)$", block, re.MULTILINE)
        found[plain(asked)] = [(sign == "=", plain(a), plain(b)) for sign, a, b in lines]
    return found


def test_moodle_and_gift_ask_what_the_table_asks(tmp_path: Path, capsys) -> None:
    assert main(["--out", str(tmp_path), "--seed", "3"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 5
    quiz = ET.parse(tmp_path / "concept_test.xml").getroot()
    asked = [one for one in quiz if one.get("type") == "multichoice"]
    read = read_gift((tmp_path / "concept_test.gift").read_text("utf-8"))
    assert read == read_gift(gift()) and len(read) == len(asked) == 24
    assert sum(one.get("type") == "category" for one in quiz) == gift().count("$CATEGORY") == 2
    for item in items():
        (question,) = [one for one in asked if one.findtext("questiontext/text") == item.ask]
        answers = question.findall("answer")
        assert [one.get("fraction") for one in answers] == ["100", "0", "0", "0"]
        assert [one.findtext("text") for one in answers] == [one.says for one in item.answers]
        said = [unescape(one.findtext("feedback/text") or "") for one in answers]
        assert read[item.ask] == [
            (one.right, one.says, text) for one, text in zip(item.answers, said, strict=True)
        ]
        for text in said:
            assert not re.search(r"\$|\{[a-z]+\}`|\\(?:Evo|Sca|Rea|Nor|R)\b", text), text
            assert text.count(r"\(") == text.count(r"\)")


def test_the_course_has_eight_sessions_of_ninety_minutes_and_a_lecture() -> None:
    rows = course.sessions()
    assert [row["minutes"] for row in rows] == [90] * 8 + [45]
    asked = {one.chapter for one in items()}
    for row in rows:
        assert len(row["goals"]) >= 3 and row["leave_out"] and set(row["wrong"]) <= asked
        assert sum(n for n, _ in course.minutes(row)) == row["minutes"]
    text = course.page()
    assert text.count("Afterwards a student can") == 9 and "(our guess)" in text


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"reading": ["architectures/gone"]}, "no such chapter"),
        ({"exercises": {"architectures/gla": [9]}}, "no exercise 9"),
        ({"demonstrations": {"fading": 5}}, "demo-fading"),
        ({"minutes": 91}, "of 91 minutes"),
    ],
)
def test_a_course_that_the_book_has_left_behind_stops_the_build(
    change: dict, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{**course.sessions()[0], **change}]
    (tmp_path / "course.yml").write_text(yaml.safe_dump(rows), encoding="utf-8")
    monkeypatch.setattr(course, "TABLE", tmp_path / "course.yml")
    with pytest.raises(ValueError, match=said):
        course.page()


def test_what_a_machine_takes_is_of_the_present_sessions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = course.walked()
    told = json.loads(course.WALKED.read_text("utf-8"))
    assert told["machine"]["processor"] in text and told["date"] in text
    assert len(re.findall(r"^\|(?: [^|]+ \|){6}$", text, re.MULTILINE)) == 10
    assert all(one["moves"] >= 8 and one["moves_s"] > 1 for one in told["sessions"].values())
    told["sessions"].popitem()
    (tmp_path / "walked.json").write_text(json.dumps(told), encoding="utf-8")
    monkeypatch.setattr(course, "WALKED", tmp_path / "walked.json")
    with pytest.raises(ValueError, match="another course"):
        course.walked()


def test_a_table_stands_where_its_name_stands() -> None:
    text = ["before\n\n{{ course }}\n\nafter {{ course }}\n"]
    course._fill(None, "teach", text)
    assert text[0].startswith("before\n\n## Week 1") and text[0].endswith("after {{ course }}\n")
