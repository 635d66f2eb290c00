"""The picture of real beside synthetic images: each node draws its own labels, since only it has the real ones."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

from fednode_cli.demo.goals import Document

AT_ONCE = 2


class Client(Protocol):
    """What can draw."""

    def samples(self, png: str) -> Document:
        """The document of the verb."""


def draw_samples(clients: Mapping[str, Client], folder: Path, target: Path) -> None:
    """Let every node draw into `folder`, and write all strips, one below the other, to `target`. Raises FednodeError."""
    strips = [folder / f"samples-{name}.png" for name in clients]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda client, strip: client.samples(str(strip)), clients.values(), strips))
    _stack(strips, target)
    for strip in strips:
        strip.unlink()


def _stack(strips: Sequence[Path], target: Path) -> None:
    from PIL import Image  # noqa: PLC0415 - not needed by --help

    images = [Image.open(strip).convert("RGB") for strip in strips]
    width, height = max(image.width for image in images), sum(image.height for image in images)
    sheet = Image.new("RGB", (width, height), "white")
    top = 0
    for image in images:
        sheet.paste(image, (0, top))
        top += image.height
    sheet.save(target)
