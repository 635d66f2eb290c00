"""`fednode leave`: revokes ourselves."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from fednode_cli.confirm import confirm
from fednode_cli.connect import daemon
from fednode_cli.options import AsJson, Yes, checked_reason
from fednode_cli.output import note, report


def leave(
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="Why; all peers can read it.", callback=checked_reason)
    ] = "left the federation",
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Leave for ever: all peers unlearn this node.

    This identity can't come back.
    """
    with daemon() as client:
        name = client.status()["name"]
        confirm(name, f"This takes {name} out of the federation for ever, and all peers unlearn it.", yes)
        document = client.leave(reason)
    report(document, list(_lines(document)), as_json)
    note("Keep the daemon running until every peer has heard; `fednode status` shows who has confirmed.")


def _lines(document: Mapping[str, Any]) -> tuple[str, str]:
    told = document["told"]
    when = datetime.fromtimestamp(document["signed_at"], UTC)
    return (
        f"This node left the federation at {when:%Y-%m-%d %H:%M:%S} UTC.",
        f"Told at once: {', '.join(told)}." if told else "No peer is connected: they hear it when they are back.",
    )
