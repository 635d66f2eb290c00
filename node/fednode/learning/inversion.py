"""Inversion: images to which a classifier gives wanted labels, found by descent on their pixels (SMI, 2510.27186).

Rule 1: patches that stopped keep the pixels that they had then, and are seen no more.
Rule 2: random numbers come from a generator of the run's own; whatever the next step depends on is in `Inversion.state`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from fednode.architecture import ViTArchitecture
from fednode.learning import vit
from fednode.learning.patches import Move, moved, others, pixels_of, stops, survivors
from fednode.learning.precision import computing
from fednode.learning.sampler import to_bytes
from fednode.learning.vitfit import Aids
from fednode.vit_recipe import InversionRecipe

EPSILON = 1e-8
TENSORS = ("x", "first", "second", "seen", "still")


@dataclass(frozen=True)
class Inverted:
    """Images uint8 (N, C, H, W), for each its own patches (N, k), int64 and rising, and the output that it was made for, (N,)."""

    images: Tensor
    kept: Tensor
    targets: Tensor


def invert(
    network: nn.Module,
    targets: Tensor,
    architecture: ViTArchitecture,
    recipe: InversionRecipe,
    seed: int,
    aids: Aids,
) -> Inverted:
    """An image for each of `targets` (N,), found together, on the CPU.

    `network` is frozen. Equal arguments give equal bits at equal numerics, interrupted and resumed or not.
    """
    run = Inversion(network, targets.to(aids.device), architecture, recipe, seed)
    if aids.checkpoint and (state := aids.checkpoint.load()):
        run.restore(state)
    while run.step < recipe.steps:
        run.advance()
        if aids.checkpoint and aids.checkpoint.due:
            aids.checkpoint.save(run.state())
        aids.progress(run.step, recipe.steps)
    return run.found()


# Each neighbour that a pixel is compared with: the rows and columns of the one, and those of the other.
_ALL, _BUT_LAST, _BUT_FIRST = slice(None), slice(None, -1), slice(1, None)
_NEIGHBOURS = (
    ((_ALL, _BUT_LAST), (_ALL, _BUT_FIRST)),
    ((_BUT_LAST, _ALL), (_BUT_FIRST, _ALL)),
    ((_BUT_LAST, _BUT_LAST), (_BUT_FIRST, _BUT_FIRST)),
    ((_BUT_LAST, _BUT_FIRST), (_BUT_FIRST, _BUT_LAST)),
)


def total_variation(x: Tensor) -> Tensor:
    """(N,): the Frobenius norms of the differences with the neighbours to the right, below and at both diagonals, added up.

    For each image (DeepInversion, 1912.08795, takes the norms over the batch, so that its weight depends on the batch).
    """
    differences = (x[:, :, *one] - x[:, :, *other] for one, other in _NEIGHBOURS)
    return torch.stack([torch.linalg.vector_norm(found, dim=(1, 2, 3)) for found in differences]).sum(0)


def variation_gradient(x: Tensor) -> Tensor:
    """The gradient of the images' total variations with respect to x (N, C, H, W), 0 where a norm has none.

    In closed form, as pixels cost as much with few patches as with all, and autograd takes more than twice as long.
    """
    gradient = torch.zeros_like(x)
    for one, other in _NEIGHBOURS:
        difference = x[:, :, *one] - x[:, :, *other]
        norms = torch.linalg.vector_norm(difference, dim=(1, 2, 3), keepdim=True)
        difference /= torch.where(norms == 0, 1, norms)
        gradient[:, :, *one] += difference
        gradient[:, :, *other] -= difference
    return gradient


class Inversion:
    """The pixels under way, their moments, the patches seen, and which pixels have stopped."""

    def __init__(
        self,
        network: nn.Module,
        targets: Tensor,
        architecture: ViTArchitecture,
        recipe: InversionRecipe,
        seed: int,
    ) -> None:
        self.network, self.targets, self.recipe, self.grid = network, targets, recipe, architecture.grid
        self.size, side = architecture.image.size, architecture.side
        self.chance = torch.Generator().manual_seed(seed)
        shape = (len(targets), architecture.image.channels, side, side)
        self.x = torch.randn(shape, generator=self.chance).to(targets.device)
        self.first, self.second = torch.zeros_like(self.x), torch.zeros_like(self.x)
        self.seen = torch.arange(self.grid**2, device=targets.device).repeat(len(targets), 1)
        self.still = torch.zeros_like(self.x[:, :1], dtype=torch.bool)
        self.stops = stops(recipe)
        self.step = 0

    def advance(self) -> None:
        """One step of Adam (1412.6980, algorithm 1) on the pixels that have not stopped, clipped to the range of images."""
        gradient, recipe = self._gradient(), self.recipe
        beta1, beta2 = recipe.beta1_milli / 1e3, recipe.beta2_milli / 1e3
        rate = recipe.lr_milli / 1e3 * (1 + math.cos(math.pi * self.step / recipe.steps)) / 2
        self.step += 1
        self.first.lerp_(gradient, 1 - beta1)
        self.second.lerp_(gradient.square(), 1 - beta2)
        spread = (self.second / (1 - beta2**self.step)).sqrt() + EPSILON
        after = (self.x - rate / (1 - beta1**self.step) * self.first / spread).clamp(-1, 1)
        self.x = torch.where(self.still, self.x, after)
        if self.step in self.stops:
            self._stop()

    def found(self) -> Inverted:
        """What is there after the last step."""
        kept = others(self.seen, self.grid**2) if self.recipe.mode == "rebirth" else self.seen
        images = to_bytes(self.x[:, :, : self.size, : self.size])
        return Inverted(images.cpu(), kept.cpu(), self.targets.cpu())

    def state(self) -> dict[str, Tensor]:
        """All tensors that the rest of the run depends on, by name; not copies."""
        tensors = {name: getattr(self, name) for name in TENSORS}
        return tensors | {"step": torch.tensor(self.step), "rng": self.chance.get_state()}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from a state that `state` gave for the same arguments."""
        for name in TENSORS:
            setattr(self, name, tensors[name].to(self.targets.device))
        self.step = int(tensors["step"])
        self.chance.set_state(tensors["rng"])

    def _gradient(self) -> Tensor:
        """Of sum over images of CE(f(move(x)), y) + tv TV(x), with respect to x; images do not weigh on each other."""
        x = self.x.detach().requires_grad_()
        move = self._move()
        seen = moved(self.seen, move, self.grid, x.shape[-1]) if self.seen.shape[1] < self.grid**2 else None
        with computing(self.recipe.dtype, x.device):
            logits = vit.answers(self.network, move.of(x), seen)
        error = functional.cross_entropy(logits.float(), self.targets, reduction="sum")
        return torch.autograd.grad(error, x)[0].add_(variation_gradient(x.detach()), alpha=self.recipe.tv_micro / 1e6)

    def _move(self) -> Move:
        """A roll of up to the recipe's share of the side, and mirrored or not."""
        furthest = self.x.shape[-1] * self.recipe.jitter_milli // 1000
        down, right = torch.randint(-furthest, furthest + 1, (2,), generator=self.chance).tolist()
        mirrored = bool(torch.rand((), generator=self.chance) < 0.5) and self.recipe.flip
        return Move(down, right, mirrored)

    def _stop(self) -> None:
        """Lets a share of the patches left stop, those that the mode chooses."""
        self.seen = survivors(self._ranks(), self.seen, self.recipe.stop_percent)
        self.still = ~pixels_of(self.seen, self.grid, self.x.shape[-1])

    def _ranks(self) -> Tensor:
        """(N, k): the patches of the highest ranks go on."""
        if self.recipe.mode == "random":
            return torch.rand(self.seen.shape, generator=self.chance).to(self.seen.device)
        with computing(self.recipe.dtype, self.x.device):
            attention = vit.attention(self.network, self.x, self.seen)
        return -attention if self.recipe.mode == "rebirth" else attention
