"""`fednode init`: makes the home and the identity, once."""

import os
import re
import socket
from typing import Annotated

import typer

from fednode import disk
from fednode.config import Home, ensure_home
from fednode.contract import label_name
from fednode.errors import ConfigError, IdentityError
from fednode_cli import connect
from fednode_cli.options import AsJson
from fednode_cli.output import note, report
from fednode_crypto.identity import Identity

NAME_LIMIT = 32


def init(
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="The node's name (default: from the host's).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make this node's home and identity.

    An identity that is there already is never replaced.
    """
    home = connect.home()
    _check_untouched(home)
    chosen = _checked(name) if name is not None else _host_name()
    if name is not None and home.config.exists():
        raise ConfigError(f"{home.config} is there already.", f"Write `name: {name}` into it, and leave out --name.")
    ensure_home(home)
    if not home.config.exists():
        disk.write_new(home.config, f"name: {chosen}\n".encode())
    identity = Identity.generate()
    identity.save(home.identity)
    report({"peer_id": identity.peer_id, "name": chosen, "home": str(home.root)}, [identity.peer_id], as_json)
    note(f"Give this peer id to your peers, write {home.peers} with them, and run `fednode start`.")


def _check_untouched(home: Home) -> None:
    if os.path.lexists(home.identity):
        raise IdentityError(
            f"There is an identity in {home.root} already.", "It is kept; `fednode id` prints its peer id."
        )
    if home.ledger.exists():
        raise IdentityError(
            f"The identity is missing from {home.root}, which holds the state of a node.",
            "Bring identity.key back from a backup, or set FEDNODE_HOME to a new folder.",
        )


def _checked(name: str) -> str:
    if not re.fullmatch(r"[a-z0-9-]{1,32}", name):
        raise typer.BadParameter(f"{name!r} is no name: it has 1 to {NAME_LIMIT} of a to z, 0 to 9 and dashes.")
    return name


def _host_name() -> str:
    return label_name(socket.gethostname().partition(".")[0])[:NAME_LIMIT].strip("-") or "node"
