"""The magnitude-preserving layers of EDM2 (Karras et al., 2312.02696; equation numbers are that paper's).

Rule 1: every layer keeps unit variance when its inputs have unit variance and are independent.
Rule 2: weights have unit RMS for each output channel; `normalise_weights` forces it after each step of a fit and once
        when a generator is loaded, and `project_gradients` keeps gradients from pulling at it.
Rule 3: no biases.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

EPSILON = 1e-4


def normalise(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """x / (eps + RMS of x over `dims`), eps 1e-4: unit RMS over those dimensions."""
    norm: Tensor = torch.linalg.vector_norm(x, dim=dims, keepdim=True)
    return x / (EPSILON + norm * math.sqrt(norm.numel() / x.numel()))


def mp_silu(x: Tensor) -> Tensor:
    """silu(x) / 0.596: unit variance for unit normal x (eq. 81)."""
    return functional.silu(x) * (1.0 / 0.596)


def mp_sum(a: Tensor, b: Tensor, t: float) -> Tensor:
    """((1-t) a + t b) / sqrt((1-t)^2 + t^2): unit variance for independent a and b (eq. 88)."""
    length = math.hypot(1.0 - t, t)
    return torch.add(a * ((1.0 - t) / length), b, alpha=t / length)


def mp_cat(a: Tensor, b: Tensor, t: float = 0.5) -> Tensor:
    """Channels of a and b with weights of 1-t and t in what a later layer sees, unit variance over both (eq. 103)."""
    n_a, n_b = a.shape[1], b.shape[1]
    scale = math.sqrt((n_a + n_b) / ((1.0 - t) ** 2 + t**2))
    return torch.cat([a * (scale * (1.0 - t) / math.sqrt(n_a)), b * (scale * t / math.sqrt(n_b))], dim=1)


class Fourier(nn.Module):
    """sqrt(2) cos(2 pi (f c + phi)) with frozen f ~ N(0,1) and phi ~ U[0,1) (eq. 75); (N,) -> (N, features)."""

    def __init__(self, features: int) -> None:
        super().__init__()
        # Rounded as they will be on the wire, so that the network that was fitted is the network that is sent.
        self.register_buffer("frequencies", torch.randn(features).half().float())
        self.register_buffer("phases", torch.rand(features).half().float())
        self.frequencies: Tensor
        self.phases: Tensor

    def forward(self, c: Tensor) -> Tensor:
        turns = torch.addcmul(self.phases, c[:, None], self.frequencies)
        return (2.0 * math.pi * turns).cos() * math.sqrt(2.0)


class MPConv(nn.Module):
    """Convolution (or a linear layer, `kernel` 0) by W / sqrt(fan_in) with W of unit RMS for each output channel (eq. 47)."""

    def __init__(self, inputs: int, outputs: int, kernel: int) -> None:
        super().__init__()
        shape = (outputs, inputs, kernel, kernel) if kernel else (outputs, inputs)
        self.weight = nn.Parameter(torch.randn(shape))
        self.padding = kernel // 2

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight * (1.0 / math.sqrt(self.weight[0].numel()))
        if weight.ndim == 2:
            return functional.linear(x, weight)
        return functional.conv2d(x, weight, padding=self.padding)


@torch.no_grad()
def normalise_weights(module: nn.Module) -> None:
    """Forces unit RMS on the weights of each output channel of every layer in `module` (eq. 66)."""
    for layer in module.modules():
        if isinstance(layer, MPConv):
            layer.weight.copy_(normalise(layer.weight, tuple(range(1, layer.weight.ndim))))


@torch.no_grad()
def project_gradients(module: nn.Module) -> None:
    """Takes from the gradients of weights of unit RMS the part that would only change that RMS: g <- g - W mean(g W).

    For such weights this is the derivative through the normalisation of eq. 47, at a fraction of its cost.
    """
    for layer in module.modules():
        if isinstance(layer, MPConv) and layer.weight.grad is not None:
            weight, grad = layer.weight.flatten(1), layer.weight.grad.flatten(1)
            along = (weight * grad).mean(1, keepdim=True)
            layer.weight.grad = torch.addcmul(grad, weight, along, value=-1.0).view_as(layer.weight)
