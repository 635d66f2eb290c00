"""One draw: training images shared out among nodes, each node's as a file that workers read, and images to measure on.

Rule 1: every seed is a draw of its own: other training images, another partition, and so other generators. Digits are split
        anew by the seed; a source with one fixed test part gives each seed its own random share of the training part.
Rule 2: validation images are those that the nodes hold out of their own training, the eighth that neither generators nor experts
        learn from; test images choose nothing.
Rule 3: copies of a training image within a label are one image, so that no copy of one is held out.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

import numpy as np
import numpy.typing as npt
from partitions import partition

from comparison.shelf import Shelf
from fednode.contract import ImageShape
from fednode.errors import DataError
from fednode.learning import dataset
from fednode.learning.dataset import DataSettings, Evaluated, LabelImages
from fednode.learning.describe import describe

LEFT_OUT_SHARE = 20
TEST_SHARE = 5


@dataclass(frozen=True)
class Task:
    """What is compared on: a source, its labels in order and the images' shape.

    `per_label`: at most so many training images of a label in each draw; `test_images`: at most so many test images.
    """

    source: str
    labels: tuple[str, ...]
    image: ImageShape
    per_label: int | None = None
    test_images: int | None = None


@dataclass(frozen=True)
class Cut:
    """Which draw: its seed, and with `folds` which of them (from 0) is the test part."""

    seed: int
    fold: int = 0
    folds: int = 0

    @property
    def name(self) -> str:
        """How results call it."""
        return f"{self.seed}.{self.fold}" if self.folds else str(self.seed)


@dataclass(frozen=True)
class Node:
    """A node's images by label, in a file that a worker reads as `source`."""

    source: str
    own: dict[str, LabelImages]


@dataclass(frozen=True)
class Draw:
    """The nodes, what is measured on, what chooses, and a digest of all pixels and owners."""

    name: str
    nodes: tuple[Node, ...]
    test: Evaluated
    validation: Evaluated
    digest: str


def open_task(
    source: str, labels: Sequence[str] | None, size: int | None, per_label: int | None, test_images: int | None
) -> Task:
    """The task of a source, cut down to `labels` and resized to `size` if given. Raises DataError."""
    found = describe((_subfolders(source) or (source,))[0])
    if unknown := sorted(set(labels or ()) - set(found.labels)):
        raise DataError(f"{source} has no label {unknown[0]!r}.", f"It has {', '.join(found.labels)}.")
    kept = tuple(label for label in found.labels if labels is None or label in labels)
    if len(kept) < 2:
        raise DataError("A comparison needs 2 labels or more.")
    shape = ImageShape(size=size or found.image.size, channels=found.image.channels)
    return Task(source, kept, shape, per_label, test_images)


def draw(task: Task, name: str, nodes: int | None, cut: Cut, shelf: Shelf) -> Draw:
    """The draw of one seed or fold under the partition `name`; node files are kept on the shelf. Raises DataError."""
    train, test = _parts(task, cut)
    train = _thinned(train, task, cut)
    test = _sampled(test, task.test_images, cut.seed)
    owners = partition(name, train.targets, len(task.labels), nodes, cut.seed)
    digest = _digest(train, test, owners)
    folder = _write_nodes(task, train, owners, shelf.root / "shards", digest)
    found = tuple(_node(folder / f"{number}.npz", task) for number in range(len(owners)))
    return Draw(cut.name, found, test, _validation(found, task), digest)


def _parts(task: Task, cut: Cut) -> tuple[Evaluated, Evaluated]:
    """All training and all test images of a draw, before its share is taken."""
    if cut.folds:
        if _is_divided(task.source):
            raise DataError(
                "Folds are for sources without a test part of their own.", "Use digits, or leave out --folds."
            )
        return _fold(_whole(task), cut)
    if _is_digits(task.source):
        source = f"digits:{cut.seed}"
        return _train(source, task), _test(source, task)
    if _is_divided(task.source):
        train, test = _subfolders(task.source) or (task.source, task.source)
        return _train(train, task), _test(test, task)
    return _fold(_whole(task), Cut(cut.seed, 0, TEST_SHARE))


def _is_digits(source: str) -> bool:
    return source.partition(":")[0] == "digits"


def _is_divided(source: str) -> bool:
    """Whether the source comes with a test part of its own."""
    return not _is_digits(source) and (not source.startswith("folder:") or _subfolders(source) is not None)


def _subfolders(source: str) -> tuple[str, str] | None:
    """The subfolders `train` and `test` of a folder that has both."""
    kind, _, path = source.partition(":")
    parts = [Path(path).expanduser() / part for part in ("train", "test")]
    divided = kind == "folder" and all(part.is_dir() for part in parts)
    return (f"folder:{parts[0]}", f"folder:{parts[1]}") if divided else None


def _whole(task: Task) -> Evaluated:
    """All images of a source without a test part of its own."""
    if not _is_digits(task.source):
        return _train(task.source, task)
    both = _train("digits:0", task), _test("digits:0", task)
    return Evaluated(np.concatenate([one.images for one in both]), np.concatenate([one.targets for one in both]))


def _fold(whole: Evaluated, cut: Cut) -> tuple[Evaluated, Evaluated]:
    """Training and test part: label by label in the seed's random order, every `folds`-th image from `fold` on is tested."""
    rng = np.random.default_rng([cut.seed, 0xF01D])
    test = np.zeros(len(whole.targets), dtype=bool)
    start = 0
    for label in np.unique(whole.targets):
        members = rng.permutation(np.flatnonzero(whole.targets == label))
        test[members[(np.arange(len(members)) + start) % cut.folds == cut.fold]] = True
        start += len(members)
    return _chosen(whole, np.flatnonzero(~test)), _chosen(whole, np.flatnonzero(test))


def _train(source: str, task: Task) -> Evaluated:
    """The distinct training images of a source, label by label, in an order that follows from their pixels."""
    found = dataset.load(DataSettings(source=source, labels=task.labels), task.image, task.labels).labels
    stacks = [np.concatenate([found[label].holdout, found[label].train]) for label in task.labels]
    return Evaluated(np.concatenate(stacks), np.repeat(np.arange(len(stacks)), [len(stack) for stack in stacks]))


def _test(source: str, task: Task) -> Evaluated:
    """The test images of a source; a folder of test images is read as such."""
    if source.startswith("folder:"):
        return _train(source, task)
    return dataset.load_test(DataSettings(source=source, labels=task.labels), task.image, task.labels)


def _thinned(train: Evaluated, task: Task, cut: Cut) -> Evaluated:
    """The draw's random share of each label, by Rule 1."""
    rng = np.random.default_rng([cut.seed, 0x7419])
    kept = []
    for label in range(len(task.labels)):
        members = np.flatnonzero(train.targets == label)
        fixed = _is_divided(task.source) and not cut.folds
        amount = len(members) - len(members) // LEFT_OUT_SHARE if fixed else len(members)
        amount = min(task.per_label, len(members)) if task.per_label else amount
        kept.append(np.sort(rng.permutation(members)[:amount]))
    return _chosen(train, np.concatenate(kept))


def _sampled(test: Evaluated, most: int | None, seed: int) -> Evaluated:
    """At most `most` test images, drawn by the seed."""
    if most is None or len(test.targets) <= most:
        return test
    return _chosen(test, np.sort(np.random.default_rng([seed, 0x7E57]).permutation(len(test.targets))[:most]))


def _chosen(images: Evaluated, rows: npt.NDArray[np.int64]) -> Evaluated:
    return Evaluated(images.images[rows], images.targets[rows])


def _digest(train: Evaluated, test: Evaluated, owners: Sequence[npt.NDArray[np.int64]]) -> str:
    sha = hashlib.sha256()
    arrays: list[npt.NDArray[Any]] = [train.images, train.targets, test.images, test.targets, *owners]
    for array in arrays:
        sha.update(f"{array.dtype}{array.shape}".encode())
        sha.update(array.tobytes())
    return sha.hexdigest()


def _write_nodes(
    task: Task, train: Evaluated, owners: Sequence[npt.NDArray[np.int64]], root: Path, digest: str
) -> Path:
    """The folder with an npz file for each node; written aside and renamed, so that it is whole if it is there."""
    folder = root / digest
    if folder.is_dir():
        return folder
    aside = Path(mkdtemp(dir=root))
    for number, rows in enumerate(owners):
        pixels = train.images[rows]
        images = pixels[:, 0] if task.image.channels == 1 else pixels.transpose(0, 2, 3, 1)
        with (aside / f"{number}.npz").open("wb") as stream:
            np.savez(stream, train_images=images, train_labels=train.targets[rows], class_names=np.array(task.labels))
    try:
        aside.replace(folder)
    except OSError:  # another process was faster; its files are the same
        rmtree(aside)
        if not folder.is_dir():
            raise
    return folder


def _node(path: Path, task: Task) -> Node:
    source = f"npz:{path}"
    return Node(source, dataset.load(DataSettings(source=source), task.image, task.labels).labels)


def _validation(nodes: Sequence[Node], task: Task) -> Evaluated:
    """The held-out images of all nodes."""
    held = [(label, own.holdout) for node in nodes for label, own in node.own.items() if len(own.holdout)]
    empty = np.zeros((0, task.image.channels, task.image.size, task.image.size), dtype=np.uint8)
    targets = [task.labels.index(label) for label, images in held for _ in images]
    return Evaluated(np.concatenate([empty, *(images for _, images in held)]), np.array(targets, dtype=np.int64))
