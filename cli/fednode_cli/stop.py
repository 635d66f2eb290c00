"""`fednode stop`: ends the home's daemon."""

import time
from typing import Annotated

import typer

from fednode.config import Home, Lock
from fednode.errors import HomeInUseError
from fednode_cli import connect
from fednode_cli.options import AsJson
from fednode_cli.output import report

PAUSE = 0.1


def stop(
    timeout: Annotated[float, typer.Option(min=0, metavar="SECONDS", help="How long to wait for its end.")] = 20,
    as_json: AsJson = False,
) -> None:
    """End the daemon cleanly, and return once it has ended."""
    begin = time.monotonic()
    with connect.daemon() as client:
        client.stop()
    while not _is_free(connect.home()):
        if time.monotonic() - begin > timeout:
            raise HomeInUseError(
                f"The daemon has not ended after {timeout:g} seconds.", "It may still do so; see its log."
            )
        time.sleep(PAUSE)
    seconds = round(time.monotonic() - begin, 3)
    report({"stopped": True, "seconds": seconds}, ["The daemon has stopped."], as_json)


def _is_free(home: Home) -> bool:
    try:
        with Lock(home):
            return True
    except HomeInUseError:
        return False
