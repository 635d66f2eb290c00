"""What each predictor of silos.py answers to the validation and the test images of a draw."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import baselines
import torch
from baselines import Local
from torch import Tensor, nn

from comparison.asking import Answers, Asking, Table
from comparison.crew import Bar
from comparison.shelf import Record
from fednode.architecture import ExpertArchitecture
from fednode.learning import expert as experts
from fednode.learning.augment import augment
from fednode.learning.generative import Term, posterior, score
from fednode.learning.sampler import to_data
from fednode.presets import expert_architecture
from fednode.recipe import ExpertRecipe

COUNTED = 64
TINY = 1e-30
CHUNK = 100


@dataclass(frozen=True)
class Answering(Asking):
    """The answers of everything that a draw has made, and of the baselines, which are trained here."""

    def experts(self, records: Sequence[Record]) -> Answers:
        """The logits of each of these experts."""
        making = self.making

        def make() -> Table:
            shape, load = making.expert_shape, making.crew.session.expert
            return self._ask([load(one["file"], one["digest"], shape) for one in records], making.covered)

        about = {"experts": [one["digest"] for one in records], "labels": making.covered}
        return self._kept("experts", about, make)

    def generative(self) -> Answers:
        """The log probabilities of the generative product."""
        making, recipe = self.making, self.making.recipes.expert.teacher

        def make() -> Table:
            covered, terms = making.covered, self._terms()
            parts = torch.split(self._images(), CHUNK)
            bar = making.show("generative product", len(parts))

            def answer(images: Tensor) -> Tensor:
                return posterior(terms, images, len(covered), recipe, making.crew.session.device)

            probabilities = torch.cat(list(_counted(self._in_threads(answer, parts), bar)))
            return self._widened(probabilities.clamp_min(TINY).log()[None], covered)

        generators: list[Any] = [[one.record["digest"], one.label, one.images] for one in making.generators]
        return self._kept("generative", {"generators": generators, "teacher": recipe.digest}, make)

    def generative_calls(self) -> float:
        """Network calls an image of the generative product, counted on a few images."""
        making, some = self.making, self._images()[:COUNTED]
        recipe, device = making.recipes.expert.teacher, making.crew.session.device
        return score(self._terms(), some, len(making.covered), recipe, device).calls / len(some)

    def _terms(self) -> list[Term]:
        covered = self.making.covered
        donors = [(covered.index(label), donor) for label, them in self.making.donors().items() for donor in them]
        return [Term(label, donor.count, donor.denoiser) for label, donor in donors]

    def pooled(self) -> Answers:
        """The expert's network on the training images of all nodes in one place."""
        own: dict[str, list[Tensor]] = {}
        for node in self.making.draw.nodes:
            for label, images in node.own.items():
                own.setdefault(label, []).append(torch.from_numpy(images.train))
        whole = {label: torch.cat(own[label]) for label in self.making.task.labels if label in own}
        return self._classifiers("pooled", [whole], [self.making.recipes.expert])

    def alone(self) -> Answers:
        """The expert's network on the images of each node alone."""
        nodes = self.making.draw.nodes
        own = [{label: torch.from_numpy(one.train) for label, one in node.own.items()} for node in nodes]
        counts = [sum(len(images) for images in one.values()) for one in own]
        recipe = self.making.recipes.expert
        steps = [baselines.own_steps(recipe, count, sum(counts)) for count in counts]
        return self._classifiers("alone", own, [recipe.model_copy(update={"steps": one}) for one in steps])

    def averaged(self, rounds: int, local: Local) -> Answers:
        """The network of FedAvg, or of FedProx, after so many rounds."""
        making, recipe = self.making, self.making.recipes.expert
        device = making.crew.session.device

        def prepare(images: Tensor) -> Tensor:
            moved = to_data(augment(images, recipe).to(device))
            return moved.contiguous(memory_format=torch.channels_last)

        def make() -> Table:
            shards = [self._shard(node) for node in making.draw.nodes]
            bar = making.show(f"{'FedProx' if local.mu else 'FedAvg'}, rounds: {rounds}", rounds * len(shards))
            with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
                torch.manual_seed(self._seed("averaged"))
                network = baselines.federated(
                    self._untrained, shards, rounds, local, prepare, lambda done, _: bar.set(done)
                )
            return self._ask([network], making.task.labels)

        settings = {"epochs": local.epochs, "batch": local.batch, "rate": str(local.rate), "mu": str(local.mu)}
        return self._kept("averaged", {"rounds": rounds, "recipe": recipe.digest, **settings}, make)

    @property
    def shape(self) -> ExpertArchitecture:
        """The expert's network with an output for every label of the task, as the baselines have it."""
        return expert_architecture(self.making.task.image, len(self.making.task.labels))

    def _untrained(self) -> nn.Module:
        network = experts.build(self.shape).to(self.making.crew.session.device)
        return network.to(memory_format=torch.channels_last)

    def _classifiers(self, kind: str, own: Sequence[dict[str, Tensor]], recipes: Sequence[ExpertRecipe]) -> Answers:
        """The logits of one network trained on each of `own`, by each of `recipes`."""
        making = self.making

        def make() -> Table:
            bar = making.show(kind, sum(recipe.steps for recipe in recipes))
            steps = itertools.count(1)
            lessons = [
                baselines.Lesson(images, making.task.labels, self.shape, recipe)
                for images, recipe in zip(own, recipes, strict=True)
            ]
            networks = [
                baselines.classifier(
                    lesson, self._seed(f"{kind} {number}"), making.crew.session, lambda *_: bar.set(next(steps))
                )
                for number, lesson in enumerate(lessons)
            ]
            return self._ask(networks, making.task.labels)

        return self._kept(kind, {"recipes": [recipe.digest for recipe in recipes]}, make)


def _counted(items: Iterator[Any], bar: Bar) -> Iterator[Any]:
    for number, item in enumerate(items):
        bar.set(number + 1)
        yield item
