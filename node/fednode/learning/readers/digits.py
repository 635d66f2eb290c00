"""scikit-learn's digits: 1,797 grey 8x8 images of 0 to 9."""

from collections.abc import Iterator, Sequence

import numpy as np

from fednode.errors import DataError
from fednode.learning.readers.found import Arrays, Found, Part

NAMES = tuple("0123456789")


def find(rest: str, part: Part, labels: Sequence[str] | None) -> Iterator[Found]:
    """`rest` is the seed of the split, 75/25 and stratified; values 0..16 become 0..255. Raises DataError."""
    from sklearn.datasets import load_digits  # noqa: PLC0415  (a second to import, and only this source needs it)
    from sklearn.model_selection import train_test_split  # noqa: PLC0415

    seed = _seed(rest)
    values, targets = load_digits(return_X_y=True)
    pixels = np.round(values.reshape(-1, 8, 8) * (255 / 16)).astype(np.uint8)
    split = train_test_split(pixels, targets, test_size=0.25, stratify=targets, random_state=seed)
    images, kept = (split[0], split[2]) if part is Part.TRAIN else (split[1], split[3])
    return Arrays(images, kept).by_class(NAMES, f"{part}_digits")


def _seed(text: str) -> int:
    if not text:
        return 0
    if not (text.isascii() and text.isdigit() and int(text) < 2**32):
        raise DataError(f"{text!r} is not a seed for digits.", "Use digits or digits:SEED, 0 to 4294967295.")
    return int(text)
