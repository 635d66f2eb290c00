"""The build worker's side of a fit by several processes: starts them with exec, hands on the request, tells what they tell.

Rule 1: they are started for one fit and end with it, whatever ends it.
Rule 2: they meet at a file beside the result, in a folder that is the node's alone, and talk over the loopback interface alone.
Rule 3: one that fails ends all, and its words are the fit's.
"""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import IO, Any

Report = Callable[[str, int, int], None]
Message = dict[str, Any]

LAST_WORDS_S = 2.0
LOOPBACK = "lo" if sys.platform == "linux" else "lo0"
CRASHED = {
    "event": "failed",
    "code": "crash",
    "message": "One of the processes of a fit ended by itself.",
    "hint": "See the worker's log.",
}


@dataclass(frozen=True)
class Ranks:
    """How many processes fit together, on `device` cpu or on as many cuda devices from the first on, and threads of each."""

    processes: int
    device: str
    threads: int

    def wants(self, text: bytes) -> bool:
        """Whether a request is for several processes: a fit that is not private, whose noise one process draws."""
        if self.processes == 1:
            return False
        try:
            request = json.loads(text)
            return request["op"] == "fit" and not request["spec"]["recipe"].get("privacy")
        except (ValueError, KeyError, TypeError, AttributeError):
            return False


@dataclass
class _Other:
    """Reads what a process other than the first says, and ends the first if it fails."""

    process: "subprocess.Popen[bytes]"
    first: "subprocess.Popen[bytes]"
    said: list[Message] = field(default_factory=list)

    def watch(self) -> None:
        """Until the process has ended."""
        self.said += [message for message in _messages(self.process) if message["event"] == "failed"]
        if self.process.wait():
            self.first.kill()


def outcome(text: bytes, ranks: Ranks, report: Report) -> Message:
    """Run one fit: `done` with its result, or `failed` with code, message and hint, as a worker says it but for the id."""
    with _meeting(text) as place, contextlib.ExitStack() as stack:
        started = [stack.enter_context(_running(ranks, rank, place)) for rank in range(ranks.processes)]
        others = [_Other(process, started[0]) for process in started[1:]]
        watches = [Thread(target=other.watch, daemon=True) for other in others]
        for watch in watches:
            watch.start()
        for process in started:
            _tell(process, text)
        found = _followed(started[0], report)
        if found["event"] == "failed":
            for watch in watches:
                watch.join(LAST_WORDS_S)
        said = [message for other in others for message in other.said]
    return _without_id(said[0] if said and found["event"] == "failed" else found)


@contextlib.contextmanager
def _meeting(text: bytes) -> Iterator[Path]:
    """The file to meet at; what a fit that was killed has left there would mislead the next one."""
    place = Path(f"{json.loads(text)['out']}.meeting")
    place.unlink(missing_ok=True)
    try:
        yield place
    finally:
        place.unlink(missing_ok=True)


@contextlib.contextmanager
def _running(ranks: Ranks, rank: int, meeting: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """One of the processes; it is gone afterwards."""
    device = f"cuda:{rank}" if ranks.device.startswith("cuda") else "cpu"
    options = ["--device", device, "--threads", str(ranks.threads), "--meeting", str(meeting)]
    process = subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-m", "fednode.worker", "rank", *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=_environment(ranks, rank),
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                _pipe(stream).close()


def _environment(ranks: Ranks, rank: int) -> dict[str, str]:
    """What accelerate and its backends read; settings of the user's own for accelerate are not for this."""
    place = {"RANK": rank, "WORLD_SIZE": ranks.processes, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": ranks.processes}
    told = {**place, "OMP_NUM_THREADS": ranks.threads, "GLOO_SOCKET_IFNAME": LOOPBACK, "NCCL_SOCKET_IFNAME": LOOPBACK}
    own = {name: value for name, value in os.environ.items() if not name.startswith("ACCELERATE_")}
    return own | {name: str(value) for name, value in told.items()}


def _tell(process: "subprocess.Popen[bytes]", text: bytes) -> None:
    """Send the request. The pipe stays open, for the process ends when it closes."""
    with contextlib.suppress(ConnectionError):
        stdin = _pipe(process.stdin)
        stdin.write(text.strip() + b"\n")
        stdin.flush()


def _followed(first: "subprocess.Popen[bytes]", report: Report) -> Message:
    """What the first process says last, while its progress is reported."""
    for message in _messages(first):
        if message["event"] == "progress":
            report(message["phase"], message["done"], message["total"])
        elif message["event"] != "ready":
            return message
    return CRASHED


def _messages(process: "subprocess.Popen[bytes]") -> Iterator[Message]:
    for line in _pipe(process.stdout):
        yield json.loads(line)


def _without_id(message: Message) -> Message:
    return {name: value for name, value in message.items() if name != "id"}


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:
        raise RuntimeError("a process was started without its pipes")
    return stream
