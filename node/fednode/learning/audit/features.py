"""`random-conv-v1`: a small convolutional network with fixed random weights, as a second space beside pixels to measure in.

It is not Inception: it has learned nothing, so its distances follow edges and textures and know no meaning, and its figures
compare with no published ones. It needs no download, treats grey and colour alike, and gives every node the same numbers.
"""

import torch
from torch import Tensor
from torch.nn import functional

from fednode.learning.sampler import to_data

NAME = "random-conv-v1"
SEED = 1_603_163_70
CHANNELS = (32, 64, 32)
GRID = 2
BATCH = 256


def features(images: Tensor) -> Tensor:
    """uint8 (N, C, H, W) -> (N, 128) float32: three layers, halved sides between them, means over a grid of 2 x 2 places."""
    kernels = _kernels(images.shape[1])
    return torch.cat([_forward(to_data(batch), kernels) for batch in torch.split(images, BATCH)])


def _kernels(channels: int) -> list[Tensor]:
    """Normal weights with the variance that keeps the scale of a ReLU network (He et al., 1502.01852), always the same."""
    generator = torch.Generator().manual_seed(SEED)
    sides = (channels, *CHANNELS)
    return [
        torch.randn((outputs, inputs, 3, 3), generator=generator) * (2 / (9 * inputs)) ** 0.5
        for inputs, outputs in zip(sides, CHANNELS, strict=False)
    ]


def _forward(x: Tensor, kernels: list[Tensor]) -> Tensor:
    for kernel in kernels:
        if kernel is not kernels[0] and x.shape[-1] >= 2 * GRID:
            x = functional.avg_pool2d(x, 2)
        x = functional.relu(functional.conv2d(x, kernel, padding=1))
    return functional.adaptive_avg_pool2d(x, GRID).flatten(1)
