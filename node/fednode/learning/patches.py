"""Patches of images by their indices, row by row on a square grid: which go on, and where they are after a move."""

from dataclasses import dataclass

import torch
from torch import Tensor

from fednode.vit_recipe import InversionRecipe


@dataclass(frozen=True)
class Move:
    """A roll by so many pixels down and to the right, then mirrored left to right or not."""

    down: int
    right: int
    mirrored: bool

    def of(self, x: Tensor) -> Tensor:
        """Images (N, C, H, W) after the move."""
        rolled = torch.roll(x, (self.down, self.right), (2, 3))
        return rolled.flip(3) if self.mirrored else rolled


def stops(recipe: InversionRecipe) -> frozenset[int]:
    """After how many steps patches stop."""
    if recipe.mode == "dense":
        return frozenset()
    return frozenset(max(1, recipe.steps * milli // 1000) for milli in recipe.stop_at_milli)


def left_after(count: int, percent: int) -> int:
    """How many of `count` patches go on when `percent` of them stop, at least one: 196 -> 137 -> 95 -> 66 -> 46 at 30."""
    return max(1, count * (100 - percent) // 100)


def survivors(ranks: Tensor, seen: Tensor, percent: int) -> Tensor:
    """The patches of `seen` (N, k) that go on, in rising order: those of the highest `ranks` (N, k), ties to the first."""
    best = ranks.argsort(dim=1, descending=True, stable=True)[:, : left_after(seen.shape[1], percent)]
    return seen.gather(1, best).sort(dim=1).values


def others(seen: Tensor, count: int) -> Tensor:
    """The patches of `count` that are not in `seen` (N, k), in rising order: (N, count - k)."""
    there = torch.zeros(len(seen), count, dtype=torch.uint8, device=seen.device).scatter_(1, seen, 1)
    return there.argsort(dim=1, stable=True)[:, : count - seen.shape[1]]


def pixels_of(seen: Tensor, grid: int, side: int) -> Tensor:
    """(N, 1, side, side), true at the pixels of the patches `seen` (N, k)."""
    there = torch.zeros(len(seen), grid**2, dtype=torch.bool, device=seen.device).scatter_(1, seen, True)
    patch = side // grid
    return there.view(-1, 1, grid, grid).repeat_interleave(patch, 2).repeat_interleave(patch, 3)


def moved(seen: Tensor, move: Move, grid: int, side: int) -> Tensor:
    """Where the patches `seen` (N, k) mostly are after `move`; by half a patch, a roll takes them to the next one."""
    patch = side // grid
    rows = (seen // grid + (move.down + patch // 2) // patch) % grid
    columns = (seen % grid + (move.right + patch // 2) // patch) % grid
    return rows * grid + (grid - 1 - columns if move.mirrored else columns)
