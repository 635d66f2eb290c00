"""Slots: nodes of one user on one machine share cores and devices for building; serving never waits for one.

A slot is a locked file, so that the system frees it when its holder dies.
"""

import asyncio
import contextlib
import fcntl
import os
from collections.abc import AsyncIterator
from pathlib import Path

POLL_SECONDS = 0.05


def slot_names(device: str, threads: int, cores: int) -> list[str]:
    """The slots that a build on `device` may take: one for each accelerator, or as many as `threads` fit into `cores`."""
    if device.startswith("cuda"):
        return [f"{device.replace(':', '-')}.lock"]
    return [f"cpu-{number}.lock" for number in range(max(1, cores // threads))]


@contextlib.asynccontextmanager
async def slot(folder: Path, names: list[str]) -> AsyncIterator[None]:
    """Hold one of the slots; waits as long as all are held by others."""
    while (held := _try_any(folder, names)) is None:
        await asyncio.sleep(POLL_SECONDS)
    try:
        yield
    finally:
        os.close(held)


def _try_any(folder: Path, names: list[str]) -> int | None:
    for name in names:
        descriptor = os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
        else:
            return descriptor
    return None
