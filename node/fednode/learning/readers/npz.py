"""MedMNIST's layout: one npz with arrays for each part.

`{train,test}_images` uint8 (N, H, W), (N, H, W, 1) or (N, H, W, 3), `{train,test}_labels` integers (N,) or (N, 1), and perhaps
`class_names` and `{train,test}_patients`, texts or integers (N,) or (N, 1), an empty text for one that is not known.

Rule 1: pickled arrays are never loaded.
Rule 2: no patient is in both parts.
"""

import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fednode.contract import MAX_LABELS
from fednode.errors import DataError
from fednode.learning.readers.found import Arrays, Found, Part

LAYOUT = "Data are in MedMNIST's npz layout."

Values = npt.NDArray[Any]
Patients = list[str | None]


def find(rest: str, part: Part, labels: Sequence[str] | None) -> Iterator[Found]:
    """The classes of the file `rest`: those that it names, else `labels`, else numbers. Raises DataError."""
    yield from find_in(Path(rest).expanduser(), part, labels)


def find_in(path: Path, part: Part, names: Sequence[str] | None) -> Iterator[Found]:
    """The same; nothing if the file has no test part."""
    contents = _contents(path, part)
    if f"{part}_images" not in contents:
        return iter(())
    arrays = Arrays(contents[f"{part}_images"], _targets(contents[f"{part}_labels"]), _patients(path, part, contents))
    return arrays.by_class(_classes(path, part, arrays, contents, names), f"{part}_images")


def _contents(path: Path, part: Part) -> dict[str, Values]:
    """The arrays that concern the part. Raises DataError."""
    try:
        archive = np.load(path, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise DataError(f"{path} is one array, not an npz archive.", LAYOUT)
        with archive:
            _check_keys(path, part, archive.files)
            keys = ("class_names", f"{part}_images", f"{part}_labels", *(f"{each}_patients" for each in Part))
            contents = {key: archive[key] for key in keys if key in archive}
    except FileNotFoundError:
        raise DataError(f"{path} is not there.", "Check the path after npz:.") from None
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise DataError(f"{path} can't be read as npz: {reason}", "Pickled arrays are never loaded.") from None
    if f"{part}_images" in contents:
        _check_arrays(path, part, contents[f"{part}_images"], contents[f"{part}_labels"])
    return contents


def _check_keys(path: Path, part: Part, keys: Sequence[str]) -> None:
    needed = (f"{part}_images", f"{part}_labels")
    missing = [key for key in needed if key not in keys]
    if missing and (part is Part.TRAIN or len(missing) < len(needed)):
        raise DataError(f"{path} has no array {missing[0]!r}.", LAYOUT)


def _check_arrays(path: Path, part: Part, images: Values, targets: Values) -> None:
    if images.dtype != np.uint8 or not (images.ndim == 3 or (images.ndim == 4 and images.shape[-1] in (1, 3))):
        raise DataError(
            f"{part}_images of {path} are {images.dtype} {images.shape}; uint8 (N, H, W) or (N, H, W, 3) is expected."
        )
    if not _one_each(targets, images) or targets.dtype.kind not in "iu":
        raise DataError(
            f"{part}_labels of {path} are {targets.dtype} {targets.shape}; one integer for each of {len(images)} images"
            " is expected.",
            "Multi-label data can't be used.",
        )


def _one_each(values: Values, images: Values) -> bool:
    return values.shape in ((len(images),), (len(images), 1))


def _targets(values: Values) -> npt.NDArray[np.int64]:
    return values.reshape(-1).astype(np.int64)


def _classes(
    path: Path, part: Part, arrays: Arrays, contents: Mapping[str, Values], names: Sequence[str] | None
) -> list[str]:
    targets = arrays.targets
    lowest, highest = (int(targets.min()), int(targets.max())) if len(targets) else (0, -1)
    if highest >= MAX_LABELS:
        raise DataError(
            f"{part}_labels of {path} go up to {highest}, and at most {MAX_LABELS} labels can be told apart."
        )
    if "class_names" in contents:
        classes = [str(name) for name in contents["class_names"].reshape(-1)]
    else:
        classes = list(names) if names is not None else [str(index) for index in range(highest + 1)]
    if lowest < 0 or highest >= len(classes):
        raise DataError(f"{part}_labels of {path} go from {lowest} to {highest}, and there are {len(classes)} classes.")
    return classes


def _patients(path: Path, part: Part, contents: Mapping[str, Values]) -> Patients | None:
    """The patient of each image of the part. Raises DataError if one is in both parts, or if they are not one for each image."""
    named = {each: _names(contents[f"{each}_patients"]) for each in Part if f"{each}_patients" in contents}
    if part not in named:
        return None
    values, images = contents[f"{part}_patients"], contents[f"{part}_images"]
    if not _one_each(values, images) or values.dtype.kind not in "iuUS":
        raise DataError(
            f"{part}_patients of {path} are {values.dtype} {values.shape}; one text or integer for each of"
            f" {len(images)} images is expected."
        )
    both = set.intersection(*map(set, named.values())) - {None} if len(named) > 1 else set()
    if both:
        raise DataError(f"{len(both)} patients of {path} are in both parts, train and test.", "Leave them in one.")
    return named[part]


def _names(values: Values) -> Patients:
    texts = np.char.decode(values, "utf-8", "replace") if values.dtype.kind == "S" else values
    return [str(value) or None for value in texts.reshape(-1)]
