"""Successive halving: labels that explain an image badly at the first noise levels are not asked at the others (2411.12073).

Rule 1: which labels stay follows from the image's own scores; at least two stay to the end, or all where there are fewer.
Rule 2: a label that was dropped gets what its score would have come to, and never more than one that stayed.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

LEAST = 2

Ask = Callable[[Tensor, tuple[int, ...]], Tensor]


@dataclass(frozen=True)
class Round:
    """The levels, by index, at which the labels left are asked, and how many labels stay after it."""

    levels: tuple[int, ...]
    keep: int


def rounds_of(order: tuple[int, ...], labels: int, keep_percent: int) -> list[Round]:
    """One level after another in `order`, each followed by a cut; once nothing is left to cut, the other levels at once."""
    rounds, kept = [], labels
    while order:
        keep = min(kept, max(LEAST, -(-kept * keep_percent // 100)))
        now = order[:1] if keep < kept else order
        rounds.append(Round(now, keep))
        order, kept = order[len(now) :], keep
    return rounds


def race(images: int, labels: int, rounds: list[Round], ask: Ask) -> Tensor:
    """Scores (N, K), float64, by Rule 2.

    `ask(alive, levels)` asks the labels `alive` (N, K) at more levels, and gives the sums (N, K) over all levels so far.
    """
    alive = torch.ones((images, labels), dtype=torch.bool)
    last = torch.zeros((images, labels), dtype=torch.long)
    partial = []
    for number, one in enumerate(rounds):
        last[alive] = number
        partial.append(ask(alive, one.levels))
        alive = _best(partial[-1], alive, one.keep)
    seen = torch.tensor([len(one.levels) for one in rounds], dtype=torch.float64).cumsum(0)
    return _completed(torch.stack(partial), last, seen / seen[-1])


def _best(scores: Tensor, alive: Tensor, keep: int) -> Tensor:
    """The `keep` best of those alive, ties to the earlier label."""
    order = scores.masked_fill(~alive, -torch.inf).argsort(dim=1, descending=True, stable=True)
    return torch.zeros_like(alive).scatter(1, order[:, :keep], True)


def _completed(partial: Tensor, last: Tensor, share: Tensor) -> Tensor:
    """Rule 2, from the sums after each round (R, N, K), the last round of each label, and the share of levels seen by then.

    A dropped label's distance to the winner grows at the rate at which it grew while it was in.
    """
    stayed = last == len(partial) - 1
    final = partial[-1].masked_fill(~stayed, -torch.inf)
    winner = final.argmax(dim=1, keepdim=True)
    behind = (partial - partial.gather(2, winner.expand(len(partial), -1, -1))) / share[:, None, None]
    scores = final.gather(1, winner) + behind.gather(0, last[None])[0]
    lowest = partial[-1].masked_fill(~stayed, torch.inf).min(dim=1, keepdim=True).values
    return torch.where(stayed, final, scores.minimum(lowest))
