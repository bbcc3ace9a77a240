"""No page is heavy; what a page weighs is read from its files."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser.weights import MOST_KILOBYTES, pages_below, weigh

pytestmark = pytest.mark.browser


def test_no_page_is_heavier_than_the_book_allows(site: Path) -> None:
    weights = {page.relative_to(site).as_posix(): weigh(page).kB for page in pages_below(site)}
    assert len(weights) > 40
    assert {page: kB for page, kB in weights.items() if kB > MOST_KILOBYTES} == {}


FACES = """
@font-face { font-family: "Inter"; src: url("data:font/woff2;base64,AAAA") format("woff2"); }
@font-face { font-family: "Inter"; src: url("fonts/greek.woff2"); unicode-range: U+0370-03FF; }
@font-face { font-family: "JetBrains Mono"; src: url("fonts/code-greek.woff2");
  unicode-range: U+0370-03FF; }
@font-face { font-family: "STIX Two Math"; src: url("fonts/math.woff2"); }
@font-face { font-family: "stand-in"; src: local("Arial"); }
"""
SIZES = {"greek": 200, "code-greek": 30, "math": 4000}
FIGURE = '<script type="application/vnd.jupyter.widget-view+json">{}</script>'


@pytest.mark.parametrize(
    ("body", "fonts"),
    [
        ("<p>plain</p>", ["math"]),
        ("<p>η</p>", ["math", "greek"]),
        ("<math><mi>η</mi></math><script>'η'</script>", ["math"]),
        ("<pre># <span>η</span></pre>", ["math", "code-greek"]),
        (FIGURE, ["math", "greek"]),
    ],
)
def test_a_page_weighs_what_it_names(body: str, fonts: list[str], tmp_path: Path) -> None:
    (tmp_path / "_static" / "fonts").mkdir(parents=True)
    (tmp_path / "part").mkdir()
    for name, size in SIZES.items():
        (tmp_path / "_static" / "fonts" / f"{name}.woff2").write_bytes(bytes(size))
    (tmp_path / "_static" / "one.css").write_text(FACES, encoding="utf-8")
    (tmp_path / "_static" / "one.js").write_bytes(bytes(500))
    (tmp_path / "picture.png").write_bytes(bytes(70_000))
    page = tmp_path / "part" / "page.html"
    page.write_text(
        '<link rel="stylesheet" href="../_static/one.css?v=1" />'
        '<link rel="icon" href="../picture.png" /><img src="../picture.png">'
        f'<script src="../_static/one.js?v=2"></script>{body}',
        encoding="utf-8",
    )
    found = weigh(page)
    assert found.html == page.stat().st_size / 1000
    assert found.styles == len(FACES) / 1000
    assert found.scripts == 0.5
    assert found.fonts == sum(SIZES[name] for name in fonts) / 1000
    assert found.kB == pytest.approx(found.html + found.styles + found.scripts + found.fonts)


def test_a_file_that_is_missing_is_no_light_file(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text('<script src="gone.js"></script>', encoding="utf-8")
    with pytest.raises(FileNotFoundError):
        weigh(page)
