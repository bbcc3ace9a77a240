"""What is written below a figure or a table: what is seen, and how the numbers were made.

- a drawn figure's words, which a screen reader has from the notebook, become its caption;
- the run behind a number (runs, seeds, machines, versions, the code's revisions, days) folds to one
  quiet line.
"""

from __future__ import annotations

import re

__all__ = ["caption_figures", "fold_provenance"]

FIGURE = re.compile(
    r'(<a class="[^"]*\bimage-reference\b[^"]*" href="[^"]*">'
    r'<img (?=[^>]*\bsrc="[^"]*_images/)[^>]*?alt="([^"]+)"[^>]*>\s*</a>)(?!<p class="cd-caption")'
)
#: A caption in small print that ends with the machine: "NAME, profile P: 24 runs, seeds 0, ..." or
#: "Batch 4, n = 64, AMD EPYC, 1 thread, torch ...".
MADE = re.compile(
    r"<p><em>([^<]+?), ((?:seeds? \d|cpu \(|[^,<]+, \d+ threads?, )[^<]*\btorch \d[^<]*)</em></p>"
)
RUNS = re.compile(r"^[^:]+, profile [^:]+: (.+)$")


def caption_figures(text: str) -> str:
    """Page with the words of each drawn figure below it; they are read to no one twice."""
    return FIGURE.sub(r'\1<p class="cd-caption" aria-hidden="true">\2</p>', text)


def fold_provenance(text: str) -> str:
    """Page whose captions about machines and revisions are folds of one line."""
    return MADE.sub(_folded, text)


def _folded(found: re.Match[str]) -> str:
    what, made = found[1], found[2]
    runs = RUNS.match(what)
    if runs:
        return _fold(f"{runs[1]}: how they were made", f"{what}, {made}")
    return f"<p><em>{what}.</em></p>{_fold('machine and versions', made)}"


def _fold(summary: str, words: str) -> str:
    return f'<details class="cd-made"><summary>{summary}</summary><p>{words}</p></details>'
