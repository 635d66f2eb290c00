"""`fednode revoke PEER`: a vote to put a peer out of the federation."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from fednode_cli.confirm import confirm
from fednode_cli.connect import daemon
from fednode_cli.options import AsJson, Yes, checked_reason, shown
from fednode_cli.output import report


def revoke(
    peer: Annotated[str, typer.Argument(help="The peer's name or id.", callback=shown)],
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; all peers can read it.", callback=checked_reason)],
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Vote a peer out of the federation.

    It is suspended and unlearned here at once, and everywhere once enough peers agree.
    """
    with daemon() as client:
        client.status()  # nobody is asked to confirm what no daemon would do
        confirm(
            peer, f"This suspends {peer}, erases what descends from it, and signs a vote that is never taken back.", yes
        )
        document = client.revoke(peer, reason)
    report(document, list(_lines(document)), as_json)


def _lines(document: Mapping[str, Any]) -> tuple[str, ...]:
    name, votes, needed = document["name"], document["votes"], document["needed"]
    counted = f"The vote stands for ever: {votes} of {needed} needed."
    if document["binding"]:
        return f"{name} is revoked: all peers unlearn it, and it can't come back.", counted
    here = f"{name} is suspended here and unlearned." if document["suspended"] else f"{name} is not suspended here."
    return (
        here,
        counted,
        f"It binds everywhere once {needed - votes} more of the peers run `fednode revoke` as well.",
        f"`fednode restore {name}` lifts the suspension here, and leaves the vote.",
    )
