"""The tally: the counts of all nodes, added up, and the way to answer that they speak for. Pure.

Rule 1: only evaluations of one grid, of all cells that can answer, of no more images than it allows, and about the same
        artifacts and labels are added up.
Rule 2: a row counts only for a label that its issuer gives a live generator or classifier of, so that nobody speaks for others'
        images.
Rule 3: every label has the same weight, whatever its images: accuracy and log loss are means over the scored labels.
Rule 4: nothing is chosen before at least two labels, and half of all, were scored: few labels favour who always answers them.
Rule 5: of temperatures whose log losses differ by less than 1 / images the one nearest to 1 is taken: so many images can't tell
        surer answers apart, and where all are right the surest would always win.
Rule 6: of cells the most accurate is taken, of equals the cheapest; what a better answer may cost, the operator has said.
"""

import math
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Set
from dataclasses import dataclass
from itertools import chain

from fednode.estimate import Estimate, best_of, mean_of, wilson
from fednode.evaluation import Evaluation, Row
from fednode.grid import CELLS, PLAIN_MILLI, GridRecipe
from fednode_crypto.identity import PeerId

LEAST_SCORED = 2


@dataclass(frozen=True)
class Counts:
    """One cell and true label: images by answered label, and their log losses at each temperature in millionths of a nat."""

    label: str
    answered: Counter[str]
    losses: tuple[int, ...]

    def __add__(self, other: "Counts") -> "Counts":
        losses = tuple(map(sum, zip(self.losses, other.losses, strict=True)))
        return Counts(self.label, self.answered + other.answered, losses)

    @property
    def images(self) -> int:
        """How many images of the label were scored."""
        return self.answered.total()

    @property
    def accuracy(self) -> Estimate:
        """The share answered rightly."""
        return wilson(self.answered[self.label], self.images)

    def log_loss(self, temperature: int) -> float:
        """Mean log loss, in nats, at the temperature with this index."""
        return self.losses[temperature] / self.images / 1e6


@dataclass(frozen=True)
class Tally:
    """Cell -> label -> counts, and by whom each label was scored. `labels` are all that the products tell apart."""

    grid: GridRecipe
    labels: tuple[str, ...]
    cells: Mapping[str, Mapping[str, Counts]]
    scorers: Mapping[str, tuple[PeerId, ...]]

    @property
    def issuers(self) -> tuple[PeerId, ...]:
        """Whose counts are in it, sorted."""
        return tuple(sorted(set(chain.from_iterable(self.scorers.values()))))

    @property
    def images(self) -> int:
        """How many images were scored."""
        return sum(counts.images for counts in next(iter(self.cells.values()), {}).values())

    @property
    def tells(self) -> bool:
        """Whether enough labels were scored to choose by (Rule 4)."""
        return len(self.scorers) >= max(LEAST_SCORED, math.ceil(len(self.labels) / 2))

    def accuracy(self, cell: str) -> Estimate:
        """Mean accuracy over the scored labels."""
        return mean_of([counts.accuracy for counts in self.cells[cell].values()])

    def log_loss(self, cell: str, temperature_milli: int) -> float:
        """Mean log loss over the scored labels, in nats, at a temperature of the grid."""
        at, found = self.grid.temperatures_milli.index(temperature_milli), self.cells[cell].values()
        return sum(counts.log_loss(at) for counts in found) / len(found)

    def temperature(self, cell: str) -> int:
        """The temperature, in thousandths, that is nearest to 1 among those with nearly the least log loss (Rule 5)."""
        if not self.tells or cell not in self.cells:
            return PLAIN_MILLI
        losses = {milli: self.log_loss(cell, milli) for milli in self.grid.temperatures_milli}
        close = [milli for milli, loss in losses.items() if loss <= min(losses.values()) + 1 / self.images]
        return min(close, key=lambda milli: (abs(math.log(milli / PLAIN_MILLI)), losses[milli]))

    def best(self, cells: Iterable[str]) -> str | None:
        """The most accurate of these cells, of equals the cheapest (Rule 6); None if too little was scored."""
        able = [cell for cell in CELLS if cell in self.cells.keys() & set(cells)]
        if not self.tells or not able:
            return None
        return best_of({cell: self.accuracy(cell) for cell in able})


def add_up(
    labels: tuple[str, ...],
    grid: GridRecipe,
    evaluations: Iterable[Evaluation],
    entitled: Mapping[PeerId, Container[str]],
    able: Iterable[str],
) -> Tally:
    """The tally of evaluations about one and the same product set, whose cells are `able`.

    `entitled`: the labels that each issuer may speak for.
    """
    cells: dict[str, dict[str, Counts]] = {cell: {} for cell in able}
    scorers: dict[str, tuple[PeerId, ...]] = {}
    for one in sorted(evaluations, key=lambda one: one.issuer):
        if not _fits(one, labels, grid, cells.keys()):
            continue
        for scores in one.scores:
            for row in scores.rows:
                if row.label in entitled.get(one.issuer, ()):
                    found = _counts(row, labels)
                    held = cells[scores.cell].get(row.label)
                    cells[scores.cell][row.label] = held + found if held else found
                    scorers[row.label] = (*(p for p in scorers.get(row.label, ()) if p != one.issuer), one.issuer)
    return Tally(grid, labels, cells, scorers)


def _fits(one: Evaluation, labels: tuple[str, ...], grid: GridRecipe, cells: Set[str]) -> bool:
    """Rule 1, but for the artifacts, which the caller compares."""
    rows = one.scores[0].rows
    same = (one.grid, one.labels, {scores.cell for scores in one.scores}) == (grid.digest, labels, cells)
    modest = all(grid.minimum_images <= row.images <= grid.share(len(rows)) for row in rows)
    return same and modest and len(rows[0].losses) == len(grid.temperatures_milli)


def _counts(row: Row, labels: tuple[str, ...]) -> Counts:
    return Counts(row.label, Counter({labels[index]: count for index, count in row.answered}), row.losses)
