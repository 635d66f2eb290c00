"""`fednode paths`: where things are."""

from pathlib import Path

from fednode.config import Home
from fednode_cli import connect
from fednode_cli.options import AsJson
from fednode_cli.output import Grid, report


def log_file(home: Home) -> Path:
    """Where a daemon that was started with --detach writes its log."""
    return home.logs / "fednode.log"


def paths(as_json: AsJson = False) -> None:
    """Print where this node keeps its things.

    The variable FEDNODE_HOME names another home.
    """
    home = connect.home()
    places = {
        "home": home.root,
        "identity": home.identity,
        "config": home.config,
        "peers": home.peers,
        "ledger": home.ledger,
        "store": home.store,
        "work": home.work,
        "log": log_file(home),
        "lock": home.lock,
        "control_socket": home.control_socket,
    }
    named = {name: str(path) for name, path in places.items()}
    report(named, [Grid("", (), tuple(named.items()))], as_json)
