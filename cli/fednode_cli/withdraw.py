"""`fednode withdraw LABEL`: takes an own label out of the federation."""

from typing import Annotated

import typer

from fednode_cli.confirm import confirm
from fednode_cli.connect import daemon
from fednode_cli.options import AsJson, Yes, shown
from fednode_cli.output import note, report


def withdraw(
    label: Annotated[str, typer.Argument(help="The label that is withdrawn.", callback=shown)],
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Withdraw an own label: all peers unlearn it."""
    with daemon() as client:
        client.status()  # nobody is asked to confirm what no daemon would do
        confirm(
            label, f"This takes what was made of {label} here out of the federation, and all peers unlearn it.", yes
        )
        document = client.withdraw(label)
    named = f" ({document['digest'][:8]})" if document["digest"] else ""
    report(document, [f"What was made of {document['label']}{named} is withdrawn."], as_json)
    note("`fednode status` shows which peers have confirmed.")
