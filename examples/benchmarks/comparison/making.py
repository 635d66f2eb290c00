"""What a draw's nodes make: a generator for each of their labels, and an expert for each recipe.

Rule: both are made by a worker's own requests, with specs as a node writes them.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from comparison.crew import Bar, Crew, Job
from comparison.draws import Draw, Node, Task
from comparison.shelf import Record
from fednode.architecture import ExpertArchitecture, GeneratorArchitecture
from fednode.errors import DataError
from fednode.learning.synthesis import Donor, draw_label
from fednode.presets import Recipes, expert_architecture, generator_architecture
from fednode.recipe import ExpertRecipe
from fednode_crypto.digest import digest_json

Show = Callable[[str, int], Bar]


@dataclass(frozen=True)
class Generator:
    """A generator that was made: its label, the images it learned from, and its record."""

    label: str
    images: int
    record: Record


@dataclass(frozen=True)
class Making:
    """One draw of a task, made by one crew with the recipes of one budget; `show(what, total)` gives a progress bar."""

    task: Task
    draw: Draw
    crew: Crew
    recipes: Recipes
    show: Show

    @cached_property
    def generators(self) -> list[Generator]:
        """A generator for each label of each node that has the least images for one. Raises DataError."""
        wanted = [
            (node, label, len(own.train))
            for node in self.draw.nodes
            for label, own in node.own.items()
            if len(own.train) >= self.recipes.audit.minimum_images
        ]
        if len({label for _, label, _ in wanted}) < 2:
            raise DataError("Fewer than 2 labels have a generator.", "Use more images, or fewer nodes.")
        jobs = [self._fit_job(node, label) for node, label, _ in wanted]
        records = self.crew.make(jobs, self.show("generators", len(jobs)))
        return [Generator(label, count, record) for (_, label, count), record in zip(wanted, records, strict=True)]

    @cached_property
    def covered(self) -> list[str]:
        """The labels that have a generator, in order."""
        present = {one.label for one in self.generators}
        return [label for label in self.task.labels if label in present]

    @property
    def generator_shape(self) -> GeneratorArchitecture:
        """The network of every generator."""
        return generator_architecture(self.recipes.preset, self.task.image)

    @property
    def expert_shape(self) -> ExpertArchitecture:
        """The network of every expert, which tells the covered labels apart."""
        return expert_architecture(self.task.image, len(self.covered))

    def experts(self, recipe: ExpertRecipe) -> list[Record]:
        """Each node's expert."""
        return self._experts(recipe, self.draw.nodes, "experts")

    def central_expert(self) -> list[Record]:
        """The one expert of a node that has no images."""
        return self._experts(self.recipes.expert, [None], "centralised expert")

    def donors(self) -> dict[str, list[Donor]]:
        """The covered labels' donors, with their networks loaded."""
        found: dict[str, list[Donor]] = {label: [] for label in self.covered}
        for one in self.generators:
            digest = one.record["digest"]
            network = self.crew.session.generator(one.record["file"], digest, self.generator_shape)
            found[one.label].append(Donor(digest, one.label, one.images, network, self.crew.shelf.derived(digest)))
        return found

    def _fit_job(self, node: Node, label: str) -> Job:
        spec = {
            "job": "fit",
            "recipe": self.recipes.generator.model_dump(mode="json"),
            "architecture": self.generator_shape.model_dump(mode="json"),
            "label": label,
            "images": node.own[label].digest,
        }
        secret = {"secret": digest_json("fednode/benchmark/secret/v1", spec)} if self.recipes.generator.privacy else {}
        return self._job(spec, node, **secret)

    def _experts(self, recipe: ExpertRecipe, nodes: Sequence[Node | None], what: str) -> list[Record]:
        files = {
            one.record["digest"]: {
                "weights": one.record["file"],
                "derived": str(self.crew.shelf.derived(one.record["digest"])),
            }
            for one in self.generators
        }
        common = self._expert_spec(recipe)
        jobs = [self._job({**common, "own": self._own(node)}, node, generators=files) for node in nodes]
        if any(self.crew.shelf.find(job.key(self.crew.session)) is None for job in jobs):
            self._draw_samples(recipe)
        return self.crew.make(jobs, self.show(what, len(jobs)))

    def _expert_spec(self, recipe: ExpertRecipe) -> dict[str, Any]:
        inputs = [
            {
                "weights": one.record["digest"],
                "labels": [[one.label, one.images]],
                "architecture": self.generator_shape.model_dump(mode="json"),
            }
            for one in sorted(self.generators, key=lambda one: (one.record["digest"], one.label))
        ]
        return {
            "job": "expert",
            "recipe": recipe.model_dump(mode="json"),
            "architecture": self.expert_shape.model_dump(mode="json"),
            "labels": self.covered,
            "inputs": inputs,
        }

    def _own(self, node: Node | None) -> list[list[str]]:
        """The own images that an expert sees: none where generators are private."""
        if node is None or self.recipes.generator.privacy:
            return []
        return [[label, node.own[label].digest] for label in self.covered if label in node.own]

    def _job(self, spec: dict[str, Any], node: Node | None, **fields: Any) -> Job:
        data = {"source": node.source, "labels": None, "skip_bad": False} if node else None
        image, labels = self.task.image.model_dump(mode="json"), list(self.task.labels)
        return Job(spec["job"], spec, {"data": data, "image": image, "labels": labels, **fields})

    def _draw_samples(self, recipe: ExpertRecipe) -> None:
        """Draw, several labels at once, what each expert would draw for itself; it is kept beside the generators."""
        wanted = [(donors, pool) for donors in self.donors().values() for pool in range(recipe.synthesis.pools)]
        bar = self.show("samples", len(wanted))

        def draw_one(asked: tuple[list[Donor], int]) -> None:
            draw_label(*asked, recipe.synthesis, self.crew.session.numerics)

        with ThreadPoolExecutor(self.crew.jobs) as pool:
            for number, _ in enumerate(pool.map(draw_one, wanted)):
                bar.set(number + 1)
