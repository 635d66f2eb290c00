"""What all distilled baselines share: the classifiers that teach, and the network that learns from them by one schedule."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fednode.learning import relabel
from fednode.learning.precision import computing
from fednode.learning.vitfit import Progress, Run
from fednode.recipe import Dtype
from fednode.vit_recipe import DistilRecipe


@dataclass(frozen=True)
class Teachers:
    """P frozen networks, (N, C, H, W) in data units -> logits (N, K), and the images (P, K) of each label that each has seen."""

    networks: Sequence[nn.Module]
    counts: Tensor
    dtype: Dtype = "float32"

    def logits(self, images: Tensor) -> Tensor:
        """(P, N, K), one call of each network."""
        return torch.stack([self.ask(network, images) for network in self.networks])

    def ask(self, network: nn.Module, images: Tensor) -> Tensor:
        """(N, K), one call of one network."""
        with computing(self.dtype, images.device):
            logits: Tensor = network(images)
        return logits.float()


class Student:
    """A network that learns as an expert of FedMITR does: by the optimiser, the rates and the steps of its recipe."""

    def __init__(self, network: nn.Module, recipe: DistilRecipe, progress: Progress) -> None:
        self.network, self.recipe = network.train(), recipe
        self.images = 0
        self._run, self._progress = Run(network, recipe), progress

    @property
    def device(self) -> torch.device:
        """Where it learns."""
        return next(self.network.parameters()).device

    def answers(self, images: Tensor) -> Tensor:
        """Logits (N, K), to be learned from."""
        self.images += len(images)
        with computing(self.recipe.dtype, images.device):
            logits: Tensor = self.network(images)
        return logits.float()

    def step(self, loss: Tensor) -> None:
        """One step down the gradient of `loss`."""
        self._run.advance(lambda: loss)
        self._progress(self._run.step, self.recipe.steps)

    def imitate(self, images: Tensor, logits: Tensor) -> None:
        """One step on T^2 KL(teacher, student) of images whose teacher has these logits (N, K)."""
        self.step(imitation(self.answers(images), logits, self.recipe.temperature_milli / 1e3))

    def steps_of(self, part: int, parts: int) -> int:
        """The steps of part number `part` when all are shared out evenly."""
        return self.recipe.steps * (part + 1) // parts - self.recipe.steps * part // parts


def imitation(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """T^2 KL(softmax(teacher / T) || softmax(student / T)), the mean over the images (Hinton et al., 1503.02531)."""
    return relabel.divergence(student, teacher, temperature).mean()


def divergence(one: Tensor, other: Tensor) -> Tensor:
    """KL(softmax(one) || softmax(other)) of each image, (..., N) from logits (..., N, K)."""
    return relabel.divergence(other, one, 1.0)
