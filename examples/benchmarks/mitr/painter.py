"""The network that paints images for an ensemble to judge: what DENSE, Co-Boosting and FedFTG call their generator."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fednode.contract import ImageShape


@dataclass(frozen=True)
class Painting:
    """How a painter is fitted: noise of so many numbers, channels, Adam's rate and betas, steps for one batch of images."""

    batch: int
    steps: int = 30
    latent: int = 256
    width: int = 64
    rate: float = 1e-3
    betas: tuple[float, float] = (0.5, 0.999)


class Painter(nn.Module):
    """(N, latent) -> images (N, C, H, W) in data units: DENSE's layers (2112.12371), a quarter of the side doubled twice."""

    def __init__(self, latent: int, width: int, image: ImageShape) -> None:
        super().__init__()
        self._side, self._start = image.size, -(-image.size // 4)
        self.first = nn.Linear(latent, 2 * width * self._start**2)
        self.layers = nn.Sequential(
            nn.BatchNorm2d(2 * width),
            nn.Upsample(scale_factor=2),
            nn.Conv2d(2 * width, 2 * width, 3, padding=1, bias=False),
            nn.BatchNorm2d(2 * width),
            nn.LeakyReLU(0.2),
            nn.Upsample(scale_factor=2),
            nn.Conv2d(2 * width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.LeakyReLU(0.2),
            nn.Conv2d(width, image.channels, 3, padding=1),
            nn.Tanh(),
        )

    def forward(self, noise: Tensor) -> Tensor:
        """Images of the side that was asked for: what the doublings have beyond it is cut off."""
        grid = self.first(noise).unflatten(1, (-1, self._start, self._start))
        images: Tensor = self.layers(grid)[:, :, : self._side, : self._side]
        return images


def paint(judge: Callable[[Tensor], Tensor], painting: Painting, image: ImageShape, device: torch.device) -> Tensor:
    """A batch of images that a fresh painter and its noise reach by lowering `judge(images)`: those of the best step.

    A painter starts anew for each batch, and its noise is fitted with it, as in the code of DENSE and of Co-Boosting.
    """
    painter = Painter(painting.latent, painting.width, image).to(device)
    noise = torch.randn(painting.batch, painting.latent, device=device).requires_grad_()
    fitted = [*painter.parameters(), noise]
    optimiser = torch.optim.Adam(fitted, lr=painting.rate, betas=painting.betas)
    best, lowest = torch.empty(0), float("inf")
    for _ in range(painting.steps):
        images = painter(noise)
        loss = judge(images)
        if not len(best) or loss.item() < lowest:
            best, lowest = images.detach(), loss.item()
        optimiser.zero_grad()
        loss.backward(inputs=fitted)  # type: ignore[no-untyped-call]
        optimiser.step()
    return best
