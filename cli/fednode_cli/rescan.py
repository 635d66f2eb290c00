"""`fednode rescan`: reads the own images and peers.yaml again."""

from fednode_cli.connect import daemon
from fednode_cli.options import AsJson
from fednode_cli.output import report


def rescan(as_json: AsJson = False) -> None:
    """Read the own images and peers.yaml again.

    What changed is fitted anew, and what was made from the old images is unlearned everywhere.
    """
    with daemon() as client:
        document = client.rescan()
    labels = document["labels"]
    report(document, [f"Own labels: {', '.join(labels)}." if labels else "There are no own images."], as_json)
