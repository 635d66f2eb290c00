"""A generator: the denoiser fitted to the images of one label (EDM2, 2312.02696), saved, loaded and normalised for drawing."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from fednode.architecture import GeneratorArchitecture
from fednode.learning import weights
from fednode.learning.checkpoint import Checkpoint
from fednode.learning.denoiser import Denoiser
from fednode.learning.fitting import Run, learning_rate
from fednode.learning.heldout import Judge, chosen
from fednode.learning.sampler import to_data
from fednode.learning.team import ALONE, Team
from fednode.recipe import GeneratorRecipe

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Aids:
    """What a fit may have beside its images: held-out ones to choose by, uint8 (N, C, H, W), and a place for its state.

    `secret` (32 bytes) is what the noise of a private fit follows from, and needed for one. `team`: the processes that fit it.
    """

    holdout: Tensor | None = None
    checkpoint: Checkpoint | None = None
    secret: bytes = b""
    team: Team = ALONE


NO_AIDS = Aids()


def fit(
    images: Tensor,
    architecture: GeneratorArchitecture,
    recipe: GeneratorRecipe,
    seed: int,
    progress: Progress,
    device: torch.device,
    aids: Aids = NO_AIDS,
) -> dict[str, Tensor]:
    """The generator of one label: its averaged weights as fp16 on the CPU, by name.

    `images` is uint8 (N, C, H, W), N >= 1. `progress(done, total)` is called after each step. Equal arguments give equal bits
    at equal numerics, interrupted and resumed or not; the global random state is left as it was. Raises CompileError.
    """
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        run = Run(architecture, recipe, device, aids.secret, aids.team)
        held = aids.holdout if recipe.chooses and aids.holdout is not None and len(aids.holdout) else None
        judge = None if held is None else Judge(run.model, held, recipe, seed)
        _train(to_data(images).to(device), run, judge, progress, aids.checkpoint)
        averages = chosen(run, judge)
    parameters = dict(zip(dict(run.model.named_parameters()), averages, strict=True))
    tensors = parameters | dict(run.model.named_buffers())
    return {name: tensor.detach().half().cpu() for name, tensor in tensors.items()}


def _train(data: Tensor, run: Run, judge: Judge | None, progress: Progress, checkpoint: Checkpoint | None) -> None:
    """Runs the budget, from the checkpoint on if there is one, or less of it where the held-out loss says so."""
    steps = run.recipe.steps(len(data))
    looks = {max(1, steps * number // run.recipe.looks) for number in range(1, run.recipe.looks + 1)}
    if checkpoint and (state := checkpoint.load()):
        run.restore(state)
    while run.step < steps and not run.stale:
        run.advance(data, learning_rate(run.step, steps, run.recipe))
        if run.recipe.chooses and run.step in looks:
            run.look(run.team.first(judge.loss(run.averages[-1].averages), data.device) if judge else float("nan"))
        if checkpoint and run.team.rank == 0 and checkpoint.due:
            checkpoint.save(run.state())
        progress(run.step, steps)


def save(path: Path, tensors: dict[str, Tensor]) -> None:
    """Writes the weights of a generator as a safetensors file. Raises BadWeightsError if one is not finite."""
    weights.save(path, tensors)


def load(path: Path, architecture: GeneratorArchitecture, device: torch.device) -> Denoiser:
    """The frozen denoiser in the file at `path`, checked before use. Raises BadWeightsError."""
    tensors = weights.check_generator(path, architecture)
    model = Denoiser(architecture)
    model.load_state_dict({name: tensor.float() for name, tensor in tensors.items()})
    return model.to(device).freeze()
