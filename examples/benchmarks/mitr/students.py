"""What all distilled baselines share: the classifiers that teach, and the network that learns from them by one schedule."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from fednode.learning.precision import computing
from fednode.recipe import Dtype


@dataclass(frozen=True)
class Teachers:
    """P frozen networks, (N, C, H, W) in data units -> logits (N, K), and the images (P, K) of each label that each has seen."""

    networks: Sequence[nn.Module]
    counts: Tensor

    def logits(self, images: Tensor) -> Tensor:
        """(P, N, K), one call of each network."""
        return torch.stack([network(images).float() for network in self.networks])


@dataclass(frozen=True)
class Lessons:
    """How every student learns: SGD with momentum, a rate that falls to 0 by half a cosine over `steps`, and a temperature."""

    steps: int
    batch: int
    rate: float = 0.01
    momentum: float = 0.9
    temperature: float = 4.0
    dtype: Dtype = "float32"

    def steps_of(self, part: int, parts: int) -> int:
        """The steps of part number `part` when all are shared out evenly."""
        return self.steps * (part + 1) // parts - self.steps * part // parts


class Student:
    """A network and its optimiser; each `step` takes the next rate of the schedule."""

    def __init__(self, network: nn.Module, lessons: Lessons) -> None:
        self.network, self.lessons = network, lessons
        self.images = 0
        self._optimiser = torch.optim.SGD(network.parameters(), lr=lessons.rate, momentum=lessons.momentum)
        self._done = 0

    def answers(self, images: Tensor) -> Tensor:
        """Logits (N, K), to be learned from."""
        self.images += len(images)
        with computing(self.lessons.dtype, images.device):
            logits: Tensor = self.network(images)
        return logits.float()

    def step(self, loss: Tensor) -> None:
        """One step down the gradient of `loss`."""
        share = self._done / self.lessons.steps
        self._optimiser.param_groups[0]["lr"] = self.lessons.rate * (1 + math.cos(math.pi * share)) / 2
        self._optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimiser.step()
        self._done += 1

    def imitate(self, images: Tensor, logits: Tensor) -> None:
        """One step on T^2 KL(teacher, student) of images whose teacher has these logits (N, K)."""
        self.step(imitation(self.answers(images), logits, self.lessons.temperature))


def imitation(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """T^2 KL(softmax(teacher / T) || softmax(student / T)), the mean over the images (Hinton et al., 1503.02531)."""
    return temperature**2 * divergence(teacher / temperature, student / temperature).mean()


def divergence(one: Tensor, other: Tensor) -> Tensor:
    """KL(softmax(one) || softmax(other)) of each image, (..., N) from logits (..., N, K)."""
    logs, others = torch.log_softmax(one, -1), torch.log_softmax(other, -1)
    return functional.kl_div(others, logs, reduction="none", log_target=True).sum(-1)
