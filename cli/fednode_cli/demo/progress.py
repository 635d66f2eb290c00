"""What the nodes do, on stderr: a live table on a terminal, else a line whenever a node comes to another phase."""

import logging
import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from fednode_cli import units
from fednode_cli.demo.goals import Document, Statuses, product_peers
from fednode_cli.output import Block, Grid, note, rich_view

if TYPE_CHECKING:
    from rich.live import Live

COLUMNS = ("node", "labels", "phase", "job", "progress", "time left", "generators", "experts")


class Display:
    """Says what stage the demo is in, and shows the nodes' statuses as they change."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._stage = ""
        self._statuses: Statuses = {}
        self._phases: dict[str, str] = {}
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty() and logging.getLogger().isEnabledFor(logging.INFO):
            from rich.console import Console  # noqa: PLC0415 - only a terminal needs it
            from rich.live import Live  # noqa: PLC0415

            console = Console(stderr=True, highlight=False, markup=False, emoji=False)
            self._live = Live(console=console, auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def stage(self, text: str) -> None:
        """What is being done now."""
        self._stage = text
        if self._live is None:
            note(f"{self._elapsed()}  {text}")
        self._redraw()

    def show(self, statuses: Statuses) -> None:
        """The statuses at this moment."""
        self._statuses = statuses
        if self._live is None:
            self._tell_phases()
        self._redraw()

    def _tell_phases(self) -> None:
        for name, status in self._statuses.items():
            if self._phases.get(name) != status["phase"]:
                self._phases[name] = status["phase"]
                note(f"{self._elapsed()}    {name}: {status['phase']}")

    def _redraw(self) -> None:
        if self._live is not None:
            self._live.update(rich_view(blocks(f"{self._elapsed()}  {self._stage}", self._statuses)), refresh=True)

    def _elapsed(self) -> str:
        return f"{time.monotonic() - self._began:6.1f} s"


def blocks(headline: str, statuses: Statuses) -> Sequence[Block]:
    """The live view."""
    rows = tuple(_row(name, status) for name, status in statuses.items())
    return [headline, *([Grid("", COLUMNS, rows)] if rows else [])]


def _row(name: str, status: Document) -> tuple[str, ...]:
    job = status["jobs"][0] if status["jobs"] else {}
    own = status["data"]["labels"] if status["data"] else []
    return (
        name,
        " ".join(found["label"] for found in own),
        status["phase"],
        job.get("job", ""),
        units.bar(job.get("done", 0), job.get("total", 0)),
        units.duration(job.get("eta")),
        str(sum(len(labels) for labels in status["gamma"].values())),
        str(len(product_peers(status))),
    )
