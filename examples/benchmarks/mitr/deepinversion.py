"""DeepInversion (Yin et al., 1912.08795) of each classifier, and a student that learns the ensemble's answers to the images."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from fednode.contract import ImageShape
from mitr.dense import learn_from
from mitr.students import Lessons, Student, Teachers


@dataclass(frozen=True)
class DeepInversion:
    """Adam's steps and rate, weights of the image priors, jitter in pixels, images of each classifier and in one batch."""

    images: int
    steps: int = 2_000
    rate: float = 0.2
    smooth: float = 1e-4
    size: float = 1e-5
    jitter: int = 2
    batch: int = 64


def distil(
    teachers: Teachers, network: nn.Module, image: ImageShape, settings: DeepInversion, lessons: Lessons
) -> Student:
    """The student of images of all classifiers, each of labels that it has seen. Random numbers are the global ones."""
    device = next(network.parameters()).device
    pool = []
    for teacher, counts in zip(teachers.networks, teachers.counts, strict=True):
        targets = torch.multinomial(counts / counts.sum(), settings.images, replacement=True)
        for part in torch.split(targets.to(device), settings.batch):
            images = invert(teacher, part, image, settings)
            with torch.no_grad():
                pool.append((images, teachers.logits(images).mean(0)))
    student = Student(network, lessons)
    learn_from(student, pool, lessons.steps)
    return student


def invert(network: Callable[[Tensor], Tensor], targets: Tensor, image: ImageShape, settings: DeepInversion) -> Tensor:
    """Images (N, C, H, W) in data units that minimise CE(f(jitter(x)), y) + 1e-4 TV(x) + 1e-5 |x| from normal noise.

    The statistics of batch norms, DeepInversion's other prior, are absent in a ViT.
    """
    shape = (len(targets), image.channels, image.size, image.size)
    images = torch.randn(shape, device=targets.device).requires_grad_()
    optimiser = torch.optim.Adam([images], lr=settings.rate, betas=(0.5, 0.9))
    for _ in range(settings.steps):
        logits = network(_jittered(images, settings.jitter)).float()
        loss = functional.cross_entropy(logits, targets) + prior(images, settings)
        optimiser.zero_grad()
        loss.backward(inputs=[images])  # type: ignore[no-untyped-call]
        optimiser.step()
        with torch.no_grad():
            images.clamp_(-1, 1)
    return images.detach()


def prior(images: Tensor, settings: DeepInversion) -> Tensor:
    """smooth TV(x) + size ||x||_2, TV the sum of the norms of the four difference images (two sides, two diagonals)."""
    differences = (
        images[:, :, :, :-1] - images[:, :, :, 1:],
        images[:, :, :-1] - images[:, :, 1:],
        images[:, :, :-1, :-1] - images[:, :, 1:, 1:],
        images[:, :, 1:, :-1] - images[:, :, :-1, 1:],
    )
    variation = torch.stack([torch.linalg.vector_norm(one) for one in differences]).sum()
    return settings.smooth * variation + settings.size * torch.linalg.vector_norm(images)


def _jittered(images: Tensor, jitter: int) -> Tensor:
    """The batch rolled by up to `jitter` pixels either way, and mirrored half of the times."""
    rows, columns = torch.randint(-jitter, jitter + 1, (2,)).tolist()
    rolled = torch.roll(images, (rows, columns), (2, 3))
    return rolled.flip(3) if torch.rand(()) < 0.5 else rolled
