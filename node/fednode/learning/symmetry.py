"""Augmentation that does not leak into samples: an image is turned or mirrored, and the network is told how (2206.00364, F.2).

Rule: what a network is told of an image left as it is, it is told when it draws: nothing. So the layer that tells it is part of
the fit and never of a generator.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from fednode.learning.layers import MPConv

SYMMETRIES = 8


def turn(images: Tensor, which: Tensor) -> Tensor:
    """Each image (N, C, H, W) under its symmetry of the square, (N,) in 0..7: quarter turns, mirrored from 4 on; 0 leaves it."""
    turned = images.clone()
    for symmetry in range(1, SYMMETRIES):
        chosen = images[which == symmetry].rot90(symmetry % 4, (2, 3))
        turned[which == symmetry] = chosen.flip(3) if symmetry >= 4 else chosen
    return turned


class Told(nn.Module):
    """What a network is told of symmetries: (N,) in 0..7 to (N, width), of unit variance, and 0 for an image left as it is."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = MPConv(SYMMETRIES - 1, width, 0)

    def forward(self, which: Tensor) -> Tensor:
        told = functional.one_hot(which, SYMMETRIES)[:, 1:].float()
        embedding: Tensor = self.linear(told * math.sqrt(SYMMETRIES - 1))
        return embedding


def choose(count: int, share: float) -> Tensor:
    """The symmetries (N,) of `count` images, a `share` of which are turned or mirrored, by the global generator of the CPU."""
    which = torch.randint(1, SYMMETRIES, (count,))
    return torch.where(torch.rand(count) < share, which, 0)
