"""The concept test: on its page, on paper with a key, and for Moodle and what reads GIFT.

    python -m book.tools.questions --out DIR [--seed N] [--print]

`book/teaching/concept_test.yml` is its one source. Each answer carries a sentence of its chapter,
word for word, which is its explanation everywhere; a sentence that the chapter no longer says stops
the build. The command writes forms A and B as pages to print, the key of these very forms,
`concept_test.xml` for Moodle's question bank and `concept_test.gift`.
"""

from __future__ import annotations

import argparse
import html
import random
import re
import sys
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from book.tools.chapters import BOOK
from book.tools.pdf import print_to_pdf
from book.tools.quotes import Quote, plain, quote, title_of, unlinked

__all__ = ["Answer", "Item", "gift", "items", "moodle", "page", "paper"]

TABLE = BOOK / "teaching" / "concept_test.yml"
FORMS = "AB"
LETTERS = "ABCD"
#: of a dollar sign of TeX and the next one; Moodle and GIFT have parentheses in their place
FORMULA = re.compile(r"\$([^$]+)\$")
GIFT_SIGNS = re.compile(r"([~=#{}:\\])")
STYLE = (
    "@page{size:A4;margin:18mm}body{font:11pt/1.4 sans-serif}li{margin:.2em 0}"
    "section{break-inside:avoid}ol ol{list-style:upper-alpha}"
)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An answer, whether it is right, and the sentence of the chapter that decides it."""

    says: str
    right: bool
    because: Quote


@dataclass(frozen=True, kw_only=True)
class Item:
    """A question to a chapter, with the right answer first; `form` is A or B."""

    number: int
    chapter: str
    form: str
    ask: str
    answers: tuple[Answer, ...]

    def shuffled(self, seed: int) -> list[Answer]:
        """The answers in the order of a seed; each place is right three times in a form."""
        places = [*range(len(LETTERS))] * 3
        random.Random(f"{seed} {self.form}").shuffle(places)
        right, *wrong = self.answers
        random.Random(f"{seed} {self.chapter}").shuffle(wrong)
        wrong.insert(places[(self.number - 1) // 2], right)
        return wrong


@cache
def items() -> tuple[Item, ...]:
    """All questions, in the order of the book.

    Raises:
        ValueError: for a chapter that the book lacks, or a sentence that its chapter lacks.
    """
    rows = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    return tuple(_item(number, **row) for number, row in enumerate(rows, 1))


def _item(number: int, *, chapter: str, ask: str, right: dict, wrong: list[dict]) -> Item:
    return Item(
        number=number,
        chapter=chapter,
        form=FORMS[(number - 1) % 2],
        ask=ask,
        answers=tuple(
            Answer(says=one["says"], right=one is right, because=quote(chapter, one["because"]))
            for one in (right, *wrong)
        ),
    )


def page() -> str:
    """The questions as boxes of the kind "Check yourself", which `check.js` wakes, in Markdown."""
    out = []
    for item in items():
        folds = "\n".join(_fold(one) for one in item.shuffled(0))
        out.append(
            f"(question-{item.number})=\n## {item.number} · {title_of(item.chapter)}\n\n"
            f"::::{{admonition}} Question {item.number} · form {item.form}\n:class: selfcheck\n"
            f"{item.ask}\n\n{folds}::::\n"
        )
    return "\n".join(out)


def _fold(one: Answer) -> str:
    mark, word = (":class-container: cd-right\n", "Right") if one.right else ("", "No")
    link = f'<a href="{one.because.address}">{html.escape(plain(one.because.place))}</a>'
    said = unlinked(one.because.text)
    return f":::{{dropdown}} {one.says}\n{mark}{word}. “{said}” ({link})\n:::\n"


def paper(form: str, seed: int) -> tuple[str, str]:
    """A form as a page to print, and its key: a line for each question."""
    asked = [one for one in items() if one.form == form]
    sections, key = [], []
    for number, item in enumerate(asked, 1):
        order = item.shuffled(seed)
        listed = "".join(f"<li>{html.escape(one.says)}</li>" for one in order)
        sections.append(
            f"<li><section><p>{html.escape(item.ask)}</p><ol>{listed}</ol></section></li>"
        )
        letter = LETTERS[[one.right for one in order].index(True)]
        key.append(f"{form} {number:>2}  {letter}  {title_of(item.chapter)}")
    head = (
        f'<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>Concept test {form}</title>'
        f"<style>{STYLE}</style><h1>Concept test, form {form}</h1>"
        "<p>Name: ______________________________ One answer to each question is right.</p>"
    )
    return f"{head}<ol>{''.join(sections)}</ol></html>\n", "\n".join(key) + "\n"


def _said(one: Answer) -> str:
    """The sentence of an answer for a learning platform, which sets formulas in parentheses."""
    said = FORMULA.sub(r"\\(\1\\)", plain(one.because.text))
    return f"{'Right' if one.right else 'No'}. “{said}” ({plain(one.because.place)})"


def moodle() -> ET.ElementTree:
    """The questions in Moodle's XML, a category for each form."""
    quiz = ET.Element("quiz")
    for form in FORMS:
        category = ET.SubElement(ET.SubElement(quiz, "question", type="category"), "category")
        ET.SubElement(category, "text").text = f"$course$/Coefficient Dynamics/Form {form}"
        for item in (one for one in items() if one.form == form):
            question = ET.SubElement(quiz, "question", type="multichoice")
            named = ET.SubElement(question, "name")
            ET.SubElement(named, "text").text = f"{item.number:02} {title_of(item.chapter)}"
            asked = ET.SubElement(question, "questiontext", format="plain_text")
            ET.SubElement(asked, "text").text = item.ask
            for tag, value in (("single", "true"), ("shuffleanswers", "true")):
                ET.SubElement(question, tag).text = value
            for one in item.answers:
                fraction = "100" if one.right else "0"
                answer = ET.SubElement(question, "answer", fraction=fraction, format="plain_text")
                ET.SubElement(answer, "text").text = one.says
                said = ET.SubElement(answer, "feedback", format="html")
                ET.SubElement(said, "text").text = html.escape(_said(one), quote=False)
    ET.indent(quiz)
    return ET.ElementTree(quiz)


def gift() -> str:
    """The questions in GIFT, a category for each form."""
    out = []
    for form in FORMS:
        out.append(f"$CATEGORY: Coefficient Dynamics/Form {form}\n")
        for item in (one for one in items() if one.form == form):
            title = _escaped(f"{item.number:02} {title_of(item.chapter)}")
            lines = [
                f"{'=' if one.right else '~'}{_escaped(one.says)}#{_escaped(_said(one))}"
                for one in item.answers
            ]
            answers = "\n".join(lines)
            out.append(f"::{title}::{_escaped(item.ask)}{{\n{answers}\n}}\n")
    return "\n".join(out)


def _escaped(text: str) -> str:
    return GIFT_SIGNS.sub(r"\\\1", text)


def write(folder: Path, seed: int, *, printed: bool = False) -> list[Path]:
    """Write both forms, their key and both exports into a folder; return the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"key.txt": "", "concept_test.gift": gift()}
    for form in FORMS:
        name = f"form_{form.lower()}.html"
        texts[name], key = paper(form, seed)
        texts["key.txt"] += key
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    moodle().write(folder / "concept_test.xml", encoding="utf-8", xml_declaration=True)
    made = [folder / name for name in (*texts, "concept_test.xml")]
    for page in [one for one in made if printed and one.suffix == ".html"]:
        made.append(page.with_suffix(".pdf"))
        print_to_pdf(page.absolute(), made[-1])
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Write the concept test for a class.")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--seed", type=int, default=1, help="order of the answers on paper")
    parser.add_argument("--print", action="store_true", help="forms as PDF, too (Chromium)")
    given = parser.parse_args(arguments)
    try:
        made = write(given.out, given.seed, printed=given.print)
    except (OSError, ValueError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 1
    print("\n".join(map(str, made)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
