"""The op that scores: how each cell of the grid answers own held-out images, as counts and sums alone.

Rule 1: what is scored is what answers: the same functions give the log probabilities.
Rule 2: all cells and temperatures see the same images: of each own label the first in the order of content hashes.
Rule 3: latencies are measured beside it, for this node alone; they never leave it.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from fednode.grid import CELLS, Cell, GridRecipe, able
from fednode.learning.answers import log_answers
from fednode.learning.operations import unchanged
from fednode.learning.product import product_of_both, tempered
from fednode.learning.requests import Score
from fednode.learning.session import Report, Session

PROBES = 8

Result = dict[str, Any]


def score(request: Score, session: Session, report: Report) -> Result:
    """Scores by cell (see `Scores` in evaluation.py; none without enough own images), and milliseconds an image by cell."""
    own = _held_out(request, session)
    images = torch.cat([*own.values()]) if own else _probes(request)
    logs, latency = {}, {}
    cells = able(bool(request.experts), bool(request.generators), bool(request.classifiers))
    for name in cells:
        if CELLS[name].product != "both":
            answer = partial(_answer, request, session, CELLS[name], report)
            logs[name], latency[name] = _timed(answer, images)
    if "both" in cells:
        logs["both"] = product_of_both(logs["experts"], logs["generative"])
        latency["both"] = latency["experts"] + latency["generative"]
    return {
        "scores": [{"cell": name, "rows": _rows(logs[name], own, request)} for name in sorted(cells)] if own else [],
        "latency": {name: round(spent, 3) for name, spent in latency.items()},
    }


def rows_of(logs: Tensor, label: int, grid: GridRecipe) -> tuple[list[list[int]], list[int]]:
    """For log probabilities (N, K) of images of one label: [answered label, images] pairs, and a summed loss a temperature.

    An image's loss is -log p of its label, at most the grid's clip, in millionths of a nat.
    """
    answered = torch.bincount(logs.argmax(dim=1), minlength=logs.shape[1]).tolist()
    losses = []
    for milli in grid.temperatures_milli:
        loss = -tempered(logs, milli)[:, label].log().clamp_min(-grid.clip_milli / 1e3)
        losses.append(int((loss * 1e6).round().long().sum()))
    return [[index, count] for index, count in enumerate(answered) if count], losses


def _held_out(request: Score, session: Session) -> dict[str, Tensor]:
    """The images to score, by own label. Raises DataChangedError unless they are those of the spec."""
    spec = request.spec
    if request.data is None or not spec.own:
        return {}
    found = session.data(request.data, request.image, request.contract_labels).labels
    share = spec.grid.share(len(spec.own))
    return {label: torch.from_numpy(unchanged(found, label, digest).holdout[:share]) for label, digest in spec.own}


def _rows(logs: Tensor, own: dict[str, Tensor], request: Score) -> list[Result]:
    rows = []
    parts = torch.split(logs, [len(images) for images in own.values()])
    for label, part in zip(own, parts, strict=True):
        answered, losses = rows_of(part, request.labels.index(label), request.spec.grid)
        rows.append({"label": label, "answered": answered, "losses": losses})
    return rows


def _answer(request: Score, session: Session, cell: Cell, report: Report, images: Tensor) -> Tensor:
    return log_answers(request, session, images, cell, report)


def _timed(answer: Callable[[Tensor], Tensor], images: Tensor) -> tuple[Tensor, float]:
    """The answers for the images and the milliseconds an image, without those for reading weights."""
    answer(images[:1])
    began = time.monotonic()
    found = answer(images)
    return found, (time.monotonic() - began) * 1e3 / len(images)


def _probes(request: Score) -> Tensor:
    """Noise to measure latencies by, for a node that has nothing to score."""
    shape = (PROBES, request.image.channels, request.image.size, request.image.size)
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
