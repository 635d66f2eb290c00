"""The inverted images of a classifier: how many of each of its labels, made batch by batch and kept beside its weights.

Rule 1: they follow from the classifier's digest, its counts and the recipe alone, so that every node makes the same ones.
Rule 2: batches are kept beside the classifier and go with it; kept or made, they are the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from fednode.architecture import ViTArchitecture
from fednode.learning import derived
from fednode.learning.inversion import Inverted, invert
from fednode.learning.seeds import seed_of
from fednode.learning.synthesis import Numerics, shares
from fednode.learning.vitfit import Aids, Progress
from fednode.vit_recipe import InversionRecipe
from fednode_crypto.digest import digest_json

NAMES = frozenset({"images", "kept", "targets"})


@dataclass(frozen=True)
class Classifier:
    """A classifier: its weight digest, its frozen network, and for each of its outputs, in order, the label and its images.

    `derived` is the folder for what descends from this classifier alone, or None where nothing is kept.
    """

    digest: str
    network: nn.Module
    architecture: ViTArchitecture
    counts: Mapping[str, int]
    derived: Path | None = None


def targets_of(classifier: Classifier, recipe: InversionRecipe) -> Tensor:
    """(N,): the outputs that images are made for, in mixed order: those that the classifier has seen, each at least once.

    So no label is lost that one node alone holds with few images; N can be a little more than the recipe's `images`.
    """
    seen = [(output, count) for output, count in enumerate(classifier.counts.values()) if count]
    exact = shares([count if recipe.share == "counts" else 1 for _, count in seen], recipe.images, 100)
    amounts = [max(amount, 1) for amount in exact]
    targets = torch.repeat_interleave(torch.tensor([output for output, _ in seen]), torch.tensor(amounts))
    chance = torch.Generator().manual_seed(seed_of(classifier.digest, "targets"))
    return targets[torch.randperm(len(targets), generator=chance)]


def inverted(classifier: Classifier, recipe: InversionRecipe, numerics: Numerics, aids: Aids) -> Inverted:
    """The images of a classifier that has seen any, on the CPU: those that are kept, else made and then kept.

    `aids.progress(done, total)` counts the steps of all batches.
    """
    batches = torch.split(targets_of(classifier, recipe), recipe.batch)
    parts = []
    for number, targets in enumerate(batches):
        told = replace(aids, progress=_within(aids.progress, number, len(batches)))
        parts.append(_batch(classifier, (number, targets), recipe, numerics, told))
    images, kept, wanted = (torch.cat([getattr(one, name) for one in parts]) for name in ("images", "kept", "targets"))
    return Inverted(images, kept, wanted)


def _within(progress: Progress, number: int, batches: int) -> Progress:
    """What is told of the steps of one batch, as steps of all of them."""
    return lambda done, total: progress(number * total + done, batches * total)


def _batch(
    classifier: Classifier, batch: tuple[int, Tensor], recipe: InversionRecipe, numerics: Numerics, aids: Aids
) -> Inverted:
    number, targets = batch
    kept = None
    if classifier.derived:
        kept = classifier.derived / f"inverted-{_key(classifier, number, targets, recipe, numerics)}.safetensors"
        if found := derived.read(kept, NAMES):
            return Inverted(**found)
    seed = seed_of(classifier.digest, "invert", number)
    checkpoint = aids.checkpoint and aids.checkpoint.of(f"invert {classifier.digest} {number}")
    aids = replace(aids, checkpoint=checkpoint)
    made = invert(classifier.network, targets, classifier.architecture, recipe, seed, aids)
    if kept:
        derived.write(kept, {name: getattr(made, name) for name in NAMES})
    return made


def _key(classifier: Classifier, number: int, targets: Tensor, recipe: InversionRecipe, numerics: Numerics) -> str:
    """Everything that a batch follows from; the numerics are in it, for another torch may find other bits."""
    return digest_json(
        "fednode/inverted/v1",
        {
            "classifier": classifier.digest,
            "number": number,
            "targets": targets.tolist(),
            "recipe": recipe.digest,
            "numerics": dict(numerics),
        },
    )
