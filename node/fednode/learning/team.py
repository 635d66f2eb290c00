"""A team: processes that fit one generator together, each on a device of its own.

Rule 1: every process draws the whole batch, from the same seed, and learns from its own equal share of it: the recipe's batch,
        and with it the spec, is the same whatever the size of the team.
Rule 2: gradients are averaged over the team before each step (accelerate), so all hold equal weights, and where a fit has a
        choice the first process makes it.
Rule 3: the first process alone writes.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import torch
from torch import nn

PATIENCE = timedelta(minutes=10)  # a process that is this late is lost; loading data and compiling take their time


@dataclass(frozen=True)
class Team:
    """This process's place, from 0, in a team of `size`."""

    rank: int = 0
    size: int = 1

    def share(self, batch: int) -> slice:
        """The rows of a batch that this process learns from. `batch` is a multiple of the team's size."""
        rows = batch // self.size
        return slice(self.rank * rows, (self.rank + 1) * rows)

    def average(self, parameters: Iterable[nn.Parameter]) -> None:
        """Replace the gradients by their mean over the team, in one exchange."""
        if self.size == 1:
            return
        from accelerate.utils import reduce  # noqa: PLC0415 - only a team needs it

        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        mean = reduce(torch.cat([gradient.flatten() for gradient in gradients]), "mean")
        parts = torch.split(mean, [gradient.numel() for gradient in gradients])
        for gradient, part in zip(gradients, parts, strict=True):
            gradient.copy_(part.view_as(gradient))

    def first(self, value: float, device: torch.device) -> float:
        """The value that the first process gives."""
        if self.size == 1:
            return value
        from accelerate.utils import broadcast  # noqa: PLC0415 - only a team needs it

        return float(broadcast(torch.tensor(value, dtype=torch.float64, device=device)))


ALONE = Team()


def join(device: torch.device, meeting: Path) -> Team:
    """The team of this process, by RANK and WORLD_SIZE; all of it meet at the file `meeting`, which must be new.

    Call after the number of threads is set; OMP_NUM_THREADS must say the same, or accelerate sets another.
    """
    from accelerate import PartialState  # noqa: PLC0415 - only a team needs it

    team = Team(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    if device.type == "cuda":
        torch.cuda.set_device(device)
    torch.distributed.init_process_group(
        "nccl" if device.type == "cuda" else "gloo",
        init_method=f"file://{meeting}",
        rank=team.rank,
        world_size=team.size,
        timeout=PATIENCE,
    )
    PartialState(cpu=device.type == "cpu")
    return team


def leave() -> None:
    """Part from the team, if this process is in one."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
