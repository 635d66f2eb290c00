"""Files that no other user can read, written so that a crash leaves all or nothing.

Rule 1: folders have mode 0700, files 0600; no symbolic link is ever followed.
Rule 2: nothing is taken for written before it, and the name it is found by, are on the disk.
"""

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from fednode.errors import StorageError

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


@contextlib.contextmanager
def storage_errors() -> Iterator[None]:
    """Turn an OSError inside into a StorageError that says whether the disk is full."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise StorageError("The disk is full.", "Free some space; the node goes on by itself.") from error
        raise StorageError(f"A file of this home can't be used: {error.strerror}.") from error


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it that are missing."""
    if not folder.is_dir():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        sync(folder.parent)


def sync(path: Path) -> None:
    """Force a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_new(path: Path, data: bytes) -> None:
    """Write a file that must not be there yet, down to the disk."""
    descriptor = os.open(path, _NEW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)


def write_at(path: Path, offset: int, data: bytes) -> None:
    """Write into a file, made if it is missing; the bytes are not forced to the disk."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.seek(offset)
        file.write(data)


def read_at(path: Path, offset: int, count: int) -> bytes:
    """Up to `count` bytes of a file from `offset`; none where it is short, missing or can't be read."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        with os.fdopen(descriptor, "rb") as file:
            file.seek(offset)
            return file.read(count)
    return b""


def copy(source: Path, target: Path) -> None:
    """Copy the bytes of a file into one that must not be there yet."""
    reader = os.open(source, os.O_RDONLY | os.O_NOFOLLOW)
    with os.fdopen(reader, "rb") as original, os.fdopen(os.open(target, _NEW, 0o600), "wb") as file:
        shutil.copyfileobj(original, file, 2**20)


def size(path: Path) -> int:
    """Bytes in a file; 0 if there is none."""
    try:
        return path.lstat().st_size
    except FileNotFoundError:
        return 0


def subfolders(folder: Path) -> list[Path]:
    """The folders in a folder, links to folders left out."""
    return [path for path in folder.iterdir() if path.is_dir() and not path.is_symlink()]
