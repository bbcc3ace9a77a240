"""Walks the course of "Teach this" with a clock; run by hand, from the top of the repository.

    python tests/browser/walk.py

Of each session it loads every page that the session reads or opens, until its figures are drawn,
and performs every record of these pages and of the session's demonstrations, as `test_promises.py`
does: links, sliders, buttons. The cells of the pages are not run again: their seconds are those of
the last execution on this machine (`make execute FORCE=1`). It prints the table and writes
`book/teaching/walked.json`, which the page shows.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from browser.measure import DEVICES, chromium, served
from browser.test_promises import perform

from book.tools.chapters import BUILD
from book.tools.course import WALKED, sessions
from book.tools.html import HTML
from book.tools.promises import Promise, figure_of, promises
from book.tools.prose import widget
from book.tools.runtimes import record

DRAWN = """() => [...document.querySelectorAll('script[type$="widget-view+json"]')]
  .every((one) => one.nextElementSibling?.firstElementChild)"""


def chapters_of(row: Mapping[str, Any]) -> list[str]:
    """Pages that a session reads, does exercises of, or names in its parts."""
    named = re.findall(
        r"\]\(([\w/]+)\.(?:ipynb|md)\)", " ".join(words for _, words in row["parts"])
    )
    return list(dict.fromkeys([*row["reading"], *row["exercises"], *named]))


def records_of(row: Mapping[str, Any], chapters: list[str]) -> list[Promise]:
    """What the session's pages say of their figures, and its demonstrations."""
    text = Path("book/demonstrations.md").read_text(encoding="utf-8").splitlines()
    shown = {
        text.index(f"(demo-{name})=") + 1 for name in row["demonstrations"]
    }  # a demonstration's record stands within the ten lines after its anchor
    return [
        one
        for one in promises()
        if not one.exempt
        and (
            one.page in chapters
            or (one.page == "demonstrations" and any(0 < one.line - n < 10 for n in shown))
        )
    ]


def walk(row: Mapping[str, Any], home: str, browser: Any, folder: Path) -> dict[str, Any]:
    """Numbers of one session; stops where a record is not as the page says."""
    chapters = chapters_of(row)
    desktop = DEVICES[0]
    context = browser.new_context(
        viewport={"width": desktop.width, "height": desktop.height}, reduced_motion="reduce"
    )
    stage = context.new_page()
    stage.set_default_timeout(60_000)
    stage.wrong = []
    began = time.monotonic()
    for chapter in chapters:
        stage.goto(f"{home}{chapter}.html")
        stage.wait_for_function(DRAWN)
    loaded = time.monotonic()
    moves = 0
    for one in records_of(row, chapters):
        if broken := perform(one, widget(figure_of(one)), stage, folder):
            raise SystemExit(f"{one.name}: {broken}")
        moves += len(one.steps)
    done = time.monotonic()
    context.close()
    times = json.loads((BUILD / "times.json").read_text(encoding="utf-8"))["quick"]
    return {
        "pages": len(chapters),
        "load_s": round(loaded - began, 1),
        "moves": moves,
        "moves_s": round(done - loaded, 1),
        "cells_s": round(sum(times.get(one, 0.0) for one in chapters)),
    }


def main() -> None:
    about = record({})
    found: dict[str, dict[str, Any]] = {}
    with served(HTML) as home, chromium() as browser, tempfile.TemporaryDirectory() as folder:
        for row in sessions():
            one = found[row["name"]] = walk(row, home, browser, Path(folder))
            print(row["name"], one, flush=True)
    told = {"date": about["date"], "machine": about["machine"], "sessions": found}
    WALKED.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
