"""`fednode import-classifier FILE`: offers a ready ViT in place of one fitted to own images."""

from pathlib import Path
from typing import Annotated

import typer

from fednode_cli.confirm import confirm
from fednode_cli.connect import daemon
from fednode_cli.options import AsJson, Yes, absolute, label_list, shown
from fednode_cli.output import note, report


def import_classifier(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A safetensors checkpoint of a timm ViT.")],
    model: Annotated[str, typer.Option(metavar="NAME", help="Its name in timm.", callback=shown)],
    labels: Annotated[
        str, typer.Option(metavar="A,B", help="The labels of its outputs, in their order.", callback=shown)
    ],
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Offer a ready classifier to all peers.

    It is checked as if a peer had sent it. Nobody audits it: its manifest and every status say so. A second one takes the
    place of the first; `fednode withdraw` with one of its labels takes it back.
    """
    with daemon() as client:
        client.status()  # nobody is asked to confirm what no daemon would do
        confirm(model, f"All peers get {file.name}, and nobody has audited what it gives away.", yes)
        document = client.import_classifier(str(absolute(str(file))), model, label_list(labels))
    report(document, [f"The classifier {document['digest'][:8]} is offered, unaudited."], as_json)
    note("`fednode status` shows who has it.")
