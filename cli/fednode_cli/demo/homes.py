"""The homes of the nodes: who has which labels, and the files that a person would write for each."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fednode import disk
from fednode.config import Home, ensure_home
from fednode.contract import Contract, ImageShape
from fednode.peersfile import Peer, Peers
from fednode_crypto.identity import Identity, PeerId

FEDERATION = "demo"
PASSED_ON = ("FEDNODE_WORKER", "FEDNODE_FAILPOINT")

Shares = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Source:
    """A data source: its name, its labels in order, and the shape in which its images are used.

    `parts` are the sources of nodes that have a part of it each (without: all have the labels of their own from the whole).
    """

    name: str
    labels: tuple[str, ...]
    image: ImageShape
    exchange: str = "generators"
    parts: Mapping[str, str] = field(default_factory=dict)

    def of(self, node: str) -> str:
        """Where a node's images are."""
        return self.parts.get(node, self.name)

    @property
    def contract(self) -> Contract:
        """What the nodes of the demo agree on."""
        return Contract(federation=FEDERATION, labels=self.labels, image=self.image)


def shares(labels: Sequence[str], nodes: int) -> dict[str, tuple[str, ...]]:
    """The labels of each node by its name: in order, and as evenly as they can be, the first nodes having one more."""
    least, more = divmod(len(labels), nodes)
    starts = [least * at + min(at, more) for at in range(nodes + 1)]
    return {f"node-{at + 1}": tuple(labels[starts[at] : starts[at + 1]]) for at in range(nodes)}


def environment(home: Path) -> dict[str, str]:
    """The environment of a node: ours, without the settings that are meant for a node of the caller's own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FEDNODE_") or name in PASSED_ON}
    return {**kept, "FEDNODE_HOME": str(home)}


def make_home(folder: Path, name: str) -> tuple[Home, PeerId]:
    """A new home with a fresh identity, as `fednode init --name NAME` makes it, and the peer id."""
    home = Home.find(environment(folder))
    ensure_home(home)
    disk.write_new(home.config, f"name: {name}\n".encode())
    identity = Identity.generate()
    identity.save(home.identity)
    return home, identity.peer_id


def peers_text(contract: Contract, ids: Mapping[str, PeerId], addresses: Mapping[str, str], me: str) -> str:
    """The peers.yaml of node `me`: JSON, which is YAML too."""
    others = tuple(Peer(name=name, id=ids[name], address=addresses[name]) for name in ids if name != me)
    return Peers(contract=contract, peers=others).model_dump_json(indent=2) + "\n"
