"""The kinds of data a node can have: scikit-learn's digits, a folder for each label, and MedMNIST's npz layout.

Rule 1: names of folders and classes are brought to the contract's spelling; one that the contract lacks is an error, unless
        the labels to keep leave it out.
Rule 2: an image that can't be read is an error that names it, or is skipped and counted when asked for.
Rule 3: nothing in a file is ever executed: no pickles, no allow_pickle.
"""

import difflib
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from fednode.contract import ImageShape, label_name
from fednode.errors import DataError
from fednode.learning.images import BadImageError, Pixels, decode, resize

KINDS = "digits, digits:SEED, folder:PATH or npz:PATH"
Decode = Callable[[], Pixels]
Array = npt.NDArray[Any]
Kind = Literal["digits", "folder", "npz"]


class Part(StrEnum):
    """Which part of a source: a folder has no parts, so all its images are in both."""

    TRAIN = "train"
    TEST = "test"


@dataclass(frozen=True)
class BadImage:
    """An image that was skipped: its name within the source, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class RawImages:
    """Images as they come, uint8 (C, H, W) in lists by label, and those that were skipped."""

    images: dict[str, list[Pixels]]
    bad: tuple[BadImage, ...]


@dataclass(frozen=True)
class Found:
    """What a source has of one of its classes: for each image a name and a way to read it."""

    name: str
    entries: list[tuple[str, Decode]] = field(default_factory=list)


def read(
    source: str,
    part: Part,
    image: ImageShape,
    labels: Sequence[str],
    keep: Sequence[str] | None,
    skip_bad: bool,
) -> RawImages:
    """The images of one part of a source, resized to the contract's shape; raises DataError."""
    images: dict[str, list[Pixels]] = {}
    bad: list[BadImage] = []
    for found in _find(source, part, image, labels):
        label = label_name(found.name)
        if keep is not None and label not in keep:
            continue
        _check_label(found.name, label, labels, source)
        good, unreadable = _decode_all(found, source, skip_bad)
        images.setdefault(label, []).extend(good)
        bad.extend(unreadable)
    _check_images(images, keep, labels, source)
    return RawImages(images, tuple(bad))


def _find(source: str, part: Part, image: ImageShape, labels: Sequence[str]) -> Iterator[Found]:
    kind, path = kind_of(source)
    if kind == "digits":
        return _digits(_seed(source.partition(":")[2]), part, image)
    return _folder(path, image) if kind == "folder" else _npz(path, part, image, labels)


def kind_of(source: str) -> tuple[Kind, Path]:
    """The kind of data, and the path after it (of no meaning for digits). Raises DataError if there is no such kind."""
    kind, _, rest = source.partition(":")
    if kind == "digits" or (kind in ("folder", "npz") and rest):
        return cast(Kind, kind), Path(rest).expanduser()
    raise DataError(f"{source!r} is not a kind of data.", f"Use {KINDS}.")


def _check_label(name: str, label: str, labels: Sequence[str], source: str) -> None:
    if label in labels:
        return
    near = difflib.get_close_matches(label, labels, n=1, cutoff=0.0)[0]
    raise DataError(
        f"{name!r} in {source} is not a label of the contract; the nearest is {near!r}.",
        "Rename it, or name the labels to keep.",
    )


def _check_images(
    images: dict[str, list[Pixels]], keep: Sequence[str] | None, labels: Sequence[str], source: str
) -> None:
    for label in keep or ():
        if label not in labels:
            near = difflib.get_close_matches(label, labels, n=1, cutoff=0.0)[0]
            raise DataError(f"{label!r} is not a label of the contract; the nearest is {near!r}.")
        images.setdefault(label, [])
    empty = [label for label in labels if images.get(label) == []]
    if empty:
        raise DataError(f"Label {empty[0]!r} has no images in {source}.", "Add images, or leave the label out.")
    if not images:
        raise DataError(f"{source} has no images.", f"Data are {KINDS}.")


def _decode_all(found: Found, source: str, skip_bad: bool) -> tuple[list[Pixels], list[BadImage]]:
    good, bad = [], []
    for name, decode_one in found.entries:
        try:
            good.append(decode_one())
        except BadImageError as error:
            if not skip_bad:
                raise DataError(
                    f"{name} in {source} can't be used: {error}.", "Repair or remove it, or use --skip-bad."
                ) from None
            bad.append(BadImage(name, str(error)))
    return good, bad


# --- digits -----------------------------------------------------------------------------------------------------------


def _seed(text: str) -> int:
    if not text:
        return 0
    if not (text.isascii() and text.isdigit() and int(text) < 2**32):
        raise DataError(f"{text!r} is not a seed for digits.", "Use digits or digits:SEED, 0 to 4294967295.")
    return int(text)


def _digits(seed: int, part: Part, image: ImageShape) -> Iterator[Found]:
    """1,797 grey 8x8 images of 0 to 9, split 75/25, stratified; values 0..16 become 0..255."""
    from sklearn.datasets import load_digits  # noqa: PLC0415  (a second to import, and only this source needs it)
    from sklearn.model_selection import train_test_split  # noqa: PLC0415

    values, targets = load_digits(return_X_y=True)
    pixels = np.round(values.reshape(-1, 8, 8) * (255 / 16)).astype(np.uint8)
    split = train_test_split(pixels, targets, test_size=0.25, stratify=targets, random_state=seed)
    images, labels = (split[0], split[2]) if part is Part.TRAIN else (split[1], split[3])
    for digit in range(10):
        members = np.flatnonzero(labels == digit)
        yield Found(str(digit), [(f"digit {i}", partial(resize, images[i], image)) for i in members])


# --- folder -----------------------------------------------------------------------------------------------------------


def _folder(root: Path, image: ImageShape) -> Iterator[Found]:
    for folder, paths in label_folders(root):
        yield Found(folder.name, [(str(path.relative_to(root)), partial(_file, path, image)) for path in paths])


def label_folders(root: Path) -> Iterator[tuple[Path, list[Path]]]:
    """Each subfolder with what is in it, by name; names that start with a dot are left out. Raises DataError."""
    if not root.is_dir():
        raise DataError(f"{root} is not a folder.", "It holds one subfolder for each label.")
    try:
        folders = [path for path in _visible(root) if path.is_dir()]
        if not folders:
            raise DataError(f"{root} has no subfolders.", "It holds one subfolder for each label.")
        for folder in folders:
            yield folder, _visible(folder)
    except OSError as error:
        raise DataError(f"{root} can't be read: {error.strerror or error}.") from None


def _visible(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def _file(path: Path, image: ImageShape) -> Pixels:
    if path.is_dir():
        raise BadImageError("it is a folder, not an image")
    try:
        return decode(path.read_bytes(), image)
    except OSError as error:
        raise BadImageError(f"it can't be read ({error.strerror or error})") from None


# --- npz --------------------------------------------------------------------------------------------------------------


def _npz(path: Path, part: Part, image: ImageShape, labels: Sequence[str]) -> Iterator[Found]:
    """MedMNIST: {train,test}_images uint8 (N, H, W[, 3]), {train,test}_labels (N,) or (N, 1), perhaps class_names."""
    images, targets, names = npz_arrays(path, part)
    classes = [str(name) for name in names] if names is not None else list(labels)
    _check_npz(path, part, images, targets, len(classes))
    for index, name in enumerate(classes):
        members = np.flatnonzero(targets.reshape(-1) == index)
        if len(members):
            yield Found(name, [(f"{part}_images[{i}]", partial(resize, images[i], image)) for i in members])


def npz_arrays(path: Path, part: Part) -> tuple[Array, Array, Array | None]:
    """Images, labels and class names (or None) of a part, as they are in the file. Raises DataError."""
    try:
        archive = np.load(path, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise DataError(f"{path} is one array, not an npz archive.", "Data are in MedMNIST's npz layout.")
        with archive:
            missing = [key for key in (f"{part}_images", f"{part}_labels") if key not in archive]
            if missing:
                raise DataError(f"{path} has no array {missing[0]!r}.", "Data are in MedMNIST's npz layout.")
            names = archive["class_names"].reshape(-1) if "class_names" in archive else None
            return archive[f"{part}_images"], archive[f"{part}_labels"], names
    except FileNotFoundError:
        raise DataError(f"{path} is not there.", "Check the path after npz:.") from None
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise DataError(f"{path} can't be read as npz: {reason}", "Pickled arrays are never loaded.") from None


def _check_npz(path: Path, part: Part, images: Array, targets: Array, classes: int) -> None:
    if images.dtype != np.uint8 or not (images.ndim == 3 or (images.ndim == 4 and images.shape[-1] in (1, 3))):
        raise DataError(
            f"{part}_images of {path} are {images.dtype} {images.shape}; uint8 (N, H, W) or (N, H, W, 3) is expected."
        )
    if targets.shape not in ((len(images),), (len(images), 1)) or targets.dtype.kind not in "iu":
        raise DataError(
            f"{part}_labels of {path} are {targets.dtype} {targets.shape}; one integer for each of {len(images)} images"
            " is expected.",
            "Multi-label data can't be used.",
        )
    if len(targets) and not 0 <= int(targets.min()) <= int(targets.max()) < classes:
        raise DataError(
            f"{part}_labels of {path} go from {targets.min()} to {targets.max()}, and there are {classes} classes."
        )
