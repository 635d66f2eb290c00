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


def slot_names(device: str, threads: int, cores: int, processes: int = 1) -> list[list[str]]:
    """What a build on `device` must hold: one slot of each list.

    A list has the slots that will do: one for each accelerator, or as many as `threads` of all processes fit into `cores`.
    Several accelerators are held from the first on, so that no two builds wait for each other.
    """
    if processes > 1 and device.startswith("cuda"):
        return [[f"cuda-{number}.lock"] for number in range(processes)]
    if device.startswith("cuda"):
        return [[f"{device.replace(':', '-')}.lock"]]
    return [[f"cpu-{number}.lock" for number in range(max(1, cores // (threads * processes)))]]


@contextlib.asynccontextmanager
async def slots(folder: Path, wanted: list[list[str]]) -> AsyncIterator[None]:
    """Hold one slot of each list; waits as long as others hold them."""
    async with contextlib.AsyncExitStack() as stack:
        for names in wanted:
            await stack.enter_async_context(_slot(folder, names))
        yield


@contextlib.asynccontextmanager
async def _slot(folder: Path, names: list[str]) -> AsyncIterator[None]:
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
