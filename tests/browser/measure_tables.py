"""Sizes of the built pages, from the top of the repository:

    python tests/browser/measure_tables.py [--site book/_build/html] [--only weights]

prints kilobytes of every page without its pictures, uncompressed, the heaviest first, by what they
are. They are read from the files (`weights.py`), so that this needs no browser.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from weights import MOST_KILOBYTES, pages_below, weigh

from book.tools.html import HTML


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--site", type=Path, default=HTML)
    parser.add_argument("--only", choices=["weights"], help="the one table there is")
    site = parser.parse_args().site
    found = {page: weigh(page) for page in pages_below(site)}
    print(f"Kilobytes without pictures; the limit is {MOST_KILOBYTES}.")
    print(f"\n| weights | kB | html | styles | scripts | fonts |\n|{' --- |' * 6}")
    for page, one in sorted(found.items(), key=lambda item: -item[1].kB):
        parts = (one.kB, one.html, one.styles, one.scripts, one.fonts)
        cells = " | ".join(f"{value:.0f}" for value in parts)
        print(f"| {page.relative_to(site).as_posix()} | {cells} |")


if __name__ == "__main__":
    main()
