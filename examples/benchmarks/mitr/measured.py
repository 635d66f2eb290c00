"""The theory's figures for one draw: gradients of experts on the images that they learned from, and what bounds follow."""

from copy import deepcopy
from dataclasses import dataclass
from functools import partial

import torch
from comparison.shelf import Record, key_of
from torch import Tensor, nn
from torch.nn import functional

from fednode.learning import distil
from fednode.learning.distil import Lesson, Material
from fednode.learning.relabel import relabelled_loss
from fednode.learning.sampler import to_data
from fednode.learning.vitfit import rate_at
from fednode.vit_recipe import DistilRecipe
from mitr.budgets import variant
from mitr.exchange import Exchange
from mitr.theory import Training, gradients, stability, stability_convex

VERSION = 1

# What is measured: the row whose expert and images are taken, and whether the loss is of whole images with hard labels.
KINDS = {
    "dense": ("fedmitr_dense_none", False),
    "sparse, whole images": ("fedmitr_sparse_none", True),
    "sparse, own patches": ("fedmitr_sparse_none", False),
    "sparse, relabelled": ("fedmitr_sparse_subset", False),
}


@dataclass(frozen=True)
class Measured:
    """Theory and pictures of a draw whose classifiers are there."""

    exchange: Exchange

    def theory(self) -> dict[str, dict[str, float]]:
        """For each kind the gradients' figures, the Lipschitz constant and the bounds."""
        bar = self.exchange.making.show("theory", len(KINDS))
        found = {}
        for done, (kind, (row, whole)) in enumerate(KINDS.items()):
            found[kind] = self._figures(variant(self.exchange.distil, row), whole)
            bar.set(done + 1)
        return found

    def _figures(self, recipe: DistilRecipe, whole: bool) -> dict[str, float]:
        """Kept under the expert and its images."""
        exchange, record = self.exchange, self.exchange.expert(recipe)
        shelf, images = exchange.making.crew.shelf, exchange.budget.theory
        about = {
            "version": VERSION,
            "expert": record["digest"],
            "recipe": recipe.digest,
            "whole": whole,
            "images": images,
        }
        key = key_of("theory", {**about, "numerics": exchange.making.crew.session.numerics})
        with shelf.lock(key):
            found = shelf.find(key) or shelf.keep(key, {"figures": self._measure(recipe, record, whole)})
        figures: dict[str, float] = found["figures"]
        return figures

    def _measure(self, recipe: DistilRecipe, record: Record, whole: bool) -> dict[str, float]:
        exchange, session, shape = self.exchange, self.exchange.making.crew.session, self.exchange.expert_shape
        lesson = Lesson(exchange.covered, [], exchange.loaded, recipe)
        material = distil.prepare(lesson, exchange.inverted(recipe.inversion)[0], shape, session.device)
        network = deepcopy(session.expert(record["file"], record["digest"], shape)).requires_grad_(True)
        chance = torch.Generator().manual_seed(0)
        rows = torch.randperm(len(material.images), generator=chance)[: exchange.budget.theory].tolist()
        losses = [partial(_loss, network, material, row, None if whole else recipe) for row in rows]
        told = gradients(losses, list(network.parameters()))
        training = Training([rate_at(step, recipe) for step in range(recipe.steps)], len(material.images))
        return {
            **told.document(),
            "stability_convex": stability_convex(told.largest, training),
            "stability": stability(told.largest, told.smoothness, training),
        }


def _loss(network: nn.Module, material: Material, row: int, recipe: DistilRecipe | None) -> Tensor:
    """An image's loss by the recipe; without one, the cross-entropy of the whole image."""
    device = next(network.parameters()).device
    at = slice(row, row + 1)
    x, targets = to_data(material.images[at].to(device)), material.targets[at].to(device)
    if recipe is None:
        return functional.cross_entropy(network(x).float(), targets)
    patches = (material.own[at].to(device), material.rest[at].to(device))
    return relabelled_loss(network, x, patches, targets, material.soft[at].to(device), recipe)[0]
