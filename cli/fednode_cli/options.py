"""Options that several verbs share."""

import os
from pathlib import Path
from typing import Annotated

import typer

from fednode import source as sources

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do it without asking.")]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Leave out images that can't be read, and count them.")]
PeersFile = Annotated[
    Path | None, typer.Option("--peers", metavar="FILE", help="The peers file; default: peers.yaml in the home.")
]
KeptLabels = Annotated[str | None, typer.Option("--labels", metavar="A,B", help="Use only the images of these labels.")]
PresetName = Annotated[
    str | None, typer.Option("--preset", metavar="PRESET", help="The size of the generators: nano, xs, s, m or paper.")
]
NumberType = Annotated[
    str | None,
    typer.Option(
        "--dtype",
        metavar="TYPE",
        help="What networks compute in: float32, or bfloat16 where it is faster (`fednode budget`).",
    ),
]

SOURCE_HELP = f"Where the images are: {sources.KINDS}."
REASON_LIMIT = 500


def shown(text: str | None) -> str | None:
    """The text with what is no text, bytes of another encoding, as question marks; no name has such."""
    return None if text is None else text.encode(errors="replace").decode()


def label_list(text: str | None) -> tuple[str, ...]:
    """The labels in `a,b`; none for no text."""
    return tuple(label.strip() for label in (text or "").split(",") if label.strip())


def absolute_source(source: str) -> str:
    """The data source with its path made absolute, since the daemon's working directory is another."""
    return sources.rebased(source, Path.cwd())


def absolute(path: str) -> Path:
    """The absolute form of a path; a leading `~/` is the user's own folder."""
    return (Path(path).expanduser() if path.startswith("~/") else Path(path)).absolute()


def checked_reason(reason: str) -> str:
    """A reason that fits into a signed statement. Raises typer.BadParameter otherwise."""
    if not 1 <= len(reason.strip()) <= REASON_LIMIT:
        raise typer.BadParameter(f"a reason has 1 to {REASON_LIMIT} characters.")
    return reason.strip().encode(errors="replace").decode()


def checked_png(path: Path | None) -> Path | None:
    """The absolute path of a picture to be written. Raises typer.BadParameter unless it ends in .png and can be written."""
    if path is None:
        return None
    if path.suffix.lower() != ".png":
        raise typer.BadParameter("the picture is a PNG: its name ends in .png.")
    found = absolute(str(path))
    if found.is_dir() or not os.access(found if found.exists() else found.parent, os.W_OK):
        raise typer.BadParameter(f"{found} can't be written: its folder is missing, or it is not yours.")
    return found
