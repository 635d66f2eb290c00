"""What inversion costs when patches stop, against all patches to the end: SMI claims up to 3.79 times (2510.27186).

    python examples/benchmarks/inversion.py [--model vit_tiny_patch16_224] [--size 224] [--patch 16] [--images 4] [--json]

A ViT with random weights, for what a step costs does not depend on them, and the very steps of an inversion by its default
schedule. The modes advance in turns, so that whatever else the machine does falls on all of them alike. `ratio` is the time of
`dense` by that of the mode, over all steps and what the mode needs to choose patches; `patches_ratio` is that of the patches
seen, which bounds it but for attention. Time is the process's own on a CPU and the clock's elsewhere.
"""

import argparse
import json
import sys
import time
from typing import Any, get_args

import torch
from comparison.arguments import count
from rich.console import Console
from rich.table import Table

from fednode.architecture import ViTArchitecture, ViTName
from fednode.contract import ImageShape
from fednode.learning import vit
from fednode.learning.inversion import Inversion
from fednode.learning.session import make_deterministic, open_session
from fednode.recipe import Dtype
from fednode.vit_recipe import InversionRecipe, Mode, ready_architecture

MODES: tuple[Mode, ...] = get_args(Mode)


def measure(runs: dict[str, Inversion], steps: int, device: torch.device) -> dict[str, dict[str, Any]]:
    """Seconds and patches seen of each run, step by step in turns."""
    found: dict[str, dict[str, Any]] = {mode: {"seconds": 0.0, "patches": 0, "left": 0} for mode in runs}
    for _ in range(steps):
        for mode, run in runs.items():
            found[mode]["patches"] += run.seen.shape[1]
            began = _now(device)
            run.advance()
            found[mode]["seconds"] += _now(device) - began
    for mode, run in runs.items():
        found[mode]["left"] = run.seen.shape[1]
        found[mode]["ratio"] = found["dense"]["seconds"] / found[mode]["seconds"]
        found[mode]["patches_ratio"] = found["dense"]["patches"] / found[mode]["patches"]
    return found


def _now(device: torch.device) -> float:
    if device.type == "cpu":
        return time.process_time()
    torch.cuda.synchronize(device)
    return time.perf_counter()


def show(about: dict[str, Any], found: dict[str, dict[str, Any]]) -> None:
    """The table."""
    columns = ("mode", "seconds", "patches left", "times as fast as dense", "by patches")
    table = Table(*columns, title=f"{about['grid'] ** 2} patches")
    for mode, one in found.items():
        ratios = (f"{one[name]:.2f}" for name in ("ratio", "patches_ratio"))
        table.add_row(mode, f"{one['seconds']:.1f}", str(one["left"]), *ratios)
    Console().print(table)


def main() -> int:
    """Print the table or one JSON object."""
    asked = _arguments()
    make_deterministic(1)
    session = open_session(asked.device, 1)
    architecture = ready_architecture(asked.model, ImageShape(size=asked.size, channels=3), 10)
    if asked.patch:
        architecture = ViTArchitecture(**{**architecture.model_dump(), "patch": asked.patch})
    torch.manual_seed(0)
    network = vit.build(architecture).to(session.device).eval().requires_grad_(False)
    targets = torch.arange(asked.images, device=session.device) % 10
    recipes = {mode: InversionRecipe(mode=mode, steps=asked.steps, dtype=asked.dtype) for mode in MODES}
    runs = {mode: Inversion(network, targets, architecture, recipe, 0) for mode, recipe in recipes.items()}
    for recipe in recipes.values():
        Inversion(network, targets, architecture, recipe, 1).advance()
    found = measure(runs, asked.steps, session.device)
    about = {"grid": architecture.grid, "steps": asked.steps, "images": asked.images}
    if asked.json:
        print(json.dumps({**about, "modes": found}, indent=2))
    else:
        show(about, found)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--size", type=count, default=224, help="side of the images in pixels")
    add("--patch", type=count, help="side of a patch in pixels (the default of the size)")
    add("--model", choices=get_args(ViTName), default="vit_tiny_patch16_224")
    add("--steps", type=count, default=400)
    add("--images", type=count, default=4)
    add("--dtype", choices=get_args(Dtype), default="float32")
    add("--device", default="cpu", help="cpu, cuda, cuda:N or auto")
    add("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
