"""A folder for each label, with image files in it, or with a folder for each patient: LABEL/IMAGE and LABEL/PATIENT/IMAGE.

Rule: names that start with a dot are left out, and a patient is one patient under whatever label its name occurs.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from fednode.errors import DataError
from fednode.learning.readers.found import Entry, File, Found, Part, natural

HINT = "It holds one subfolder for each label."


def find(rest: str, part: Part, labels: Sequence[str] | None) -> Iterator[Found]:
    """The subfolders of the folder `rest`, by name; all images are in both parts. Raises DataError."""
    root = Path(rest).expanduser()
    try:
        if not root.is_dir():
            raise DataError(f"{root} is not a folder.", HINT)
        folders = [path for path in _visible(root) if path.is_dir()]
        if not folders:
            raise DataError(f"{root} has no subfolders.", HINT)
        for folder in sorted(folders, key=lambda path: natural(path.name)):
            yield Found(folder.name, list(_entries(root, folder)))
    except OSError as error:
        raise DataError(f"{root} can't be read: {error.strerror or error}.") from None


def _entries(root: Path, folder: Path) -> Iterator[Entry]:
    for path in _visible(folder):
        inner, patient = (_visible(path), path.name) if path.is_dir() else ([path], None)
        for file in inner:
            yield Entry(str(file.relative_to(root)), File(file), patient)


def _visible(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
