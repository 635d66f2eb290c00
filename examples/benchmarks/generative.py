"""The generative product on digits: what pruning costs and saves, its calibration, and its latency against the labels.

    python examples/benchmarks/generative.py [--seeds 0,1,2] [--smoke] [--json]

Small generators are fitted to two thirds of each digit's training images; the other third judges, and test images are never
looked at. The latency is that of one image; a hundred labels are copies of the ten generators with weights changed a little.
`--smoke` takes five labels, six clones and short fits, to try the script.
"""

import argparse
import copy
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from fednode.contract import ImageShape
from fednode.learning import evaluation, generator
from fednode.learning.dataset import DataSettings, load
from fednode.learning.generative import Term, score
from fednode.learning.sampler import Denoise
from fednode.learning.session import make_deterministic
from fednode.presets import PRESETS, generator_architecture
from fednode.recipe import TeacherRecipe

IMAGE = ImageShape(size=8, channels=1)
CPU = torch.device("cpu")
PRUNED = TeacherRecipe()
ALL = TeacherRecipe(keep_percent=100)
ROUGH = TeacherRecipe(dtype="bfloat16")
TEMPERATURES = (500, 700, 1_000, 1_400, 2_000)
REPEATS = 15


@dataclass(frozen=True)
class Case:
    """Fitted terms, and the images with their labels that judge them."""

    terms: list[Term]
    images: Tensor
    targets: np.ndarray[Any, np.dtype[np.int64]]


def fitted(seed: int, labels: list[str], budget: int | None, judged: int | None) -> Case:
    """Generators of two thirds of a split of the digits; `budget` shortens the fits, and `judged` limits a label's judges."""
    data = load(DataSettings(source=f"digits:{seed}", labels=tuple(labels)), IMAGE, labels)
    architecture, recipe = generator_architecture("nano", IMAGE), PRESETS["nano"].recipe
    recipe = recipe.model_copy(update={"images": budget}) if budget else recipe
    terms, held = [], []
    with tempfile.TemporaryDirectory() as folder:
        for number, label in enumerate(labels):
            images = torch.from_numpy(np.concatenate([data.labels[label].train, data.labels[label].holdout]))
            judges = torch.arange(len(images)) % 3 == 2
            own = images[~judges]
            path = Path(folder) / label
            generator.save(path, generator.fit(own, architecture, recipe, seed, lambda *_: None, CPU))
            terms.append(Term(number, len(own), generator.load(path, architecture, CPU)))
            held.append(images[judges][:judged])
    targets = np.repeat(np.arange(len(labels)), [len(part) for part in held])
    return Case(terms, torch.cat(held), targets)


def alone(term: Term) -> Term:
    """The same term as a plain function, which is never stacked with others."""

    def denoise(x: Tensor, sigma: Tensor) -> Tensor:
        return term.denoise(x, sigma)

    return replace(term, denoise=denoise)


def clones(terms: list[Term], count: int) -> list[Term]:
    """`count` terms of as many labels: copies whose weights are changed by a tenth."""
    torch.manual_seed(0)
    made = []
    for number in range(count):
        network: Denoise = copy.deepcopy(terms[number % len(terms)].denoise)
        assert isinstance(network, torch.nn.Module)
        for parameter in network.parameters():
            parameter.mul_(1 + 0.1 * torch.randn(parameter.shape))
        made.append(Term(number, 1, network.freeze()))
    return made


def quality(case: Case, terms: list[Term], recipe: TeacherRecipe) -> dict[str, float]:
    """Accuracy, calls an image, and the calibration error and log loss at each temperature."""
    found = score(terms, case.images, len(terms), recipe, CPU)
    row = {"calls": found.calls / len(case.images)}
    for milli in TEMPERATURES:
        answers = torch.softmax(found.scores / (milli / 1e3), dim=1).numpy()
        truth = answers[np.arange(len(answers)), case.targets]
        row["accuracy"] = float((answers.argmax(1) == case.targets).mean())
        row[f"ece at {milli / 1e3:g}"] = evaluation.calibration_error(answers, case.targets)
        row[f"log loss at {milli / 1e3:g}"] = float(-np.log(np.maximum(truth, 1e-12)).mean())
    return row


def median_seconds(work: Callable[[], object], repeats: int) -> float:
    """The median of `repeats` runs, after one that is not counted."""
    work()
    taken = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def throughput(case: Case, images: int, most_threads: int) -> dict[str, float]:
    """Seconds for `images` images, by the way of evaluation and the threads."""
    many = case.images.repeat(-(-images // len(case.images)), 1, 1, 1)[:images]
    ways = {
        "all": (case.terms, ALL),
        "pruned": (case.terms, PRUNED),
        "bfloat16": (case.terms, ROUGH),
    }
    seconds = {}
    for threads in range(1, most_threads + 1):
        make_deterministic(threads)
        for name, (terms, recipe) in ways.items():
            score(terms, many[:50], len(terms), recipe, CPU)
            began = time.perf_counter()
            score(terms, many, len(terms), recipe, CPU)
            seconds[f"{name}, {threads} threads"] = time.perf_counter() - began
    make_deterministic(1)
    return seconds


def latency(case: Case, labels: int, repeats: int) -> dict[str, float]:
    """Milliseconds for one image and `labels` labels, on one thread."""
    terms = clones(case.terms, labels)
    ways = {
        "all, one by one": ([*map(alone, terms)], ALL),
        "pruned, one by one": ([*map(alone, terms)], PRUNED),
        "pruned, stacked": (terms, PRUNED),
    }
    one = case.images[:1]
    return {
        name: 1e3 * median_seconds(lambda t=t, r=r: score(t, one, labels, r, CPU), repeats)  # type: ignore[misc]
        for name, (t, r) in ways.items()
    }


def measure(seeds: list[int], smoke: bool) -> dict[str, Any]:
    """Means over the seeds; times are those of the last seed's generators."""
    make_deterministic(1)
    labels = [str(number) for number in range(5 if smoke else 10)]
    rows: dict[str, list[dict[str, float]]] = {"all": [], "pruned": [], "bfloat16": []}
    for seed in seeds:
        case = fitted(seed, labels, *((128, 3) if smoke else (None, None)))
        rows["all"].append(quality(case, case.terms, ALL))
        rows["pruned"].append(quality(case, case.terms, PRUNED))
        rows["bfloat16"].append(quality(case, case.terms, ROUGH))
    sizes, repeats = ((5, 6), 1) if smoke else ((10, 100), REPEATS)
    return {
        "quality": {
            name: {key: float(np.mean([one[key] for one in found])) for key in found[0]} for name, found in rows.items()
        },
        "images": (images := 6 if smoke else 1_000),
        "seconds": throughput(case, images, 1 if smoke else 2),
        "latency_ms": {str(size): latency(case, size, repeats) for size in sizes},
    }


def show(found: dict[str, Any]) -> None:
    """The tables."""
    seconds = {name: {"seconds": value} for name, value in found["seconds"].items()}
    for title, columns in (
        ("mean over the seeds", found["quality"]),
        (f"{found['images']} images", seconds),
        ("ms for one image", {f"{size} labels": row for size, row in found["latency_ms"].items()}),
    ):
        table = Table(title, *columns)
        for measured in next(iter(columns.values())):
            table.add_row(measured, *(f"{column[measured]:.4f}" for column in columns.values()))
        Console().print(table)


def main() -> None:
    """Print the tables, or one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    found = measure([int(seed) for seed in asked.seeds.split(",")], asked.smoke)
    if asked.json:
        json.dump(found, sys.stdout, indent=2)
    else:
        show(found)


if __name__ == "__main__":
    main()
