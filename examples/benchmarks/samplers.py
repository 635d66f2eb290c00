"""Which solver, with how many network calls an image, draws the images that experts learn best from.

    python examples/benchmarks/samplers.py [--seeds 0,1,2] [--smoke] [--json]

For each split of the digits one generator a label is fitted, and for each sampler one expert is trained on its samples alone, as
a node without images would. Accuracy is on held-out images, which neither generators nor experts see. `--smoke` takes three
labels, short fits and two samplers, to try the script.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from recipes import IMAGE, Federation, federation, quiet
from rich.console import Console
from rich.table import Table

from fednode.learning import expert, training
from fednode.learning.session import Session, make_deterministic, open_session
from fednode.presets import expert_architecture, expert_recipe
from fednode.recipe import ExpertRecipe, SamplerRecipe, Solver

SAMPLERS: tuple[tuple[Solver, int], ...] = (
    ("heun", 50),
    ("heun", 12),
    ("heun", 8),
    ("heun", 5),
    ("dpm2m", 20),
    ("dpm2m", 15),
    ("dpm2m", 12),
    ("dpm2m", 9),
    ("dpm2m", 6),
)

Rows = dict[str, dict[str, float]]


def learned(made: Federation, recipe: ExpertRecipe, seed: int, session: Session) -> float:
    """Accuracy on the held-out images of one expert that sees samples alone."""
    architecture = expert_architecture(IMAGE, len(made.labels))
    pools = training.pools(training.Lesson(made.labels, {}, made.donors, recipe), session, quiet)
    tensors = expert.fit(pools, architecture, recipe, seed, quiet, session.device)
    network = expert.build(architecture)
    network.load_state_dict({name: tensor.float() for name, tensor in tensors.items()}, strict=False)
    answers = expert.logits(network.eval(), made.held, session.device).argmax(1).numpy()
    return float((answers == made.targets).mean())


def measure(seeds: list[int], smoke: bool) -> Rows:
    """Sampler -> calls an image, accuracy (mean over seeds and two experts each) and seconds for drawing and training."""
    make_deterministic(1)
    session = open_session("auto", 1)
    labels = [str(number) for number in range(3 if smoke else 10)]
    base = expert_recipe(IMAGE)
    if smoke:
        few = base.synthesis.model_copy(update={"samples_per_label": 10})
        base = base.model_copy(update={"steps": 8, "synthesis": few})
    rows: Rows = {}
    with tempfile.TemporaryDirectory() as folder:
        federations = {seed: federation(seed, labels, 640 if smoke else None, session, Path(folder)) for seed in seeds}
        for solver, steps in SAMPLERS[3:5] if smoke else SAMPLERS:
            sampler = SamplerRecipe(solver=solver, steps=steps)
            recipe = base.model_copy(update={"synthesis": base.synthesis.model_copy(update={"sampler": sampler})})
            began = time.monotonic()
            found = [
                learned(made, recipe, 2 * seed + again, session)
                for seed, made in federations.items()
                for again in (0, 1)
            ]
            seconds = (time.monotonic() - began) / len(found)
            rows[f"{solver} {steps}"] = {
                "calls": sampler.calls,
                "accuracy": float(np.mean(found)),
                "sd": float(np.std(found)),
                "seconds": seconds,
            }
    return rows


def main() -> None:
    """Print the table, or one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    rows = measure([int(seed) for seed in asked.seeds.split(",")], asked.smoke)
    if asked.json:
        json.dump(rows, sys.stdout, indent=2)
        return
    table = Table("sampler", "calls an image", "expert", "deviation", "s an expert")
    for name, row in rows.items():
        table.add_row(name, f"{row['calls']}", f"{row['accuracy']:.4f}", f"{row['sd']:.4f}", f"{row['seconds']:.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
