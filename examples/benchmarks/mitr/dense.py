"""DENSE (Zhang et al., 2112.12371): images painted for the ensemble, and a student that learns the ensemble's answers to them."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from fednode.contract import ImageShape
from mitr.painter import Painting, paint
from mitr.students import Student, Teachers, divergence


@dataclass(frozen=True)
class Dense:
    """Epochs, each with one batch of new images; `gap` is the weight of the term that seeks what the student gets wrong."""

    painting: Painting
    epochs: int
    gap: float = 1.0


def distil(teachers: Teachers, student: Student, image: ImageShape, dense: Dense) -> None:
    """All epochs of `student`, which learns from all images so far. Random numbers are the global ones."""
    device = student.device
    pool: list[tuple[Tensor, Tensor]] = []
    for epoch in range(dense.epochs):
        targets = torch.randint(teachers.counts.shape[1], (dense.painting.batch,)).to(device)

        def judge(images: Tensor, targets: Tensor = targets) -> Tensor:
            return painter_loss(teachers.logits(images).mean(0), student.answers(images), targets, dense.gap)

        images = paint(judge, dense.painting, image, device)
        with torch.no_grad():
            pool.append((images, teachers.logits(images).mean(0)))
        learn_from(student, pool, student.steps_of(epoch, dense.epochs))


def painter_loss(ensemble: Tensor, student: Tensor, targets: Tensor, gap: float) -> Tensor:
    """CE(D, y) - gap E[w KL(D, S)], w = 1 where ensemble D and student S answer differently; logits (N, K).

    DENSE's term on the statistics of batch norms has no counterpart in a ViT, which has none.
    """
    differ = (ensemble.argmax(1) != student.argmax(1)).float()
    return functional.cross_entropy(ensemble, targets) - gap * (differ * divergence(ensemble, student)).mean()


def learn_from(student: Student, pool: list[tuple[Tensor, Tensor]], steps: int) -> None:
    """So many steps on batches drawn from all images and logits of the pool."""
    images, logits = (torch.cat(parts) for parts in zip(*pool, strict=True))
    for _ in range(steps):
        rows = torch.randint(len(images), (student.recipe.batch,)).to(images.device)
        student.imitate(images[rows], logits[rows])
