"""Data sources as text: which kinds there are, and the paths in them."""

from pathlib import Path

from fednode.contract import label_name

KINDS = "digits, digits:SEED, folder:PATH, npz:PATH, csv:PATH, torchvision:NAME or medmnist:NAME"
KINDS_WITH_PATH = ("folder", "npz", "csv")


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
