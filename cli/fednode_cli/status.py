"""`fednode status`: what the node does, has and waits for."""

import contextlib
import sys
import time
from collections.abc import Callable
from typing import Annotated

import typer

from fednode_cli.connect import daemon
from fednode_cli.options import AsJson
from fednode_cli.output import Block, report, rich_view, show
from fednode_cli.status_view import status_blocks

PERIOD = 1.0  # seconds between two views of --watch


def status(
    as_json: AsJson = False,
    watch: Annotated[bool, typer.Option("--watch", help="Show it anew each second, until Ctrl-C.")] = False,
) -> None:
    """Show what this node does, has and waits for."""
    if watch and as_json:
        raise typer.BadParameter("--json prints one object, so it does not go with --watch.")
    with daemon() as client:
        if watch:
            _watch(lambda: status_blocks(client.status(), time.time()))
            return
        document = client.status()
    report(document, status_blocks(document, time.time()), as_json)


def _watch(view: Callable[[], list[Block]]) -> None:
    """Show `view()` each second; Ctrl-C is how this ends, so it is no error."""
    with contextlib.suppress(KeyboardInterrupt):
        if sys.stdout.isatty():
            _redraw(view)
        else:
            _repeat(view)


def _redraw(view: Callable[[], list[Block]]) -> None:
    from rich.live import Live  # noqa: PLC0415 - only a terminal needs it

    with Live(rich_view(view()), screen=True, auto_refresh=False) as live:
        while True:
            time.sleep(PERIOD)
            live.update(rich_view(view()), refresh=True)


def _repeat(view: Callable[[], list[Block]]) -> None:
    while True:
        show(["", *view()])
        time.sleep(PERIOD)
