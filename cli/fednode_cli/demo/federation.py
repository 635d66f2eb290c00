"""A federation of real processes on this machine, from fresh homes to the end of the last process.

Rule 1: each node is the program itself with its own home, key, peers file and port; nothing is shared but cores.
Rule 2: every process that was started is ended: told so over its control socket, then by SIGTERM, then by SIGKILL.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from fednode.config import Home
from fednode.control.client import ControlClient
from fednode.errors import AddressError, ExitCode, FednodeError
from fednode_cli.demo import goals
from fednode_cli.demo.goals import Document
from fednode_cli.demo.homes import Shares, Source, environment, make_home, peers_text
from fednode_cli.demo.interrupts import Interrupts
from fednode_cli.demo.ports import HeldPorts
from fednode_cli.ownworker import DEVICE, THREADS
from fednode_cli.paths import log_file
from fednode_crypto.identity import PeerId

ATTEMPTS = 5
POLL_SECONDS = 0.25
START_SECONDS = 120.0
STALL_SECONDS = 300.0
STOP_SECONDS = 15.0
TERM_SECONDS = 5.0
KILL_SECONDS = 5.0

Show = Callable[[goals.Statuses], None]
Goal = Callable[[goals.Statuses, Shares], bool]


@dataclass
class Node:
    """One node: its labels, its home and peer id, a client of its daemon, its process and what it said last."""

    name: str
    labels: tuple[str, ...]
    home: Home
    peer_id: PeerId
    client: ControlClient
    process: "subprocess.Popen[bytes] | None" = None
    last: Document = field(default_factory=dict)

    @property
    def runs(self) -> bool:
        """Whether its process is there."""
        return self.process is not None and self.process.poll() is None


class Federation:
    """The nodes of `shares` on a source. While entered they can run; afterwards no process of theirs is left."""

    def __init__(self, root: Path, source: Source, shares: Shares, interrupts: Interrupts) -> None:
        self.shares = shares
        self._source = source
        self._interrupts = interrupts
        self._clients = contextlib.ExitStack()
        self.nodes = {name: self._node(root / name, name) for name in shares}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._interrupts.held():
            self._end()
            self._clients.close()

    def start(self) -> None:
        """Start every node and wait until all answer. Raises FednodeError that says which did not, and why."""
        for _ in range(ATTEMPTS):
            self._launch()
            if self._all_answer():
                return
            self._end()
        raise AddressError(
            f"Free ports were taken by others {ATTEMPTS} times in a row.", "Try again when this machine is quieter."
        )

    def wait(self, goal: Goal, names: Shares, show: Show) -> dict[str, Document]:
        """The statuses of all nodes once those of `names` have reached the goal.

        Raises FednodeError if a node ends, fails for good, or if nothing moves for STALL_SECONDS.
        """
        position, moved = "", time.monotonic()
        while True:
            statuses = self.statuses()
            show(statuses)
            if goal(statuses, names):
                return statuses
            self._check(names)
            if (now := goals.position(statuses)) != position:
                position, moved = now, time.monotonic()
            elif time.monotonic() - moved > STALL_SECONDS:
                raise self._stuck(names)
            time.sleep(POLL_SECONDS)

    def statuses(self) -> dict[str, Document]:
        """The status of each node; the last known one of a node that is too busy to answer. Raises FednodeError if one ended."""
        for node in self.nodes.values():
            try:
                node.last = node.client.status()
            except FednodeError:
                if not node.runs or not node.last:
                    raise _ended(node) from None
        return {name: node.last for name, node in self.nodes.items()}

    def _node(self, folder: Path, name: str) -> Node:
        home, peer_id = make_home(folder, name)
        client = self._clients.enter_context(ControlClient(home.control_socket))
        return Node(name, self.shares[name], home, peer_id, client)

    def _launch(self) -> None:
        ids = {name: node.peer_id for name, node in self.nodes.items()}
        with HeldPorts(self.nodes) as ports:
            for name, node in self.nodes.items():
                text = peers_text(self._source.contract, ids, ports.addresses, name)
                node.home.peers.write_text(text)
            for name, node in self.nodes.items():
                with self._interrupts.held():
                    ports.release(name)
                    node.process = self._started(node, ports.addresses[name])

    def _started(self, node: Node, address: str) -> "subprocess.Popen[bytes]":
        options = {
            "--peers": node.home.peers,
            "--data": self._source.of(node.name),
            "--exchange": self._source.exchange,
            "--labels": ",".join(node.labels),
            "--listen": address,
            "--threads": THREADS,
            "--device": DEVICE,
        }
        arguments = [f"{option}={value}" for option, value in options.items()]
        with log_file(node.home).open("ab") as log:
            return subprocess.Popen(  # noqa: S603 - our own program with our own flags
                [sys.executable, "-m", "fednode_cli", "start", *arguments],
                env=environment(node.home.root),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # so that Ctrl-C in a terminal reaches us alone, and we stop the nodes in order
            )

    def _all_answer(self) -> bool:
        """Wait until all nodes are up; False if one found its port taken."""
        deadline = time.monotonic() + START_SECONDS
        while not all(_answers(node) for node in self.nodes.values()):
            for node in self.nodes.values():
                if node.process is not None and node.process.poll() == ExitCode.ADDRESS:
                    return False
                if not node.runs:
                    raise _ended(node)
            if time.monotonic() > deadline:
                late = next(node for node in self.nodes.values() if not node.last)
                raise FednodeError(f"{late.name} is not up after {START_SECONDS:.0f} seconds.", _last_line(late))
            time.sleep(POLL_SECONDS)
        return True

    def _check(self, names: Shares) -> None:
        for name in names:
            if reason := goals.hopeless(self.nodes[name].last):
                raise FednodeError(f"{name} can't go on: {reason}", _last_line(self.nodes[name]))

    def _stuck(self, names: Shares) -> FednodeError:
        late = [node for name, node in self.nodes.items() if name in names and node.last["phase"] != "ready"]
        node = (late or list(self.nodes.values()))[0]
        waits = f", waiting for {'; '.join(node.last['waiting'])}" if node.last["waiting"] else ""
        return FednodeError(
            f"Nothing has moved for {STALL_SECONDS:.0f} seconds; {node.name} is {node.last['phase']}{waits}.",
            _last_line(node),
        )

    def _end(self) -> None:
        for node in self.nodes.values():
            if node.runs:
                _tell_to_stop(node)
        self._wait_for_ends(STOP_SECONDS)
        self._signal(signal.SIGTERM, TERM_SECONDS)
        self._signal(signal.SIGKILL, KILL_SECONDS)
        for node in self.nodes.values():
            node.home.control_socket.unlink(missing_ok=True)

    def _signal(self, number: signal.Signals, seconds: float) -> None:
        for node in self.nodes.values():
            if node.process is not None and node.runs:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(node.process.pid, number)
        self._wait_for_ends(seconds)

    def _wait_for_ends(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        for node in self.nodes.values():
            if node.process is not None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    node.process.wait(max(0.0, deadline - time.monotonic()))


def _tell_to_stop(node: Node) -> None:
    try:
        node.client.stop()
    except FednodeError:  # it is not up yet
        if node.process is not None:
            node.process.terminate()


def _answers(node: Node) -> bool:
    try:
        node.last = node.client.status()
    except FednodeError:
        return False
    return bool(node.last["phase"] != "starting")


def _ended(node: Node) -> FednodeError:
    code = node.process.poll() if node.process is not None else None
    how = "does not answer" if code is None else f"has ended (exit code {code})"
    return FednodeError(f"{node.name} {how}.", _last_line(node))


def _last_line(node: Node) -> str:
    """The last line of a node's log, for the one who asks why."""
    lines = log_file(node.home).read_text(errors="replace").split("\n")
    return next((f"Its log ends with: {line.strip()}" for line in reversed(lines) if line.strip()), "Its log is empty.")
