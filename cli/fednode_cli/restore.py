"""`fednode restore PEER`: lifts our own suspension or quarantine of a peer."""

from typing import Annotated

import typer

from fednode_cli.connect import daemon
from fednode_cli.options import AsJson, shown
from fednode_cli.output import note, report


def restore(
    peer: Annotated[str, typer.Argument(help="The peer's name or id.", callback=shown)],
    as_json: AsJson = False,
) -> None:
    """Take a suspended or quarantined peer back.

    What was erased here is fetched and built again.
    """
    with daemon() as client:
        document = client.restore(peer)
    report(document, [f"{document['name']} is {document['standing']}."], as_json)
    if document["vote_stands"]:
        note("This node's vote to revoke it stands for ever.")
