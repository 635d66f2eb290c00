"""What an expert is trained on: own real images and the donors' samples, label by label, in pools.

Rule 1: every covered label has the same weight, whatever its images; real and synthetic images of a label share it equally.
Rule 2: a real image keeps its label; a synthetic one has its donor's, or the generative product's soft label (`targets`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from fednode.errors import DataError
from fednode.learning.expert import Pool
from fednode.learning.generative import Term, posterior
from fednode.learning.session import Report, Session
from fednode.learning.synthesis import Donor, draw_label
from fednode.recipe import ExpertRecipe


@dataclass(frozen=True)
class Lesson:
    """Covered labels in order, own real images uint8 (N, C, H, W) by label, donors by label, and the recipe."""

    labels: Sequence[str]
    own: Mapping[str, Tensor]
    donors: Mapping[str, Sequence[Donor]]
    recipe: ExpertRecipe

    @property
    def drawn(self) -> list[str]:
        """The labels that synthetic images are drawn for: those without own images, and with `mixed` all that have a donor."""
        return [
            label
            for label in self.labels
            if self.donors.get(label) and (self.recipe.mix == "mixed" or label not in self.own)
        ]

    @property
    def counts(self) -> dict[str, int]:
        """How many real and synthetic images the expert sees."""
        synthesis = self.recipe.synthesis
        drawn = len(self.drawn) * synthesis.samples_per_label * synthesis.pools
        return {"real": sum(len(images) for images in self.own.values()), "synthetic": drawn}


def pools(lesson: Lesson, session: Session, report: Report) -> Iterator[Pool]:
    """The recipe's pools, each drawn when it is asked for. Raises DataError if a label has neither images nor a donor."""
    for label in lesson.labels:
        if label not in lesson.own and not lesson.donors.get(label):
            raise DataError(f"Label {label!r} has neither own images nor a generator.")
    for number in range(lesson.recipe.synthesis.pools):
        yield _pool(lesson, number, session, report)


def _pool(lesson: Lesson, number: int, session: Session, report: Report) -> Pool:
    drawn = _draw(lesson, number, session, report)
    taught = _teach(lesson, drawn, session, report) if lesson.recipe.targets == "teacher" and drawn else {}
    images, targets, weights = [], [], []
    for index, label in enumerate(lesson.labels):
        parts = [part for part in (lesson.own.get(label), drawn.get(label)) if part is not None]
        for part in parts:
            images.append(part)
            soft = taught.get(label) if part is drawn.get(label) else None
            targets.append(_hard(len(part), index, len(lesson.labels)) if soft is None else soft)
            share = 1 / (len(lesson.labels) * len(parts) * len(part))
            weights.append(torch.full((len(part),), share, dtype=torch.float64))
    return Pool(torch.cat(images), torch.cat(targets), torch.cat(weights))


def _draw(lesson: Lesson, number: int, session: Session, report: Report) -> dict[str, Tensor]:
    """The pool's synthetic images by label."""
    drawn: dict[str, Tensor] = {}
    for label in lesson.drawn:
        report("draw", len(drawn), len(lesson.drawn))
        drawn[label] = draw_label(lesson.donors[label], number, lesson.recipe.synthesis, session.numerics).images
    report("draw", len(drawn), len(lesson.drawn))
    return drawn


def _hard(count: int, index: int, outputs: int) -> Tensor:
    return functional.one_hot(torch.full((count,), index), outputs).float()


def _teach(lesson: Lesson, drawn: Mapping[str, Tensor], session: Session, report: Report) -> dict[str, Tensor]:
    """Soft labels (N, K) of the drawn images; a covered label without a donor gets probability 0."""
    known = [label for label in lesson.labels if lesson.donors.get(label)]
    terms = [Term(known.index(d.label), d.count, d.denoiser) for label in known for d in lesson.donors[label]]
    columns = [list(lesson.labels).index(label) for label in known]
    taught = {}
    for label, images in drawn.items():
        soft = posterior(terms, images, len(known), lesson.recipe.teacher, session.device)
        taught[label] = torch.zeros(len(images), len(lesson.labels)).index_copy(1, torch.tensor(columns), soft.float())
        report("relabel", len(taught), len(drawn))
    return taught
