"""`fednode rescan`: reads the own images and peers.yaml again."""

from fednode_cli.connect import daemon
from fednode_cli.options import AsJson
from fednode_cli.output import note, report


def rescan(as_json: AsJson = False) -> None:
    """Read the own images and peers.yaml again.

    What changed is fitted anew, and what was made from the old images is unlearned everywhere.
    """
    with daemon() as client:
        document = client.rescan()
    report(document, ["The daemon reads the own images and peers.yaml again."], as_json)
    note("`fednode status` shows what it finds.")
