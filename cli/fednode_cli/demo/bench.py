"""Questions to a worker of our own: what a source has, how good real images alone would be, and what generators draw."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fednode.contract import ImageShape
from fednode.errors import DataError
from fednode.recipe import generator_architecture, recipes
from fednode_cli import ownworker
from fednode_cli.demo.homes import Shares, Source
from fednode_cli.ownworker import Document, Request, Told

FEWEST_LABELS = 2


@dataclass(frozen=True)
class Drawn:
    """A generator's weights, by its label."""

    label: str
    digest: str
    weights: Path


def describe(source: str, log: Path) -> Source:
    """What a data source has. Raises DataError if it can't be used, and WorkerError."""
    (found,) = _ask([("describe", {"source": source})], log)
    if len(found["labels"]) < FEWEST_LABELS:
        raise DataError(f"{source} has {len(found['labels'])} label, and at least {FEWEST_LABELS} are needed.")
    if not any(one["test"] for one in found["counts"]):
        raise DataError(f"{source} has no test images to measure on.", "docs/data.md says how a source has them.")
    shape = ImageShape(size=found["size"], channels=found["channels"])
    return Source(source, tuple(found["labels"]), shape)


def compare(
    source: Source, shares: Shares, generators: Sequence[Drawn], png: Path, log: Path, told: Told
) -> tuple[list[float], float]:
    """Draws real beside synthetic images into `png`; the accuracy of each node on its own real images alone, and of all pooled.

    `told` hears how many steps are done, of which there are two more than nodes. Raises WorkerError and DataError.
    """
    own = [{"source": source.name, "labels": list(labels)} for labels in shares.values()]
    baselines = [_baseline(source, data) for data in (*([part] for part in own), own)]
    _, *results = _ask([_samples(source, generators, png), *baselines], log, told)
    *alone, pooled = [result["accuracy"] for result in results]
    return alone, pooled


def _baseline(source: Source, data: list[Document]) -> Request:
    return "baseline", {**_common(source), "data": data, "test": _all(source)}


def _samples(source: Source, generators: Sequence[Drawn], png: Path) -> Request:
    architecture = generator_architecture(recipes(source.image).preset, source.image).model_dump(mode="json")
    drawn = [
        {
            "digest": one.digest,
            "weights": str(one.weights),
            "architecture": architecture,
            "labels": [[one.label, 1]],  # counts share out a label among donors, and here each has one
        }
        for one in generators
    ]
    return "samples", {**_common(source), "data": _all(source), "generators": drawn, "out": str(png)}


def _all(source: Source) -> Document:
    return {"source": source.name, "labels": None}


def _common(source: Source) -> Mapping[str, Any]:
    return {
        "image": source.image.model_dump(mode="json"),
        "labels": list(source.labels),
        "recipe": recipes(source.image).expert.model_dump(mode="json"),
    }


def _ask(requests: Sequence[Request], log: Path, told: Told = lambda _: None) -> list[Document]:
    with log.open("ab") as stream:
        return ownworker.ask(requests, stream, told)
