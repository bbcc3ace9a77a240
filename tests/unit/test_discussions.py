"""Numbers in the discussions of open exercises, computed."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from scipy.stats import binom, norm

CHAPTERS = Path(__file__).resolve().parents[2] / "book/architectures"


def test_pages_of_ten_keys_are_found_as_often_as_the_text_says() -> None:
    """Scores of means of ten unit keys of n numbers with the sought key are close to normal."""
    n, pages, tens = 128, 4000, 10
    noise = np.linspace(-7, 7, 4001)
    weight = norm.pdf(noise) / norm.pdf(noise).sum()
    passes = norm.sf((1 + noise * np.sqrt((tens - 1) / n)) / np.sqrt(tens / n))
    first = weight @ (1 - passes) ** (pages - 1)
    among = weight @ binom.cdf(39, pages - 1, passes)

    text = " ".join((CHAPTERS / "softmax_attention.md").read_text("utf-8").split())
    (said,) = re.findall(
        r"comes first in about (\d+) percent of the trials and is "
        r"among the best forty in about (\d+)",
        text,
    )
    assert abs(100 * among - int(said[1])) < 1
    assert abs(100 * first - int(said[0])) < 1
    (once,) = re.findall(r"at least one copy survives in (\d+) percent", text)
    assert round(100 * (1 - 0.9**3)) == int(once)
