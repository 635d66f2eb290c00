"""`fednode describe SOURCE`: what a data source has, and the contract that would fit it."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from fednode import source as sources
from fednode_cli import ownworker, units
from fednode_cli.options import SOURCE_HELP, AsJson, absolute_source
from fednode_cli.output import Block, Grid, note, report

Document = dict[str, Any]


def describe(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help=SOURCE_HELP)],
    as_json: AsJson = False,
) -> None:
    """Count the images of a source, and print a contract.

    No daemon is needed. Images that can't be read are named and left out.
    """
    (found,) = ownworker.ask([("describe", {"source": absolute_source(source)})], None)
    document = _document(source, found)
    report(document, list(_blocks(document)), as_json)
    note("A contract names the labels of all institutions: add those of your peers. It is the same file at every node.")


def _document(source: str, found: Document) -> Document:
    contract = {
        "federation": sources.short_name(source),
        "labels": found["labels"],
        "image": {"size": found["size"], "channels": found["channels"]},
        "quorum": 0,
    }
    return {"source": source, "labels": found["counts"], "bad": found["bad"], "contract": contract}


def _blocks(document: Document) -> Iterator[Block]:
    keys = ("images", "holdout", "test", "patients")
    rows = tuple((row["label"], *(units.count(row[key]) for key in keys)) for row in document["labels"])
    yield Grid(f"Images of {document['source']}", ("label", "training", "held out", "test", "patients"), rows)
    if document["bad"]:
        yield Grid(
            "Images left out", ("image", "reason"), tuple((bad["name"], bad["reason"]) for bad in document["bad"])
        )
    yield ""
    yield from contract_lines(document["contract"])


def contract_lines(contract: Document) -> Iterator[str]:
    """The head of a peers.yaml; a label is the text that stands there, so none needs quotes."""
    image = contract["image"]
    yield "contract:"
    yield f"  federation: {contract['federation']}"
    yield f"  labels: [{', '.join(contract['labels'])}]"
    yield f"  image: {{size: {image['size']}, channels: {image['channels']}}}"
    yield f"  quorum: {contract['quorum']}"
