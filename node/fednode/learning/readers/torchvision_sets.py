"""Data sets that torchvision downloads: `torchvision:NAME`, or `torchvision:NAME:FOLDER` with the files in that folder.

Rule: only data sets whose loaders read plain arrays are known. Pickles are never loaded, whatever their checksum is.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fednode.errors import DataError
from fednode.learning.readers.downloads import arriving, cache
from fednode.learning.readers.found import Arrays, Found, Part
from fednode.yamlfile import nearest

TEN = tuple("0123456789")


@dataclass(frozen=True)
class Known:
    """How a data set is read: the argument that chooses the part, where the labels are, and the names of its classes.

    Names are None where the data set has better ones of its own.
    """

    part: str
    labels: str
    names: tuple[str, ...] | None


KNOWN = {
    "MNIST": Known("train", "targets", TEN),
    "FashionMNIST": Known("train", "targets", None),
    "KMNIST": Known("train", "targets", None),
    "QMNIST": Known("train", "targets", TEN),
    "USPS": Known("train", "targets", TEN),
    "SVHN": Known("split", "labels", TEN),
    "STL10": Known("split", "labels", None),
}
PICKLED = ("CIFAR10", "CIFAR100")


def find(rest: str, part: Part, labels: Sequence[str] | None) -> Iterator[Found]:
    """The classes of the data set NAME of `rest`, downloaded if it is not there yet. Raises DataError."""
    given, _, folder = rest.partition(":")
    name = _name(given)
    known = KNOWN[name]
    root = Path(folder).expanduser() if folder else cache("torchvision")
    _check_no_pickles(root / name / "processed")
    data = _load(name, root, known.part, part)
    images, targets = np.asarray(data.data), np.asarray(getattr(data, known.labels))
    if images.ndim == 4:
        images = images.transpose(0, 2, 3, 1)
    if targets.ndim == 2:  # QMNIST has the writer and more beside the label
        targets = targets[:, 0]
    return Arrays(images, targets).by_class(known.names or data.classes, f"{part}_images")


def _name(given: str) -> str:
    """The name as torchvision spells it."""
    spelled = {name.lower(): name for name in (*KNOWN, *PICKLED)}
    if given.lower() not in spelled:
        raise DataError(f"torchvision:{given}: {nearest(given, KNOWN, 'data set')}")
    name = spelled[given.lower()]
    if name in PICKLED:
        raise DataError(
            f"{name} comes as pickles, which are never loaded.", "Bring it as npz:PATH or folder:PATH (docs/data.md)."
        )
    return name


def _check_no_pickles(folder: Path) -> None:
    """Old versions of torchvision kept the MNIST family as pickles, and newer ones go on loading them if they are there."""
    if folder.exists():
        raise DataError(f"{folder} is of an old torchvision and holds pickles, which are never loaded.", "Remove it.")


def _load(name: str, root: Path, argument: str, part: Part) -> Any:
    """The data set, from the files in `root`, which are downloaded if they are missing or broken. Raises DataError."""
    from torchvision import datasets  # noqa: PLC0415  (only this source needs it)

    kind = getattr(datasets, name)
    options = {argument: part is Part.TRAIN if argument == "train" else str(part)}
    try:
        return kind(root, **options)
    except (OSError, RuntimeError, EOFError, ValueError, AssertionError):
        with arriving(f"torchvision:{name}", root) as folder:
            kind(folder, download=True, **options)
    try:
        return kind(root, **options)
    except (OSError, RuntimeError, EOFError, ValueError, AssertionError) as error:
        raise DataError(f"The files of {name} in {root} can't be read: {error}.", "Remove them.") from None
