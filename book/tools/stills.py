"""Stills of the interactive figures in every built page: for paper, and where no script runs.

    python -m book.tools.stills

Reads the state that a page carries, draws the explorer (or the film) at those settings, and puts
the picture before the figure. Pages already done are done anew; drawings are kept in
`book/_build/stills` by the digest of what they show and of the code that draws it.
"""

from __future__ import annotations

import html
import io
import json
import re
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from book.tools.chapters import BUILD, ROOT
from book.tools.digest import counted_name, mark, short
from book.tools.figure_heights import key_of, opening_tag
from book.tools.figure_states import records_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["add_stills", "add_to_page"]

STORE = BUILD / "stills"
PLACE = "_images"
DOTS_PER_INCH = 160
COLORS = 256

VIEW = re.compile(r'<script type="application/vnd\.jupyter\.widget-view\+json">(.*?)</script>')
OLD = re.compile(r"<!-- still -->.*?<!-- /still -->", re.DOTALL)
#: Rules for readers without scripts, for whom nothing hides the stills.
NO_SCRIPT = (
    "<!-- still --><noscript><style>figure.cd-still, p.cd-still { display: block; } "
    ".cd-room { min-height: 0 !important; }</style>"
    "</noscript><!-- /still -->"
)
#: what a picture depends on, below `coefdyn`; mixers and experiments draw none
DRAWING = ("analysis", "dynamics", "execution", "lab/films", "lab/train", "plots", "widgets")
CAPTION = "A still of the interactive figure, at the settings it starts with."


@dataclass(frozen=True)
class Still:
    """Substitute for one interactive figure: words, and a picture unless words are enough."""

    words: str
    draw: Callable[[], Figure] | None = None


def add_stills(site: Path, store: Path = STORE) -> int:
    """Put stills into every page below `site`, one page per core at a time; returns how many."""
    pages = [page for page in sorted(site.rglob("*.html")) if "_static" not in page.parts]
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        return sum(pool.map(partial(add_to_page, site=site, store=store), pages))


def add_to_page(page: Path, site: Path, store: Path = STORE) -> int:
    """Put stills before the figures of one page; returns how many."""
    text = page.read_text(encoding="utf-8")
    if not VIEW.search(text):
        return 0
    records = records_of(text)
    up = "../" * (len(page.relative_to(site).parts) - 1)
    count = 0

    def before(match: re.Match[str]) -> str:
        nonlocal count
        record = records.get(json.loads(match[1])["model_id"])
        if record is None or "_esm" not in record["state"]:
            return match[0]
        still = still_of(record)
        if still is None:
            return match[0]
        count += 1
        markup = _markup(still, record, site, up, store)
        begin = f"<!-- still -->{opening_tag(key_of(record['state']))}{markup}<!-- /still -->"
        return f"{begin}{match[0]}<!-- still --></div><!-- /still -->"

    changed = VIEW.sub(before, OLD.sub("", text))
    if count:
        changed = changed.replace("</head>", f"{NO_SCRIPT}</head>", 1)
    if changed != text:
        page.write_text(changed, encoding="utf-8")
    return count


#: What is left out of an own design's name, which has to fit above a panel.
REST = re.compile(r", eta \w+, b \w+")


def still_of(record: Mapping[str, Any]) -> Still | None:
    """Still of a widget's saved record; None for a widget outside the library."""
    from coefdyn import widgets
    from coefdyn.plots.explorer_still import explorer_still
    from coefdyn.widgets import Explorer, SmallFigure

    state = record["state"]
    name = str(state.get("_anywidget_id", "")).rsplit(".", 1)[-1]
    if name == "Explorer":
        explorer = Explorer.from_state(state)
        return Still(explorer.shown().words(), lambda: explorer_still(explorer, with_words=False))
    if name == "TrainingFilm":
        return _film(record)
    if name == "PageTraining":
        from coefdyn.lab.train import PageTraining
        from coefdyn.lab.train.kept_runs import kept_run, kept_still

        kept = kept_run(state["settings"])
        for run in kept.runs if kept else ():
            run["name"] = REST.sub("", run["name"])
        draw = None if kept is None else lambda: kept_still(kept)
        return Still(REST.sub("", PageTraining.from_state(state).words()), draw)
    figure = getattr(widgets, name, None)
    if isinstance(figure, type) and issubclass(figure, SmallFigure):
        return Still(figure.from_state(state).words())
    return None


def _film(record: Mapping[str, Any]) -> Still:
    """Draw a film at some of its steps, for the run, layer and head it starts with."""
    from coefdyn.lab.films.figure import film_still
    from coefdyn.lab.films.widget import saved_film

    film = saved_film(record)
    chosen = {"run": 0, "layer": 1, "head": 1, **record["state"]["settings"]}
    run, layer, head = (int(chosen[key]) for key in ("run", "layer", "head"))
    one = film.runs[run]
    words = (
        f"{film.title}: {one.name}, layer {layer}, head {head}. Test accuracy "
        f"{one.accuracy[0]:.3f} at step {film.steps[0]} and {one.accuracy[-1]:.3f} at step "
        f"{film.steps[-1]}. {record['state']['film']['provenance']}"
    )
    return Still(words, lambda: film_still(film, run=run, layer=layer, head=head))


def _markup(still: Still, record: Mapping[str, Any], site: Path, up: str, store: Path) -> str:
    words = html.escape(still.words)
    if still.draw is None:
        return f'<p class="cd-still">{words}</p>'
    name = f"still-{_key(still, record)}.png"
    kept = store / name
    if not kept.exists():
        store.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(_png(still.draw))
    target = site / PLACE / name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(kept.read_bytes())
    return (
        f'<figure class="cd-still"><img src="{up}{PLACE}/{name}" alt="{words}">'
        f'<figcaption aria-hidden="true">{words} {CAPTION}</figcaption></figure>'
    )


def _key(still: Still, record: Mapping[str, Any]) -> str:
    """A digest of what the picture shows and of the code that draws it."""
    own = {key: value for key, value in record["state"].items() if key not in ("_esm", "_css")}
    shown = json.dumps([own, record.get("buffers", [])], sort_keys=True)
    return short([still.words, shown, _drawing_code()])


@cache
def _drawing_code() -> str:
    from coefdyn.widgets.source import arithmetic_source

    files = (path for one in DRAWING for path in (ROOT / "coefdyn" / one).rglob("*"))
    names = sorted(path.relative_to(ROOT).as_posix() for path in files if path.is_file())
    counted = (mark(name) for name in names if counted_name(str(ROOT / name)))
    return short([Path(__file__).read_bytes(), arithmetic_source(), *counted])


def _png(draw: Callable[[], Figure]) -> bytes:
    """Encode a drawing in few colours: some 30 kB instead of 100."""
    import matplotlib
    from PIL import Image

    matplotlib.use("Agg")
    from matplotlib import pyplot

    from coefdyn.plots import use_style

    use_style()
    figure = draw()
    fine = io.BytesIO()
    figure.savefig(fine, dpi=DOTS_PER_INCH, facecolor="white")
    pyplot.close(figure)
    few = io.BytesIO()
    plain = Image.open(fine).convert("RGB")
    plain.quantize(COLORS, dither=Image.Dither.NONE).save(few, "PNG", optimize=True)
    return few.getvalue()


def main() -> int:
    print(f"{add_stills(BUILD / 'html')} stills")
    return 0


if __name__ == "__main__":
    sys.exit(main())
