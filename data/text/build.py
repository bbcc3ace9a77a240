"""Rebuild the embedded text from the standard library: ``python data/text/build.py``.

The text differs between Python versions; the committed files come from the one that README.md
names, and another version refuses to overwrite them unless told ``--any-version``.
"""

from __future__ import annotations

import gzip
import json
import platform
import sys
from pathlib import Path
from pydoc_data.topics import topics

from coefdyn.lab.tasks.bytepair import train_merges
from coefdyn.lab.tasks.embedded import END_OF_TOPIC
from coefdyn.lab.tasks.text import TOPICS_MERGES, split_topics

PYTHON_VERSION = "3.11.7"


def main() -> None:
    if platform.python_version() != PYTHON_VERSION and "--any-version" not in sys.argv:
        raise SystemExit(
            f"the committed text is that of Python {PYTHON_VERSION}; this is "
            f"{platform.python_version()}. Pass --any-version to replace it."
        )
    texts = [topics[name].encode() for name in sorted(topics)]
    assert not any(END_OF_TOPIC in text for text in texts), "a topic holds a form feed"
    packed = gzip.compress(END_OF_TOPIC.join(texts) + END_OF_TOPIC, compresslevel=9, mtime=0)
    folder = Path(__file__).parent
    (folder / "python_topics.txt.gz").write_bytes(packed)
    train, _ = split_topics(tuple(text + END_OF_TOPIC for text in texts))
    merges = train_merges(train, TOPICS_MERGES)
    lines = ",\n".join(json.dumps(pair) for pair in merges)
    (folder / "python_topics_merges.json").write_text(f"[\n{lines}\n]\n")
    print(f"{len(texts)} topics, {sum(map(len, texts))} bytes, packed {len(packed)} bytes")
    print(f"{len(merges)} merges")


if __name__ == "__main__":
    main()
