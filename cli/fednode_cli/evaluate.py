"""`fednode evaluate`: how good each expert and each product is, on test images or on every node's held-out ones."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from fednode_cli import units
from fednode_cli.connect import daemon
from fednode_cli.options import SOURCE_HELP, AsJson, KeptLabels, SkipBad, absolute_source, checked_png, label_list
from fednode_cli.output import Block, Grid, report

NAMED = {"both": "product of both", "ensemble": "ensemble of classifiers"}
MEASURES = ("accuracy", "macro_auroc", "f1", "ece")
COSTS = ("product", "accuracy", "95 % interval", "log loss", "ms an image", "network calls an image")


def evaluate(
    data: Annotated[str | None, typer.Option(metavar="SOURCE", help=SOURCE_HELP)] = None,
    federation: Annotated[
        bool, typer.Option("--federation", help="Show what all nodes have counted on their held-out images.")
    ] = False,
    labels: KeptLabels = None,
    skip_bad: SkipBad = False,
    confusion: Annotated[
        Path | None, typer.Option(metavar="FILE.png", help="Draw the confusion matrices.", callback=checked_png)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure each expert and each product.

    On test images (--data), or as all nodes have counted on their own held-out images (--federation).
    Only images of labels that are covered count.
    """
    if (data is None) != federation:
        raise typer.BadParameter("Give either --data SOURCE or --federation.")
    if data is None:
        with daemon() as client:
            counted = client.evaluate_federation()
        report(counted, _federation_blocks(counted), as_json)
        return
    picture = str(confusion) if confusion else ""
    with daemon() as client:
        document = client.evaluate(absolute_source(data), label_list(labels), picture, skip_bad)
    report({**document, "confusion_png": picture or None}, _blocks(document, picture), as_json)


def _blocks(document: Mapping[str, Any], picture: str) -> list[Block]:
    labels, left_out = document["labels"], document["uncovered_images"]
    blocks: list[Block] = [
        f"{document['images']} images of {len(labels)} labels: {', '.join(labels)}",
        *([f"Left out: {left_out} images of labels that no peer covers"] if left_out else []),
        Grid("", ("model", "expert", "accuracy", "macro AUROC", "F1", "ECE", ""), tuple(_rows(document))),
        Grid("Products", COSTS, tuple(_costs(document))),
        Grid("Recall by label", ("label", "images", *document["products"]), tuple(_recalls(document))),
    ]
    return [*blocks, f"Confusion matrices: {picture}"] if picture else blocks


def _rows(document: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for expert in document["experts"]:
        yield (f"expert of {expert['peer']}", expert["digest"][:8], *_measures(expert), "")
    for name, measures in document["products"].items():
        yield (NAMED.get(name, f"{name} product"), "", *_measures(measures), "")
    yield ("what predict uses", "", *_measures(document["chosen"]), _way(document["chosen"]))


def _way(way: Mapping[str, Any]) -> str:
    levels = f", {way['levels']} levels" if way["levels"] in ("low", "high") else ""
    return f"{way['product']}{levels}, temperature {way['temperature']:g} ({way['chosen_by']})"


def _costs(document: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for name, one in document["products"].items():
        numbers = (units.number(one["log_loss"]), units.number(one["latency_ms"]), f"{one['calls']:g}")
        yield (name, units.number(one["accuracy"]), units.interval(one["interval"]), *numbers)


def _recalls(document: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """A row for each label: how many of its images each product answered right, with the interval."""
    for rows in zip(*(one["labels"] for one in document["products"].values()), strict=True):
        yield (rows[0]["label"], str(rows[0]["images"]), *map(_recall, rows))


def _recall(row: Mapping[str, Any]) -> str:
    return f"{units.number(row['recall'])} ({units.interval(row['interval'])})" if row["images"] else "-"


def _measures(measures: Mapping[str, float | None]) -> tuple[str, ...]:
    return tuple(units.number(measures[name]) for name in MEASURES)


def _federation_blocks(document: Mapping[str, Any]) -> list[Block]:
    cells = document["cells"]
    blocks: list[Block] = [
        f"{document['images']} held-out images of {len(document['rows'])} labels, counted by {', '.join(document['nodes'])}",
        Grid("Accuracy with 95 % intervals", ("label", "images", *cells), tuple(_label_rows(document))),
        Grid("Log loss", ("", *cells), tuple(_loss_rows(document))),
        f"Predictions use {_way(document['chosen'])}",
    ]
    if document["unscored"]:
        blocks.append(f"Nobody has scored {', '.join(document['unscored'])}: too few images are held out there.")
    return blocks


def _label_rows(document: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for row in document["rows"]:
        yield (row["label"], str(row["images"]), *map(units.share, row["cells"].values()))
    yield ("mean", str(document["images"]), *map(units.share, document["cells"].values()))


def _loss_rows(document: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    cells = document["cells"].values()
    for name in next(iter(cells))["log_losses"]:
        yield (f"temperature {name}", *(units.number(cell["log_losses"][name]) for cell in cells))
