"""The images of a source, label by label, whatever kind of source it is; how each kind is read is in `readers`.

Rule 1: names of folders and classes are brought to the contract's spelling; one that the contract lacks is an error, unless
        the labels to keep leave it out.
Rule 2: an image that can't be read is an error that names it, or is skipped and counted when asked for.
Rule 3: nothing in a file is ever executed: no pickles, no allow_pickle.
"""

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fednode.contract import ImageShape, label_name, spelling
from fednode.errors import DataError
from fednode.learning.images import BadImageError, Pixels
from fednode.learning.readers import digits, folder, medmnist_sets, npz, table, torchvision_sets
from fednode.learning.readers.found import Found, Part, Reader
from fednode.source import KINDS

READERS: dict[str, Reader] = {
    "digits": digits.find,
    "folder": folder.find,
    "npz": npz.find,
    "csv": table.find,
    "torchvision": torchvision_sets.find,
    "medmnist": medmnist_sets.find,
}
SHOWN_LABELS = 12
NO_TEST_PART = (
    "Test images are rows of a CSV whose `split` is test, or the arrays test_images and test_labels of an npz."
)


@dataclass(frozen=True)
class BadImage:
    """An image that was skipped: its name within the source, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class RawImage:
    """The pixels of an image, uint8 (C, H, W), and the patient it is of (None: not known)."""

    pixels: Pixels
    patient: str | None


@dataclass(frozen=True)
class RawImages:
    """Images as they come, in lists by label, and those that were skipped."""

    images: dict[str, list[RawImage]]
    bad: tuple[BadImage, ...]


def read(
    source: str,
    part: Part,
    image: ImageShape,
    labels: Sequence[str],
    keep: Sequence[str] | None,
    skip_bad: bool,
) -> RawImages:
    """The images of one part of a source, resized to the contract's shape; raises DataError, also if there are none."""
    raw = gather(source, part, image, labels, keep, skip_bad)
    _check_images(raw.images, keep, labels, source, part)
    return raw


def gather(
    source: str,
    part: Part,
    image: ImageShape,
    labels: Sequence[str],
    keep: Sequence[str] | None,
    skip_bad: bool,
) -> RawImages:
    """The same, and a part without images is no error."""
    images: dict[str, list[RawImage]] = {}
    names: dict[str, str] = {}
    bad: list[BadImage] = []
    for found in find(source, part, labels):
        label = label_name(found.name)
        if (keep is not None and label not in keep) or (found.declared and not found.entries):
            continue
        _check_label(found.name, label, labels, source)
        _check_cut(names.setdefault(label, found.name), found.name)
        good, unreadable = _decode_all(found, source, image, skip_bad)
        images.setdefault(label, []).extend(good)
        bad.extend(unreadable)
    return RawImages(images, tuple(bad))


def find(source: str, part: Part, labels: Sequence[str] | None) -> Iterator[Found]:
    """The classes of a source; those that it does not name are the `labels` in order. Raises DataError."""
    kind, _, rest = source.partition(":")
    if kind not in READERS or not (rest or kind == "digits"):
        raise DataError(f"{source!r} is not a kind of data.", f"Use {KINDS}.")
    return READERS[kind](rest, part, labels)


def _check_label(name: str, label: str, labels: Sequence[str], source: str) -> None:
    if label in labels:
        return
    raise DataError(
        f"{name!r} in {source} is not a label of the contract; {_alike(label, labels)}.",
        "Rename it, or name the labels to keep.",
    )


def _alike(label: str, labels: Sequence[str]) -> str:
    """The label that was meant, or else some of those that there are."""
    if near := difflib.get_close_matches(label, labels, n=1):
        return f"the nearest is {near[0]!r}"
    return f"it has {', '.join(labels[:SHOWN_LABELS])}{', ...' if len(labels) > SHOWN_LABELS else ''}"


def _check_cut(first: str, name: str) -> None:
    """Raises DataError if two names are one label only because long ones are cut."""
    if spelling(first) != spelling(name):
        raise DataError(f"{first!r} and {name!r} are both the label {label_name(name)!r}.", "Shorten one of them.")


def _check_images(
    images: dict[str, list[RawImage]], keep: Sequence[str] | None, labels: Sequence[str], source: str, part: Part
) -> None:
    if part is Part.TEST and not any(images.values()):
        raise DataError(f"{source} has no test images of these labels.", NO_TEST_PART)
    for label in keep or ():
        if label not in labels:
            raise DataError(f"{label!r} is not a label of the contract; {_alike(label, labels)}.")
        images.setdefault(label, [])
    empty = [label for label in labels if images.get(label) == []]
    if empty:
        raise DataError(f"Label {empty[0]!r} has no images in {source}.", "Add images, or leave the label out.")
    if not images:
        raise DataError(f"{source} has no training images.", f"Data are {KINDS}.")


def _decode_all(found: Found, source: str, image: ImageShape, skip_bad: bool) -> tuple[list[RawImage], list[BadImage]]:
    good, bad = [], []
    for entry in found.entries:
        try:
            good.append(RawImage(entry.picture.pixels(image), entry.patient))
        except BadImageError as error:
            if not skip_bad:
                raise DataError(
                    f"{entry.name} in {source} can't be used: {error}.", "Repair or remove it, or use --skip-bad."
                ) from None
            bad.append(BadImage(entry.name, str(error)))
    return good, bad
