"""What the theory of FedMITR (2605.10748) is about, measured: gradients of a loss, image by image, and the stability they allow.

L     Lipschitz constant: the largest norm of a gradient with respect to the weights of an expert
beta  smoothness: the largest eigenvalue, by size, of the Hessian of the mean loss
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

POWER_STEPS = 20


@dataclass(frozen=True)
class Gradients:
    """Norms of the gradients of single images: the largest and the 95th percentile; E |g - E g|^2; and beta."""

    largest: float
    percentile: float
    variance: float
    smoothness: float

    def document(self) -> dict[str, float]:
        """As it stands in results."""
        return asdict(self)


@dataclass(frozen=True)
class Training:
    """A training by SGD: the rate of each step, and the images that it draws from."""

    rates: Sequence[float]
    images: int


def gradients(losses: Sequence[Callable[[], Tensor]], weights: Sequence[Tensor]) -> Gradients:
    """Of scalar losses, one for each image, with respect to `weights`."""
    norms, total = [], [torch.zeros_like(weight) for weight in weights]
    for loss in losses:
        found = torch.autograd.grad(loss(), weights, allow_unused=True)
        slopes = [torch.zeros_like(w) if slope is None else slope for slope, w in zip(found, weights, strict=True)]
        norms.append(float(_norm(slopes)))
        total = [one + slope for one, slope in zip(total, slopes, strict=True)]
    mean = float(_norm([one / len(norms) for one in total]))
    variance = float(np.mean(np.square(norms))) - mean**2
    smoothness = _smoothness(lambda: torch.stack([loss() for loss in losses]).mean(), weights)
    return Gradients(max(norms), float(np.percentile(norms, 95)), max(variance, 0.0), smoothness)


def stability_convex(lipschitz: float, training: Training) -> float:
    """2 L^2 sum_t alpha_t / n: uniform stability of SGD for a convex loss (Hardt et al., 1509.01240, theorem 3.8)."""
    return 2 * lipschitz**2 * sum(training.rates) / training.images


def stability(lipschitz: float, smoothness: float, training: Training) -> float:
    """(1 + 1/(beta c)) / (n - 1) (2 c L^2)^(1/(beta c + 1)) T^(beta c/(beta c + 1)) for any loss within [0, 1] (theorem 3.12).

    It holds for rates alpha_t <= c / t; c is the least such number, max_t t alpha_t.
    """
    c = max(step * rate for step, rate in enumerate(training.rates, 1))
    power = smoothness * c
    first = (1 + 1 / power) / (training.images - 1)
    return float(first * (2 * c * lipschitz**2) ** (1 / (power + 1)) * len(training.rates) ** (power / (power + 1)))


def _smoothness(loss: Callable[[], Tensor], weights: Sequence[Tensor]) -> float:
    """The Hessian's largest eigenvalue by size, by power iteration; second derivatives need the plain attention."""
    chance = torch.Generator().manual_seed(0)
    direction = [torch.randn(weight.shape, generator=chance).to(weight) for weight in weights]
    size = float(_norm(direction))
    with sdpa_kernel(SDPBackend.MATH):
        slopes = torch.autograd.grad(loss(), weights, create_graph=True, allow_unused=True, materialize_grads=True)
        for _ in range(POWER_STEPS):
            unit = [one / size for one in direction]
            product = sum((slope * one).sum() for slope, one in zip(slopes, unit, strict=True))
            if not product.requires_grad:  # the loss is linear in all weights
                return 0.0
            found = torch.autograd.grad(product, weights, retain_graph=True, allow_unused=True, materialize_grads=True)
            direction = [one.detach() for one in found]
            if not (size := float(_norm(direction))):
                return 0.0
    return size


def _norm(tensors: Sequence[Tensor]) -> Tensor:
    return torch.stack([tensor.detach().double().square().sum() for tensor in tensors]).sum().sqrt()
