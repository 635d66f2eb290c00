"""`fednode version`: what runs here."""

import platform
from importlib import metadata

from fednode_cli.options import AsJson
from fednode_cli.output import Grid, report

PROTOCOL = 1
STATEMENTS = 1


def program_version() -> str:
    """The installed version of fednode."""
    try:
        return metadata.version("fednode")
    except metadata.PackageNotFoundError:
        return "not installed"


def version(as_json: AsJson = False) -> None:
    """Print the versions of what runs here."""
    document = {
        "fednode": program_version(),
        "python": platform.python_version(),
        "protocol": PROTOCOL,
        "statements": STATEMENTS,
    }
    rows = tuple((name, str(value)) for name, value in document.items())
    report(document, [Grid("", (), rows)], as_json)
