"""What an expert is trained on: own real images and the donors' samples, in pools.

Rule 1: every covered label has the same weight, whatever its images; real and synthetic images of a label share it equally.
Rule 2: a real image keeps its label; a synthetic one has its donor's, or the generative product's soft label (`targets`). With
        `teach_real` real ones have soft labels too.
Rule 3: a label never loses all its samples: where the generative product agrees with none of them, all stay.
Rule 4: what is drawn by chance follows from the recipe and the pool's number, and samples from their donors.
Rule 5: whatever the recipe does with labels, the generative product is asked of a few samples of each donor, for its report.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from fednode.errors import DataError
from fednode.learning.expert import Pool
from fednode.learning.generative import Term, posterior
from fednode.learning.sampler import to_bytes, to_data
from fednode.learning.seeds import seed_of
from fednode.learning.session import Report, Session
from fednode.learning.synthesis import Donor, Synthetic, draw_label, project
from fednode.recipe import ExpertRecipe

ASKED = 16  # samples of a donor: enough to tell a generator of another label, and a small part of what drawing costs

Teach = Callable[[Tensor], Tensor]
Doubted = dict[tuple[str, str], tuple[int, int]]


@dataclass(frozen=True)
class Lesson:
    """Covered labels in order, own real images uint8 (N, C, H, W) by label, donors by label, and the recipe."""

    labels: Sequence[str]
    own: Mapping[str, Tensor]
    donors: Mapping[str, Sequence[Donor]]
    recipe: ExpertRecipe

    @property
    def real(self) -> Mapping[str, Tensor]:
        """The own images that the recipe uses."""
        return {} if self.recipe.mix == "synthetic" else self.own

    @property
    def drawn(self) -> list[str]:
        """The labels that synthetic images are drawn for: those without real ones, and with `mixed` all that have a donor."""
        return [
            label
            for label in self.labels
            if self.donors.get(label) and (self.recipe.mix == "mixed" or label not in self.real)
        ]

    @property
    def counts(self) -> dict[str, int]:
        """How many real images the expert sees, and how many samples are drawn for it."""
        synthesis = self.recipe.synthesis
        drawn = len(self.drawn) * synthesis.samples_per_label * synthesis.pools
        return {"real": sum(len(images) for images in self.real.values()), "synthetic": drawn}


class Part(NamedTuple):
    """Images uint8 (N, C, H, W), the label that each counts for, as its index, (N,), and target probabilities (N, K)."""

    images: Tensor
    label: Tensor
    targets: Tensor


def pools(lesson: Lesson, session: Session, report: Report) -> Iterator[Pool]:
    """The recipe's pools, each drawn when it is asked for. Raises DataError if a label has neither images nor a donor."""
    for label in lesson.labels:
        if label not in lesson.real and not lesson.donors.get(label):
            raise DataError(f"Label {label!r} has neither own images nor a generator.")
    for number in range(lesson.recipe.synthesis.pools):
        yield _pool(lesson, number, session, report)


def _pool(lesson: Lesson, number: int, session: Session, report: Report) -> Pool:
    teach = _teacher(lesson, session, report)
    drawn = _draw(lesson, number, session, report)
    doubted = {} if number else _doubted(lesson, drawn, teach)
    dropped: Counter[str] = Counter()
    if lesson.recipe.targets == "agreed":
        drawn = {label: _agreed(lesson, label, found, teach, dropped) for label, found in drawn.items()}
    parts = []
    if drawn:
        parts.append(_synthetic(lesson, {label: found.images for label, found in drawn.items()}, number, teach))
    if lesson.real:
        parts.append(_real(lesson, number, teach))
    return replace(_together(parts, len(lesson.labels)), dropped=dict(dropped), doubted=doubted)


def _draw(lesson: Lesson, number: int, session: Session, report: Report) -> dict[str, Synthetic]:
    """The pool's synthetic images by label."""
    drawn: dict[str, Synthetic] = {}
    for label in lesson.drawn:
        report("draw", len(drawn), len(lesson.drawn))
        drawn[label] = draw_label(lesson.donors[label], number, lesson.recipe.synthesis, session.numerics)
    report("draw", len(drawn), len(lesson.drawn))
    return drawn


def _teacher(lesson: Lesson, session: Session, report: Report) -> Teach:
    """Soft labels (N, K) of images by the generators of all labels; a covered label without a donor gets probability 0."""
    known = [label for label in lesson.labels if lesson.donors.get(label)]
    terms = [Term(known.index(d.label), d.count, d.denoiser) for label in known for d in lesson.donors[label]]
    columns = torch.tensor([list(lesson.labels).index(label) for label in known], dtype=torch.long)

    def teach(images: Tensor) -> Tensor:
        def progress(done: int, total: int) -> None:
            report("relabel", done, total)

        soft = posterior(terms, images, len(known), lesson.recipe.teacher, session.device, progress)
        return torch.zeros(len(images), len(lesson.labels)).index_copy(1, columns, soft.float())

    return teach


def _doubted(lesson: Lesson, drawn: Mapping[str, Synthetic], teach: Teach) -> Doubted:
    """By label and donor: of how many samples the teacher is asked (Rule 5), and to how many it gives another label."""
    places: dict[tuple[str, str], list[int]] = {}
    for label, found in drawn.items():
        for place, (donor, _) in enumerate(found.origins):
            places.setdefault((label, donor), []).append(place)
    asked = {key: found[:ASKED] for key, found in places.items()}
    if not asked or sum(bool(lesson.donors.get(label)) for label in lesson.labels) < 2:
        return {}  # one label alone is never doubted
    given = teach(torch.cat([drawn[label].images[some] for (label, _), some in asked.items()])).argmax(1)
    doubted = {}
    for (key, some), answers in zip(
        asked.items(), torch.split(given, [len(some) for some in asked.values()]), strict=True
    ):
        doubted[key] = (len(some), int((answers != list(lesson.labels).index(key[0])).sum()))
    return doubted


def _agreed(lesson: Lesson, label: str, found: Synthetic, teach: Teach, dropped: Counter[str]) -> Synthetic:
    """The samples to which the teacher gives their label, by Rule 3; the others are counted in `dropped`, donor by donor."""
    agrees = (teach(found.images).argmax(1) == list(lesson.labels).index(label)).tolist()
    if not any(agrees):
        return found
    dropped.update(donor for (donor, _), kept in zip(found.origins, agrees, strict=True) if not kept)
    origins = [origin for origin, kept in zip(found.origins, agrees, strict=True) if kept]
    return Synthetic(found.images[torch.tensor(agrees)], origins)


def _synthetic(lesson: Lesson, drawn: Mapping[str, Tensor], number: int, teach: Teach) -> Part:
    recipe = lesson.recipe
    given = _labelled(lesson, drawn)
    chance = torch.Generator().manual_seed(seed_of(recipe.digest, "widen", number))
    parts = [given]
    if recipe.noise_milli:
        parts.append(_noised(given, recipe.noise_milli / 1e3, chance))
    if recipe.mixup:
        parts.append(_mixed(given, chance))
    images, label, targets = (torch.cat(columns) for columns in zip(*parts, strict=True))
    return Part(images, label, teach(images) if recipe.targets == "teacher" else targets)


def _real(lesson: Lesson, number: int, teach: Teach) -> Part:
    """The real images, projected if the recipe says so; those of a label without a donor stay as they are."""
    recipe, images = lesson.recipe, dict(lesson.real)
    known = [label for label in images if lesson.donors.get(label)]
    if recipe.mix == "projected":
        sigma = recipe.projection_milli / 1e3
        images |= {
            label: project(lesson.donors[label], images[label], number, sigma, recipe.synthesis) for label in known
        }
    given = _labelled(lesson, images)
    if not (recipe.teach_real and known):
        return given
    taught = torch.isin(given.label, torch.tensor([list(lesson.labels).index(label) for label in known]))
    return Part(given.images, given.label, given.targets.index_put((taught,), teach(given.images[taught])))


def _labelled(lesson: Lesson, images: Mapping[str, Tensor]) -> Part:
    """The images of all labels, in the order of the labels, each with its own label."""
    present = [label for label in lesson.labels if label in images]
    which = torch.cat([torch.full((len(images[label]),), list(lesson.labels).index(label)) for label in present])
    targets = functional.one_hot(which, len(lesson.labels)).float()
    return Part(torch.cat([images[label] for label in present]), which, targets)


def _noised(given: Part, largest: float, chance: torch.Generator) -> Part:
    """Each image with normal noise of its own strength, uniform between 0 and `largest` (data units)."""
    strength = largest * torch.rand(len(given.images), 1, 1, 1, generator=chance)
    noise = torch.randn(given.images.shape, generator=chance)
    return Part(to_bytes(to_data(given.images) + strength * noise), given.label, given.targets)


def _mixed(given: Part, chance: torch.Generator) -> Part:
    """Each image mixed with another one, and their labels alike, by a share uniform between 0 and 1 (mixup, 1710.09412)."""
    share = torch.rand(len(given.images), generator=chance)
    other = torch.randperm(len(given.images), generator=chance)
    images = _between(to_data(given.images), other, share[:, None, None, None])
    return Part(to_bytes(images), given.label, _between(given.targets, other, share[:, None]))


def _between(values: Tensor, other: Tensor, share: Tensor) -> Tensor:
    return (1 - share) * values + share * values[other]


def _together(parts: Sequence[Part], outputs: int) -> Pool:
    """One pool in which all labels weigh alike, and within a label each part that has it."""
    images, _, targets = (torch.cat(columns) for columns in zip(*parts, strict=True))
    return Pool(images, targets, balanced([part.label for part in parts], outputs))


def balanced(labels: Sequence[Tensor], outputs: int) -> Tensor:
    """How often each image is drawn, float64, from the labels (N_i,) of each part's images: Rule 1, for all parts in a row."""
    counts = torch.stack([torch.bincount(part, minlength=outputs) for part in labels])
    parts_of = (counts > 0).sum(0)
    return torch.cat([1 / (outputs * parts_of * counts[at].double())[part] for at, part in enumerate(labels)])
