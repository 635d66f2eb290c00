"""Whether autoguidance helps experts: images drawn from D0 + w (D1 - D0), where D0 is an early snapshot of the generator D1.

    python examples/benchmarks/guidance.py [--seeds 0,1,2] [--smoke] [--json]

For each split of the digits and each label D1 is fitted with the preset's budget and D0, by the same recipe, with a quarter of it
(Karras et al., 2406.02507). For each w two experts learn from the drawn images alone, as those of a node without images would;
all w start from the same noise. Accuracy is on held-out images, which neither generators nor experts see. w = 1 is D1 alone, and
costs one network call where the others cost two. `--smoke` takes three labels, short fits and two weights, to try the script.
"""

import argparse
import json
import sys
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from recipes import IMAGE, quiet
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.nn import functional

from fednode.learning import expert, generator, sampler
from fednode.learning.dataset import Dataset, DataSettings, load
from fednode.learning.denoiser import Denoiser
from fednode.learning.expert import Pool
from fednode.learning.seeds import seed_of
from fednode.learning.session import Session, make_deterministic, open_session
from fednode.presets import PRESETS, expert_architecture, expert_recipe, generator_architecture
from fednode.recipe import ExpertRecipe, GeneratorRecipe
from fednode_crypto.digest import sha256_hex

WEIGHTS = (1.0, 1.3, 1.7, 2.1)
EARLY = 4  # the early snapshot has seen one image in so many
EXPERTS = 2

Rows = dict[str, dict[str, float]]


class Guided:
    """D0 + w (D1 - D0), drawn from as a denoiser is."""

    def __init__(self, early: Denoiser, late: Denoiser, weight: float) -> None:
        self.architecture, self.leave_gain = late.architecture, late.leave_gain
        self._early, self._late, self._weight = early, late, weight

    def __call__(self, x: Tensor, sigma: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, C, H, W)."""
        early = self._early(x, sigma)
        return early + self._weight * (self._late(x, sigma) - early)


@dataclass(frozen=True)
class Split:
    """A split of the digits: its images, and the early and the late generator of each label."""

    seed: int
    data: Dataset
    pairs: dict[str, tuple[Denoiser, Denoiser]]


def split(seed: int, labels: list[str], recipe: GeneratorRecipe, session: Session) -> Split:
    """Both generators of each label."""
    data = load(DataSettings(source=f"digits:{seed}", labels=tuple(labels)), IMAGE, labels)
    short = recipe.model_copy(update={"images": recipe.images // EARLY})
    pairs = {
        label: (_fitted(own.train, short, seed, session), _fitted(own.train, recipe, seed, session))
        for label, own in data.labels.items()
    }
    return Split(seed, data, pairs)


def _fitted(
    images: "np.ndarray[Any, np.dtype[np.uint8]]", recipe: GeneratorRecipe, seed: int, session: Session
) -> Denoiser:
    architecture = generator_architecture("nano", IMAGE)
    tensors = generator.fit(torch.from_numpy(images), architecture, recipe, seed, quiet, session.device)
    model = Denoiser(architecture)
    model.load_state_dict({name: tensor.float() for name, tensor in tensors.items()})
    return model.to(session.device).freeze()


def drawn(made: Split, weight: float, recipe: ExpertRecipe) -> Pool:
    """One pool of images of all labels; the noise follows from the split and the label, whatever the weight."""
    count, images = recipe.synthesis.samples_per_label, []
    for label, (early, late) in made.pairs.items():
        denoiser: Any = late if weight == 1 else Guided(early, late, weight)
        digest = sha256_hex(f"{made.seed} {label}".encode())

        def seed(index: int, digest: str = digest) -> int:
            return seed_of(digest, "guidance", index)

        images.append(sampler.draw(denoiser, range(count), seed, recipe.synthesis.sampler))
    which = torch.arange(len(images)).repeat_interleave(count)
    shares = torch.full((len(which),), 1 / len(which), dtype=torch.float64)
    return Pool(torch.cat(images), functional.one_hot(which, len(images)).float(), shares)


def learned(made: Split, pool: Pool, recipe: ExpertRecipe, seed: int, session: Session) -> float:
    """Accuracy on the held-out images of one expert that sees drawn images alone."""
    architecture = expert_architecture(IMAGE, len(made.pairs))
    tensors = expert.fit([pool], architecture, recipe, seed, quiet, session.device)
    network = expert.build(architecture)
    network.load_state_dict({name: tensor.float() for name, tensor in tensors.items()}, strict=False)
    held = [made.data.labels[label].holdout for label in made.pairs]
    targets = np.repeat(np.arange(len(held)), [len(part) for part in held])
    answers = expert.logits(network.to(session.device).eval(), torch.from_numpy(np.concatenate(held)), session.device)
    return float((answers.argmax(1).numpy() == targets).mean())


def measure(seeds: list[int], smoke: bool) -> Rows:
    """Weight -> accuracy, its deviation over splits and experts, and its difference to w = 1, paired, with its deviation."""
    make_deterministic(1)
    session = open_session("auto", 1)
    labels = [str(number) for number in range(3 if smoke else 10)]
    fit, recipe = PRESETS["nano"].recipe, expert_recipe(IMAGE)
    if smoke:
        fit = fit.model_copy(update={"images": 640})
        few = recipe.synthesis.model_copy(update={"samples_per_label": 10})
        recipe = recipe.model_copy(update={"steps": 8, "synthesis": few})
    found: dict[float, list[float]] = {weight: [] for weight in (WEIGHTS[:2] if smoke else WEIGHTS)}
    for seed in seeds:
        made = split(seed, labels, fit, session)
        for weight, accuracies in found.items():
            pool = drawn(made, weight, recipe)
            accuracies += [learned(made, pool, recipe, EXPERTS * seed + again, session) for again in range(EXPERTS)]
    return {f"{weight:g}": _row(accuracies, found[1.0]) for weight, accuracies in found.items()}


def _row(accuracies: list[float], plain: list[float]) -> dict[str, float]:
    more = np.subtract(accuracies, plain)
    return {
        "accuracy": float(np.mean(accuracies)),
        "sd": float(np.std(accuracies)),
        "more": float(more.mean()),
        "more_sd": float(more.std()),
    }


def main() -> None:
    """Print the table, or one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    began = time.process_time()
    rows = measure([int(seed) for seed in asked.seeds.split(",")], asked.smoke)
    if asked.json:
        json.dump(rows, sys.stdout, indent=2)
        return
    title = f"autoguidance, {time.process_time() - began:.0f} s of a core"
    table = Table("w", "expert", "deviation", "more than w = 1", "deviation", title=title)
    for weight, row in rows.items():
        cells = (f"{row['accuracy']:.4f}", f"{row['sd']:.4f}", f"{row['more']:+.4f}", f"{row['more_sd']:.4f}")
        table.add_row(weight, *cells)
    Console().print(table)


if __name__ == "__main__":
    main()
