"""The worker's main: reads requests as JSON lines, calls learning, writes progress and results as JSON lines.

    python -m fednode.worker build|serve --device cpu|cuda[:n] --threads N [--processes N]

With `--processes` it fits generators with so many processes of the role `rank` (`ranks.py`), each of which does one request.

Rule 1: nothing but JSON lines reaches the real standard output: its descriptor is taken away from everyone else first.
Rule 2: the worker ends when its standard input ends, also in the middle of a job, so no worker outlives its daemon.
Rule 3: a request that fails is one line with a code and a sentence; tracebacks go to standard error alone.
"""

import argparse
import json
import logging
import os
import queue
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, BinaryIO

from fednode import ranks

REPORT_INTERVAL_S = 0.2
BUILD_NICENESS = 5


class Line:
    """The real standard output: one JSON object a line."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def write(self, message: dict[str, Any]) -> None:
        self._stream.write(json.dumps(message, allow_nan=False).encode() + b"\n")
        self._stream.flush()


class Progress:
    """Reports of one request, at most a few a second; a phase's first and last are always told."""

    def __init__(self, line: Line, request_id: int | None) -> None:
        self._line = line
        self._id = request_id
        self._phase = ""
        self._began = self._told = 0.0

    def __call__(self, phase: str, done: int, total: int) -> None:
        now = time.monotonic()
        if phase != self._phase:
            self._phase, self._began, self._told = phase, now, 0.0
        if now - self._told < REPORT_INTERVAL_S and done != total:
            return
        self._told = now
        self._line.write({"id": self._id, "event": "progress", "phase": phase, **self._pace(now, done, total)})

    def _pace(self, now: float, done: int, total: int) -> dict[str, Any]:
        rate = done / max(now - self._began, 1e-3)
        eta = round((total - done) / rate, 1) if rate > 0 else None
        return {"done": done, "total": total, "rate": round(rate, 1), "eta": eta}


def main() -> None:
    """Runs until standard input ends."""
    arguments = _arguments()
    line = Line(_take_stdout())
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the daemon, which ends its workers in order
    if arguments.role == "build":  # and so are the ranks that it starts
        os.nice(BUILD_NICENESS)  # answers come first where builds and answers share cores
    requests: queue.Queue[bytes] = queue.Queue()
    threading.Thread(target=_read, args=(sys.stdin.buffer, requests), daemon=True).start()
    _serve(arguments, line, requests)


def _serve(arguments: argparse.Namespace, line: Line, requests: queue.Queue[bytes]) -> None:
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # cuBLAS is deterministic only with this
    from fednode.learning import dispatch, session, team  # noqa: PLC0415  (takes seconds, and stdin is watched meanwhile)

    session.make_deterministic(arguments.threads)
    opened = session.open_session(arguments.device, arguments.threads, arguments.meeting)
    line.write({"event": "ready", "device": str(opened.device), "numerics": opened.numerics})
    several = ranks.Ranks(arguments.processes, str(opened.device), arguments.threads)

    def answered(text: bytes, progress: Progress) -> dict[str, Any]:
        if not several.wants(text):
            return dispatch.outcome(text, opened, progress)
        if lacking := session.lacking(opened.device, arguments.processes):
            return {"event": "failed", "code": "internal", "message": lacking, "hint": "Ask for fewer --processes."}
        return ranks.outcome(text, several, progress)

    while True:
        text = requests.get()
        request_id = _id_of(text)
        found = answered(text, Progress(line, request_id))
        line.write({"id": request_id, **found})
        if arguments.role == "rank":
            done = found["event"] == "done"
            if done:
                team.leave()
            os._exit(0 if done else 1)  # the thread that reads would hold up any other end


def _id_of(text: bytes) -> int | None:
    """The id that the answer carries, or None where the line is not a request."""
    try:
        value = json.loads(text).get("id")
    except (ValueError, AttributeError):
        return None
    return value if isinstance(value, int) else None


def _read(stream: BinaryIO, requests: queue.Queue[bytes]) -> None:
    """Hands on each line, and ends the process at the end of the stream: cleaning up is the daemon's part."""
    for text in stream:
        requests.put(text)
    os._exit(0)


def _take_stdout() -> BinaryIO:
    """The real standard output as a stream of our own; descriptor 1 goes to standard error from now on."""
    own = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return os.fdopen(own, "wb")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="fednode.worker")
    parser.add_argument("role", choices=("build", "serve", "rank"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--meeting", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
