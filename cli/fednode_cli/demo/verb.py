"""`fednode demo`: a federation on this machine, measured."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from fednode.errors import FednodeError
from fednode_cli.options import SOURCE_HELP, AsJson, absolute_source
from fednode_cli.output import note, report

LEAST_NODES, MOST_NODES = 2, 64


class Exchange(StrEnum):
    """What the nodes of a demo exchange."""

    GENERATORS = "generators"
    CLASSIFIERS = "classifiers"


def demo(
    nodes: Annotated[int, typer.Option(min=LEAST_NODES, max=MOST_NODES, metavar="N", help="How many nodes.")] = 5,
    data: Annotated[str, typer.Option(metavar="SOURCE", help=SOURCE_HELP)] = "digits",
    exchange: Annotated[Exchange, typer.Option(help="What the nodes exchange.")] = Exchange.GENERATORS,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, metavar="N", help="How the digits are split.")] = 0,
    keep: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep homes, logs and the report in this new folder.")
    ] = None,
    no_verify: Annotated[bool, typer.Option("--no-verify", help="Build no reference federation.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run a federation here, and let its last node leave.

    Real processes, each with its own home, key and port, share out the labels of the data, fit, exchange, train and answer; with
    --exchange classifiers each has a part of every label, by Dirichlet shares. Then the last node leaves while all others are
    asked for predictions, they rebuild, and a reference federation that never had that node shows whether they unlearned it to
    the bit. The report is a folder: report.json, confusion.png, and with generators samples.png.
    """
    from fednode_cli.demo import stages, views  # noqa: PLC0415 - they bring grpc, which --help does without
    from fednode_cli.demo.folders import folders  # noqa: PLC0415
    from fednode_cli.demo.interrupts import Interrupts  # noqa: PLC0415
    from fednode_cli.demo.progress import Display  # noqa: PLC0415

    source = f"digits:{seed}" if data == "digits" else absolute_source(data)
    with Interrupts() as interrupts, folders(keep, interrupts) as (work, target):
        options = stages.Options(nodes, source, exchange.value, seed, work, target, not no_verify)
        with Display() as display:
            found = stages.run(options, interrupts, display)
        (target / "report.json").write_text(json.dumps(found, indent=2) + "\n")
    report(found, views.blocks(found), as_json)
    note(f"The report is in {target}.")
    if found["unlearning"]["bit_identical"] is False:
        raise FednodeError("The rebuilt experts are not those of the reference federation.", f"See {target}.")
