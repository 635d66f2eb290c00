"""A ViT in training: its optimiser, its rate, and all that the next step depends on.

Rule: whatever the next step or the result depends on is in `Run.state`, so that a fit goes on after an interruption as if there
had been none. Random numbers come from the global generator on the CPU, which `seeded` seeds and restores.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from fednode.learning.checkpoint import Checkpoint
from fednode.vit_recipe import ClassifierRecipe, DistilRecipe

MOMENTUM = 0.9
WARM_UP_SHARE = 0.1
MOMENTS = {"adamw": ("step", "exp_avg", "exp_avg_sq"), "sgd": ("momentum_buffer",)}

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Aids:
    """What learning has beside its arguments: who is told of each step, the device, and a place for its state.

    `start`: the tensors by name that a fit begins from, in place of random ones.
    """

    progress: Progress
    device: torch.device
    checkpoint: Checkpoint | None = None
    start: Mapping[str, Tensor] | None = None


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """A block whose random numbers follow from `seed`; the global random state is left as it was."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


class Run:
    """A network, the optimiser that its recipe names, and how many steps were taken."""

    def __init__(self, network: nn.Module, recipe: ClassifierRecipe | DistilRecipe) -> None:
        self.recipe = recipe
        self.kind: Literal["adamw", "sgd"] = recipe.optimiser if isinstance(recipe, DistilRecipe) else "adamw"
        self.parameters = list(network.parameters())
        self.optimiser = _optimiser(self.parameters, recipe, self.kind)
        self.step = 0

    def advance(self, loss: Callable[[], Tensor]) -> None:
        """One step down the gradient of a loss."""
        for group in self.optimiser.param_groups:
            group["lr"] = rate_at(self.step, self.recipe)
        self.optimiser.zero_grad()
        loss().backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        self.step += 1

    def state(self) -> dict[str, Tensor]:
        """All tensors that the rest of the fit depends on, by name; not copies."""
        tensors = {"rng": torch.get_rng_state(), "step": torch.tensor(self.step)}
        for index, parameter in enumerate(self.parameters):
            tensors[f"parameter.{index}"] = parameter.detach()
            tensors |= {f"{name}.{index}": self.optimiser.state[parameter][name] for name in MOMENTS[self.kind]}
        return tensors

    @torch.no_grad()
    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from a state that `state` gave for the same architecture, recipe and seed."""
        self.step = int(tensors["step"])
        for index, parameter in enumerate(self.parameters):
            parameter.copy_(tensors[f"parameter.{index}"])
            self.optimiser.state[parameter] = {
                name: tensors[f"{name}.{index}"].to(parameter.device, copy=True) for name in MOMENTS[self.kind]
            }
        torch.set_rng_state(tensors["rng"])


def train(run: Run, loss: Callable[[], Tensor], aids: Aids) -> None:
    """Takes the recipe's steps, from the checkpoint on if there is one. `loss` draws a batch and gives its loss."""
    if aids.checkpoint and (state := aids.checkpoint.load()):
        run.restore(state)
    while run.step < run.recipe.steps:
        run.advance(loss)
        if aids.checkpoint and aids.checkpoint.due:
            aids.checkpoint.save(run.state())
        aids.progress(run.step, run.recipe.steps)


def rate_at(step: int, recipe: ClassifierRecipe | DistilRecipe) -> float:
    """The rate of `step` (from 0): a linear rise over the first tenth, times half a cosine from 1 to 0 over all steps."""
    rise = min((step + 1) / max(WARM_UP_SHARE * recipe.steps, 1), 1.0)
    return recipe.lr_micro / 1e6 * rise * (1 + math.cos(math.pi * step / recipe.steps)) / 2


def _optimiser(
    parameters: list[nn.Parameter], recipe: ClassifierRecipe | DistilRecipe, kind: str
) -> torch.optim.Optimizer:
    """Norms and biases are left out of the decay."""
    matrices = [p for p in parameters if p.ndim > 1]
    vectors = [p for p in parameters if p.ndim <= 1]
    groups = [
        {"params": matrices, "weight_decay": recipe.weight_decay_micro / 1e6},
        {"params": vectors, "weight_decay": 0.0},
    ]
    if kind == "sgd":
        return torch.optim.SGD(groups, lr=recipe.lr_micro / 1e6, momentum=MOMENTUM)
    return torch.optim.AdamW(groups, lr=recipe.lr_micro / 1e6, betas=(MOMENTUM, 0.999), fused=True)
