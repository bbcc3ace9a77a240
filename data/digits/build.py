"""Rebuild digits.npz from scikit-learn: ``python data/digits/build.py``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits


def main() -> None:
    bunch = load_digits()
    images = bunch.data.astype(np.uint8)
    assert images.shape == (1797, 64), images.shape
    assert (images == bunch.data).all(), "the levels are not whole numbers"
    path = Path(__file__).with_name("digits.npz")
    np.savez_compressed(path, images=images, labels=bunch.target.astype(np.uint8))
    print(f"{path.name}: {len(images)} images, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
