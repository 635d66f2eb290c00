"""`fednode peer add|list|remove`: edits the peers file, and keeps its comments and order."""

from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from fednode import peersfile
from fednode.errors import ConfigError
from fednode.yamlfile import sentence
from fednode_cli import connect
from fednode_cli.options import AsJson, PeersFile
from fednode_cli.output import Grid, note, report
from fednode_crypto.identity import PeerId, parse_peer_id

app = typer.Typer(help="Edit and list the peers.", rich_markup_mode=None)


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="Our name for the peer.")],
    peer_id: Annotated[str, typer.Argument(metavar="ID", help="Its peer id, fn1-...")],
    address: Annotated[str | None, typer.Argument(help="HOST:PORT; without it, the peer dials us.")] = None,
    peers: PeersFile = None,
    as_json: AsJson = False,
) -> None:
    """Add a peer to the peers file."""
    peer = _made(name, parse_peer_id(peer_id), address)
    file = _file(peers)
    peersfile.add(file, peer, _own_id())
    report({"file": str(file), "added": peer.model_dump(mode="json")}, [f"{name} is in {file}."], as_json)
    _say_how_it_is_taken_up()


@app.command("list")
def list_peers(peers: PeersFile = None, as_json: AsJson = False) -> None:
    """List the contract's federation and its peers."""
    file = _file(peers)
    listed = peersfile.load(file, _own_id())
    rows = tuple((peer.name, peer.id, peer.address or "dials us") for peer in listed.peers)
    grid = Grid("", ("peer", "peer id", "address"), rows)
    report({"file": str(file), **listed.model_dump(mode="json")}, [grid], as_json)


@app.command()
def remove(
    peer: Annotated[str, typer.Argument(metavar="NAME|ID", help="The peer's name or id.")],
    peers: PeersFile = None,
    as_json: AsJson = False,
) -> None:
    """Take a peer out of the peers file.

    To put it out of the federation for all, see `fednode revoke`.
    """
    file = _file(peers)
    gone = peersfile.remove(file, peer)
    report({"file": str(file), "removed": gone.model_dump(mode="json")}, [f"{gone.name} is out of {file}."], as_json)
    _say_how_it_is_taken_up()


def _say_how_it_is_taken_up() -> None:
    if connect.home().control_socket.exists():
        note("The running daemon takes it up with `fednode rescan`.")


def _file(peers: Path | None) -> Path:
    return connect.settings({"peers": peers}).peers


def _own_id() -> PeerId | None:
    """Our own id, if this home has an identity."""
    return connect.identity().peer_id if connect.home().identity.exists() else None


def _made(name: str, peer_id: PeerId, address: str | None) -> peersfile.Peer:
    try:
        return peersfile.Peer(name=name, id=peer_id, address=address)
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(f"The peer's {first['loc'][0]}: {sentence(first)}") from None
