"""The public prose and its packages: versions, selection of prose, and no repeats."""

from __future__ import annotations

import gzip
import struct
import sys
import zlib

import pytest

from coefdyn.lab.places import data_folder


@pytest.fixture
def made(monkeypatch):
    """The modules ``sources`` and ``build`` of data/text, gone again after the test."""
    monkeypatch.syspath_prepend(str(data_folder() / "text"))
    for name in ("build", "sources"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import build
    import sources

    yield sources, build
    for name in ("build", "sources"):
        sys.modules.pop(name, None)


def write(root, path, content):
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


def test_another_version_or_none_is_refused_in_words(made, tmp_path):
    source = made[0].SOURCES[1]
    with pytest.raises(SystemExit, match=r"jargon-text is needed and .* does not exist; install"):
        source.check(tmp_path)
    log = "usr/share/doc/jargon-text/changelog.Debian.gz"
    write(tmp_path, log, gzip.compress(b"jargon-text (9.9-1) unstable; urgency=low\n"))
    with pytest.raises(SystemExit, match=r"that of jargon-text 4.4.7-4.1; .* has 9.9-1: install"):
        source.check(tmp_path)
    write(tmp_path, log, gzip.compress(b"jargon (4.4.7-4.1) unstable; urgency=low\n"))
    source.check(tmp_path)


def test_paragraphs_that_repeat_a_window_are_left_out(made):
    first, second, third = (f"{word} " * 20 for word in ("one-way", "two-way", "any-way"))
    unlike = ["".join(chr(97 + (i * k) % 26) for i in range(70)) for k in (3, 5)]
    seen = set()
    kept = list(
        made[1].without_repeats(
            [
                ("a", [*unlike, "x" * 63 + "-" + "y" * 63]),
                ("b", ["z" + unlike[0], "p" * 63 + "-" + "q" * 63, "r" * 63 + "-" + "s" * 63]),
                ("short", ["a few words"]),
                ("repeats itself", [first, second, third]),
            ],
            seen,
        )
    )
    assert [one.decode().split("\n") for one in kept] == [
        [*unlike, "x" * 63 + "-" + "y" * 63],
        ["p" * 63 + "-" + "q" * 63, "r" * 63 + "-" + "s" * 63],
    ]


def test_prose_is_told_from_program_text(made):
    is_prose = made[0].is_prose
    assert is_prose('He said: "It is a long way from here to there, my friend."')
    assert not is_prose("int main(void) { return f(x, y) + g[3] * (z << 2); }")
    assert not is_prose("See also the list.")
    assert not is_prose("A heading of quite a few words that does not end")


def test_a_chapter_is_read_without_its_marks(made, tmp_path):
    """Two chapters, the second left out; verses are joined by a space, paragraphs by a line."""
    verses = [
        b'<chapter osisID="Gen.1" sID="Gen.1"/>',
        b'<w lemma="x">In</w> the <note>of old</note>beginning.',
        b'<div sID="g2" type="x-p"/>\xe2\x80\x9cLet there be light.\xe2\x80\x9d',
        b'<chapter eID="Gen.1"/><chapter osisID="Gen.2" sID="Gen.2"/>',
        b"Left out.",
    ]
    book = zlib.compress(b"".join(verses))
    folder = "usr/share/sword/modules/texts/ztext/engWEB2015eb"
    for part, texts, packed in (("ot", verses, book), ("nt", [], b"")):
        write(tmp_path, f"{folder}/{part}.bzz", packed)
        write(tmp_path, f"{folder}/{part}.bzs", struct.pack("<III", 0, len(packed), 0))
        places = b"".join(
            struct.pack("<IIH", 0, sum(map(len, texts[:i])), len(x)) for i, x in enumerate(texts)
        )
        write(tmp_path, f"{folder}/{part}.bzv", places)
    found = list(made[0].bible(tmp_path))
    assert found == [("Gen.1", ["In the beginning.", '"Let there be light."'])]


def test_a_page_is_read_without_menus_and_programs(made, tmp_path):
    page = """<html><title>T</title><style>p {}</style><ul><li><a>Home</a></ul>
    <p>This is the first paragraph of a page, and it goes on.<pre>int x;</pre>
    <p>This is the <b>second</b> one, which has an end as well.</body>"""
    write(tmp_path, "usr/share/doc/sqlite3/a.html", page.encode())
    write(tmp_path, "usr/share/doc/sqlite3/releaselog/b.html", page.encode())
    ((name, paragraphs),) = made[0].sqlite(tmp_path)
    assert name == "a.html"
    assert paragraphs == [
        "This is the first paragraph of a page, and it goes on.",
        "This is the second one, which has an end as well.",
    ]
