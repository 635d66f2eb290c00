"""The cache of a benchmark: whatever took long is kept under the digest of all that it follows from.

Rule 1: a thing is there whole or not at all, also after a crash: written aside, synced, then renamed; its record comes last.
Rule 2: several processes may share a shelf; who makes a thing holds its lock, which the system takes back when a process dies.
Rule 3: a record that can't be read, or a file that is not of its recorded size, counts as missing and is made again.
"""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fednode_crypto.digest import digest_json
from fednode_crypto.strict_json import JSON

Record = dict[str, Any]

DOMAIN = "fednode/benchmark/v1"


def key_of(kind: str, inputs: JSON) -> str:
    """The name of a thing on the shelf."""
    return f"{kind}-{digest_json(DOMAIN, inputs)}"


class Shelf:
    """Things by key: a record, and a file where the thing has one."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("things", "locks", "shards", "derived"):
            (root / name).mkdir(parents=True, exist_ok=True)

    def file(self, key: str) -> Path:
        """Where the thing's file is, if it has one."""
        return self.root / "things" / key

    def aside(self, key: str) -> Path:
        """Where its maker writes it, under the thing's lock; what an interrupted maker left there is its to use."""
        return self.root / "things" / f"{key}.part"

    def derived(self, digest: str) -> Path:
        """The folder for what descends from one generator alone."""
        folder = self.root / "derived" / digest
        folder.mkdir(exist_ok=True)
        return folder

    def find(self, key: str) -> Record | None:
        """The thing's record, or None where it must be made, by Rule 3."""
        try:
            record: Record = json.loads(self._record(key).read_bytes())
            whole = record["size"] is None or self.file(key).stat().st_size == record["size"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return record if whole else None

    def keep(self, key: str, record: Record) -> Record:
        """Keep what its maker wrote aside, if anything, and its record; returns the record as `find` will."""
        aside, size = self.aside(key), None
        if aside.exists():
            size = aside.stat().st_size
            _sync(aside)
            aside.replace(self.file(key))
        whole = {**record, "size": size}
        self._write(self._record(key), json.dumps(whole).encode())
        return whole

    @contextlib.contextmanager
    def lock(self, key: str, wait: bool = True) -> Iterator[bool]:
        """Hold the thing's lock; without `wait`, False where another process has it."""
        with (self.root / "locks" / key).open("wb") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                yield False
                return
            yield True

    def _record(self, key: str) -> Path:
        return self.root / "things" / f"{key}.json"

    def _write(self, path: Path, data: bytes) -> None:
        aside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        aside.write_bytes(data)
        _sync(aside)
        aside.replace(path)


def _sync(path: Path) -> None:
    with path.open("rb") as stream:
        os.fsync(stream.fileno())
