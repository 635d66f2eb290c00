"""What a source has, before there is a contract: its labels in order, and the shape in which its images are best used."""

import re
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image

from fednode.contract import ImageShape, label_name
from fednode.errors import DataError
from fednode.learning.images import GREY_MODES, SIXTEEN_BIT_MODES
from fednode.learning.sources import Part, kind_of, label_folders, npz_arrays

LARGEST_SIZE = 32  # what two CPU cores fit in minutes
SMALLEST_SIZE = 4
DIGITS = ImageShape(size=8, channels=1)
ONE_CHANNEL_MODES = (*GREY_MODES, *SIXTEEN_BIT_MODES, "LA", "La")


def describe(source: str) -> tuple[list[str], ImageShape]:
    """Labels in the contract's spelling, and an image shape of at most 32 px. Raises DataError.

    Labels stand in the source's order, folders by name (numbers by value). Colour is kept if any label has it.
    """
    kind, path = kind_of(source)
    if kind == "digits":
        return [str(digit) for digit in range(10)], DIGITS
    labels, sizes, channels = _folder(path) if kind == "folder" else _npz(path)
    if len(labels) < 2:
        raise DataError(f"{source} has {len(labels)} labels, and at least 2 are needed.")
    size = max(SMALLEST_SIZE, min(LARGEST_SIZE, *sizes))
    return labels, ImageShape(size=size, channels=max(channels))


def _folder(root: Path) -> tuple[list[str], list[int], list[int]]:
    labels, sizes, channels = [], [], []
    for folder, paths in sorted(label_folders(root), key=lambda one: _natural(one[0].name)):
        with _open(paths, folder) as picture:
            labels.append(label_name(folder.name))
            sizes.append(min(picture.size))
            channels.append(1 if picture.mode in ONE_CHANNEL_MODES else 3)
    return labels, sizes, channels


def _open(paths: Sequence[Path], folder: Path) -> Image.Image:
    """The first file of the folder that opens as an image."""
    for path in paths:
        try:
            return Image.open(BytesIO(path.read_bytes()))
        except (OSError, Image.DecompressionBombError):
            continue
    raise DataError(f"{folder} has no image that can be read.", "Add images, or take the folder away.")


def _npz(path: Path) -> tuple[list[str], list[int], list[int]]:
    images, targets, names = npz_arrays(path, Part.TRAIN)
    if images.ndim not in (3, 4) or not targets.size or targets.dtype.kind not in "iu":
        raise DataError(f"{path} has no images with one integer label each.", "Data are in MedMNIST's npz layout.")
    if names is None:
        names = np.arange(int(targets.max()) + 1)
    channels = 3 if images.ndim == 4 and images.shape[-1] == 3 else 1
    return [label_name(str(name)) for name in names], [min(images.shape[1:3])], [channels]


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]
