"""Network calls: counted where they are made, and shared out so that all methods that make images have as many.

A call is one image that goes forward through one classifier; whatever makes images also goes back through it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from fednode.learning.patches import left_after, stops
from fednode.vit_recipe import DistilRecipe, InversionRecipe


class Meter:
    """Images and tokens that went through the blocks of the watched networks."""

    def __init__(self) -> None:
        self.images = 0
        self.tokens = 0

    def _count(self, block: nn.Module, inputs: tuple[Any, ...]) -> None:
        entering: Tensor = inputs[0]
        self.images += len(entering)
        self.tokens += len(entering) * entering.shape[1]


@contextmanager
def metered(networks: Sequence[nn.Module]) -> Iterator[Meter]:
    """Count the calls of these ViTs while the block runs: each at its first block of layers, after any gathering of tokens."""
    meter = Meter()
    handles = [network.get_submodule("blocks.0").register_forward_pre_hook(meter._count) for network in networks]
    try:
        yield meter
    finally:
        for handle in handles:
            handle.remove()


def dense_epochs(calls: int, networks: int, batch: int, steps: int) -> int:
    """Epochs of DENSE: each has `steps` steps of a batch through all networks, and one call of each for the answers."""
    return max(1, round(calls / (networks * batch * (steps + 1))))


def boosting_epochs(calls: int, networks: int, batch: int, steps: int) -> int:
    """Epochs E of Co-Boosting, which makes all images so far hard anew: E (steps + 1) + 2 E (E + 1) / 2 batches."""
    batches = calls / (networks * batch)
    return max(1, round((-(steps + 2) + ((steps + 2) ** 2 + 4 * batches) ** 0.5) / 2))


def tuning_rounds(calls: int, networks: int, batch: int) -> int:
    """Rounds of FedFTG: a batch through all networks for the painter's step, and again for the student's."""
    return max(1, round(calls / (networks * batch * 2)))


def patches_left(recipe: InversionRecipe, patches: int) -> list[int]:
    """How many patches each step of an inversion sees, and after its last stop."""
    left, found = patches, []
    for step in range(recipe.steps):
        found.append(left)
        if step + 1 in stops(recipe):
            left = left_after(left, recipe.stop_percent)
    return [*found, left]


def inversion_calls(recipe: InversionRecipe, patches: int) -> tuple[int, int]:
    """Calls and tokens for one image: one call for each step, and one more for the attention at a stop that looks at it."""
    left = patches_left(recipe, patches)
    looks = [left[stop - 1] for stop in stops(recipe)] if recipe.mode in ("sparse", "rebirth") else []
    seen = [*left[:-1], *looks]
    return len(seen), sum(seen) + len(seen)


def distil_calls(recipe: DistilRecipe, patches: int, networks: int) -> tuple[int, int]:
    """Calls and tokens of an expert's making: the inversion of each image, and what all classifiers say of its other patches."""
    calls, tokens = inversion_calls(recipe.inversion, patches)
    left = patches_left(recipe.inversion, patches)[-1]
    rest = left if recipe.inversion.mode == "rebirth" else patches - left
    asked = networks if recipe.relabel != "none" and rest else 0
    images = networks * recipe.inversion.images
    return images * (calls + asked), images * (tokens + asked * (rest + 1))
