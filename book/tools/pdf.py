"""The whole book as one PDF, made without a network: `make pdf`.

    python -m book.tools.pdf [--single-page-only]

The built pages are joined into one (`book/_build/pdf/book.html`), in the order of the table of
contents: links between pages become links within it, folds are open, stills stand for the
interactive figures. A Chromium then prints it to `book/_build/pdf/coefficient-dynamics.pdf`.
"""

from __future__ import annotations

import argparse
import html
import posixpath
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from book.tools import html as pages
from book.tools.chapters import BOOK, BUILD

__all__ = ["joined", "reading_order"]

FOLDER = BUILD / "pdf"
SINGLE = FOLDER / "book.html"
PDF = FOLDER / "coefficient-dynamics.pdf"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
MAC_BROWSERS = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)
#: Seconds.
PATIENCE = 600

ARTICLE = re.compile(r'<article class="bd-article"([^>]*)>(.*)</article>', re.DOTALL)
HEAD = re.compile(r'<link [^>]*href="([^"]*\.css[^"]*)"[^>]*>')
DROPPED = re.compile(
    r"<script\b.*?</script>|<noscript>.*?</noscript>|<div class=\"cd-switches.*?</div>|"
    r'<p class="cd-left-out".*?</p>|<a class="headerlink".*?</a>|<link [^>]*>',
    re.DOTALL,
)
ADDRESS = re.compile(r'\b(href|src)="([^"]*)"')
ID = re.compile(r'(<[^>]*?\s)(id)="([^"]+)"')
PAGE_STYLE = """<style>
@page { size: A4; margin: 18mm 16mm 20mm;
  @bottom-center { content: counter(page); font: 9pt Inter; } }
body { background: #fff; padding: 0; }
main { max-width: 46rem; margin: 0 auto; }
article { break-before: page; }
nav li { margin: 0.2rem 0; } nav p { margin: 0.8rem 0 0.2rem; font-weight: 600; }
figure.cd-still, p.cd-still { display: block; }
details.cd-shows { display: none; }
details > summary { list-style: none; }
</style>"""


def reading_order() -> list[tuple[str, list[str]]]:
    """The parts of the book: caption, and the addresses of the part's pages."""
    toc = yaml.safe_load((BOOK / "_toc.yml").read_text(encoding="utf-8"))
    parts = [("", [{"file": toc["root"]}])]
    parts += [(part["caption"], part["chapters"]) for part in toc["parts"]]
    return [(caption, list(_pages(chapters))) for caption, chapters in parts]


def _pages(entries: list[dict[str, Any]]) -> Iterator[str]:
    """Addresses of the entries of a table of contents, sections after what they belong to."""
    for entry in entries:
        yield Path(entry["file"]).with_suffix(".html").as_posix()
        yield from _pages(entry.get("sections", []))


def joined(site: Path) -> str:
    """Join all pages of `site` into one, to be written beside a folder `html` that holds them."""
    order = [page for _, listed in reading_order() for page in listed]
    texts = {page: (site / page).read_text(encoding="utf-8") for page in order}
    styles = "".join(
        f'<link rel="stylesheet" href="{_from_here(order[0], address)}">'
        for address in HEAD.findall(texts[order[0]].partition("</head>")[0])
    )
    bodies = "".join(_article(page, text, frozenset(order)) for page, text in texts.items())
    return (
        '<!DOCTYPE html><html lang="en" data-theme="light" data-reading="code"><head>'
        '<meta charset="utf-8"><title>Coefficient Dynamics</title>'
        f"{styles}{PAGE_STYLE}</head><body><main>{_contents(texts)}{bodies}</main></body></html>"
    )


def _contents(texts: dict[str, str]) -> str:
    """First page: the title and the chapters by part."""
    out = "<h1>Coefficient Dynamics</h1><nav>"
    for caption, listed in reading_order():
        links = "".join(
            f'<li><a href="#{_name(page)}">{_title(texts[page])}</a></li>' for page in listed
        )
        out += f"<p>{caption}</p><ul>{links}</ul>"
    return f"{out}</nav>"


def _title(text: str) -> str:
    found = re.search(r"<title>(.*?)</title>", text)
    return found[1].partition(" &#8212; ")[0] if found else ""


def _name(page: str, anchor: str = "") -> str:
    """Name of a page's anchor in the joined page."""
    return html.escape(
        page.removesuffix(".html").replace("/", "-") + (f"--{anchor}" * bool(anchor))
    )


def _article(page: str, text: str, known: frozenset[str]) -> str:
    found = ARTICLE.search(text)
    if found is None:
        raise ValueError(f"{page} has no article; build the pages again: make book")
    body = DROPPED.sub("", found[2])
    body = body.replace("<details", "<details open").replace("open open", "open")
    seen: set[str] = set()

    def renamed(match: re.Match[str]) -> str:
        """Page with unique names; of two proofs called "proof" only the first keeps its name."""
        fresh = match[3] not in seen
        seen.add(match[3])
        return match[1] + f'id="{_name(page, match[3])}"' * fresh

    body = ID.sub(renamed, body)
    body = ADDRESS.sub(lambda m: f'{m[1]}="{_moved(page, m[2], known)}"', body)
    return f'<article class="bd-article bd-content" id="{_name(page)}"{found[1]}>{body}</article>'


def _moved(page: str, address: str, known: frozenset[str]) -> str:
    """Address of one page as an address of the joined one."""
    if re.match(r"[a-z]+:|//", address):
        return address
    path, _, anchor = html.unescape(address).partition("#")
    target = posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page
    if target not in known:
        return html.escape(_from_here(page, address))
    settings = anchor.startswith(("cd?", "cd-", "deck="))
    return f"#{_name(target, '' if settings else anchor)}"


def _from_here(page: str, address: str) -> str:
    """Convert an address relative to a page to one relative to the folder of the joined page."""
    return "../html/" + posixpath.normpath(posixpath.join(posixpath.dirname(page), address))


def find_chromium() -> str:
    """Find the browser that prints.

    Raises:
        FileNotFoundError: if there is none, with the remedy.
    """
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    found = found or next((path for path in MAC_BROWSERS if Path(path).exists()), None)
    if found is None:
        raise FileNotFoundError(
            "make pdf prints with Chromium or Chrome and found neither on the PATH: install the "
            f"system's package 'chromium', or open {SINGLE} in any browser and print it"
        )
    return found


def print_to_pdf(single: Path, target: Path) -> None:
    """Print one page with headless Chromium, without a header of its own.

    Raises:
        FileNotFoundError: without a browser.
        RuntimeError: if nothing was printed, or not within ``PATIENCE`` seconds.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)  # what was printed before is no sign of success
    command = [find_chromium(), "--headless", "--no-sandbox", "--disable-gpu"]
    command += ["--no-pdf-header-footer", f"--print-to-pdf={target}", single.as_uri()]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
    except subprocess.TimeoutExpired as late:
        raise RuntimeError(f"Chromium printed nothing within {PATIENCE} s") from late
    if done.returncode or not target.exists():
        raise RuntimeError(f"Chromium printed nothing: {done.stderr[-2000:]}")


def printed(single: Path, target: Path) -> bool:
    """Print one page, or say on stderr why not."""
    try:
        print_to_pdf(single, target)
    except (FileNotFoundError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return False
    return True


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Print the whole book to one PDF.")
    parser.add_argument("--single-page-only", action="store_true", help="join, do not print")
    given = parser.parse_args(arguments)
    status = pages.main([])
    if status:
        return status
    FOLDER.mkdir(parents=True, exist_ok=True)
    SINGLE.write_text(joined(pages.HTML), encoding="utf-8")
    print(f"one page: {SINGLE.as_uri()}")
    if given.single_page_only:
        return 0
    if not printed(SINGLE, PDF):
        return 1
    print(f"the book on paper: {PDF.as_uri()} ({PDF.stat().st_size / 1e6:.1f} MB)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
