"""The op that deals the images of a source to several nodes by Dirichlet shares of each label, as files that a node can read."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fednode.errors import DataError
from fednode.learning.images import Pixels
from fednode.learning.readers.found import Part
from fednode.learning.requests import Deal
from fednode.learning.session import Report, Session
from fednode.learning.sources import read

LEAST_IMAGES = 64  # of a node: enough to hold some out, and for the audit
TRIES = 100

Result = dict[str, Any]


def deal(request: Deal, session: Session, report: Report) -> Result:
    """Writes the training images of the source to one npz file a node, in MedMNIST's layout; the result counts them by label.

    Raises DataError if there are too few images for so many nodes.
    """
    raw = read(request.source, Part.TRAIN, request.image, request.labels, None, skip_bad=False)
    images = {
        label: np.stack([one.pixels for one in raw.images[label]]) for label in request.labels if label in raw.images
    }
    dealt = shares(request, {label: len(stack) for label, stack in images.items()})
    parts = [{label: images[label][rows] for label, rows in part.items() if len(rows)} for part in dealt]
    for out, part in zip(request.out, parts, strict=True):
        _write(Path(out), part, request.labels)
    return {"parts": [{label: len(stack) for label, stack in part.items()} for part in parts]}


def shares(request: Deal, counts: dict[str, int]) -> list[dict[str, npt.NDArray[np.int64]]]:
    """For each node and label the rows that it gets: every row once, by shares ~ Dirichlet(alpha, ..., alpha) label by label.

    Drawn again from the next seed while a node has fewer than LEAST_IMAGES. Raises DataError if that does not help.
    """
    for attempt in range(TRIES):
        chance = np.random.default_rng([request.seed, attempt])
        dealt: list[dict[str, npt.NDArray[np.int64]]] = [{} for _ in request.out]
        for label, count in counts.items():
            parts = chance.dirichlet([request.alpha_milli / 1e3] * len(dealt))
            cuts = np.rint(np.cumsum(parts)[:-1] * count).astype(int)
            for node, rows in zip(dealt, np.split(chance.permutation(count), cuts), strict=True):
                node[label] = rows
        if min(sum(map(len, node.values())) for node in dealt) >= LEAST_IMAGES:
            return dealt
    raise DataError(
        f"{sum(counts.values())} images are too few for {len(request.out)} nodes of {LEAST_IMAGES} or more.",
        "Use fewer nodes.",
    )


def _write(out: Path, part: dict[str, Pixels], labels: tuple[str, ...]) -> None:
    images = np.concatenate(list(part.values())).transpose(0, 2, 3, 1)
    targets = np.repeat([labels.index(label) for label in part], [len(stack) for stack in part.values()])
    np.savez(
        out,
        train_images=images if images.shape[-1] == 3 else images[..., 0],
        train_labels=targets.astype(np.int64),
        class_names=np.array(labels),
    )
