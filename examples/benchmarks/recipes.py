"""Which recipe makes the best experts: one label a node, the recipes side by side, scored on held-out images only.

    python examples/benchmarks/recipes.py [--seeds 0,1] [--nodes N] [--smoke] [--json]

No daemons: the very functions that the workers call. Held-out images are the eighth of each label's training images that neither
generators nor experts see; test images are never looked at. With `--nodes` only so many nodes train experts, spread over the
labels, while all give generators. `--smoke` takes three labels and a few steps, to try the script.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from fednode.contract import ImageShape
from fednode.learning import evaluation, expert, generative, generator, training
from fednode.learning.dataset import Dataset, DataSettings, load
from fednode.learning.product import product_of_experts
from fednode.learning.session import Session, make_deterministic, open_session
from fednode.learning.synthesis import Donor
from fednode.presets import PRESETS, expert_architecture, expert_recipe, generator_architecture
from fednode.recipe import ExpertRecipe, SamplerRecipe
from fednode_crypto.digest import sha256_hex

IMAGE = ImageShape(size=8, channels=1)
VARIANTS: dict[str, dict[str, Any]] = {
    "paper": {"mix": "paper"},
    "mixed": {"mix": "mixed"},
    "projected": {"mix": "projected"},
    "synthetic": {"mix": "synthetic"},
    "mixed, half the steps and samples": {"steps": 100, "synthesis": {"samples_per_label": 150}},
    "mixed, samples by Heun in 15 calls": {"synthesis": {"sampler": SamplerRecipe(solver="heun", steps=8)}},
    "mixed, smoothing 0.05": {"smoothing_milli": 50},
    "mixed, smoothing 0.1": {"smoothing_milli": 100},
    "mixed, mixup": {"mixup": True},
    "mixed, agreed": {"targets": "agreed"},
    "mixed, teacher": {"targets": "teacher"},
    "mixed, teacher on noised and mixed images": {"targets": "teacher", "noise_milli": 500, "mixup": True},
}
MEASURES = ("expert", "product", "ece")


@dataclass(frozen=True)
class Federation:
    """One node for each label: the images of all, and each label's generator."""

    labels: list[str]
    data: Dataset
    donors: dict[str, list[Donor]]
    held: torch.Tensor
    targets: np.ndarray[Any, np.dtype[np.int64]]


def quiet(*_: object) -> None:
    """Progress is not shown: a run takes minutes."""


def federation(seed: int, labels: list[str], images: int | None, session: Session, folder: Path) -> Federation:
    """Fit the generators of a split of the digits; `images` shortens the fit."""
    data = load(DataSettings(source=f"digits:{seed}", labels=tuple(labels)), IMAGE, labels)
    architecture, recipe = generator_architecture("nano", IMAGE), PRESETS["nano"].recipe
    recipe = recipe.model_copy(update={"images": images}) if images else recipe
    donors = {}
    for label, own in data.labels.items():
        path = folder / f"{seed}-{label}"
        tensors = generator.fit(torch.from_numpy(own.train), architecture, recipe, seed, quiet, session.device)
        generator.save(path, tensors)
        derived = folder / f"{seed}-{label}-derived"
        derived.mkdir()
        network = generator.load(path, architecture, session.device)
        donors[label] = [Donor(sha256_hex(path.read_bytes()), label, len(own.train), network, derived)]
    held = [data.labels[label].holdout for label in labels]
    targets = np.repeat(np.arange(len(labels)), [len(part) for part in held])
    return Federation(labels, data, donors, torch.from_numpy(np.concatenate(held)), targets)


def experts(made: Federation, recipe: ExpertRecipe, nodes: int, session: Session) -> dict[str, float]:
    """Accuracy of the mean expert, accuracy and ECE of the product, CPU seconds an expert, and the share of samples dropped."""
    architecture = expert_architecture(IMAGE, len(made.labels))
    logits, dropped, began = [], 0, time.process_time()
    for number in np.linspace(0, len(made.labels), nodes, endpoint=False, dtype=int).tolist():
        label = made.labels[number]
        own = {label: torch.from_numpy(made.data.labels[label].train)}
        lesson = training.Lesson(made.labels, own, made.donors, recipe)
        pools = list(training.pools(lesson, session, quiet))
        dropped += sum(sum(pool.dropped.values()) for pool in pools)
        tensors = expert.fit(pools, architecture, recipe, number, quiet, session.device)
        network = expert.build(architecture)
        network.load_state_dict({name: tensor.float() for name, tensor in tensors.items()}, strict=False)
        logits.append(expert.logits(network.eval(), made.held, session.device))
    alone = [float((one.argmax(1).numpy() == made.targets).mean()) for one in logits]
    found = evaluation.metrics(product_of_experts(logits).numpy(), made.targets)
    return {
        "expert": float(np.mean(alone)),
        "product": found["accuracy"] or 0,
        "ece": found["ece"] or 0,
        "seconds": (time.process_time() - began) / nodes,
        "dropped": dropped / max(nodes * lesson.counts["synthetic"], 1),
    }


def generative_product(made: Federation, recipe: ExpertRecipe, session: Session) -> dict[str, float]:
    """Accuracy and calibration error of the generators themselves."""
    terms = [
        generative.Term(number, made.donors[label][0].count, made.donors[label][0].denoiser)
        for number, label in enumerate(made.labels)
    ]
    answers = generative.posterior(terms, made.held, len(made.labels), recipe.teacher, session.device)
    found = evaluation.metrics(answers.numpy(), made.targets)
    return {"product": found["accuracy"] or 0, "ece": found["ece"] or 0}


def changed(base: ExpertRecipe, change: Mapping[str, Any]) -> ExpertRecipe:
    """The recipe with these fields changed; those of the synthesis stand under its name."""
    synthesis = base.synthesis.model_copy(update=change.get("synthesis", {}))
    return base.model_copy(update={**change, "synthesis": synthesis})


def measure(seeds: list[int], nodes: int, smoke: bool) -> dict[str, dict[str, float]]:
    """Row -> measure -> mean over the seeds."""
    make_deterministic(1)
    session = open_session("auto", 1)
    labels = [str(number) for number in range(3 if smoke else 10)]
    base = expert_recipe(IMAGE)
    if smoke:
        synthesis = base.synthesis.model_copy(update={"samples_per_label": 20})
        base = base.model_copy(update={"steps": 4, "batch": 16, "synthesis": synthesis})
    rows: dict[str, list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            made = federation(seed, labels, 640 if smoke else None, session, Path(folder))
            rows.setdefault("generative product", []).append(generative_product(made, base, session))
            for name, change in VARIANTS.items():
                rows.setdefault(name, []).append(experts(made, changed(base, change), min(nodes, len(labels)), session))
    return {
        name: {key: float(np.mean([one[key] for one in found])) for key in found[0]} for name, found in rows.items()
    }


def main() -> None:
    """Print the table, or one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", default="0,1")
    parser.add_argument("--nodes", type=int, default=10)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    rows = measure([int(seed) for seed in asked.seeds.split(",")], asked.nodes, asked.smoke)
    if asked.json:
        json.dump(rows, sys.stdout, indent=2)
        return
    table = Table("recipe", "mean expert", "product", "ECE of the product", "CPU s an expert", "dropped")
    for name, row in rows.items():
        cells = [f"{row[key]:.4f}" if key in row else "-" for key in MEASURES]
        table.add_row(name, *cells, f"{row.get('seconds', 0):.1f}", f"{row.get('dropped', 0):.1%}")
    Console().print(table)


if __name__ == "__main__":
    main()
