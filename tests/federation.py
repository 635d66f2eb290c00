"""Federations of real node processes for tests.

Rule 1: whatever happens, no process is left, and no daemon has written a traceback.
Rule 2: a test waits for what a node says of itself, never for a time.
"""

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from nodes import PATIENCE_SECONDS, STANDIN, Document, Node, end_processes_of

from fednode.errors import NotRunningError

LABELS = ("ant", "bee", "cat", "dog", "eel", "fox")
POLL_SECONDS = 0.05

_references: dict[str, dict[str, str]] = {}


def write_peers(path: Path, contract: Document, peers: Sequence[Node], unreachable: Collection[str] = ()) -> None:
    """Write a peers.yaml; those of `unreachable` get no address."""
    lines = [
        "contract:",
        f"  federation: {contract['federation']}",
        f"  labels: {json.dumps(list(contract['labels']))}",
        f"  image: {{size: {contract['size']}, channels: 1}}",
        f"  quorum: {contract['quorum']}",
        "peers:" if peers else "peers: []",
    ]
    for peer in peers:
        lines += [f"  - name: {peer.name}", f"    id: {peer.id}"]
        lines += [] if peer.name in unreachable else [f"    address: 127.0.0.1:{peer.port}"]
    path.write_text("\n".join(lines) + "\n")


class Federation:
    """Nodes that list each other: name -> own labels. A context, at whose end everything is gone."""

    def __init__(
        self,
        labels_of: Mapping[str, Sequence[str]],
        labels: Sequence[str] = LABELS,
        quorum: int = 0,
        worker: str = STANDIN,
        source: str = "",
        exchange: str = "generators",
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="fed-"))
        (self.folder / "run").mkdir(mode=0o700)
        self.contract: Document = {"federation": "test", "labels": labels, "size": 8, "quorum": quorum}
        self.nodes = {
            name: Node(name, self.folder / name, tuple(own), worker, source, exchange)
            for name, own in labels_of.items()
        }
        for node in self.nodes.values():
            node.make()
            self.introduce(node)

    def __getitem__(self, name: str) -> Node:
        return self.nodes[name]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for node in self.nodes.values():
            if node.running:
                node.kill()
        end_processes_of(self.folder)
        logs = {node.name: node.log.read_text(errors="replace") for node in self.nodes.values() if node.log.exists()}
        shutil.rmtree(self.folder)
        if error is None:
            for name, text in logs.items():
                assert "Traceback" not in text, (
                    f"{name} wrote a traceback:\n{text[text.index('Traceback') - 500 :][:4000]}"
                )

    def introduce(self, node: Node, peers: Collection[str] | None = None, unreachable: Collection[str] = ()) -> None:
        """Write a node's peers.yaml: all others, or only `peers`; those of `unreachable` without an address."""
        names = self.nodes.keys() - {node.name} if peers is None else set(peers)
        listed = [self.nodes[name] for name in self.nodes if name in names]
        write_peers(node.home.peers, self.contract, listed, unreachable)

    def start(self, *names: str, failpoint: str = "", **variables: object) -> None:
        """Start some nodes, or all, and wait until they answer."""
        nodes = [self.nodes[name] for name in names or self.nodes]
        for node in nodes:
            node.start(failpoint=failpoint, **variables)
        self.until(lambda: all(node.status() for node in nodes), "the nodes answer")

    def until(self, condition: Callable[[], object], what: str, deadline: float = PATIENCE_SECONDS) -> None:
        """Wait until something is so. Raises AssertionError with all that the nodes say if it does not come."""
        alive = [node for node in self.nodes.values() if node.running]
        end = time.monotonic() + deadline
        while not _holds(condition):
            fallen = [node for node in alive if not node.running]
            if fallen:
                raise AssertionError(f"While waiting until {what}, {fallen[0].name} ended.\n{fallen[0].tail()}")
            if time.monotonic() > end:
                raise AssertionError(f"It did not come that {what}.\n{self.picture()}")
            time.sleep(POLL_SECONDS)

    def settle(self, *names: str, deadline: float = PATIENCE_SECONDS) -> dict[str, str]:
        """Wait until these nodes, or all, have built all there is to build and use each other's experts; those, by node."""
        wanted = set(names or self.nodes)
        self.until(
            lambda: all(is_settled(self.nodes[name].status(), wanted) for name in wanted),
            f"{', '.join(sorted(wanted))} have settled",
            deadline,
        )
        products = [self.nodes[name].product() for name in sorted(wanted)]
        assert all(product == products[0] for product in products), products
        return products[0]

    def until_product(self, experts: set[str], *names: str) -> dict[str, str]:
        """Wait until the experts of just these nodes answer at each of `names`, whatever is still waited for; those."""
        nodes = [self.nodes[name] for name in names]
        self.until(lambda: all(node.product().keys() == experts for node in nodes), f"just {experts} answer")
        products = [node.product() for node in nodes]
        assert all(product == products[0] for product in products), products
        return products[0]

    def picture(self) -> str:
        """What every node says, and the ends of the logs."""
        return "\n".join(_said(node) for node in self.nodes.values())


def is_settled(status: Document, experts: set[str]) -> bool:
    """Whether a node waits for nothing, and the experts of just these nodes answer."""
    answering = {expert["peer"] for expert in status["product"]["experts"]}
    return status["phase"] == "ready" and not status["waiting"] and answering == experts


def reference(
    labels_of: Mapping[str, Sequence[str]], deadline: float = PATIENCE_SECONDS, **options: Any
) -> dict[str, str]:
    """The experts, by node, of a federation that never knew anybody else: fresh homes and keys, everything fitted anew.

    What was found once is remembered: it follows from the arguments.
    """
    key = json.dumps([labels_of, options])
    if key not in _references:
        with Federation(labels_of, **options) as federation:
            federation.start()
            _references[key] = federation.settle(deadline=deadline)
    return _references[key]


def _holds(condition: Callable[[], object]) -> bool:
    try:
        return bool(condition())
    except NotRunningError:
        return False


def _said(node: Node) -> str:
    if not node.running:
        return f"{node.name} does not run.\n{node.tail()}"
    try:
        status = json.dumps(node.status(), indent=1)
    except NotRunningError:
        status = "no answer"
    return f"{node.name} says {status}\n{node.tail()}"
