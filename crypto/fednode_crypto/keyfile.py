"""The file that holds the identity key.

Rule 1: only its owner may use it, the rule of ssh: a regular file, no symlink, ours, no bits for others.
Rule 2: it is made once and whole, and nothing that is already there is ever replaced.
"""

import contextlib
import os
import secrets
import stat
from pathlib import Path

from fednode_crypto.errors import KeyFileError

SIZE_LIMIT = 4096  # the PEM of an Ed25519 key has 119 bytes


def write_new(path: Path, data: bytes) -> None:
    """Make the file `path`, mode 0600. Raises KeyFileError if something is there or it can't be written."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        _write(temporary, data)
        os.link(temporary, path)  # unlike a rename, it fails where something is already there
    except FileExistsError:
        raise KeyFileError(f"There is already a key at {path}.", "It was left as it is.") from None
    except OSError as error:
        raise KeyFileError(f"The key can't be written to {path}: {error.strerror}.") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
    _sync_folder(path.parent)


def read(path: Path) -> bytes:
    """The bytes of the file `path`. Raises KeyFileError if it is missing, or not as Rule 1 wants it."""
    try:
        # O_NONBLOCK: opening a pipe must not wait for its writer
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise _unreadable(path, error) from None
    try:
        _check_private(path, os.fstat(descriptor))
        return os.read(descriptor, SIZE_LIMIT)
    finally:
        os.close(descriptor)


def _write(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unreadable(path: Path, error: OSError) -> KeyFileError:
    if isinstance(error, FileNotFoundError):
        return KeyFileError(f"There is no key at {path}.")
    if path.is_symlink():
        return KeyFileError(f"The key {path} is a symbolic link.", "Put the file itself there.")
    return KeyFileError(f"The key {path} can't be read: {error.strerror}.")


def _check_private(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise KeyFileError(f"The key {path} is not a regular file.")
    if status.st_uid != os.geteuid():
        raise KeyFileError(
            f"The key {path} belongs to user {status.st_uid}, and this process runs as user {os.geteuid()}."
        )
    if status.st_mode & 0o077:
        mode = stat.S_IMODE(status.st_mode)
        raise KeyFileError(f"The key {path} has mode {mode:04o}: others may use it.", f"Run `chmod 600 {path}`.")
