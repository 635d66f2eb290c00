"""`fednode id`: prints the peer id."""

from fednode_cli import connect
from fednode_cli.options import AsJson
from fednode_cli.output import report


def peer_id(as_json: AsJson = False) -> None:
    """Print this node's peer id, for the others' peers files."""
    own = connect.identity().peer_id
    report({"peer_id": own}, [own], as_json)
