"""MedMNIST: `medmnist:NAME`, or `medmnist:NAME:SIZE` with 64, 128 or 224 in place of 28 pixels.

Addresses, checksums and the names of classes come from the package medmnist, which a user installs beside fednode.
"""

import importlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fednode.errors import DataError
from fednode.learning.readers import npz
from fednode.learning.readers.downloads import arriving, cache
from fednode.learning.readers.found import Found, Part
from fednode.yamlfile import nearest

USUAL_SIZE = "28"


def find(rest: str, part: Part, labels: Sequence[str] | None) -> Iterator[Found]:
    """The classes of the data set NAME of `rest`, downloaded if it is not there yet. Raises DataError."""
    name, _, size = rest.partition(":")
    info = _info(name)
    end = "" if size in ("", USUAL_SIZE) else f"_{size}"
    if f"MD5{end}" not in info:
        sizes = sorted((key.partition("_")[2] or USUAL_SIZE for key in info if key.startswith("MD5")), key=int)
        raise DataError(f"medmnist:{name} has no size {size!r}.", f"There are {', '.join(sizes)}.")
    path = cache("medmnist") / f"{name}{end}.npz"
    if not path.exists():
        _download(path, info[f"url{end}"], info[f"MD5{end}"])
    names = [info["label"][str(index)] for index in range(len(info["label"]))]
    yield from npz.find_in(path, part, names)


def _info(name: str) -> Mapping[str, Any]:
    try:
        table = importlib.import_module("medmnist").INFO
    except ImportError:
        raise DataError(
            "The package medmnist is not installed.",
            "Run `pip install medmnist`, or use npz:PATH with a file of yours.",
        ) from None
    if name not in table:
        raise DataError(f"medmnist:{name}: {nearest(name, table, 'data set')}")
    info: Mapping[str, Any] = table[name]
    if name.endswith("3d") or info["task"].startswith("multi-label"):
        what = "volumes in place of images" if name.endswith("3d") else "several labels for an image"
        raise DataError(f"medmnist:{name} has {what}, which can't be used.")
    return info


def _download(path: Path, url: str, checksum: str) -> None:
    from torchvision.datasets.utils import download_url  # noqa: PLC0415  (only this source needs it)

    with arriving(path.name, path.parent) as folder:
        download_url(url, folder, path.name, checksum)
