"""Build the pages into `book/_build/html`, with warnings as errors, and print their address.

    python -m book.tools.html [--force]

Sphinx reports every warning only when it reads every page, so a build is either whole, from an
empty folder, or, when nothing it reads has changed, not done at all.

Each build has a folder of its own, whose pages take the place of those before, with the digest of
what they were made from inside, once they are finished. So a build that is killed, or that runs
beside another one, leaves whole pages. A lock makes the second one wait, for whole minutes of two
processors are no use to anyone; the system frees it on any exit.
"""

from __future__ import annotations

import argparse
import fcntl
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from book.tools.bundle import bundle
from book.tools.chapters import BOOK, BUILD, ROOT
from book.tools.digest import short
from book.tools.figure_states import pack_states
from book.tools.pins import book_section
from book.tools.postprocess import postprocess
from book.tools.promises import problems
from book.tools.stills import add_stills
from book.tools.styles import lighten

HTML = BUILD / "html"
#: in the folder of the pages: the digest of what they were made from
STAMP = ".made-from"
LOG = BUILD / "html.log"
LOCK = BUILD / "html.lock"
#: prefix of the folders that builds write into
FRESH = "fresh"

COMMAND = [sys.executable, "-m", "book.tools.parallel", "build", str(BOOK)]
COMMAND += ["--config", str(ROOT / "_config.yml")]
COMMAND += ["--all", "-W", "-n", "--keep-going", "--path-output"]
TROUBLE = re.compile(r"WARNING|ERROR|CRITICAL|Exception|Error:")


def sources() -> Iterator[Path]:
    """Every file that the build reads, sorted."""
    yield ROOT / "_config.yml"
    for path in sorted(BOOK.rglob("*")):
        parts = path.relative_to(BOOK).parts
        hidden = any(part.startswith((".", "__pycache__")) for part in parts)
        if path.is_file() and parts[0] != "_build" and not hidden:
            yield path
    # widgets are copied, docstrings become the reference, stills are drawn from what is kept
    read = (".js", ".css", ".py", ".mplstyle")
    yield from sorted(p for p in (ROOT / "coefdyn").rglob("*") if p.suffix in read)
    yield from sorted(p for p in (ROOT / "data" / "trained").rglob("*") if p.is_file())


def current_digest() -> str:
    """Digest of everything the pages are made from."""
    pins = book_section((ROOT / "pins.txt").read_text(encoding="utf-8"))
    read = (part for p in sources() for part in (p.relative_to(ROOT).as_posix(), p.read_bytes()))
    return short([pins, *read])


def up_to_date(wanted: str) -> bool:
    """Return whether the pages on disk are the requested ones."""
    stamp = HTML / STAMP
    built = (HTML / "index.html").exists() and stamp.exists()
    return built and stamp.read_text(encoding="utf-8") == wanted


@contextmanager
def alone() -> Iterator[None]:
    """Hold the lock of page builds; wait for a build that has it."""
    BUILD.mkdir(parents=True, exist_ok=True)
    with LOCK.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            print("another build of the pages is at work; waiting for its end", flush=True)
            fcntl.flock(handle, fcntl.LOCK_EX)
        for left in BUILD.glob(f"{FRESH}*"):  # by a build that was killed
            shutil.rmtree(left, ignore_errors=True)
        yield


def build(fresh: Path) -> int:
    """Build every page below `fresh`; the log goes to a file, its warnings to the terminal.

    A sentence about a figure without a record (`promises.py`) is an error. Returns the status.
    """
    if untold := problems():
        print("\n".join(untold), file=sys.stderr)
        return 1
    LOG.unlink(missing_ok=True)
    with LOG.open("w", encoding="utf-8") as log:
        done = subprocess.run([*COMMAND, str(fresh)], cwd=ROOT, stdout=log, stderr=log, check=False)
    status = done.returncode
    lines = LOG.read_text(encoding="utf-8").splitlines()
    if status:
        told = [line for line in lines if TROUBLE.search(line)]
        print("\n".join(told[:60] or lines[-40:]), file=sys.stderr)
        print(f"the build failed; all it said is in {LOG.relative_to(ROOT)}", file=sys.stderr)
    return status


def renew(wanted: str) -> int:
    """Build, finish and stamp the pages in a separate folder, then move them into place.

    The pages before stay until the new ones are whole. A source that changes meanwhile leaves them
    without a stamp.
    """
    with tempfile.TemporaryDirectory(
        dir=BUILD, prefix=f"{FRESH}-", ignore_cleanup_errors=True
    ) as folder:
        fresh = Path(folder)
        status = build(fresh)
        if status:
            return status
        site = fresh / "_build" / "html"
        postprocess(site)
        lighten(site)
        bundle(site)
        pack_states(site)
        add_stills(site)
        if current_digest() == wanted:
            (site / STAMP).write_text(wanted, encoding="utf-8")
        if HTML.exists():
            HTML.rename(fresh / "before")
        site.rename(HTML)
    return 0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Build the book's pages.")
    parser.add_argument("--force", action="store_true", help="build even when nothing changed")
    force = parser.parse_args(arguments).force
    try:
        with alone():
            wanted = current_digest()
            if force or not up_to_date(wanted):
                start = time.monotonic()
                status = renew(wanted)
                if status:
                    return status
                print(f"built {sum(1 for _ in HTML.rglob('*.html'))} pages in", end=" ")
                print(f"{time.monotonic() - start:.1f} s")
    except KeyboardInterrupt:
        print("interrupted; the pages before are as they were", file=sys.stderr)
        return 130
    print(f"the book: {(HTML / 'index.html').as_uri()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
