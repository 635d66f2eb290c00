"""A node's own images: label by label, split into training and held-out parts, with a digest for each label.

Rule 1: a label's images are a set. They are named by the SHA-256 of their resized pixels and ordered by it, so that neither
        file names, nor order on disk, nor copies of an image change a digest or a model.
Rule 2: the held-out part is the first eighth of that order, so that taking one image away moves at most one other image.
Rule 3: a digest is over the names of the training and held-out images of one label, and over nothing else.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fednode.contract import ImageShape, Label, Value
from fednode.learning.images import Pixels
from fednode.learning.sources import BadImage, Part, RawImages, read

HOLDOUT_SHARE = 8
DIGEST_DOMAIN = b"fednode/images/v1\0"


class DataSettings(Value):
    """Where the images are (`digits[:SEED]`, `folder:PATH`, `npz:PATH`), and which labels of them to keep (all: None)."""

    source: str
    labels: tuple[Label, ...] | None = None
    skip_bad: bool = False


@dataclass(frozen=True)
class LabelImages:
    """One label's images, uint8 (N, C, H, W), each part in the order of content hashes, and their digest (hex)."""

    label: str
    train: Pixels
    holdout: Pixels
    digest: str


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


def load(settings: DataSettings, image: ImageShape, labels: Sequence[str]) -> Dataset:
    """The training and held-out images of a source; raises DataError naming what is wrong."""
    raw = read(settings.source, Part.TRAIN, image, labels, settings.labels, settings.skip_bad)
    return Dataset({label: _split(label, raw.images[label]) for label in _present(raw, labels)}, raw.bad)


def load_test(settings: DataSettings, image: ImageShape, labels: Sequence[str]) -> Evaluated:
    """The test part of a source (copies of an image count as often as they are there); raises DataError."""
    raw = read(settings.source, Part.TEST, image, labels, settings.labels, settings.skip_bad)
    present = _present(raw, labels)
    stacks = [np.stack(raw.images[label]) for label in present]
    counts = [len(stack) for stack in stacks]
    return Evaluated(np.concatenate(stacks), np.repeat([list(labels).index(label) for label in present], counts))


def _present(raw: RawImages, labels: Sequence[str]) -> list[str]:
    return [label for label in labels if raw.images.get(label)]


def _split(label: str, images: Sequence[Pixels]) -> LabelImages:
    by_hash = {hashlib.sha256(pixels.tobytes()).digest(): pixels for pixels in images}
    names = sorted(by_hash)
    ordered = np.stack([by_hash[name] for name in names])
    held = len(names) // HOLDOUT_SHARE
    digest = hashlib.sha256(DIGEST_DOMAIN + b"".join(names)).hexdigest()
    return LabelImages(label, ordered[held:], ordered[:held], digest)
