"""Questions to a worker of our own: what a source has, how good real images alone would be, and what generators draw."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fednode.contract import ImageShape
from fednode.errors import DataError
from fednode.presets import generator_architecture, recipes
from fednode_cli import ownworker
from fednode_cli.demo.homes import Shares, Source
from fednode_cli.ownworker import Document, Request, Told

FEWEST_LABELS = 2
ALPHA_MILLI = 300


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


def deal(source: Source, nodes: int, seed: int, folder: Path, log: Path) -> tuple[Source, Shares]:
    """The source with a part of each label for every node, by Dirichlet shares, and the labels of each node.

    Raises DataError if there are too few images, and WorkerError.
    """
    folder.mkdir(parents=True)
    files = {f"node-{number}": folder / f"node-{number}.npz" for number in range(1, nodes + 1)}
    asked = {"source": source.name, "image": source.image.model_dump(mode="json"), "labels": list(source.labels)}
    out = list(map(str, files.values()))
    (found,) = _ask([("deal", {**asked, "alpha_milli": ALPHA_MILLI, "seed": seed, "out": out})], log)
    parts = {name: f"npz:{file}" for name, file in files.items()}
    own = {name: tuple(counts) for name, counts in zip(files, found["parts"], strict=True)}
    return replace(source, exchange="classifiers", parts=parts), own


def compare(
    source: Source, shares: Shares, generators: Sequence[Drawn], png: Path, log: Path, told: Told
) -> tuple[list[float], float]:
    """Draws real beside synthetic images into `png`; the accuracy of each node on its own real images alone, and of all pooled.

    `told` hears how many steps are done, of which there are two more than nodes. Without generators there is no picture. Raises
    WorkerError and DataError.
    """
    own = [{"source": source.of(name), "labels": list(labels)} for name, labels in shares.items()]
    baselines = [_baseline(source, data) for data in (*([part] for part in own), own)]
    pictures = [_samples(source, generators, png)] if generators else []
    results = _ask([*pictures, *baselines], log, told)[len(pictures) :]
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
