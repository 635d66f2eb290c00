"""Data sets from the internet: where they are kept, and how they arrive there.

Rule 1: a file is moved to its place at once and only when it is whole, so that neither a broken download nor two at the same
        time leave half of one.
Rule 2: what can't be downloaded is one sentence.
"""

import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path

from platformdirs import user_cache_path

from fednode.errors import DataError

TIMEOUT_SECONDS = 60.0


def cache(name: str) -> Path:
    """The folder for the data sets of the package `name`."""
    return user_cache_path("fednode") / name


@contextmanager
def arriving(what: str, place: Path) -> Iterator[Path]:
    """A folder to download into; its files go to `place` when the block ends well. Raises DataError."""
    try:
        place.mkdir(parents=True, exist_ok=True)
        with _impatiently(), tempfile.TemporaryDirectory(prefix=".arriving-", dir=place) as name:
            folder = Path(name)
            yield folder
            _move(folder, place)
    except (OSError, RuntimeError, HTTPException, EOFError, ValueError) as error:
        raise DataError(
            f"{what} is not in {place} and can't be downloaded: {_reason(error)}.",
            "Connect this machine to the internet, or put the files there.",
        ) from None


@contextmanager
def _impatiently() -> Iterator[None]:
    """The downloads know no timeout of their own."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(TIMEOUT_SECONDS)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


def _move(folder: Path, place: Path) -> None:
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        target = place / file.relative_to(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        file.replace(target)


def _reason(error: Exception) -> str:
    lines = [line.strip("<>. ") for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
