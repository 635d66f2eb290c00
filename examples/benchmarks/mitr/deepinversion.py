"""DeepInversion (Yin et al., 1912.08795) of each classifier, and a student that learns the ensemble's answers to the images."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from fednode.contract import ImageShape
from fednode.learning.inversion import total_variation
from fednode.learning.patches import Move
from mitr.dense import learn_from
from mitr.students import Student, Teachers


@dataclass(frozen=True)
class DeepInversion:
    """Adam's steps and rate, weights of the image priors, images of each classifier and in one batch.

    Each step sees the images rolled by up to `jitter` pixels and, with `flip`, mirrored half of the times.
    """

    images: int
    steps: int = 2_000
    rate: float = 0.2
    smooth: float = 1e-4
    size: float = 1e-5
    jitter: int = 2
    flip: bool = True
    batch: int = 64


def distil(teachers: Teachers, student: Student, image: ImageShape, settings: DeepInversion) -> None:
    """Teach `student` with images of all classifiers, each of labels that it has seen. Random numbers are the global ones."""
    device = student.device
    pool = []
    for teacher, counts in zip(teachers.networks, teachers.counts, strict=True):
        targets = torch.multinomial(counts / counts.sum(), settings.images, replacement=True)
        for part in torch.split(targets.to(device), settings.batch):
            images = invert(partial(teachers.ask, teacher), part, image, settings)
            with torch.no_grad():
                pool.append((images, teachers.logits(images).mean(0)))
    learn_from(student, pool, student.recipe.steps)


def invert(network: Callable[[Tensor], Tensor], targets: Tensor, image: ImageShape, settings: DeepInversion) -> Tensor:
    """Images (N, C, H, W) in data units that minimise CE(f(jitter(x)), y) + 1e-4 TV(x) + 1e-5 |x| from normal noise.

    The statistics of batch norms, DeepInversion's other prior, are absent in a ViT.
    """
    shape = (len(targets), image.channels, image.size, image.size)
    images = torch.randn(shape, device=targets.device).requires_grad_()
    optimiser = torch.optim.Adam([images], lr=settings.rate, betas=(0.5, 0.9))
    for _ in range(settings.steps):
        logits = network(_jittered(images, settings))
        loss = functional.cross_entropy(logits, targets) + prior(images, settings)
        optimiser.zero_grad()
        loss.backward(inputs=[images])  # type: ignore[no-untyped-call]
        optimiser.step()
        with torch.no_grad():
            images.clamp_(-1, 1)
    return images.detach()


def prior(images: Tensor, settings: DeepInversion) -> Tensor:
    """smooth TV(x) + size ||x||_2, the mean over the images, so that the size of a batch does not matter."""
    sizes = torch.linalg.vector_norm(images, dim=(1, 2, 3))
    return (settings.smooth * total_variation(images) + settings.size * sizes).mean()


def _jittered(images: Tensor, settings: DeepInversion) -> Tensor:
    down, right = torch.randint(-settings.jitter, settings.jitter + 1, (2,)).tolist()
    mirrored = bool(torch.rand(()) < 0.5) and settings.flip
    return Move(down, right, mirrored).of(images)
