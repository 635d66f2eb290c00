"""Augmentation that keeps an image's meaning: small moves, and the eight symmetries of the square where there is no upside.

Random numbers come from the global generator on the CPU, which `expert.fit` seeds.
"""

import torch
from torch import Tensor
from torch.nn import functional


def augment(images: Tensor, shift: int, dihedral: bool) -> Tensor:
    """uint8 (N, C, H, W) on the CPU, each moved by up to `shift` pixels and, with `dihedral`, turned or mirrored."""
    if shift:
        images = _move(images, shift)
    return _turn(images) if dihedral else images


def _move(images: Tensor, shift: int) -> Tensor:
    """Each image moved by its own offset; the border is repeated where it leaves a gap."""
    n, _, height, width = images.shape
    padded = functional.pad(images.float(), (shift,) * 4, mode="replicate").to(images.dtype)
    offsets = torch.randint(2 * shift + 1, (2, n, 1))
    rows = offsets[0] + torch.arange(height)
    columns = offsets[1] + torch.arange(width)
    which = torch.arange(n)[:, None, None]
    return padded.permute(0, 2, 3, 1)[which, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def _turn(images: Tensor) -> Tensor:
    """Each image under one of the eight symmetries of the square."""
    which = torch.randint(8, (len(images),))
    turned = images.clone()
    for symmetry in range(8):
        chosen = images[which == symmetry].rot90(symmetry % 4, (2, 3))
        turned[which == symmetry] = chosen.flip(3) if symmetry >= 4 else chosen
    return turned
