"""What the products are compared with: classifiers that see own real images alone, and their averages.

Each is written from its equations. All use the expert's network and its augmentation; a local step is plain SGD unless asked.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from fednode.architecture import ExpertArchitecture
from fednode.learning import expert, training
from fednode.learning.expert import Pool
from fednode.learning.precision import computing
from fednode.learning.session import Session
from fednode.recipe import Dtype, ExpertRecipe

Shard = tuple[Tensor, Tensor]
Prepare = Callable[[Tensor], Tensor]
Progress = Callable[[int, int], None]

FEWEST_STEPS = 12


@dataclass(frozen=True)
class Local:
    """A node's part of a round: epochs over its images, batch, the first learning rate, FedProx's mu (0: FedAvg), and numbers.

    With `steps` it is so many random batches instead. With `decay` a step is AdamW's, anew in each round, with this weight decay.
    """

    epochs: int = 5
    batch: int = 64
    rate: float = 0.1
    mu: float = 0.0
    dtype: Dtype = "float32"
    steps: int | None = None
    decay: float | None = None


def federated(
    make: Callable[[], nn.Module],
    shards: Sequence[Shard],
    rounds: int,
    local: Local,
    prepare: Prepare,
    progress: Progress,
) -> nn.Module:
    """The global network after `rounds` rounds of FedAvg (McMahan et al., 1602.05629, algorithm 1) with all nodes in each.

    w <- sum_k (n_k / n) w_k, w_k from `local.epochs` epochs of SGD that start at w. A shard is images (n_k, ...) and label
    indices (n_k,); `prepare` turns a batch of images into the network's input. The rate falls from `local.rate` to 0 by half a
    cosine over all rounds. With `local.mu` > 0 it is FedProx (Li et al., 1812.06127). Random numbers are the global ones.
    """
    network = make()
    counts = [len(images) for images, _ in shards]
    for done in range(rounds):
        states = []
        for number, shard in enumerate(shards):
            states.append(_local_state(network, shard, (done / rounds, (done + 1) / rounds), local, prepare))
            progress(done * len(shards) + number + 1, rounds * len(shards))
        network.load_state_dict(average(states, counts))
    return network.eval()


def average(states: Sequence[Mapping[str, Tensor]], counts: Sequence[int]) -> dict[str, Tensor]:
    """sum_k (n_k / n) w_k over weights and the statistics of batch norms alike; counters are those of the first."""
    shares = [count / sum(counts) for count in counts]
    return {
        name: sum(share * state[name] for share, state in zip(shares, states, strict=True))  # type: ignore[misc]
        if first.is_floating_point()
        else first
        for name, first in states[0].items()
    }


def _local_state(
    network: nn.Module, shard: Shard, span: tuple[float, float], local: Local, prepare: Prepare
) -> dict[str, Tensor]:
    """The weights of one node after its part of a round, which takes the part `span` of the whole run."""
    own = deepcopy(network).train()
    images, targets = shard
    adam = None if local.decay is None else torch.optim.AdamW(own.parameters(), weight_decay=local.decay)
    for done, total, rows in _batches(len(images), local):
        pair = rows.repeat(2) if len(rows) == 1 else rows  # the statistics of a batch norm need two images
        batch = prepare(images[pair])
        loss = _loss(own, (batch, targets[pair].to(batch.device)), local)
        rate = _rate(local, span[0] + (span[1] - span[0]) * done / total)
        _step(own, network, torch.autograd.grad(loss, list(own.parameters())), rate, local.mu, adam)
    return own.state_dict()


def _batches(images: int, local: Local) -> Iterator[tuple[int, int, Tensor]]:
    """The number of a step, how many there are, and the rows of its batch."""
    if local.steps is not None:
        for done in range(local.steps):
            yield done, local.steps, torch.randint(images, (local.batch,))
        return
    parts = max(1, round(images / local.batch))
    for epoch in range(local.epochs):
        for number, rows in enumerate(torch.tensor_split(torch.randperm(images), parts)):
            yield epoch * parts + number, parts * local.epochs, rows


def _rate(local: Local, share: float) -> float:
    return local.rate * (1 + math.cos(math.pi * share)) / 2


def _loss(own: nn.Module, batch: Shard, local: Local) -> Tensor:
    images, targets = batch
    with computing(local.dtype, images.device):
        answers = own(images)
    return functional.cross_entropy(answers.float(), targets)


def _step(
    own: nn.Module,
    start: nn.Module,
    gradients: Sequence[Tensor],
    rate: float,
    mu: float,
    adam: torch.optim.Optimizer | None,
) -> None:
    """w <- prox(w - rate grad F_k(w)) for the term (mu / 2) ||w - w_t||^2 of 1812.06127, eq. 2, with w_t the round's start.

    prox(v) = (v + rate mu w_t) / (1 + rate mu) minimises that term exactly, so that no mu makes the step diverge; to first order
    in the rate it is a gradient step on the sum. With `adam` its step takes the gradient's place.
    """
    if adam is not None:
        adam.param_groups[0]["lr"] = rate
        for weight, gradient in zip(own.parameters(), gradients, strict=True):
            weight.grad = gradient
        adam.step()
    with torch.no_grad():
        for weight, anchor, gradient in zip(own.parameters(), start.parameters(), gradients, strict=True):
            if adam is None:
                weight.sub_(gradient, alpha=rate)
            if mu:
                weight.add_(anchor, alpha=rate * mu).div_(1 + rate * mu)


def logit_ensemble(logits: Tensor) -> Tensor:
    """Probabilities (N, K) from the mean of the nodes' logits (P, N, K), as in DENSE's teacher (Zhang et al., 2112.12371)."""
    return torch.softmax(logits.double().mean(0), dim=1)


@dataclass(frozen=True)
class Lesson:
    """Own real images uint8 (N, C, H, W) by label, all labels of the task, the network, and the expert's recipe."""

    own: Mapping[str, Tensor]
    labels: Sequence[str]
    architecture: ExpertArchitecture
    recipe: ExpertRecipe


def classifier(lesson: Lesson, seed: int, session: Session, progress: Progress) -> nn.Module:
    """The expert's network, trained by the expert's own fit on real images alone, with an output for each label of the task.

    Labels without own images are never a target.
    """
    known = [label for label in lesson.labels if label in lesson.own]
    real = lesson.recipe.model_copy(update={"mix": "paper", "targets": "donor"})
    pools = training.pools(training.Lesson(known, lesson.own, {}, real), session, lambda *_: None)
    columns = torch.tensor([lesson.labels.index(label) for label in known])
    widened = (_widen(pool, columns, len(lesson.labels)) for pool in pools)
    tensors = expert.fit(widened, lesson.architecture, real, seed, progress, session.device)
    network = expert.build(lesson.architecture)
    network.load_state_dict({name: tensor.float() for name, tensor in tensors.items()}, strict=False)
    return network.to(session.device).eval()


def own_steps(recipe: ExpertRecipe, images: int, everywhere: int) -> int:
    """Steps of a node's own classifier: as many passes over its images as the expert's recipe makes over those of all nodes."""
    return max(FEWEST_STEPS, recipe.steps * images // everywhere)


def _widen(pool: Pool, columns: Tensor, outputs: int) -> Pool:
    targets = torch.zeros(len(pool.images), outputs).index_copy(1, columns, pool.targets)
    return Pool(pool.images, targets, pool.weights)
