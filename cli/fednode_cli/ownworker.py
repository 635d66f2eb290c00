"""A worker of the command's own, for questions about images that need no daemon."""

import asyncio
from collections.abc import Callable, Sequence
from typing import IO, Any

from fednode.workers import Worker, WorkerSettings

DEVICE, THREADS = "auto", 1
IDLE_SECONDS = 3600.0

Document = dict[str, Any]
Request = tuple[str, Document]
Told = Callable[[int], None]


def ask(requests: Sequence[Request], log: IO[bytes] | None, told: Told = lambda _: None) -> list[Document]:
    """The results of the requests (op, fields), one after the other; `told` hears how many are done.

    Raises WorkerError, DataError and NoAnswerError.
    """
    return asyncio.run(_ask(requests, log, told))


async def _ask(requests: Sequence[Request], log: IO[bytes] | None, told: Told) -> list[Document]:
    worker = Worker("serve", WorkerSettings(DEVICE, THREADS, IDLE_SECONDS, log))
    results: list[Document] = []
    try:
        for op, fields in requests:
            results.append(await worker.ask(op, fields))
            told(len(results))
    finally:
        await worker.close()
    return results
