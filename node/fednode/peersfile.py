"""peers.yaml: the contract and the peers, read and edited.

Rule 1: a peer's name, id and address are each listed once, none of the ids is our own, and there are at most MAX_PEERS.
Rule 2: an edit changes the lines of one peer and leaves every other byte as it is, comments and order too.
Rule 3: an edit that would not read back as exactly what was meant is refused, and the file is unchanged.
"""

import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, StringConstraints, ValidationError

from fednode import peersedit
from fednode.address import parse_address
from fednode.contract import Contract, ImageShape, Value
from fednode.errors import AddressError, ConfigError
from fednode.yamlfile import Document, Loc, nearest, read_text, sentence
from fednode_crypto.errors import PeerIdError
from fednode_crypto.identity import PeerId, parse_peer_id

MAX_PEERS = 64
_NUMBERS = ("size", "channels", "quorum")

PeerName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]{1,32}$")]


def _canonical_id(text: object) -> object:
    try:
        return parse_peer_id(text) if isinstance(text, str) else text
    except PeerIdError as error:
        raise ValueError(str(error)) from None


def _checked_address(text: str) -> str:
    try:
        parse_address(text)
    except AddressError as error:
        raise ValueError(str(error)) from None
    return text


class Peer(Value):
    """Another institution's node: our name for it, its key, and where it listens (None: it dials us)."""

    name: PeerName
    id: Annotated[PeerId, BeforeValidator(_canonical_id)]
    address: Annotated[str, AfterValidator(_checked_address)] | None = None


class Peers(Value):
    """What peers.yaml says."""

    contract: Contract
    peers: tuple[Peer, ...] = ()


def load(path: Path, me: PeerId | None) -> Peers:
    """The contract and peers in the file at `path`; `me` is our own id, if it is known.

    Raises ConfigError that names file, line and key of the first thing that is wrong.
    """
    return _parse(Document(str(path), _text(path)), me)


def add(path: Path, peer: Peer, me: PeerId | None = None) -> None:
    """Write `peer` into the file as its last one.

    Raises ConfigError if it can't be there, and StorageError if the file can't be written; it is then unchanged.
    """
    with peersedit.alone(path) as file:
        document = Document(str(path), _text(file))
        before = _parse(document, me)
        meant = Peers(contract=before.contract, peers=(*before.peers, peer))
        for _, what in _faults(meant.peers, me):
            raise ConfigError(f"The peer {peer.name} can't be added to {path}: {what}")
        _commit(file, peersedit.appended(document, _lines(peer)), meant)


def remove(path: Path, name_or_id: str) -> Peer:
    """Take the peer of that name or id out of the file, and return it.

    Raises ConfigError if there is none, and StorageError if the file can't be written; it is then unchanged.
    """
    with peersedit.alone(path) as file:
        document = Document(str(path), _text(file))
        before = _parse(document, None)
        at = _position(path, before.peers, name_or_id)
        meant = Peers(contract=before.contract, peers=(*before.peers[:at], *before.peers[at + 1 :]))
        _commit(file, peersedit.without(document, at), meant)
    return before.peers[at]


def _text(path: Path) -> str:
    try:
        return read_text(path)
    except FileNotFoundError:
        raise ConfigError(
            f"There is no peers file at {path}.",
            "Write the contract and the peers into it, or name another with --peers.",
        ) from None


def _parse(document: Document, me: PeerId | None) -> Peers:
    tree = document.tree(_NUMBERS)
    if tree is None:
        raise ConfigError(f"{document.name} is empty.", "It needs a contract and the list of peers.")
    if isinstance(tree, dict) and tree.get("peers", ()) is None:
        tree["peers"] = []
    try:
        peers = Peers.model_validate_json(json.dumps(tree))
    except ValidationError as error:
        raise _first_fault(document, error) from None
    for loc, what in _faults(peers.peers, me):
        raise document.fault(loc, what)
    return peers


def _first_fault(document: Document, error: ValidationError) -> ConfigError:
    first = min(error.errors(), key=lambda found: document.line(found["loc"]))
    loc = first["loc"]
    unknown = first["type"] == "extra_forbidden"
    return document.fault(loc, nearest(str(loc[-1]), _known(loc[:-1])) if unknown else sentence(first))


def _known(loc: Loc) -> Collection[str]:
    """The keys that the mapping at `loc` may have."""
    match loc:
        case ("contract", "image"):
            return ImageShape.model_fields
        case ("contract",):
            return Contract.model_fields
        case ("peers", _):
            return Peer.model_fields
    return Peers.model_fields


def _faults(peers: tuple[Peer, ...], me: PeerId | None) -> Iterator[tuple[Loc, str]]:
    """Where Rule 1 is broken, and how."""
    if len(peers) > MAX_PEERS:
        yield ("peers", MAX_PEERS), f"there are more than {MAX_PEERS} peers."
    first: dict[tuple[str, object], Peer] = {}
    for at, peer in enumerate(peers):
        if peer.id == me:
            yield ("peers", at, "id"), "this is our own id, and a node is no peer of itself."
        for key, value in _identifying(peer):
            other = first.setdefault((key, value), peer)
            if other is not peer:
                yield ("peers", at, key), f"the peer {other.name} has the same {key}."


def _identifying(peer: Peer) -> Iterator[tuple[str, object]]:
    yield "name", peer.name
    yield "id", peer.id
    if peer.address is not None:
        host, port = parse_address(peer.address)
        yield "address", (host.lower(), port)


def _position(path: Path, peers: tuple[Peer, ...], name_or_id: str) -> int:
    wanted = (name_or_id, _id_in(name_or_id))
    for at, peer in enumerate(peers):
        if peer.name == wanted[0] or peer.id == wanted[1]:
            return at
    names = ", ".join(peer.name for peer in peers) or "no peers"
    raise ConfigError(f"There is no peer {name_or_id!r} in {path}.", f"It lists {names}.")


def _id_in(text: str) -> PeerId | None:
    try:
        return parse_peer_id(text)
    except PeerIdError:
        return None


def _lines(peer: Peer) -> list[str]:
    """The lines of a peer's entry."""
    bare = peer.name != "null" and not peer.name.startswith("-")
    lines = [f"name: {peer.name if bare else json.dumps(peer.name)}", f"id: {peer.id}"]
    if peer.address is not None:
        lines.append(f"address: {json.dumps(peer.address) if peer.address.startswith('[') else peer.address}")
    return lines


def _commit(file: Path, text: str, meant: Peers) -> None:
    try:
        same = _parse(Document(str(file), text), None) == meant
    except ConfigError:
        same = False
    if not same:
        raise ConfigError(f"{file} can't be edited by this command and is unchanged.", "Edit it by hand.")
    peersedit.replace(file, text)
