"""Co-Boosting (Dai et al., 2402.15070): harder images make a better ensemble, whose weights make better images, and so on."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from fednode.contract import ImageShape
from mitr.dense import learn_from
from mitr.painter import Painting, paint
from mitr.students import Student, Teachers, divergence

SOFTNESS = 4.0  # of the ensemble's answers that an image is moved by
GAP_TEMPERATURE = 3.0


@dataclass(frozen=True)
class CoBoosting:
    """Epochs, the reach of a hard image's change in data units (8 of 255 grey values), and the step of the weights."""

    painting: Painting
    epochs: int
    reach: float = 16 / 255
    weight_step: float = 0.01
    weight_decay: float = 0.99


def distil(teachers: Teachers, student: Student, image: ImageShape, boost: CoBoosting) -> None:
    """All epochs of `student`. Each makes all images so far hard anew. Random numbers are the global ones."""
    device = student.device
    weights = torch.full((len(teachers.networks),), 1 / len(teachers.networks), device=device)
    pool: list[tuple[Tensor, Tensor, Tensor]] = []
    for epoch in range(boost.epochs):
        targets = torch.randint(teachers.counts.shape[1], (boost.painting.batch,)).to(device)

        def judge(images: Tensor, targets: Tensor = targets, weights: Tensor = weights) -> Tensor:
            return painter_loss(weighted(teachers.logits(images), weights), student.answers(images), targets)

        images = paint(judge, boost.painting, image, device)
        with torch.no_grad():
            pool.append((images, teachers.logits(images), targets))
        rate = boost.weight_step * boost.weight_decay**epoch
        for _, logits, labels in pool:
            weights = moved(weights, logits, labels, rate)
        hard = [_hard(teachers, weights, images, boost.reach) for images, _, _ in pool]
        learn_from(student, hard, student.steps_of(epoch, boost.epochs))


def weighted(logits: Tensor, weights: Tensor) -> Tensor:
    """A_w = sum_k w_k f_k: (N, K) from logits (P, N, K) and weights (P,)."""
    return torch.einsum("p,pnk->nk", weights, logits)


def painter_loss(ensemble: Tensor, student: Tensor, targets: Tensor) -> Tensor:
    """E[(1 - p_y) CE(A_w, y)] - E[KL(A_w, S)] with p_y the ensemble's probability of y, held fixed."""
    hardness = 1 - torch.softmax(ensemble, 1).gather(1, targets[:, None])[:, 0].detach()
    losses = functional.cross_entropy(ensemble, targets, reduction="none")
    return (hardness * losses).mean() - divergence(ensemble / GAP_TEMPERATURE, student / GAP_TEMPERATURE).mean()


def moved(weights: Tensor, logits: Tensor, targets: Tensor, rate: float) -> Tensor:
    """w <- w - rate sign(grad_w CE(A_w, y)), kept in [0, 1]; logits (P, N, K) of images with the labels `targets` (N,)."""
    fresh = weights.detach().requires_grad_()
    (slope,) = torch.autograd.grad(functional.cross_entropy(weighted(logits, fresh), targets), fresh)
    return (weights - rate * slope.sign()).clamp(0, 1).detach()


def hardened(teachers: Teachers, weights: Tensor, images: Tensor, directions: Tensor, reach: float) -> Tensor:
    """x + reach sign(grad_x u . softmax(A_w(x) / 4)) for directions u (N, K)."""
    fresh = images.detach().requires_grad_()
    leaning = (directions * torch.softmax(weighted(teachers.logits(fresh), weights) / SOFTNESS, 1)).sum()
    (slope,) = torch.autograd.grad(leaning, fresh)
    return images + reach * slope.sign()


def _hard(teachers: Teachers, weights: Tensor, images: Tensor, reach: float) -> tuple[Tensor, Tensor]:
    """Hard images by directions uniform in [-1, 1], and the ensemble's logits of them."""
    directions = (2 * torch.rand(len(images), teachers.counts.shape[1]) - 1).to(images.device)
    hard = hardened(teachers, weights, images, directions, reach)
    with torch.no_grad():
        return hard, weighted(teachers.logits(hard), weights)
