"""Scoring: what a node scores on its own held-out images, and when. Pure.

Rule 1: products are scored once they are complete: when every peer that has spoken has a current expert here, or when it was
        waited for long enough; and only when nothing else is left to do.
Rule 2: no spec of a model depends on what was scored; it chooses only how answers are given.
Rule 3: own images of a label are scored only while our own generator or classifier of it is live: not what is withdrawn.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Protocol

from fednode.grid import GridRecipe, able
from fednode.inventory import Inventory
from fednode.lineage import Lineage
from fednode.presets import Recipes
from fednode_crypto.identity import PeerId


class OwnImages(Protocol):
    """The own images of a label: their digest, and how many are held out."""

    @property
    def label(self) -> str: ...

    @property
    def holdout(self) -> int: ...

    @property
    def digest(self) -> str: ...


def grid_of(recipes: Recipes) -> GridRecipe:
    """The grid for the answers that a node with these recipes gives."""
    return GridRecipe(teacher=recipes.expert.teacher)


def parts_of(stock: Inventory) -> Lineage:
    """Everything that answers: the current experts, and the live generators and classifiers."""
    return stock.live | stock.experts.keys()


def cells_of(stock: Inventory, labels: Collection[str]) -> tuple[str, ...]:
    """The cells that can answer for all of these labels, with what is here."""
    return able(bool(stock.experts), stock.draws(labels), stock.tells(labels))


def lacking(stock: Inventory, peers: Iterable[PeerId], spoken: Collection[PeerId]) -> tuple[PeerId, ...]:
    """The peers that have spoken and whose expert is not current here."""
    issuers = {pair.issuer for pair in stock.experts}
    return tuple(sorted(peer for peer in peers if peer in spoken and peer not in issuers))


def score_spec(
    grid: GridRecipe, labels: Collection[str], own: Iterable[OwnImages], stock: Inventory, me: PeerId
) -> Mapping[str, Any]:
    """The spec of the scoring of all that answers now; `labels` are the covered ones, in the contract's order."""
    mine = stock.given().get(me, frozenset())
    scored = [one for one in own if one.label in mine and one.holdout >= grid.minimum_images]
    classifiers = sorted(pair.digest for pair in stock.classifiers)
    spec = {
        "job": "score",
        "grid": grid.model_dump(mode="json"),
        "labels": list(labels),
        "own": [[one.label, one.digest] for one in scored[: grid.most_labels]],
        "experts": sorted(pair.digest for pair in stock.experts),
        "generators": sorted(
            [pair.digest, count.label, count.images]
            for pair, manifest in stock.generators.items()
            for count in manifest.labels
        ),
    }
    return {**spec, "classifiers": classifiers} if classifiers else spec


def was_scored_with(spec: Mapping[str, Any], gone: Lineage) -> bool:
    """Whether a job scored something that is gone."""
    if spec["job"] != "score":
        return False
    digests = {*spec["experts"], *(digest for digest, _, _ in spec["generators"]), *spec.get("classifiers", ())}
    return any(pair.digest in digests for pair in gone)
