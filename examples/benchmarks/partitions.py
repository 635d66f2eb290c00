"""How a data set is shared out among nodes: silos, Dirichlet shares, or a fixed number of labels a node.

Rule 1: the same arguments give the same partition; every image goes to exactly one node.
Rule 2: no node is left empty, nothing is drawn again until it fits, and no share is ever NaN, however small alpha is.
Rule 3: what can't be done is refused with what to change; nothing is bent in silence.
"""

import numpy as np
import numpy.typing as npt

from fednode.errors import DataError

Indices = npt.NDArray[np.int64]

KINDS = "silos, dirichlet:ALPHA or shards:COUNT"
SMALLEST_ALPHA, LARGEST_ALPHA = 1e-6, 1e6
LEAST_IMAGES = 20


def partition(name: str, targets: Indices, labels: int, nodes: int | None, seed: int) -> list[Indices]:
    """For each node the sorted indices of its images; `targets` (n,) are label indices below `labels`.

    `silos`: one label a node, so that more nodes than labels share a label. `dirichlet:ALPHA`: each label is shared out by
    Dirichlet(ALPHA). `shards:COUNT`: each node has COUNT labels. There are as many nodes as labels unless `nodes` says otherwise.
    Raises DataError.
    """
    kind, _, value = name.partition(":")
    count = labels if nodes is None else nodes
    if count < 2:
        raise DataError(f"{count} node is no federation.", "Use 2 nodes or more.")
    if len(targets) < count:
        raise DataError(f"{len(targets)} images can't be shared out among {count} nodes.", "Use fewer nodes.")
    rng = np.random.default_rng([seed, 0x5EED])
    if kind == "silos" and not value:
        owners = _among_holders(targets, _silos(labels, count), rng)
    elif kind == "dirichlet":
        owners = _dirichlet(targets, labels, count, _alpha(value), rng)
    elif kind == "shards":
        owners = _among_holders(targets, _shards(labels, count, _labels_a_node(value, labels), rng), rng)
    else:
        raise DataError(f"{name!r} is not a partition.", f"Use {KINDS}.")
    return [np.flatnonzero(owners == node) for node in range(count)]


def _silos(labels: int, nodes: int) -> list[list[int]]:
    """For each label the nodes that hold it: node i has label i, and the nodes beyond the labels start over."""
    if nodes < labels:
        raise DataError(
            f"{nodes} silos can't hold {labels} labels.",
            f"Use at least {labels} nodes, or shards:{-(-labels // nodes)}.",
        )
    return [list(range(label, nodes, labels)) for label in range(labels)]


def _shards(labels: int, nodes: int, count: int, rng: np.random.Generator) -> list[list[int]]:
    """For each label the nodes that hold it; each node takes the labels that fewest others have, ties at random."""
    if nodes * count < labels:
        raise DataError(
            f"{nodes} nodes of {count} labels can't hold {labels} labels.", f"Use {-(-labels // count)} nodes or more."
        )
    holders: list[list[int]] = [[] for _ in range(labels)]
    for node in rng.permutation(nodes):
        order = sorted(rng.permutation(labels), key=lambda label: len(holders[label]))
        for label in order[:count]:
            holders[label].append(int(node))
    return [sorted(one) for one in holders]


def _among_holders(targets: Indices, holders: list[list[int]], rng: np.random.Generator) -> Indices:
    """The owner of each image (n,): every label's images in random order, in equal parts to the nodes that hold it."""
    owners = np.zeros(len(targets), dtype=np.int64)
    for label, nodes in enumerate(holders):
        members = rng.permutation(np.flatnonzero(targets == label))
        if 0 < len(members) < len(nodes):
            raise DataError(f"{len(members)} images of a label can't be shared by {len(nodes)} nodes.")
        for node, part in zip(nodes, np.array_split(members, len(nodes)), strict=True):
            owners[part] = node
    if missing := set(range(max(max(one) for one in holders) + 1)) - set(owners.tolist()):
        raise DataError(f"Node {min(missing)} would have no image.", "Leave labels without images out.")
    return owners


def _dirichlet(targets: Indices, labels: int, nodes: int, alpha: float, rng: np.random.Generator) -> Indices:
    """The owner of each image (n,): label by label cut at the sums of shares p ~ Dirichlet(alpha, ..., alpha)."""
    owners = np.zeros(len(targets), dtype=np.int64)
    for label in range(labels):
        members = rng.permutation(np.flatnonzero(targets == label))
        cuts = np.rint(np.cumsum(dirichlet_shares(alpha, nodes, rng))[:-1] * len(members)).astype(int)
        for node, part in enumerate(np.split(members, cuts)):
            owners[part] = node
    return _without_empty(owners, targets, nodes)


def dirichlet_shares(alpha: float, nodes: int, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Shares (nodes,) ~ Dirichlet(alpha, ..., alpha), adding up to 1.

    From log Gamma variates, by Gamma(alpha) = Gamma(alpha + 1) U^(1/alpha): for a small alpha the variates themselves are all 0
    in floating point, and shares of 0 / 0 are NaN.
    """
    logs = np.log(rng.gamma(alpha + 1, size=nodes)) + np.log1p(-rng.random(nodes)) / alpha
    weights = np.exp(logs - logs.max())
    shares: npt.NDArray[np.float64] = weights / weights.sum()
    return shares


def _without_empty(owners: Indices, targets: Indices, nodes: int) -> Indices:
    """Each node that got next to nothing is given images of the richest node's largest label.

    As the least is at most half of an equal share, the richest node always has more than twice of it, so one pass is enough.
    """
    least = max(1, min(LEAST_IMAGES, len(owners) // (2 * nodes)))
    for poor in range(nodes):
        while (short := least - int((owners == poor).sum())) > 0:
            counts = np.bincount(owners, minlength=nodes)
            richest = int(counts.argmax())
            label = np.bincount(targets[owners == richest]).argmax()
            members = np.flatnonzero((owners == richest) & (targets == label))
            owners[members[: min(short, int(counts[richest]) - least)]] = poor
    return owners


def _alpha(text: str) -> float:
    try:
        alpha = float(text)
    except ValueError:
        alpha = float("nan")
    if not SMALLEST_ALPHA <= alpha <= LARGEST_ALPHA:
        raise DataError(
            f"{text!r} is not an alpha.", f"Use dirichlet:0.1, from {SMALLEST_ALPHA:g} to {LARGEST_ALPHA:g}."
        )
    return alpha


def _labels_a_node(text: str, labels: int) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= labels):
        raise DataError(f"{text!r} is not a number of labels a node.", f"Use shards:2, from 1 to {labels}.")
    return int(text)
