"""An expert by FedMITR (2605.10748): a ViT that learns from the inverted images of all classifiers, and from whole images.

Rule 1: every covered label has the same weight, whatever its images; inverted and whole images of a label share it equally.
Rule 2: a classifier has a say about the labels of its outputs alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fednode.architecture import ViTArchitecture
from fednode.errors import DataError
from fednode.learning import vit
from fednode.learning.augment import augment
from fednode.learning.inversion import Inverted
from fednode.learning.inverted import Classifier
from fednode.learning.patches import others
from fednode.learning.precision import computing
from fednode.learning.relabel import ensemble, relabelled_loss, voting, whole_loss
from fednode.learning.sampler import to_data
from fednode.learning.training import balanced
from fednode.learning.vitfit import Aids, Run, seeded, train
from fednode.vit_recipe import DistilRecipe

ANSWER_BATCH = 256


@dataclass(frozen=True)
class Lesson:
    """Covered labels in order, whole images uint8 (N, C, H, W) by label (own ones, say), the classifiers, and the recipe."""

    labels: Sequence[str]
    whole: Sequence[Mapping[str, Tensor]]
    classifiers: Sequence[Classifier]
    recipe: DistilRecipe


@dataclass(frozen=True)
class Material:
    """What is learned from: M inverted images with H (M, h) and L (M, l), then N whole ones, with soft labels (M + N, K).

    `images` uint8 (M + N, C, H, W), `targets` (M + N,), `weights` (M + N,): how often each is drawn. The soft labels of inverted
    images are those of L, those of whole ones are of all patches.
    """

    images: Tensor
    targets: Tensor
    weights: Tensor
    own: Tensor
    rest: Tensor
    soft: Tensor


def distil(
    lesson: Lesson, found: Sequence[Inverted], architecture: ViTArchitecture, seed: int, aids: Aids
) -> dict[str, Tensor]:
    """The expert's fp16 weights on the CPU, by name; `found` are the images of each of the lesson's classifiers.

    Equal arguments give equal bits at equal numerics, interrupted and resumed or not; the global random state is left as it was.
    Raises DataError if a label has no image of any kind, or a classifier works on other patches than the expert.
    """
    material, recipe = prepare(lesson, found, architecture, aids.device), lesson.recipe
    if not lesson.classifiers:
        recipe = recipe.model_copy(update={"teach_whole": False})
    with seeded(seed, aids.device):
        network = vit.build(architecture)
        network.load_state_dict(beginning(lesson, architecture), strict=False)
        network = network.to(aids.device).train()
        train(Run(network, recipe), lambda: _loss(network, material, recipe, aids.device), aids)
    return vit.wire(network)


def beginning(lesson: Lesson, architecture: ViTArchitecture) -> dict[str, Tensor]:
    """The tensors by name that the expert starts from, none if `fresh` or if no classifier has its shape.

    They are those of the classifier that saw most images, ties to the smaller digest, its head cut to the covered labels.
    """
    wanted = architecture.model_dump(exclude={"name", "outputs"})
    alike = [one for one in lesson.classifiers if one.architecture.model_dump(exclude={"name", "outputs"}) == wanted]
    if lesson.recipe.start == "fresh" or not alike:
        return {}
    chosen = min(alike, key=lambda one: (-sum(one.counts.values()), one.digest))
    rows = [list(chosen.counts).index(label) for label in lesson.labels]
    tensors = chosen.network.state_dict()
    return {name: tensor[rows] if name.startswith("head.") else tensor for name, tensor in tensors.items()}


def prepare(lesson: Lesson, found: Sequence[Inverted], architecture: ViTArchitecture, device: torch.device) -> Material:
    """The lesson's images with their targets; raises DataError as `distil` does."""
    for one in lesson.classifiers:
        if one.architecture.grid != architecture.grid:
            raise DataError(
                f"Classifier {one.digest[:12]} works on patches of {one.architecture.patch} px, the expert of "
                f"{architecture.patch} px.",
                "Use classifiers of the expert's patch size.",
            )
    images, own, targets = _own_labels(lesson, found, architecture)
    rest = others(own, architecture.grid**2)
    whole = [_labelled(lesson.labels, part) for part in lesson.whole if part]
    labels = [targets, *(label for _, label in whole)]
    if missing := set(range(len(lesson.labels))) - set(torch.cat(labels).tolist()):
        raise DataError(f"Label {lesson.labels[min(missing)]!r} has neither own images nor a classifier.")
    asked = lesson.recipe.relabel != "none" and rest.numel() > 0
    soft = [soft_labels(lesson, images, rest, device) if asked else torch.zeros(len(images), len(lesson.labels))]
    taught = lesson.recipe.teach_whole and lesson.classifiers
    soft += [
        soft_labels(lesson, part, None, device) if taught else torch.zeros(len(part), len(lesson.labels))
        for part, _ in whole
    ]
    return Material(
        torch.cat([images, *(part for part, _ in whole)]),
        torch.cat(labels),
        balanced([part for part in labels if len(part)], len(lesson.labels)),
        own,
        rest,
        torch.cat(soft),
    )


def soft_labels(lesson: Lesson, images: Tensor, patches: Tensor | None, device: torch.device) -> Tensor:
    """z (M, K) of uint8 images (M, C, H, W) seen at `patches` (M, l), None for all, by all classifiers, at least one."""
    logits = torch.stack([_answers(one, lesson, images, patches, device) for one in lesson.classifiers])
    counts = torch.tensor([[one.counts.get(label, 0) for label in lesson.labels] for one in lesson.classifiers])
    return ensemble(logits, voting(counts, lesson.recipe))


@torch.no_grad()
def _answers(one: Classifier, lesson: Lesson, images: Tensor, patches: Tensor | None, device: torch.device) -> Tensor:
    """A classifier's logits (M, K) for the covered labels, on the CPU."""
    columns = [list(one.counts).index(label) for label in lesson.labels]
    logits = []
    with computing(lesson.recipe.dtype, device):
        for rows in torch.split(torch.arange(len(images)), ANSWER_BATCH):
            seen = None if patches is None else patches[rows].to(device)
            logits.append(vit.answers(one.network, to_data(images[rows].to(device)), seen).cpu())
    return torch.cat(logits).float()[:, columns]


def _own_labels(
    lesson: Lesson, found: Sequence[Inverted], architecture: ViTArchitecture
) -> tuple[Tensor, Tensor, Tensor]:
    """Inverted images of covered labels, their own patches, and the labels as indices of the lesson's."""
    shape = (0, architecture.image.channels, architecture.image.size, architecture.image.size)
    images, own, targets = [torch.empty(shape, dtype=torch.uint8)], [], [torch.empty(0, dtype=torch.int64)]
    for one, made in zip(lesson.classifiers, found, strict=True):
        names = list(one.counts)
        place = [lesson.labels.index(label) if label in lesson.labels else -1 for label in names]
        labels = torch.tensor(place)[made.targets]
        images.append(made.images[labels >= 0])
        own.append(made.kept[labels >= 0])
        targets.append(labels[labels >= 0])
    kept = torch.cat(own) if own else torch.empty(0, 0, dtype=torch.int64)
    return torch.cat(images), kept, torch.cat(targets)


def _labelled(labels: Sequence[str], images: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Whole images of all labels, in the order of the labels, and the label of each as its index."""
    present = [label for label in labels if label in images]
    targets = [torch.full((len(images[label]),), labels.index(label)) for label in present]
    return torch.cat([images[label] for label in present]), torch.cat(targets)


def _loss(network: nn.Module, material: Material, recipe: DistilRecipe, device: torch.device) -> Tensor:
    """The mean loss of a batch drawn by the material's weights."""
    rows = torch.multinomial(material.weights, recipe.batch, replacement=True)
    first, whole = rows[rows < len(material.own)], rows[rows >= len(material.own)]
    losses = []
    with computing(recipe.dtype, device):
        if len(first):
            x = to_data(material.images[first].to(device))
            patches = (material.own[first].to(device), material.rest[first].to(device))
            targets, soft = material.targets[first].to(device), material.soft[first].to(device)
            losses.append(relabelled_loss(network, x, patches, targets, soft, recipe))
        if len(whole):
            x = to_data(augment(material.images[whole], recipe).to(device))
            targets, soft = material.targets[whole].to(device), material.soft[whole].to(device)
            losses.append(whole_loss(network, x, targets, soft, recipe))
    return torch.cat(losses).mean()
