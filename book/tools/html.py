"""Build the pages into `book/_build/html`, warnings being errors, and print their address.

    python -m book.tools.html [--force]

Sphinx reports every warning only when it reads every page, so a build is either whole, from an
empty folder, or, when nothing it reads has changed, not done at all.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from book.tools.bundle import bundle
from book.tools.chapters import BOOK, BUILD, ROOT
from book.tools.digest import short
from book.tools.finish import finish
from book.tools.pins import book_section
from book.tools.saved import pack_states
from book.tools.stills import add_stills
from book.tools.styles import lighten

HTML = BUILD / "html"
STAMP = BUILD / "html.digest"
LOG = BUILD / "html.log"
#: where a build writes; what is there when it succeeds takes the place of the pages before
FRESH = BUILD / "fresh"

#: The command line's own entry: a script's first line does not survive every path.
ENTRY = "import sys; from jupyter_book.cli.main import main; sys.exit(main())"
COMMAND = ["build", str(BOOK), "--config", str(ROOT / "_config.yml")]
COMMAND += ["--path-output", str(FRESH), "--all", "-W", "-n", "--keep-going"]
TROUBLE = re.compile(r"WARNING|ERROR|CRITICAL|Exception|Error:")


def sources() -> Iterator[Path]:
    """Every file that the build reads, sorted."""
    yield ROOT / "_config.yml"
    for path in sorted(BOOK.rglob("*")):
        parts = path.relative_to(BOOK).parts
        hidden = any(part.startswith((".", "__pycache__")) for part in parts)
        if path.is_file() and parts[0] != "_build" and not hidden:
            yield path
    read = (".js", ".css", ".py")  # widgets are copied, docstrings become the reference
    yield from sorted(p for p in (ROOT / "coefdyn").rglob("*") if p.suffix in read)


def current_digest() -> str:
    """What the pages are made from, as one digest."""
    pins = book_section((ROOT / "pins.txt").read_text(encoding="utf-8"))
    read = (part for p in sources() for part in (p.relative_to(ROOT).as_posix(), p.read_bytes()))
    return short([pins, *read])


def up_to_date(wanted: str) -> bool:
    """Whether the pages on disk are the ones wanted."""
    built = (HTML / "index.html").exists() and STAMP.exists()
    return built and STAMP.read_text(encoding="utf-8") == wanted


def build() -> int:
    """One whole build; the log goes to a file, its warnings to the terminal. Returns the status.

    The pages before stay until the new ones are whole.
    """
    shutil.rmtree(FRESH, ignore_errors=True)
    FRESH.mkdir(parents=True)
    with LOG.open("w", encoding="utf-8") as log:
        command = [sys.executable, "-c", ENTRY, *COMMAND]
        status = subprocess.run(command, cwd=ROOT, stdout=log, stderr=log, check=False).returncode
    lines = LOG.read_text(encoding="utf-8").splitlines()
    if status:
        told = [line for line in lines if TROUBLE.search(line)]
        print("\n".join(told[:60] or lines[-40:]), file=sys.stderr)
        print(f"the build failed; all it said is in {LOG.relative_to(ROOT)}", file=sys.stderr)
        return status
    STAMP.unlink(missing_ok=True)
    shutil.rmtree(HTML, ignore_errors=True)
    (FRESH / "_build" / "html").rename(HTML)
    shutil.rmtree(FRESH, ignore_errors=True)
    return 0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Build the book's pages.")
    parser.add_argument("--force", action="store_true", help="build even when nothing changed")
    force = parser.parse_args(arguments).force
    wanted = current_digest()
    if force or not up_to_date(wanted):
        start = time.monotonic()
        try:
            status = build()
        except KeyboardInterrupt:
            print("interrupted; the pages before are as they were", file=sys.stderr)
            return 130
        if status:
            return status
        finish(HTML)
        lighten(HTML)
        bundle(HTML)
        pack_states(HTML)
        STAMP.write_text(wanted, encoding="utf-8")
        print(f"built {sum(1 for _ in HTML.rglob('*.html'))} pages in", end=" ")
        print(f"{time.monotonic() - start:.1f} s")
    add_stills(HTML)
    print(f"the book: {(HTML / 'index.html').as_uri()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
