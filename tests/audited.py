"""Images and denoisers for tests of the audit."""

import torch
from torch import Tensor

from fednode.learning.audit import Exhibit
from fednode.learning.sampler import to_data


def images(count: int, seed: int, side: int = 8) -> Tensor:
    """Noisy images of one shape, grey."""
    generator = torch.Generator().manual_seed(seed)
    shape = torch.linspace(40, 200, side * side).reshape(1, 1, side, side)
    return (shape + 30 * torch.randn(count, 1, side, side, generator=generator)).clamp(0, 255).to(torch.uint8)


def blind(x: Tensor, sigma: Tensor) -> Tensor:
    """The denoiser of one wide Gaussian: it has seen no image."""
    return x / (1 + sigma[:, None, None, None] ** 2)


def memory_of(train: Tensor) -> object:
    """The best denoiser of the training images themselves: their mean, weighted by a Gaussian around the noisy image."""
    known = to_data(train)

    def denoise(x: Tensor, sigma: Tensor) -> Tensor:
        distances = (x[:, None] - known).square().sum((2, 3, 4))
        weights = torch.softmax(-distances / (2 * sigma[:, None] ** 2), 1)
        return torch.einsum("nt,tchw->nchw", weights, known)

    return denoise


def exhibit(samples: Tensor, train: Tensor, holdout: Tensor, denoise: object = blind) -> Exhibit:
    """What an audit looks at."""
    return Exhibit(samples, train, holdout, denoise)  # type: ignore[arg-type]
