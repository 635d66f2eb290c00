"""FedFTG (Zhang et al., 2203.09249): the averaged network, tuned on images painted to show where it and the nodes' differ."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from fednode.contract import ImageShape
from mitr.painter import Painter, Painting
from mitr.students import Student, Teachers, divergence


@dataclass(frozen=True)
class FedFTG:
    """Rounds of one step of the painter and a share of the student's steps; weights of the terms on labels and on variety."""

    painting: Painting
    rounds: int
    labels: float = 1.0
    variety: float = 1.0


def distil(teachers: Teachers, student: Student, image: ImageShape, tune: FedFTG) -> None:
    """Tune `student`; the painter raises what it lowers. Random numbers are the global ones."""
    device = student.device
    outputs = teachers.counts.shape[1]
    painter = Painter(tune.painting.latent + outputs, tune.painting.width, image).to(device)
    optimiser = torch.optim.Adam(painter.parameters(), lr=tune.painting.rate, betas=tune.painting.betas)
    known, shares = label_shares(teachers.counts), node_shares(teachers.counts).to(device)
    for part in range(tune.rounds):
        targets = torch.multinomial(known, tune.painting.batch, replacement=True).to(device)
        noise = torch.randn(tune.painting.batch, tune.painting.latent, device=device)
        given = torch.cat([noise, functional.one_hot(targets, outputs).float()], 1)
        images = painter(given)
        said = teachers.logits(images)
        loss = tune.labels * label_loss(said, targets, shares) + tune.variety * variety_loss(images, noise)
        loss = loss - disagreement(student.answers(images), said, targets, shares)
        optimiser.zero_grad()
        loss.backward(inputs=list(painter.parameters()))  # type: ignore[no-untyped-call]
        optimiser.step()
        with torch.no_grad():
            images = painter(given)
            said = teachers.logits(images)
        for _ in range(student.steps_of(part, tune.rounds)):
            rows = torch.randint(len(images), (student.recipe.batch,)).to(device)
            answers = student.answers(images[rows])
            student.step(disagreement(answers, said[:, rows], targets[rows], shares))


def label_shares(counts: Tensor) -> Tensor:
    """p(y) in proportion to sum_k n_ky, (K,), from counts (P, K)."""
    return counts.sum(0) / counts.sum()


def node_shares(counts: Tensor) -> Tensor:
    """a_ky = n_ky / sum_j n_jy, (P, K); 0 for a label that nobody has."""
    return counts / counts.sum(0).clamp_min(1)


def disagreement(student: Tensor, said: Tensor, targets: Tensor, shares: Tensor) -> Tensor:
    """E sum_k a_ky KL(f_g, f_k) of logits (N, K) and (P, N, K)."""
    return (shares[:, targets] * divergence(student.expand_as(said), said)).sum(0).mean()


def label_loss(said: Tensor, targets: Tensor, shares: Tensor) -> Tensor:
    """E sum_k a_ky CE(f_k, y)."""
    losses = functional.cross_entropy(said.movedim(2, 1), targets.expand(len(said), -1), reduction="none")
    return (shares[:, targets] * losses).sum(0).mean()


def variety_loss(images: Tensor, noise: Tensor) -> Tensor:
    """exp(-mean_ij |x_i - x_j| |z_i - z_j|^2), means over pixels and numbers: 1 where all images are one."""
    flat = images.flatten(1)
    pixels = (flat[:, None] - flat[None]).abs().mean(2)
    return torch.exp(-(pixels * (noise[:, None] - noise[None]).square().mean(2)).mean())
