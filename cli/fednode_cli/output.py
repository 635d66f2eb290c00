"""How verbs speak: data on stdout as text or as one JSON object, everything else on stderr.

Rule 1: a view is a list of plain blocks (a line of text or a table); a terminal gets them through rich, a pipe as aligned text.
Rule 2: text that others wrote is shown without control characters, so it can't steer the terminal.
"""

import json
import logging
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fednode.errors import StorageError

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table


ERROR_PREFIX = "fednode: "


@dataclass(frozen=True)
class Grid:
    """A table: `title` and `columns` may be empty; each row has as many cells as the others."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


Block = str | Grid


def clean(text: str) -> str:
    """`text` on one line: line ends become spaces, other characters that can't be shown question marks."""
    return "".join(char if char.isprintable() else " " if char.isspace() else "?" for char in text)


def show(blocks: Sequence[Block]) -> None:
    """Print a view on stdout."""
    if not sys.stdout.isatty():
        _write("".join(f"{line}\n" for line in plain_lines(blocks)))
        return
    from rich.console import Console  # noqa: PLC0415 - not needed by --help

    Console(highlight=False, markup=False, emoji=False).print(rich_view(blocks))


def show_json(document: Mapping[str, Any]) -> None:
    """Print one JSON object on stdout."""
    _write(json.dumps(document, indent=2) + "\n")


def report(document: Mapping[str, Any], blocks: Sequence[Block], as_json: bool) -> None:
    """Print a verb's answer in the form that was asked for."""
    if as_json:
        show_json(document)
    else:
        show(blocks)


def note(text: str) -> None:
    """A word to the person beside the data, on stderr; `-q` mutes it."""
    if logging.getLogger().isEnabledFor(logging.INFO):
        print(clean(text), file=sys.stderr)


def complain(message: str, hint: str = "") -> None:
    """One error on stderr: what is wrong, and below it the next step."""
    print(f"{ERROR_PREFIX}{clean(message)}", file=sys.stderr)
    if hint:
        print(f"  {clean(hint)}", file=sys.stderr)


def set_verbosity(verbose: bool, quiet: bool) -> None:
    """Send logs to stderr: all of them, the usual ones, or errors alone, which also mutes notes."""
    level = logging.DEBUG if verbose else logging.ERROR if quiet else logging.INFO
    form = "%(asctime)s %(levelname)s %(name)s: %(message)s"
    logging.basicConfig(level=level, format=form, stream=sys.stderr, force=True)


def verbosity_flags() -> list[str]:
    """The flags that give another process the verbosity of this one."""
    return {logging.DEBUG: ["--verbose"], logging.ERROR: ["--quiet"]}.get(logging.getLogger().level, [])


def plain_lines(blocks: Iterable[Block]) -> list[str]:
    """A view as aligned text, without colours or frames."""
    lines: list[str] = []
    for block in blocks:
        lines += [clean(block)] if isinstance(block, str) else _plain_grid(block)
    return lines


def rich_view(blocks: Iterable[Block]) -> "Group":
    """A view for a terminal."""
    from rich.console import Group  # noqa: PLC0415 - not needed by --help
    from rich.text import Text  # noqa: PLC0415

    return Group(*(Text(clean(block)) if isinstance(block, str) else _rich_grid(block) for block in blocks))


def prepare_streams() -> None:
    """Make stdout and stderr take any text: closed ones become the null device, unknown characters a question mark."""
    sys.stdout = sys.stdout or _null_device()
    sys.stderr = sys.stderr or _null_device()
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr] # the real streams are text wrappers
    sys.stderr.reconfigure(errors="replace")  # type: ignore[union-attr]


def abandon_stdout() -> None:
    """Point stdout at the null device after it failed, so that the interpreter's last flush is quiet."""
    sys.stdout = _null_device()
    os.dup2(sys.stdout.fileno(), 1)


def _write(text: str) -> None:
    """Raises StorageError if stdout can't take it, and BrokenPipeError if nobody reads it any more."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        abandon_stdout()
        raise StorageError(f"The output can't be written: {error.strerror}.") from error


def _plain_grid(grid: Grid) -> list[str]:
    rows = [tuple(clean(cell) for cell in row) for row in grid.rows]
    if grid.columns:
        rows.insert(0, grid.columns)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    indent = "  " if grid.title else ""
    lines = [indent + "  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return [f"{grid.title}:", *lines] if grid.title else lines


def _rich_grid(grid: Grid) -> "Table":
    from rich.table import Table  # noqa: PLC0415 - not needed by --help
    from rich.text import Text  # noqa: PLC0415

    table = Table(
        title=Text(grid.title, style="bold") if grid.title else None,
        title_justify="left",
        show_header=bool(grid.columns),
        header_style="cyan",
        box=None,
        padding=(0, 2, 0, 0),
    )
    for column in grid.columns or grid.rows[0]:
        table.add_column(column if grid.columns else "", overflow="fold")
    for row in grid.rows:
        table.add_row(*(Text(clean(cell)) for cell in row))
    return table


def _null_device() -> Any:
    return open(os.devnull, "w")  # noqa: PTH123 - it stays open until the process ends
