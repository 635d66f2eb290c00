"""Turn the four IDX files of an MNIST-like data set into one npz file that fednode reads:

    python examples/idx_to_npz.py FOLDER OUT.npz [--per-label 1000] [--classes t-shirt,trouser,...]

FOLDER has train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte, each as it is or
with .gz. Debian's package `dataset-fashion-mnist` puts those of Fashion-MNIST into /usr/share/datasets/fashion-mnist or, with
other versions, elsewhere: `dpkg -L dataset-fashion-mnist` tells. Class names are Fashion-MNIST's unless --classes says otherwise.
"""

import argparse
import gzip
import math
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

FASHION = "t-shirt,trouser,pullover,dress,coat,sandal,shirt,sneaker,bag,ankle-boot"
FILES = {
    "train_images": "train-images-idx3-ubyte",
    "train_labels": "train-labels-idx1-ubyte",
    "test_images": "t10k-images-idx3-ubyte",
    "test_labels": "t10k-labels-idx1-ubyte",
}
UNSIGNED_BYTES = 8
MAX_BYTES = 1 << 30

Bytes = npt.NDArray[np.uint8]


class IdxError(Exception):
    """A file is missing or is not the IDX file that it should be."""


def read_idx(path: Path) -> Bytes:
    """The array of an IDX file of unsigned bytes, gzipped or not: two zero bytes, type, dimensions, their sizes, the values.

    Raises IdxError.
    """
    data = _bytes(path)
    if len(data) < 4 or data[:3] != bytes([0, 0, UNSIGNED_BYTES]):
        raise IdxError(f"{path} is not an IDX file of unsigned bytes.")
    start = 4 + 4 * data[3]
    if len(data) < start:
        raise IdxError(f"{path} ends within its header.")
    shape = struct.unpack(f">{data[3]}I", data[4:start])
    if len(data) - start != math.prod(shape):
        raise IdxError(f"{path} has {len(data) - start} values, and its header says {math.prod(shape)}.")
    return np.frombuffer(data, dtype=np.uint8, offset=start).reshape(shape)


def convert(folder: Path, classes: Sequence[str], per_label: int | None) -> dict[str, npt.NDArray[Any]]:
    """The arrays of the npz file; `per_label` keeps so many training images of each label, the first ones. Raises IdxError."""
    arrays: dict[str, npt.NDArray[Any]] = {key: read_idx(_find(folder, name)) for key, name in FILES.items()}
    for part in ("train", "test"):
        images, labels = arrays[f"{part}_images"], arrays[f"{part}_labels"]
        if images.ndim != 3 or labels.shape != (len(images),):
            raise IdxError(f"The {part} part has images of shape {images.shape} and labels of shape {labels.shape}.")
        if len(labels) and labels.max() >= len(classes):
            raise IdxError(f"The {part} part has a label {labels.max()}, and there are {len(classes)} class names.")
    if per_label is not None:
        labels = arrays["train_labels"]
        first = [np.flatnonzero(labels == label)[:per_label] for label in range(len(classes))]
        kept = np.sort(np.concatenate(first))
        arrays |= {"train_images": arrays["train_images"][kept], "train_labels": labels[kept]}
    return {**arrays, "class_names": np.array(classes)}


def _find(folder: Path, name: str) -> Path:
    for path in (folder / f"{name}.gz", folder / name):
        if path.is_file():
            return path
    raise IdxError(f"{folder} has neither {name} nor {name}.gz.")


def _bytes(path: Path) -> bytes:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except (OSError, EOFError) as error:
        raise IdxError(f"{path} can't be read: {error}.") from None
    if len(data) > MAX_BYTES:
        raise IdxError(f"{path} has more than {MAX_BYTES} bytes.")
    return data


def main(words: Sequence[str] | None = None) -> int:
    """Write the npz file; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--per-label", type=int, metavar="N")
    parser.add_argument("--classes", default=FASHION, help="names in the order of the labels, with commas")
    asked = parser.parse_args(words)
    if asked.per_label is not None and asked.per_label < 1:
        parser.error("--per-label is a number above 0")
    try:
        arrays = convert(asked.folder, asked.classes.split(","), asked.per_label)
    except IdxError as error:
        print(error, file=sys.stderr)
        return 1
    np.savez_compressed(asked.out, **arrays)
    return 0


if __name__ == "__main__":
    sys.exit(main())
