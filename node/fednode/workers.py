"""The daemon's side of a worker process: start it with exec, ask one thing at a time, end it.

Rule 1: a worker's crash, running out of memory and cancelling are WorkerErrors with a code; the node lives on.
Rule 2: a worker that holds something tainted in memory is ended, not asked to forget.
Rule 3: a request is one JSON object on a line, and so is each answer; the last answer of a request says done or failed.
"""

import asyncio
import contextlib
import json
import logging
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import IO, Any, TypeVar

from fednode.errors import DataError, NoAnswerError, WorkerError
from fednode.lineage import Lineage, Pair

LINE_LIMIT = 256 * 1024 * 1024
CODES_OF_DATA = frozenset({"data", "bad-image"})

log = logging.getLogger("fednode.workers")

S = TypeVar("S")
Fields = Mapping[str, Any]
Progress = Callable[[Fields], None]


@dataclass(frozen=True)
class WorkerSettings:
    """How workers run: `device` cpu, cuda, cuda:n or auto, threads, seconds of idling after which one ends, their log.

    `processes`: how many fit a generator together.
    """

    device: str
    threads: int
    idle_timeout: float
    log: IO[bytes] | None
    processes: int = 1


class Worker:
    """One worker of `kind` (build or serve), started when first asked and ended after idling."""

    def __init__(self, kind: str, settings: WorkerSettings) -> None:
        self.kind = kind
        self.numerics: Fields = {}
        self.device = ""
        self._settings = settings
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()
        self._loaded: set[Pair] = set()
        self._count = 0
        self._ended_for = ""
        self._last_used = time.monotonic()

    @property
    def state(self) -> str:
        """off, warm or busy."""
        if self._process is None or self._process.returncode is not None:
            return "off"
        return "busy" if self._turn.locked() else "warm"

    async def ask(
        self, op: str, fields: Fields, uses: Lineage = frozenset(), progress: Progress | None = None
    ) -> dict[str, Any]:
        """The result of an operation that loads the artifacts `uses` into the worker's memory.

        Raises WorkerError (crash, memory, cancelled, internal, bad-weights, data-changed), DataError (its own images or an
        image that was asked about can't be used) and NoAnswerError.
        """
        async with self._turn:
            try:
                process = await self._running()
                self._loaded |= uses
                return await self._converse(process, op, fields, progress)
            except asyncio.CancelledError:
                self.end("cancelled")
                raise
            finally:
                self._last_used = time.monotonic()

    async def start(self) -> None:
        """Start the worker if it does not run, so that its device and numerics are known. Raises WorkerError."""
        async with self._turn:
            await self._running()

    def holds(self, pairs: Lineage) -> bool:
        """Whether any of these was loaded into the memory of the running worker."""
        return self.state != "off" and bool(self._loaded & pairs)

    def end(self, reason: str) -> None:
        """Kill the process at once; a request in flight fails with code `cancelled` and this reason."""
        if self._process is not None and self._process.returncode is None:
            self._ended_for = reason
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def idle_until(self) -> float | None:
        """When a warm worker ends if nobody asks it anything (steady clock)."""
        return self._last_used + self._settings.idle_timeout if self.state == "warm" else None

    def end_if_idle(self) -> None:
        """End a warm worker that nobody asked anything for the idle timeout."""
        if (end := self.idle_until()) is not None and time.monotonic() > end:
            self.end("idle")

    async def close(self) -> None:
        """End the process and wait until it is gone."""
        self.end("the node stops")
        if self._process is not None:
            await self._process.wait()

    async def _running(self) -> asyncio.subprocess.Process:
        if self._process is not None and self._process.returncode is None and not self._ended_for:
            return self._process
        if self._process is not None:
            await self._process.wait()
        self._loaded.clear()
        self._ended_for = ""
        self._process = await asyncio.create_subprocess_exec(
            *_command(self.kind, self._settings),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=self._settings.log or asyncio.subprocess.DEVNULL,
            limit=LINE_LIMIT,
            start_new_session=True,
        )
        try:
            ready = await self._read(self._process)
        except asyncio.CancelledError:
            self.end("cancelled")
            raise
        self.numerics, self.device = ready["numerics"], ready["device"]
        return self._process

    async def _converse(
        self, process: asyncio.subprocess.Process, op: str, fields: Fields, progress: Progress | None
    ) -> dict[str, Any]:
        self._count += 1
        request = {"id": self._count, "op": op, **fields}
        with contextlib.suppress(ConnectionError):
            stdin = _pipe(process.stdin)
            stdin.write(json.dumps(request).encode() + b"\n")
            await stdin.drain()
        while (answer := await self._read(process))["event"] == "progress":
            if progress is not None:
                progress(answer)
        if answer["event"] == "failed":
            raise _error(answer)
        result: dict[str, Any] = answer["result"]
        return result

    async def _read(self, process: asyncio.subprocess.Process) -> dict[str, Any]:
        line = await _pipe(process.stdout).readline()
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        status = await process.wait()
        if self._ended_for:
            raise WorkerError("cancelled", f"The {self.kind} worker was ended: {self._ended_for}.")
        if status == -signal.SIGKILL:
            raise WorkerError("memory", f"The {self.kind} worker was killed, most likely for want of memory.")
        raise WorkerError(
            "crash", f"The {self.kind} worker ended by itself (status {status}).", "See the worker's log."
        )


def _pipe(stream: S | None) -> S:
    if stream is None:
        raise WorkerError("internal", "A worker was started without its pipes.")
    return stream


def _command(kind: str, settings: WorkerSettings) -> list[str]:
    """FEDNODE_WORKER replaces the program: tests of the node's other parts run a stand-in that needs no torch."""
    program = shlex.split(os.environ.get("FEDNODE_WORKER", "")) or [sys.executable, "-m", "fednode.worker"]
    several = ["--processes", str(settings.processes)] if kind == "build" and settings.processes > 1 else []
    return [*program, kind, "--device", settings.device, "--threads", str(settings.threads), *several]


def _error(answer: Fields) -> WorkerError | DataError | NoAnswerError:
    code, message, hint = answer["code"], answer["message"], answer.get("hint", "")
    if code in CODES_OF_DATA:
        return DataError(message, hint)
    if code == "unanswerable":
        return NoAnswerError(message, hint)
    return WorkerError(code, message, hint)
