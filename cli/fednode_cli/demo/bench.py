"""Questions to a worker of our own: what a source has, and how good real images alone would be."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fednode.contract import ImageShape
from fednode.recipe import recipes
from fednode.workers import Worker, WorkerSettings
from fednode_cli.demo.federation import DEVICE, THREADS
from fednode_cli.demo.homes import Shares, Source

IDLE_SECONDS = 3600.0

Document = dict[str, Any]
Request = tuple[str, Document]


def describe(source: str, log: Path) -> Source:
    """What a data source has. Raises DataError if it can't be used."""
    (found,) = _ask([("describe", {"source": source})], log, lambda _: None)
    shape = ImageShape(size=found["size"], channels=found["channels"])
    return Source(source, tuple(found["labels"]), shape)


def baselines(source: Source, shares: Shares, log: Path, told: Callable[[int], None]) -> tuple[list[float], float]:
    """The accuracy of each node on its own real images alone, and of all real images pooled.

    `told` hears how many of them are done. Raises WorkerError and DataError.
    """
    own = [{"source": source.name, "labels": list(labels)} for labels in shares.values()]
    requests = [("baseline", _baseline(source, parts)) for parts in ([part] for part in own)]
    results = _ask([*requests, ("baseline", _baseline(source, own))], log, told)
    accuracies = [result["accuracy"] for result in results]
    return accuracies[:-1], accuracies[-1]


def _baseline(source: Source, data: list[Document]) -> Document:
    return {
        "data": data,
        "test": {"source": source.name},
        "image": source.image.model_dump(mode="json"),
        "labels": list(source.labels),
        "recipe": recipes(source.image).expert.model_dump(mode="json"),
    }


def _ask(requests: Sequence[Request], log: Path, told: Callable[[int], None]) -> list[Document]:
    return asyncio.run(_ask_worker(requests, log, told))


async def _ask_worker(requests: Sequence[Request], log: Path, told: Callable[[int], None]) -> list[Document]:
    with log.open("ab") as stream:
        worker = Worker("serve", WorkerSettings(DEVICE, THREADS, IDLE_SECONDS, stream))
        results: list[Document] = []
        try:
            for op, fields in requests:
                results.append(await worker.ask(op, fields))
                told(len(results))
        finally:
            await worker.close()
    return results
