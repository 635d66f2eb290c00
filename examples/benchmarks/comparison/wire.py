"""Bytes on the wire, counted from the sizes of the files that move. Each variant has its own way of moving them.

p2p         every file goes from its owner to each of the other nodes
relayed     every file goes from its owner to a relay that is no node, and from there to each of the other nodes
centralised every file goes once, to one node that has no images
server      FedAvg: every round takes the model to each node and back
"""

from collections.abc import Sequence


def exchanged(sizes: Sequence[int], nodes: int) -> dict[str, int]:
    """Files of which each is made by one of `nodes` nodes and needed by all."""
    return {"wire": sum(sizes) * (nodes - 1), "p2p": sum(sizes) * (nodes - 1), "relayed": sum(sizes) * nodes}


def centralised(sizes: Sequence[int]) -> dict[str, int]:
    """Files that all nodes send to one place."""
    return {"wire": sum(sizes), "centralised": sum(sizes)}


def averaged(model: int, nodes: int, rounds: int, many: int) -> dict[str, int]:
    """A model that goes to each node and back in every round; also for `many` rounds."""
    return {
        "wire": 2 * rounds * model * nodes,
        "server": 2 * rounds * model * nodes,
        f"rounds_{many}": 2 * many * model * nodes,
    }
