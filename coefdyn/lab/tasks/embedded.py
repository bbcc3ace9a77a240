"""The small data sets that ship with the project, under ``data/``; no network is needed.

data/digits: scikit-learn's handwritten digits. data/text: public prose, and topics of the Python
documentation, which older runs were trained on.
Each folder's README gives source, licence and the script that rebuilt the file.
"""

from __future__ import annotations

import gzip
import json
import lzma
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from coefdyn.lab.places import data_file

END_OF_TOPIC = b"\f"


@lru_cache(maxsize=1)
def digits() -> tuple[Tensor, Tensor]:
    """Images of digits (1797, 64) int64, levels 0..16, rows of 8 x 8 pixels, and labels (1797,)."""
    with np.load(data_file("digits/digits.npz"), allow_pickle=False) as archive:
        images = torch.from_numpy(archive["images"].astype(np.int64))
        labels = torch.from_numpy(archive["labels"].astype(np.int64))
    return images, labels


@lru_cache(maxsize=1)
def python_topics() -> tuple[bytes, ...]:
    """The topic texts in order of their names, each ending in a form feed."""
    text = gzip.decompress(data_file("text/python_topics.txt.gz").read_bytes())
    return tuple(topic + END_OF_TOPIC for topic in text.split(END_OF_TOPIC) if topic)


@lru_cache(maxsize=1)
def python_topics_merges() -> tuple[tuple[int, int], ...]:
    """Byte pairs in order of merging, learned from all topics but those of the test split."""
    return _merges("text/python_topics_merges.json")


@lru_cache(maxsize=1)
def public_prose() -> tuple[bytes, ...]:
    """The documents of the public prose, source by source, each ending in a form feed."""
    text = lzma.decompress(data_file("text/public_prose.txt.xz").read_bytes())
    return tuple(document + END_OF_TOPIC for document in text.split(END_OF_TOPIC) if document)


@lru_cache(maxsize=1)
def public_prose_merges() -> tuple[tuple[int, int], ...]:
    """Byte pairs in order of merging, learned from the training documents alone."""
    return _merges("text/public_prose_merges.json")


def _merges(name: str) -> tuple[tuple[int, int], ...]:
    return tuple((left, right) for left, right in json.loads(data_file(name).read_text()))
