"""What each predictor of fedmitr.py answers to the validation and the test images of a draw."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import baselines
import torch
from baselines import Local
from comparison.asking import NEVER, Answers, Asking, Table
from comparison.shelf import Record
from torch import Tensor, nn

from fednode.learning import classifier, vit
from fednode.learning.augment import augment
from fednode.learning.distil import Lesson, beginning
from fednode.learning.sampler import to_data
from fednode.learning.vitfit import Aids, seeded
from fednode.vit_recipe import ClassifierRecipe
from mitr import lda
from mitr.calls import metered
from mitr.exchange import Exchange
from mitr.lda import Statistics
from mitr.students import Student, Teachers

SHRINKS = (0.001, 0.01, 0.1, 0.5)
PIXELS = 16  # a side that larger images are averaged down to where pixels are the features
CHUNK = 256

Distil = Callable[[Teachers, Student], None]
Features = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Answering(Asking):
    """The answers of classifiers and experts, and of the baselines, which are trained here."""

    exchange: Exchange

    def classifiers(self) -> Answers:
        """The logits of each node's classifier."""
        exchange = self.exchange

        def make() -> Table:
            return self._ask([one.network for one in exchange.loaded], exchange.labels)

        return self._kept("vit-classifiers", {"classifiers": [one["digest"] for one in exchange.classifiers]}, make)

    def experts(self, records: Sequence[Record]) -> Answers:
        """The logits of each of these distilled experts."""
        exchange, session = self.exchange, self.making.crew.session

        def make() -> Table:
            shape = exchange.expert_shape
            return self._ask([session.expert(one["file"], one["digest"], shape) for one in records], exchange.covered)

        about = {"experts": [one["digest"] for one in records], "labels": exchange.covered}
        return self._kept("vit-experts", about, make)

    def pooled(self) -> Answers:
        """A classifier of the training images of all nodes in one place."""
        exchange, recipe = self.exchange, self._recipe

        def make() -> Table:
            bar = self.making.show("pooled", recipe.steps)
            aids = Aids(lambda done, _: bar.set(done), self._device)
            shape, seed = exchange.architecture, self._seed("vit-pooled")
            tensors = classifier.fit(self._everything(), exchange.labels, shape, recipe, seed, aids)
            return self._ask([vit.placed(tensors, shape, self._device)], exchange.labels)

        return self._kept("vit-pooled", {"recipe": recipe.digest, **self._about()}, make)

    def averaged(self, rounds: int, local: Local) -> Answers:
        """The network of FedAvg, or of FedProx, after so many rounds."""

        def make() -> Table:
            return self._ask([self._averaged(rounds, local)], self.exchange.labels)

        about = {name: str(value) for name, value in asdict(local).items()}
        return self._kept(
            "vit-averaged", {"rounds": rounds, "recipe": self._recipe.digest, **about, **self._about()}, make
        )

    def distilled(self, name: str, settings: Any, distil: Distil, start: Local | None = None) -> Answers:
        """A network that learns from the classifiers; it starts from one round of FedAvg if that is given, else as an expert."""
        exchange, recipe = self.exchange, self.exchange.distil

        def make() -> tuple[Table, Record]:
            bar, teachers = self.making.show(name, recipe.steps), exchange.teachers
            network = self._averaged(1, start) if start else self._beginning(name)
            student = Student(network, recipe, lambda done, _: bar.set(done))
            with metered(teachers.networks) as meter, seeded(self._seed(name), self._device):
                distil(teachers, student)
            told = {"calls": meter.images, "tokens": meter.tokens, "student_images": student.images}
            return self._ask([student.network.eval()], exchange.labels), told

        about = {"settings": repr(settings), "start": repr(start), "recipe": recipe.digest, **self._about()}
        digests = [one["digest"] for one in exchange.classifiers]
        return self._kept_told(f"vit-{name}", {"classifiers": digests, **about}, make)

    def lda(self, backbone: str) -> Answers:
        """Discriminants on the features of a frozen backbone: one predictor for each of SHRINKS."""
        exchange, draw = self.exchange, self.making.draw

        def make() -> tuple[Table, Record]:
            features = self._features(backbone)
            found = self.sums(features)
            total = sum(found[1:], found[0])
            asked = torch.cat([features(part) for part in torch.split(self._images(), CHUNK)]).double()
            heads = [lda.head(total, shrink) for shrink in SHRINKS]
            table = torch.stack([asked @ weights.T + biases for weights, biases in heads])
            return table.clamp_min(NEVER).float().numpy(), {"bytes": total.bytes}

        digests = [one["digest"] for one in exchange.classifiers] if backbone == "node" else []
        about = {"shrinks": [str(one) for one in SHRINKS], "nodes": len(draw.nodes), "classifiers": digests}
        return self._kept_told(f"lda-{backbone}", {**about, **self._about()}, make)

    def sums(self, features: Features) -> list[Statistics]:
        """What each node sends for its discriminants."""
        found = []
        for node in self.making.draw.nodes:
            images, targets = self._shard(node)
            parts = torch.cat([features(part) for part in torch.split(images, CHUNK)])
            found.append(lda.statistics(parts, targets, len(self.exchange.labels)))
        return found

    @property
    def richest(self) -> int:
        """The node whose classifier has seen most labels, ties by images."""
        counts = self.exchange.counts
        return max(range(len(counts)), key=lambda at: (sum(map(bool, counts[at].values())), sum(counts[at].values())))

    @property
    def _device(self) -> torch.device:
        return self.making.crew.session.device

    @property
    def _recipe(self) -> ClassifierRecipe:
        return self.exchange.budget.recipes(self.making.task.image).classifier

    def _about(self) -> dict[str, Any]:
        return {"architecture": self.exchange.architecture.model_dump(mode="json")}

    def _features(self, backbone: str) -> Features:
        """uint8 images (N, C, H, W) -> (N, D): pixels, or CLS and the mean patch of a ViT, untrained or the richest node's."""
        if backbone == "pixels":
            side = min(PIXELS, self.making.task.image.size)
            return lambda images: torch.nn.functional.adaptive_avg_pool2d(to_data(images), side).flatten(1)
        network = self._untrained("backbone").eval()
        if backbone == "node":
            network = self.exchange.loaded[self.richest].network

        @torch.no_grad()
        def seen(images: Tensor) -> Tensor:
            tokens = vit.features(network, to_data(images.to(self._device)))
            return torch.cat([tokens[:, 0], tokens[:, 1:].mean(1)], 1).cpu()

        return seen

    def _everything(self) -> dict[str, Tensor]:
        """The training images of all nodes by label."""
        own: dict[str, list[Tensor]] = {}
        for node in self.making.draw.nodes:
            for label, images in node.own.items():
                own.setdefault(label, []).append(torch.from_numpy(images.train))
        return {label: torch.cat(own[label]) for label in self.exchange.labels if label in own}

    def _averaged(self, rounds: int, local: Local) -> nn.Module:
        shards = [self._shard(node) for node in self.making.draw.nodes]
        bar = self.making.show(f"{'FedProx' if local.mu else 'FedAvg'}, rounds: {rounds}", rounds * len(shards))

        def prepare(images: Tensor) -> Tensor:
            moved = to_data(augment(images, self._recipe))
            return classifier.noised(moved, self._recipe.noise_milli / 1e3).to(self._device)

        with seeded(self._seed("vit-averaged"), self._device):
            make = lambda: self._untrained("averaged")  # noqa: E731
            return baselines.federated(make, shards, rounds, local, prepare, lambda done, _: bar.set(done))

    def _beginning(self, name: str) -> nn.Module:
        """A network that starts as the recipe's experts do."""
        exchange = self.exchange
        network = self._untrained(f"{name} start")
        lesson = Lesson(exchange.labels, [], exchange.loaded, exchange.distil)
        network.load_state_dict(beginning(lesson, exchange.architecture), strict=False)
        return network

    def _untrained(self, purpose: str) -> nn.Module:
        with seeded(self._seed(purpose), self._device):
            network: nn.Module = vit.build(self.exchange.architecture)
            return network.to(self._device)
