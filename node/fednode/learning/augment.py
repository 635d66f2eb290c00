"""Augmentation that keeps an image's meaning, by named policies.

    none      images as they are
    shift     moved by up to `shift` pixels
    flip      moved, and half of them mirrored left to right
    dihedral  moved, and under one of the eight symmetries of the square, for images that have no upside
    colour    moved, mirrored, and with other brightness and contrast

Random numbers come from the global generator on the CPU, which the fit that asks seeds.
"""

import torch
from torch import Tensor
from torch.nn import functional

from fednode.learning.symmetry import SYMMETRIES, turn
from fednode.recipe import ExpertRecipe
from fednode.vit_recipe import ClassifierRecipe, DistilRecipe


def augment(images: Tensor, recipe: ExpertRecipe | ClassifierRecipe | DistilRecipe) -> Tensor:
    """uint8 (N, C, H, W) on the CPU, each image changed by its own draw of the recipe's policy."""
    if recipe.augment == "none":
        return images
    images = _move(images, recipe.shift) if recipe.shift else images
    if recipe.augment == "dihedral":
        return turn(images, torch.randint(SYMMETRIES, (len(images),)))
    if recipe.augment in ("flip", "colour"):
        images = _mirror(images)
    return _jitter(images, recipe.jitter_milli / 1e3) if recipe.augment == "colour" else images


def _move(images: Tensor, shift: int) -> Tensor:
    """Each image moved by its own offset; the border is repeated where it leaves a gap."""
    n, _, height, width = images.shape
    padded = functional.pad(images.float(), (shift,) * 4, mode="replicate").to(images.dtype)
    offsets = torch.randint(2 * shift + 1, (2, n, 1))
    rows = offsets[0] + torch.arange(height)
    columns = offsets[1] + torch.arange(width)
    which = torch.arange(n)[:, None, None]
    return padded.permute(0, 2, 3, 1)[which, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def _mirror(images: Tensor) -> Tensor:
    """Half of the images, by chance, mirrored left to right."""
    chosen = torch.rand(len(images)) < 0.5
    return torch.where(chosen[:, None, None, None], images.flip(3), images)


def _jitter(images: Tensor, largest: float) -> Tensor:
    """Contrast about each image's mean changed by up to +- `largest` of itself, brightness by up to as much of the range."""
    change = (2 * torch.rand(2, len(images), 1, 1, 1) - 1) * largest
    values = images.float()
    mean = values.mean((1, 2, 3), keepdim=True)
    return (mean + (values - mean) * (1 + change[0]) + 255 * change[1]).round().clamp(0, 255).to(torch.uint8)
