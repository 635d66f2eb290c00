"""How fast a generator is fitted: each preset that this machine can carry, and one network in several layouts and precisions.

    python examples/benchmarks/generator.py [--presets nano,xs] [--rounds 9] [--compile] [--reference FILE] [--smoke] [--json]

Random images, one thread on a CPU, and the very steps of a fit. The layouts are timed in turns, so that whatever else the machine
does falls on all of them alike; ratios are of medians. FILE holds another implementation's figures to be shown beside ours,
`{"xs": {"steps_per_second": 3.1}}`. `--smoke` takes small networks and few steps, to try the script.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from fednode.architecture import GeneratorArchitecture
from fednode.contract import ImageShape
from fednode.learning.fitting import Run, learning_rate
from fednode.learning.session import make_deterministic
from fednode.learning.weights import generator_tensors
from fednode.presets import PRESETS, generator_architecture
from fednode.recipe import GeneratorRecipe, Preset

SIDES: dict[Preset, int] = {"nano": 8, "xs": 28, "s": 64, "m": 32, "paper": 32}
ON_CPU: tuple[Preset, ...] = ("nano", "xs", "s")
IMAGES = 64
WARM_STEPS = 2
BASE = "float32, contiguous"
Rows = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Variant:
    """A way to compute the same network."""

    dtype: str = "float32"
    layout: torch.memory_format = torch.channels_last
    compiled: bool = False


VARIANTS = {
    BASE: Variant(layout=torch.contiguous_format),
    "float32, channels last": Variant(),
    "bfloat16, channels last": Variant("bfloat16"),
}
COMPILED = {
    "float32, channels last, compiled": Variant(compiled=True),
    "bfloat16, channels last, compiled": Variant("bfloat16", compiled=True),
}


def sizes(architecture: GeneratorArchitecture) -> dict[str, int]:
    """How many numbers a generator's file holds, and the bytes that they take."""
    count = sum(prod(shape) for shape, _ in generator_tensors(architecture).values())
    return {"parameters": count, "bytes": 2 * count}


def stepper(
    architecture: GeneratorArchitecture, recipe: GeneratorRecipe, variant: Variant, device: torch.device
) -> Callable[[], float]:
    """A function that does one step of a fit and returns the seconds that it took."""
    torch.manual_seed(1)
    run = Run(architecture, recipe.model_copy(update={"dtype": variant.dtype, "compile": variant.compiled}), device)
    run.model.layout = variant.layout
    image = architecture.image
    data = (torch.rand(IMAGES, image.channels, image.size, image.size) * 2 - 1).to(device)

    def step() -> float:
        began = time.perf_counter()
        run.advance(data, learning_rate(run.step, recipe.steps(IMAGES), recipe))
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter() - began

    for _ in range(WARM_STEPS):
        step()
    return step


def presets(names: list[Preset], rounds: int, channels: int, device: torch.device) -> Rows:
    """Preset -> size of its network, and how fast it is fitted as its recipe says."""
    rows = {}
    for name in names:
        architecture = generator_architecture(name, ImageShape(size=SIDES[name], channels=channels))
        recipe = PRESETS[name].recipe
        step = stepper(architecture, recipe, Variant(recipe.dtype), device)
        seconds = statistics.median(step() for _ in range(rounds))
        pace = {"side": SIDES[name], "steps_per_second": 1 / seconds, "images_per_second": recipe.batch / seconds}
        rows[name] = {**sizes(architecture), **pace}
    return rows


def layouts(preset: Preset, rounds: int, variants: dict[str, Variant], device: torch.device) -> Rows:
    """Variant -> steps a second of one network, and how many times as fast as in eager float32, contiguous."""
    architecture = generator_architecture(preset, ImageShape(size=SIDES[preset], channels=1))
    steps = {name: stepper(architecture, PRESETS[preset].recipe, variant, device) for name, variant in variants.items()}
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            seconds[name].append(step())
    medians = {name: statistics.median(found) for name, found in seconds.items()}
    return {name: {"steps_per_second": 1 / found, "ratio": medians[BASE] / found} for name, found in medians.items()}


def show(found: dict[str, Rows], reference: Rows) -> None:
    """Two tables for a person."""
    table = Table("preset", "side", "parameters", "bytes", "steps/s", "images/s", "reference steps/s")
    for name, row in found["presets"].items():
        beside = reference.get(name, {}).get("steps_per_second")
        pace = [f"{row['steps_per_second']:.2f}", f"{row['images_per_second']:.0f}", f"{beside:.2f}" if beside else "-"]
        table.add_row(name, str(row["side"]), f"{row['parameters']:,}", f"{row['bytes']:,}", *pace)
    Console().print(table)
    table = Table("layout", "steps/s", "times as fast")
    for name, row in found["layouts"].items():
        table.add_row(name, f"{row['steps_per_second']:.2f}", f"{row['ratio']:.2f}")
    Console().print(table)


def main() -> None:
    """Print the tables, or one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--presets", help="a list with commas; by default those that this machine can carry")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--compile", action="store_true", help="time compiled networks as well; needs a C++ compiler")
    parser.add_argument("--reference", type=Path)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    make_deterministic(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    names = list(PRESETS if device.type == "cuda" else ON_CPU)
    names = asked.presets.split(",") if asked.presets else names[:1] if asked.smoke else names
    rounds, compared = (1, "nano") if asked.smoke else (asked.rounds, "xs")
    found = {
        "presets": presets(names, rounds, 1, device),
        "layouts": layouts(compared, rounds, VARIANTS | (COMPILED if asked.compile else {}), device),
    }
    reference = json.loads(asked.reference.read_text()) if asked.reference else {}
    if asked.json:
        json.dump({**found, "reference": reference, "device": str(device)}, sys.stdout, indent=2)
    else:
        show(found, reference)


if __name__ == "__main__":
    main()
