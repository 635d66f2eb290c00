"""`fednode override LABEL`: publishes an own generator, or the classifier, in spite of its failed audit."""

from typing import Annotated

import typer

from fednode_cli.confirm import confirm
from fednode_cli.connect import daemon
from fednode_cli.options import AsJson, Yes, checked_reason, shown
from fednode_cli.output import note, report


def override(
    label: Annotated[
        str, typer.Argument(help="The label whose generator failed its audit, or classifier.", callback=shown)
    ],
    reason: Annotated[
        str,
        typer.Option("--reason", metavar="TEXT", help="Why; signed, for all peers to see.", callback=checked_reason),
    ],
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Publish a generator or classifier whose audit failed.

    It holds for these very weights: ones fitted to other images need a word of their own.
    """
    with daemon() as client:
        client.status()  # nobody is asked to confirm what no daemon would do
        confirm(label, f"All peers get the model of {label}, which may give own images away.", yes)
        document = client.override(label, reason)
    report(document, [f"The model of {document['label']} ({document['digest'][:8]}) is published."], as_json)
    note("Its manifest says for all time that the audit failed, and why it was published.")
