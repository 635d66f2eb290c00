"""Where the demo works and where its report goes."""

import contextlib
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from fednode.errors import RefusedError
from fednode_cli.demo.interrupts import Interrupts
from fednode_cli.options import absolute


@contextlib.contextmanager
def folders(keep: Path | None, interrupts: Interrupts) -> Iterator[tuple[Path, Path]]:
    """The folder to work in and that of the report: both `keep`, or one that is gone afterwards and a new one that stays.

    Raises RefusedError if there is something in `keep` already.
    """
    if keep is None:
        with _report_folder() as report, _temporary_folder(interrupts) as work:
            yield work, report
    else:
        kept = absolute(str(keep))
        if kept.exists() and (not kept.is_dir() or any(kept.iterdir())):
            raise RefusedError(f"There is something in {kept} already.", "Name a new folder, or an empty one.")
        kept.mkdir(mode=0o700, parents=True, exist_ok=True)
        yield kept, kept


@contextlib.contextmanager
def _report_folder() -> Iterator[Path]:
    """A new folder where we are; made first, so that a place that can't be written is found before the work is done."""
    folder = Path.cwd() / time.strftime("demo-%Y%m%d-%H%M%S")
    folder.mkdir()
    try:
        yield folder
    finally:
        with contextlib.suppress(OSError):  # it stays if something is in it
            folder.rmdir()


@contextlib.contextmanager
def _temporary_folder(interrupts: Interrupts) -> Iterator[Path]:
    with interrupts.held():
        folder = Path(tempfile.mkdtemp(prefix="fednode-demo-"))
    try:
        yield folder
    finally:
        with interrupts.held():
            shutil.rmtree(folder)
