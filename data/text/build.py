"""Rebuild or describe the embedded texts.

    python data/text/build.py prose [--root DIR]   public prose, from three Debian packages
    python data/text/build.py topics               Python's topics, from the standard library
    python data/text/build.py describe             sizes, balance, overlap and chance levels of both

Each text comes from the versions that README.md names, and other versions are refused: what a kept
run was trained on can be made again, byte for byte.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import lzma
import platform
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np
from sources import SOURCES, Document
from tokenizers import Tokenizer, models, trainers

from coefdyn.lab.tasks.base import SPLITS
from coefdyn.lab.tasks.bytepair import Pair, encode, words
from coefdyn.lab.tasks.embedded import (
    END_OF_TOPIC,
    public_prose,
    public_prose_merges,
    python_topics,
    python_topics_merges,
)
from coefdyn.lab.tasks.overlap import WINDOW, overlap, window_hashes
from coefdyn.lab.tasks.text import MERGES, prose_of, split_of_document, split_topics, topics_of

FOLDER = Path(__file__).parent
PYTHON_VERSION = "3.11.7"
#: bytes that a document has at least
SHORTEST = 200


def build_topics() -> None:
    """Write Python's topics, which the runs kept before the public prose were trained on."""
    if platform.python_version() != PYTHON_VERSION:
        raise SystemExit(
            f"the committed text is that of Python {PYTHON_VERSION}; this is "
            f"{platform.python_version()}. Run it with Python {PYTHON_VERSION}."
        )
    texts = [topics[name].encode() for name in sorted(topics)]
    assert not any(END_OF_TOPIC in text for text in texts), "a topic holds a form feed"
    packed = gzip.compress(END_OF_TOPIC.join(texts) + END_OF_TOPIC, compresslevel=9, mtime=0)
    (FOLDER / "python_topics.txt.gz").write_bytes(packed)
    train, _ = split_topics(tuple(text + END_OF_TOPIC for text in texts))
    _write_merges("python_topics_merges.json", train)
    print(f"{len(texts)} topics, {sum(map(len, texts))} bytes, packed {len(packed)} bytes")


def build_prose(root: Path) -> None:
    """Write the public prose: without repeats, then split by document."""
    for source in SOURCES:
        source.check(root)
    seen: set[int] = set()
    texts: list[bytes] = []
    about = []
    for source in SOURCES:
        read = [(name, paragraphs) for name, paragraphs in source.read(root) if paragraphs]
        kept = list(without_repeats(read, seen))
        before = sum(len("\n".join(paragraphs).encode()) for _, paragraphs in read)
        after = sum(map(len, kept))
        print(f"{source.package}: {before} bytes, {after} without repeats, {len(kept)} documents")
        texts += kept
        about.append({"package": source.package, "version": source.version, "documents": len(kept)})
    whole = END_OF_TOPIC.join(texts) + END_OF_TOPIC
    packed = lzma.compress(whole, preset=9 | lzma.PRESET_EXTREME)
    (FOLDER / "public_prose.txt.xz").write_bytes(packed)
    digest = hashlib.sha256(whole).hexdigest()
    lines = ",\n    ".join(json.dumps(one) for one in about)
    told = f'{{\n  "sha256": "{digest}",\n  "sources": [\n    {lines}\n  ]\n}}\n'
    (FOLDER / "public_prose.json").write_text(told)
    print(
        f"{len(texts)} documents, {len(whole)} bytes, packed {len(packed)} bytes, sha256 {digest}"
    )
    documents = tuple(text + END_OF_TOPIC for text in texts)
    _write_merges("public_prose_merges.json", prose_of(documents, "train"))


def without_repeats(documents: Iterable[Document], seen: set[int]) -> Iterator[bytes]:
    """The documents without each paragraph that repeats a window of 64 bytes; short ones left out.

    Args:
        documents: names and paragraphs.
        seen: hashes of the windows so far; those of what is kept are added.
    """
    for _, paragraphs in documents:
        text = b""
        own: set[int] = set()
        for paragraph in paragraphs:
            joined = (text + b"\n" if text else b"") + paragraph.encode().replace(
                END_OF_TOPIC, b" "
            )
            start = max(len(text) - WINDOW + 1, 0)
            windows = window_hashes(joined[start:]).tolist()
            fresh = set(windows)
            if len(fresh) == len(windows) and fresh.isdisjoint(seen) and fresh.isdisjoint(own):
                text = joined
                own |= fresh
        if len(text) >= SHORTEST:
            seen |= own
            yield text


def _write_merges(name: str, training: bytes) -> None:
    """Learn the byte pairs of a training text and write them."""
    merges = learn_merges(training, MERGES)
    lines = ",\n".join(json.dumps(pair) for pair in merges)
    (FOLDER / name).write_text(f"[\n{lines}\n]\n")
    print(f"{name}: {len(merges)} merges")


def learn_merges(text: bytes, count: int) -> list[Pair]:
    """Learn the ``count`` most frequent pairs within words, one after another, by `tokenizers`.

    It stops early when no pair occurs twice. To it, a byte is the letter of the same number.
    """
    letters = [chr(byte) for byte in range(256)]
    tokenizer = Tokenizer(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=256 + count, min_frequency=2, initial_alphabet=letters, show_progress=False
    )
    tokenizer.train_from_iterator((word.decode("latin-1") for word in words(text)), trainer)
    number = {letter: byte for byte, letter in enumerate(letters)}
    merges: list[Pair] = []
    for left, right in json.loads(tokenizer.to_str())["model"]["merges"]:
        number.setdefault(left + right, 256 + len(merges))
        merges.append((number[left], number[right]))
    return merges


def describe() -> None:
    """Print sizes, balance, overlap and chance levels of both texts."""
    topics_parts = {split: topics_of(python_topics(), split) for split in SPLITS}
    _describe("topics of the Python documentation", topics_parts, python_topics_merges())
    documents = public_prose()
    parts = {split: prose_of(documents, split) for split in SPLITS}
    _describe("public prose", parts, public_prose_merges())
    first = 0
    for source in json.loads((FOLDER / "public_prose.json").read_text())["sources"]:
        found, size = Counter[str](), Counter[str]()
        for number in range(first, first + source["documents"]):
            found[split_of_document(number)] += 1
            size[split_of_document(number)] += len(documents[number])
        first += source["documents"]
        cells = ", ".join(f"{split} {size[split]} ({found[split]})" for split in SPLITS)
        print(f"  bytes (documents) of {source['package']}: {cells}")


def _describe(name: str, parts: Mapping[str, bytes], merges: Sequence[Pair]) -> None:
    print(name)
    for split, text in parts.items():
        tokens = len(encode(text, merges))
        print(
            f"  {split:<10} {len(text):>8} bytes {tokens:>8} tokens of {len(text) / tokens:.2f}"
            f" bytes; {100 * overlap(text, parts['train']):.2f} % of it in training"
        )
    for order, name in enumerate(("unigram", "bigram")):
        bits = chance(parts["train"], parts["test"], order)
        print(f"  {name:<10} {bits:.3f} bits per byte of the test text")


def chance(train: bytes, test: bytes, order: int) -> float:
    """Cross entropy of the test bytes in bits, by counts of the training text plus one.

    order 0: each byte by itself (unigram); 1: given the byte before it (bigram).
    """
    old, new = (np.frombuffer(text, dtype=np.uint8).astype(np.int64) for text in (train, test))
    if order == 0:
        counts = np.bincount(old, minlength=256) + 1.0
        return float(-np.log2(counts / counts.sum())[new].mean())
    table = np.bincount(256 * old[:-1] + old[1:], minlength=65536).reshape(256, 256) + 1.0
    return float(-np.log2(table / table.sum(1, keepdims=True))[new[:-1], new[1:]].mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=("prose", "topics", "describe"))
    parser.add_argument(
        "--root", type=Path, default=Path("/"), help="where the packages were unpacked (default: /)"
    )
    given = parser.parse_args()
    if given.what == "prose":
        build_prose(given.root)
    elif given.what == "topics":
        build_topics()
    else:
        describe()


if __name__ == "__main__":
    main()
