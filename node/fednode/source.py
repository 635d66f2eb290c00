"""Data sources as text: which kinds there are, and the paths in them."""

from pathlib import Path

from fednode.contract import label_name
from fednode.errors import DataError

KINDS = "digits, digits:SEED, folder:PATH, npz:PATH, csv:PATH, torchvision:NAME or medmnist:NAME"
KINDS_WITH_PATH = ("folder", "npz", "csv")
KINDS_WITHOUT_PATH = ("digits", "torchvision", "medmnist")


def check(source: str) -> None:
    """What can be seen of a source before its images are read. Raises DataError if its kind or its path is wrong."""
    kind, _, rest = source.partition(":")
    if kind in KINDS_WITH_PATH and rest:
        try:
            there = Path(rest).exists()
        except OSError as error:
            raise DataError(f"{rest} can't be read: {error.strerror}.", "Check the path of the data.") from None
        if not there:
            raise DataError(f"{rest} is not there.", "Check the path of the data.")
    elif kind not in KINDS_WITHOUT_PATH:
        raise DataError(f"{source!r} is not a kind of data.", f"Use {KINDS}.")


def rebased(source: str, base: Path) -> str:
    """The source with the path in it made absolute from `base`; a leading `~/` is the user's own folder."""
    head, path = _divided(source)
    if not path:
        return source
    return f"{head}:{base / (Path(path).expanduser() if path.startswith('~/') else path)}"


def short_name(source: str) -> str:
    """A name for the data, in the spelling of labels."""
    kind, _, rest = source.partition(":")
    name = Path(rest).stem if kind in KINDS_WITH_PATH else rest.partition(":")[0]
    return label_name(kind if kind == "digits" else name) or kind


def _divided(source: str) -> tuple[str, str]:
    """What stands before the path, and the path; both empty where there is none."""
    kind, _, rest = source.partition(":")
    if kind in KINDS_WITH_PATH:
        return kind, rest
    name, _, folder = rest.partition(":")
    return (f"{kind}:{name}", folder) if kind == "torchvision" else ("", "")
