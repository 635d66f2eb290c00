"""What a draw's nodes make when they exchange classifiers: a ViT of each node, and an expert that is distilled from all of them.

Rule: both are made by a worker's own requests, with specs as a node writes them.
"""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from comparison.crew import Job
from comparison.draws import Node
from comparison.making import Making
from comparison.shelf import Record, key_of

from fednode.architecture import ViTArchitecture
from fednode.learning.inversion import Inverted
from fednode.learning.inverted import Classifier, inverted
from fednode.learning.vitfit import Aids
from fednode.presets import vit_architecture
from fednode.vit_recipe import DistilRecipe, InversionRecipe
from mitr.budgets import Budget
from mitr.students import Teachers


@dataclass(frozen=True)
class Exchange:
    """One draw's classifiers and experts, by the recipes of one budget."""

    making: Making
    budget: Budget

    @property
    def labels(self) -> list[str]:
        """All labels of the task, which every network tells apart."""
        return list(self.making.task.labels)

    @property
    def architecture(self) -> ViTArchitecture:
        """The ViT that classifiers, experts and baselines are."""
        return vit_architecture(self.making.task.image, len(self.labels)).model_copy(update=self.budget.vit)

    @property
    def distil(self) -> DistilRecipe:
        """How experts are distilled unless a row says otherwise."""
        return self.budget.recipes(self.making.task.image).distil

    @cached_property
    def classifiers(self) -> list[Record]:
        """The classifier of each node. Raises FednodeError."""
        jobs = [self._classifier_job(node) for node in self.making.draw.nodes]
        return self.making.crew.make(jobs, self.making.show("classifiers", len(jobs)))

    @property
    def counts(self) -> list[dict[str, int]]:
        """For each node the images of each label that its classifier learned from."""
        return [
            {label: len(node.own[label].train) if label in node.own else 0 for label in self.labels}
            for node in self.making.draw.nodes
        ]

    @property
    def covered(self) -> list[str]:
        """The labels that any classifier has seen, in order."""
        return [label for label in self.labels if any(one[label] for one in self.counts)]

    @property
    def teachers(self) -> Teachers:
        """The classifiers, loaded, as the baselines use them."""
        counts = [[float(one[label]) for label in self.labels] for one in self.counts]
        return Teachers([one.network for one in self.loaded], torch.tensor(counts), self.distil.dtype)

    @property
    def loaded(self) -> list[Classifier]:
        """The classifiers, loaded, as inversion uses them."""
        session, shelf = self.making.crew.session, self.making.crew.shelf
        return [
            Classifier(
                one["digest"],
                session.expert(one["file"], one["digest"], self.architecture),
                self.architecture,
                counts,
                shelf.derived(one["digest"]),
            )
            for one, counts in zip(self.classifiers, self.counts, strict=True)
        ]

    def expert(self, recipe: DistilRecipe) -> Record:
        """The expert by this recipe of a node without images."""
        return self._experts(recipe, [None])[0]

    def experts(self, recipe: DistilRecipe) -> list[Record]:
        """Each node's expert, which sees the node's own images too."""
        return self._experts(recipe, self.making.draw.nodes)

    def _experts(self, recipe: DistilRecipe, nodes: Sequence[Node | None]) -> list[Record]:
        files = {
            one["digest"]: {"weights": one["file"], "derived": str(self.making.crew.shelf.derived(one["digest"]))}
            for one in self.classifiers
        }
        common = {
            "job": "distil",
            "recipe": recipe.model_dump(mode="json"),
            "architecture": self.expert_shape.model_dump(mode="json"),
            "labels": self.covered,
            "inputs": self._inputs(),
        }
        jobs = [
            Job(
                "distil",
                {**common, "own": self._own(node)},
                {"data": _data(node), **self._task(), "classifiers": files},
            )
            for node in nodes
        ]
        return self.making.crew.make(jobs, self.making.show("experts", len(jobs)))

    def inverted(self, recipe: InversionRecipe) -> tuple[list[Inverted], float]:
        """The images of each classifier, the very ones that experts learn from, and the seconds that making them took."""
        shelf, show = self.making.crew.shelf, self.making.show
        about = {"classifiers": [one["digest"] for one in self.classifiers], "counts": self.counts}
        numerics = self.making.crew.session.numerics
        key = key_of("inversion", {"about": about, "recipe": recipe.digest, "numerics": numerics})
        with shelf.lock(key):
            record = shelf.find(key)
            bar = show(f"inversion, {recipe.mode}", len(self.loaded))
            with ThreadPoolExecutor(self.making.crew.jobs) as pool:
                made = []
                for one in pool.map(lambda one: self._inverted(one, recipe), self.loaded):
                    made.append(one)
                    bar.set(len(made))
            record = record or shelf.keep(key, {"seconds": sum(seconds for _, seconds in made)})
        return [images for images, _ in made], float(record["seconds"])

    def _inverted(self, one: Classifier, recipe: InversionRecipe) -> tuple[Inverted, float]:
        session, began = self.making.crew.session, time.monotonic()
        found = inverted(one, recipe, session.numerics, Aids(lambda *_: None, session.device))
        return found, time.monotonic() - began

    @property
    def expert_shape(self) -> ViTArchitecture:
        """The network of an expert, which tells the covered labels apart."""
        return self.architecture.model_copy(update={"outputs": len(self.covered)})

    def _inputs(self) -> list[dict[str, Any]]:
        shape = self.architecture.model_dump(mode="json")
        found = [
            {"weights": one["digest"], "labels": [list(pair) for pair in counts.items()], "architecture": shape}
            for one, counts in zip(self.classifiers, self.counts, strict=True)
        ]
        return sorted(found, key=lambda one: str(one["weights"]))

    def _classifier_job(self, node: Node) -> Job:
        spec = {
            "job": "classifier",
            "recipe": self.budget.recipes(self.making.task.image).classifier.model_dump(mode="json"),
            "architecture": self.architecture.model_dump(mode="json"),
            "labels": self.labels,
            "own": self._own(node),
        }
        return Job("classifier", spec, {"data": _data(node), **self._task()})

    def _own(self, node: Node | None) -> list[list[str]]:
        return [[label, node.own[label].digest] for label in self.labels if label in node.own] if node else []

    def _task(self) -> dict[str, Any]:
        return {"image": self.making.task.image.model_dump(mode="json"), "labels": self.labels}


def _data(node: Node | None) -> dict[str, Any] | None:
    return {"source": node.source, "labels": None, "skip_bad": False} if node else None
