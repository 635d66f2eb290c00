"""Who does the work: worker processes of a node, or, with one job at a time, the very same functions in this process.

Rule: a job is a worker's request. Its outcome is kept under the digest of its spec and the numerics, so that a benchmark that was
interrupted goes on where it was, and two that share a cache share the work.
"""

import asyncio
import json
import os
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from comparison.shelf import Record, Shelf, key_of
from fednode.errors import FednodeError
from fednode.learning import dispatch
from fednode.learning.session import Session
from fednode.workers import Worker, WorkerSettings
from fednode_crypto.digest import piece_list

Fields = Mapping[str, Any]
Told = Callable[[Fields], None]
Ask = Callable[[str, Fields, Told], Awaitable[dict[str, Any]]]

LOCK_PAUSE_S = 0.2
LEARNING_PHASES = ("fit", "train", "classifier")


class Bar(Protocol):
    """What shows progress: `set(done)` in units of whole jobs."""

    def set(self, done: float) -> None:
        """Show how much is done."""


@dataclass(frozen=True)
class Job:
    """A request to a worker that writes weights: op, spec, and the other fields; `out` is added."""

    op: str
    spec: dict[str, Any]
    fields: Fields

    def key(self, session: Session) -> str:
        """Its name on the shelf."""
        return key_of(self.op, {"spec": self.spec, "numerics": session.numerics})


@dataclass(frozen=True)
class Crew:
    """`jobs` workers at once on one device; this process, with `session`, if `jobs` is 1."""

    jobs: int
    session: Session
    shelf: Shelf

    def make(self, jobs: Sequence[Job], bar: Bar) -> list[Record]:
        """The record of each job, in order: `file`, `digest`, `size`, `seconds` and the worker's result. Raises FednodeError."""
        keys = [job.key(self.session) for job in jobs]
        missing = {key: job for key, job in zip(keys, jobs, strict=True) if self.shelf.find(key) is None}
        bar.set(len(jobs) - len(missing))
        if missing:
            asyncio.run(self._make_all(missing, len(jobs) - len(missing), bar))
        return [self._found(key) for key in keys]

    def _found(self, key: str) -> Record:
        record = self.shelf.find(key)
        if record is None:
            raise FednodeError(f"{self.shelf.file(key)} has gone.", "Run the same command again.")
        return {**record, "file": str(self.shelf.file(key))}

    async def _make_all(self, missing: Mapping[str, Job], before: int, bar: Bar) -> None:
        shares = dict.fromkeys(missing, 0.0)
        queue = deque(missing.items())

        def told(key: str, share: float) -> None:
            shares[key] = share
            bar.set(before + sum(shares.values()))

        if self.jobs == 1:
            await self._work(self._here, queue, told)
            return
        with (self.shelf.root / "workers.log").open("ab") as log:
            settings = WorkerSettings(str(self.session.device), 1, float("inf"), log)
            workers = [Worker("build", settings) for _ in range(min(self.jobs, len(missing)))]
            try:
                async with asyncio.TaskGroup() as group:
                    for worker in workers:
                        group.create_task(self._work(_asking(worker), queue, told))
            except ExceptionGroup as errors:
                raise errors.exceptions[0] from None
            finally:
                await asyncio.gather(*(worker.close() for worker in workers))

    async def _work(self, ask: Ask, queue: deque[tuple[str, Job]], told: Callable[[str, float], None]) -> None:
        """Takes jobs until none is left; one that another process is at is put back."""
        while queue:
            key, job = queue.popleft()
            with self.shelf.lock(key, wait=False) as mine:
                if mine and self.shelf.find(key) is None:
                    await self._do(ask, key, job, told)
                elif not mine:
                    queue.append((key, job))
                    await asyncio.sleep(LOCK_PAUSE_S)
                    continue
            told(key, 1.0)

    async def _do(self, ask: Ask, key: str, job: Job, told: Callable[[str, float], None]) -> None:
        def heard(message: Fields) -> None:
            if message["phase"].startswith(LEARNING_PHASES):
                told(key, message["done"] / max(message["total"], 1))

        began, out = time.monotonic(), self.shelf.aside(key)
        result = await ask(job.op, {**job.fields, "spec": job.spec, "out": str(out)}, heard)
        with out.open("rb") as stream:
            digest = piece_list(stream).digest
        self.shelf.keep(key, {**result, "digest": digest, "seconds": time.monotonic() - began})

    async def _here(self, op: str, fields: Fields, told: Told) -> dict[str, Any]:
        """The request done in this process."""

        def report(phase: str, done: int, total: int) -> None:
            told({"phase": phase, "done": done, "total": total})

        outcome = dispatch.outcome(json.dumps({"id": 0, "op": op, **fields}).encode(), self.session, report)
        if outcome["event"] == "failed":
            raise FednodeError(outcome["message"], outcome["hint"])
        result: dict[str, Any] = outcome["result"]
        return result


def _asking(worker: Worker) -> Ask:
    async def ask(op: str, fields: Fields, told: Told) -> dict[str, Any]:
        return await worker.ask(op, fields, progress=told)

    return ask


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
