"""`fednode predict IMAGE...`: what the product says of images."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from fednode.errors import DataError, ExitCode
from fednode_cli.connect import daemon
from fednode_cli.options import AsJson
from fednode_cli.output import Grid, complain, note, report

IMAGE_LIMIT = 64 * 2**20  # bytes of one file
REQUEST_LIMIT = 200 * 2**20  # bytes of all files; the daemon takes 256 MiB with what is around them

Answer = dict[str, Any]


class Product(StrEnum):
    """Which product answers; `auto` leaves it to what all nodes have measured."""

    AUTO = "auto"
    EXPERTS = "experts"
    GENERATIVE = "generative"
    BOTH = "both"
    ENSEMBLE = "ensemble"


def predict(
    images: Annotated[list[str], typer.Argument(metavar="IMAGE...", help="Image files.")],
    product: Annotated[Product, typer.Option(help="Which product answers.")] = Product.AUTO,
    as_json: AsJson = False,
) -> None:
    """Ask the product for the labels of images.

    A line for each image has its name, label, probability and the product that answered.
    """
    files = [_read(name) for name in images]
    readable = [(answer["name"], data) for answer, data in files if data is not None]
    for answer, data in files:
        if data is None:
            complain(answer["error"])
    if not readable:
        raise typer.Exit(ExitCode.DATA)
    _check_size(readable)
    with daemon() as client:
        document = client.predict(readable, product.value)
    answers = _in_order([answer for answer, _ in files], document["answers"])
    report({**document, "answers": answers}, _lines(answers, document["product"]), as_json)
    _finish(document, answers)


def _read(name: str) -> tuple[Answer, bytes | None]:
    """The shown name of a file with its bytes; or with the reason why there are none."""
    shown = name.encode(errors="replace").decode()
    path = Path(name)
    try:
        if path.exists() and not path.is_file():
            return {"name": shown, "error": f"{shown} is not a file."}, None
        if path.stat().st_size > IMAGE_LIMIT:
            return {"name": shown, "error": f"{shown} is larger than {IMAGE_LIMIT // 2**20} MiB."}, None
        return {"name": shown}, path.read_bytes()
    except OSError as error:
        return {"name": shown, "error": f"{shown} can't be read: {error.strerror}."}, None


def _check_size(files: Sequence[tuple[str, bytes]]) -> None:
    if sum(len(data) for _, data in files) > REQUEST_LIMIT:
        raise DataError(f"The images have more than {REQUEST_LIMIT // 2**20} MiB together.", "Ask for fewer at a time.")


def _in_order(files: Sequence[Answer], answers: Sequence[Answer]) -> list[Answer]:
    """The daemon's answers, with the files that could not be read put back in their places."""
    given = iter(answers)
    return [file if "error" in file else next(given) for file in files]


def _lines(answers: Sequence[Answer], product: str) -> list[Grid]:
    rows = [
        (answer["name"], answer["label"], f"{answer['probabilities'][answer['label']]:.4f}", product)
        for answer in answers
        if "error" not in answer
    ]
    return [Grid("", (), tuple(rows))] if rows else []


def _finish(document: dict[str, Any], answers: Sequence[Answer]) -> None:
    """Say what the answers leave open. Raises typer.Exit if an image could not be read."""
    if document["uncovered"]:
        note(f"No generator of these labels is live here, so no answer names them: {', '.join(document['uncovered'])}.")
    for answer in document["answers"]:
        if "error" in answer:
            complain(f"{answer['name']}: {answer['error']}")
    if any("error" in answer for answer in answers):
        raise typer.Exit(ExitCode.DATA)
