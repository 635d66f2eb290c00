"""Write scikit-learn's digits as files, to try the other kinds of data source with:

    python examples/write_digits.py FOLDER

makes FOLDER/train/LABEL/NUMBER.png, FOLDER/test/LABEL/NUMBER.png and FOLDER/digits.npz, with the same split of 75 to 25 that
the source `digits` uses.
"""

import sys
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split


def main(folder: Path) -> None:
    """Write all files; existing ones are replaced."""
    digits = load_digits()
    images = np.rint(digits.images * 255 / 16).astype(np.uint8)
    parts = train_test_split(images, digits.target, test_size=0.25, stratify=digits.target, random_state=0)
    arrays = dict(zip(("train_images", "test_images", "train_labels", "test_labels"), parts, strict=True))
    for part in ("train", "test"):
        for number, (image, label) in enumerate(zip(arrays[f"{part}_images"], arrays[f"{part}_labels"], strict=True)):
            path = folder / part / str(label) / f"{number:04}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(path)
    np.savez_compressed(folder / "digits.npz", class_names=[str(label) for label in range(10)], **arrays)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
