"""The parts of a product as a worker is told of them."""

from collections.abc import Mapping
from typing import Any

from fednode.contract import Contract
from fednode.lineage import Pair
from fednode.manifest import Manifest
from fednode.presets import Recipes
from fednode.store import Store

Document = dict[str, Any]
Artifacts = Mapping[Pair, Manifest]


def product_fields(experts: Artifacts, generators: Artifacts, classifiers: Artifacts, store: Store) -> Document:
    """Where the weights of each part are, and what they are."""
    return {
        "experts": [_part(store, pair, manifest) for pair, manifest in sorted(experts.items())],
        "generators": [_counted(store, pair, manifest) for pair, manifest in sorted(generators.items())],
        "classifiers": [_counted(store, pair, manifest) for pair, manifest in sorted(classifiers.items())],
    }


def common_fields(contract: Contract, recipes: Recipes) -> Document:
    """The image shape, and the recipe by which generators answer."""
    return {"image": contract.image.model_dump(mode="json"), "recipe": recipes.expert.model_dump(mode="json")}


def _counted(store: Store, pair: Pair, manifest: Manifest) -> Document:
    return {**_part(store, pair, manifest), "labels": [[count.label, count.images] for count in manifest.labels]}


def _part(store: Store, pair: Pair, manifest: Manifest) -> Document:
    return {
        "digest": pair.digest,
        "weights": str(store.path(pair)),
        "architecture": manifest.architecture.model_dump(mode="json"),
    }
