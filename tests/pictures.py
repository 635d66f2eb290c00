"""Folders of small images for tests."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image


def fill(root: Path, labels: Sequence[str], count: int) -> Path:
    """`count` grey images of 4 px for each label, ROOT/LABEL/NUMBER.png; labels differ in brightness. Returns `root`."""
    random = np.random.default_rng(0)
    for index, label in enumerate(labels):
        (root / label).mkdir()
        for number in range(count):
            pixels = random.integers(0, 60, (4, 4)) + 95 * index
            Image.fromarray(pixels.astype(np.uint8)).save(root / label / f"{number}.png")
    return root
