"""How fast this machine fits: real steps on random images, timed. A clock is read here, and no model comes of it."""

import time
from typing import Any

import torch

from fednode.learning.fitting import Run, learning_rate
from fednode.learning.requests import Pace
from fednode.learning.session import Report, Session

IMAGES = 256
WARM_STEPS = 2


def pace(request: Pace, session: Session, report: Report) -> dict[str, Any]:
    """Images a second in a fit of this architecture by this recipe, over about the seconds that were asked for."""
    with torch.random.fork_rng(devices=[session.device] if session.device.type == "cuda" else []):
        torch.manual_seed(0)
        run, image = Run(request.architecture, request.recipe, session.device), request.architecture.image
        data = torch.rand(IMAGES, image.channels, image.size, image.size).to(session.device) * 2 - 1
        _steps(run, data, WARM_STEPS)
        began, done = time.perf_counter(), 0
        while time.perf_counter() - began < request.seconds:
            _steps(run, data, 1)
            done += 1
            report("pace", done, 0)
        seconds = time.perf_counter() - began
    return {"images_per_second": done * request.recipe.batch / seconds}


def _steps(run: Run, data: torch.Tensor, count: int) -> None:
    for _ in range(count):
        run.advance(data, learning_rate(run.step, run.recipe.steps(len(data)), run.recipe))
    float(run.parameters[0].detach().flatten()[0])  # an accelerator has done its work once a number is here
