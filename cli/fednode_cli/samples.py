"""`fednode samples FILE.png`: own real images beside synthetic ones."""

from pathlib import Path
from typing import Annotated

import typer

from fednode_cli.connect import daemon
from fednode_cli.options import AsJson, checked_png
from fednode_cli.output import report


def samples(
    file: Annotated[Path, typer.Argument(metavar="FILE.png", help="Where to draw.", callback=checked_png)],
    per_label: Annotated[int, typer.Option(min=1, max=64, metavar="N", help="Images of each label.")] = 8,
    as_json: AsJson = False,
) -> None:
    """Draw own real images beside synthetic ones."""
    with daemon() as client:
        document = client.samples(str(file), per_label)
    report({"png": str(file), **document}, [f"Samples: {file}"], as_json)
