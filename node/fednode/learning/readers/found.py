"""What a reader finds in a source: its classes, and for each image a name, a patient, and a way to its pixels."""

import re
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from fednode.contract import ImageShape
from fednode.learning.images import MAX_FILE_BYTES, BadImageError, Look, Pixels, decode, look, look_of, resize

Targets = npt.NDArray[Any]


class Part(StrEnum):
    """Which part of a source: a folder has no parts, so all its images are in both."""

    TRAIN = "train"
    TEST = "test"


class Picture(Protocol):
    """An image as a source has it. Both methods raise BadImageError."""

    def pixels(self, image: ImageShape) -> Pixels:
        """uint8 (C, H, W) in the contract's shape."""

    def look(self) -> Look:
        """The size and colour that it has of itself."""


@dataclass(frozen=True)
class File:
    """An image file."""

    path: Path

    def pixels(self, image: ImageShape) -> Pixels:
        """The decoded file."""
        return decode(self._bytes(), image)

    def look(self) -> Look:
        """What the file's header says."""
        return look(self._bytes())

    def _bytes(self) -> bytes:
        try:
            status = self.path.stat()
            if not stat.S_ISREG(status.st_mode):
                raise BadImageError("it is not a file" if not self.path.is_dir() else "it is a folder, not an image")
            if status.st_size > MAX_FILE_BYTES:
                raise BadImageError(f"the file has {status.st_size} bytes, more than {MAX_FILE_BYTES}")
            return self.path.read_bytes()
        except OSError as error:
            raise BadImageError(f"it can't be read ({error.strerror or error})") from None


@dataclass(frozen=True, eq=False)
class Array:
    """An image in memory, uint8 (H, W), (H, W, 1) or (H, W, 3)."""

    values: Pixels

    def pixels(self, image: ImageShape) -> Pixels:
        """The resized array."""
        return resize(self.values, image)

    def look(self) -> Look:
        """What the array's shape says."""
        return look_of(self.values)


@dataclass(frozen=True)
class Entry:
    """An image: its name within the source, its picture, and its patient (None: not known)."""

    name: str
    picture: Picture
    patient: str | None = None


@dataclass(frozen=True)
class Found:
    """A class of a source. One that is `declared` comes from a list of classes, and may have no images in this part."""

    name: str
    entries: list[Entry] = field(default_factory=list)
    declared: bool = False


Reader = Callable[[str, Part, Sequence[str] | None], Iterator[Found]]


@dataclass(frozen=True)
class Arrays:
    """Images uint8 (N, H, W), (N, H, W, 1) or (N, H, W, 3), the index of each one's class (N,), and perhaps its patient."""

    images: Pixels
    targets: Targets
    patients: Sequence[str | None] | None = None

    def by_class(self, names: Sequence[str], title: str) -> Iterator[Found]:
        """Each class with its images, which are called `title` and their number."""
        for index, name in enumerate(names):
            members = np.flatnonzero(self.targets == index)
            yield Found(name, [self._entry(title, int(member)) for member in members], declared=True)

    def _entry(self, title: str, member: int) -> Entry:
        patient = self.patients[member] if self.patients is not None else None
        return Entry(f"{title}[{member}]", Array(self.images[member]), patient)


def natural(name: str) -> list[tuple[int, str]]:
    """A key to sort names by, numbers in them by value."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]
