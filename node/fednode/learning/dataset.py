"""A node's own images: label by label, split into training and held-out parts, with a digest for each label.

Rule 1: a label's images are a set, named and ordered by the SHA-256 of their resized pixels. Which of them are held out is
        the business of `split`.
Rule 2: a digest is over the names of the training and held-out images of one label, and over nothing else. A patient's id
        enters no digest: only which images are held out for its sake does.
"""

import hashlib
from collections.abc import Sequence, Set
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fednode.contract import ImageShape, Label, Value
from fednode.learning.images import Pixels
from fednode.learning.readers.found import Part
from fednode.learning.sources import BadImage, RawImage, RawImages, read
from fednode.learning.split import SHARE, Patients, held_out

DIGEST_DOMAIN = b"fednode/images/v1\0"
PATIENTS_DOMAIN = b"fednode/images-by-patient/v1\0"


class DataSettings(Value):
    """Where the images are (see `source.KINDS`), and which labels of them to keep (all: None)."""

    source: str
    labels: tuple[Label, ...] | None = None
    skip_bad: bool = False


@dataclass(frozen=True)
class LabelImages:
    """One label's images, uint8 (N, C, H, W), each part in the order of content hashes, and their digest (hex).

    `patients` is how many there are, None if the source names none.
    """

    label: str
    train: Pixels
    holdout: Pixels
    digest: str
    patients: int | None = None


@dataclass(frozen=True)
class Dataset:
    """All labels that have images, in the contract's order, and the images that were skipped."""

    labels: dict[str, LabelImages]
    bad: tuple[BadImage, ...]


@dataclass(frozen=True)
class Evaluated:
    """Images to evaluate on: uint8 (N, C, H, W), and for each the index of its label in the contract, int64 (N,)."""

    images: Pixels
    targets: npt.NDArray[np.int64]


@dataclass(frozen=True)
class _Named:
    """A label's images by their names, and the patients that each is of."""

    pixels: dict[bytes, Pixels]
    patients: dict[bytes, Patients]


def load(settings: DataSettings, image: ImageShape, labels: Sequence[str]) -> Dataset:
    """The training and held-out images of a source; raises DataError naming what is wrong."""
    raw = read(settings.source, Part.TRAIN, image, labels, settings.labels, settings.skip_bad)
    named = {label: _named(raw.images[label]) for label in _present(raw, labels)}
    held = held_out({label: own.patients for label, own in named.items()})
    return Dataset({label: _label_images(label, own, held[label]) for label, own in named.items()}, raw.bad)


def load_test(settings: DataSettings, image: ImageShape, labels: Sequence[str]) -> Evaluated:
    """The test part of a source (copies of an image count as often as they are there); raises DataError."""
    raw = read(settings.source, Part.TEST, image, labels, settings.labels, settings.skip_bad)
    present = _present(raw, labels)
    stacks = [np.stack([one.pixels for one in raw.images[label]]) for label in present]
    counts = [len(stack) for stack in stacks]
    return Evaluated(np.concatenate(stacks), np.repeat([list(labels).index(label) for label in present], counts))


def _present(raw: RawImages, labels: Sequence[str]) -> list[str]:
    return [label for label in labels if raw.images.get(label)]


def _named(images: Sequence[RawImage]) -> _Named:
    found = _Named({}, {})
    for one in images:
        name = hashlib.sha256(one.pixels.tobytes()).digest()
        found.pixels[name] = one.pixels
        known = found.patients.get(name, frozenset())
        found.patients[name] = known if one.patient is None else known | {one.patient}
    return found


def _label_images(label: str, own: _Named, held: Set[bytes]) -> LabelImages:
    names = sorted(own.pixels)
    parts = [name for name in names if name not in held], [name for name in names if name in held]
    patients = frozenset[str]().union(*own.patients.values())
    train, holdout = (_stack(own, part) for part in parts)
    return LabelImages(label, train, holdout, _digest(*parts), len(patients) or None)


def _stack(own: _Named, names: Sequence[bytes]) -> Pixels:
    shape = next(iter(own.pixels.values())).shape
    return np.array([own.pixels[name] for name in names], np.uint8).reshape(-1, *shape)


def _digest(train: Sequence[bytes], holdout: Sequence[bytes]) -> str:
    """Names alone say which are held out if those are the first eighth; else the two parts are told apart."""
    names = sorted((*train, *holdout))
    if list(holdout) == names[: len(names) // SHARE]:
        return hashlib.sha256(DIGEST_DOMAIN + b"".join(names)).hexdigest()
    head = PATIENTS_DOMAIN + len(holdout).to_bytes(8)
    return hashlib.sha256(head + b"".join((*holdout, *train))).hexdigest()
