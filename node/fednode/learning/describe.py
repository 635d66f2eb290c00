"""What a source has, before there is a contract: its labels, the shape in which its images are best used, and counts."""

from collections.abc import Iterator
from dataclasses import dataclass

from fednode.contract import ImageShape, label_name
from fednode.errors import DataError
from fednode.learning.dataset import DataSettings, load
from fednode.learning.images import BadImageError, Look
from fednode.learning.readers.found import Entry, Found, Part
from fednode.learning.sources import BadImage, find, gather

LARGEST_SIZE = 32  # what two CPU cores fit in minutes
SMALLEST_SIZE = 4


@dataclass(frozen=True)
class Counts:
    """Distinct training and held-out images of a label, its test images, and its patients (None: not known)."""

    label: str
    images: int
    holdout: int
    test: int
    patients: int | None


@dataclass(frozen=True)
class Description:
    """Labels in the contract's spelling and the source's order, an image shape, counts of labels with images, and bad images."""

    labels: list[str]
    image: ImageShape
    counts: list[Counts]
    bad: list[BadImage]


def describe(source: str) -> Description:
    """What a node whose own images these are would find. Raises DataError.

    Colour is kept if any label has it, and sizes are at most 32 px. Images that can't be read are skipped.
    """
    found = list(find(source, Part.TRAIN, None))
    labels = list(dict.fromkeys(_label(one.name) for one in found))
    image = _shape(source, found)
    data = load(DataSettings(source=source, skip_bad=True), image, labels)
    test = gather(source, Part.TEST, image, labels, None, skip_bad=True)
    counts = [
        Counts(own.label, len(own.train), len(own.holdout), len(test.images.get(own.label, ())), own.patients)
        for own in data.labels.values()
    ]
    return Description(labels, image, counts, list(dict.fromkeys((*data.bad, *test.bad))))


def _label(name: str) -> str:
    label = label_name(name)
    if not label:
        raise DataError(f"{name!r} can't be a label: it has none of a to z and 0 to 9.", "Rename it.")
    return label


def _shape(source: str, found: list[Found]) -> ImageShape:
    looks = list(_looks(source, found))
    if not looks:
        raise DataError(f"{source} has no training images.")
    size = max(SMALLEST_SIZE, min(LARGEST_SIZE, *(one.side for one in looks)))
    return ImageShape(size=size, channels=max(one.channels for one in looks))


def _looks(source: str, found: list[Found]) -> Iterator[Look]:
    """The look of an image of each class that has any."""
    for one in found:
        if one.entries or not one.declared:
            yield _first_look(f"{one.name!r} in {source}", one.entries)


def _first_look(name: str, entries: list[Entry]) -> Look:
    for entry in entries:
        try:
            return entry.picture.look()
        except BadImageError:
            continue
    raise DataError(f"{name} has no image that can be read.", "Add images, or take it away.")
