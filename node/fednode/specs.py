"""What names each job: the specs of what a node makes, from what it has and what is live. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fednode.architecture import ExpertShape
from fednode.inventory import Inventory
from fednode.lineage import Pair
from fednode.manifest import LabelCount, Manifest
from fednode.planned import Finished, OwnLabel, Spec, State, spec_digest
from fednode.presets import expert_architecture, generator_architecture, vit_architecture
from fednode.recipe import Recipe


@dataclass(frozen=True)
class Making:
    """What a node makes from own images alone: the generator of a label, or (label None) the classifier of all of them.

    A classifier that is `ready` was made elsewhere: nothing is fitted, and nothing audited.
    """

    label: str | None
    spec: Spec
    counts: tuple[LabelCount, ...]

    @property
    def ready(self) -> bool:
        """Whether it was handed in."""
        return bool(self.spec["job"] == "import")

    @property
    def seen(self) -> tuple[str, ...]:
        """The labels of the images that go in."""
        return tuple(count.label for count in self.counts if count.images or self.label)


def finished(state: State, spec: Spec) -> Finished | None:
    """What the job of this spec left; None if it has not ended."""
    return state.own.finished.get(spec_digest(spec))


def seen_labels(spec: Spec) -> frozenset[str]:
    """The labels of the own images that a job sees."""
    return frozenset([spec["label"]] if "label" in spec else (label for label, _ in spec.get("own", ())))


def input_digests(spec: Spec) -> frozenset[str]:
    """The weight digests of the live artifacts that a job uses."""
    named = (*spec.get("inputs", ()), *(spec.get("generators", ()) if spec["job"] == "distil" else ()))
    return frozenset(one["weights"] for one in named)


def own_digests(spec: Spec) -> frozenset[str]:
    """The digests of the own images that a job sees."""
    return frozenset([spec["images"]] if "images" in spec else (digest for _, digest in spec.get("own", ())))


def own_labels(state: State) -> tuple[OwnLabel, ...]:
    """The own labels that are not withdrawn."""
    return tuple(own for own in state.own.scan or () if own.label not in state.own.withdrawn)


def makings(state: State) -> tuple[Making, ...]:
    """All that this node makes or was handed, of the kinds that it exchanges."""
    own, kinds = own_labels(state), state.word.kinds
    generators = tuple(_generator(state, one) for one in own if "generator" in kinds)
    return generators + (_classifiers(state, own) if "classifier" in kinds else ())


def fit_spec(state: State, own: OwnLabel) -> Spec:
    """The spec of the generator of one own label."""
    architecture = generator_architecture(state.recipes.preset, state.contract.image)
    return {
        "job": "fit",
        "recipe": state.recipes.generator.model_dump(mode="json"),
        "architecture": architecture.model_dump(mode="json"),
        "label": own.label,
        "images": own.digest,
    }


def audit_spec(state: State, fit: Spec, weights: str) -> Spec:
    """The spec of the audit of a fitted generator or classifier."""
    job = "audit" if fit["job"] == "fit" else "audit-classifier"
    return {**fit, "job": job, "recipe": state.recipes.audit.model_dump(mode="json"), "weights": weights}


def expert_spec(state: State, stock: Inventory) -> Spec | None:
    """The spec of the expert for what is live now; None while fewer than two labels are covered.

    With live classifiers it is distilled, from them and from the live generators if there are any.
    """
    covered = stock.covered(state.contract.labels)
    if len(covered) < 2:
        return None
    own = [[own.label, own.digest] for own in _seen_by_expert(state) if own.label in covered]
    made = _distilled(state, stock, len(covered)) if stock.classifiers else _trained(state, stock, len(covered))
    return {**made, "labels": list(covered), "own": own if made["recipe"].get("own", True) else []}


def _seen_by_expert(state: State) -> tuple[OwnLabel, ...]:
    """Own real images, unless the operator keeps them out; none where generators are private, for the expert would not be."""
    return own_labels(state) if state.own.shown and not state.recipes.generator.privacy else ()


def _generator(state: State, own: OwnLabel) -> Making:
    return Making(own.label, fit_spec(state, own), (LabelCount(label=own.label, images=own.images),))


def _classifiers(state: State, own: Sequence[OwnLabel]) -> tuple[Making, ...]:
    """The classifier that was handed in, unless a label of it is withdrawn; else that of own images, if there are any."""
    ready = state.own.ready
    if ready is not None and not set(ready["seen"]) & state.own.withdrawn:
        counts = (LabelCount(label=label, images=int(label in ready["seen"])) for label in ready["labels"])
        return (Making(None, ready, tuple(counts)),)
    return (_classifier(state, own),) if own else ()


def _classifier(state: State, own: Sequence[OwnLabel]) -> Making:
    labels, images = state.contract.labels, {one.label: one.images for one in own}
    spec = {
        **_making("classifier", state.vits.classifier, vit_architecture(state.contract.image, len(labels))),
        "labels": list(labels),
        "own": [[one.label, one.digest] for one in own],
    }
    return Making(None, spec, tuple(LabelCount(label=label, images=images.get(label, 0)) for label in labels))


def _trained(state: State, stock: Inventory, outputs: int) -> Spec:
    architecture = expert_architecture(state.contract.image, outputs)
    return {**_making("expert", state.recipes.expert, architecture), "inputs": _inputs(stock.generators)}


def _distilled(state: State, stock: Inventory, outputs: int) -> Spec:
    architecture = vit_architecture(state.contract.image, outputs)
    made = {**_making("distil", state.vits.distil, architecture), "inputs": _inputs(stock.classifiers)}
    if not stock.generators:
        return made
    synthesis = state.recipes.expert.synthesis.model_dump(mode="json")
    return {**made, "generators": _inputs(stock.generators), "synthesis": synthesis}


def _making(job: str, recipe: Recipe, architecture: ExpertShape) -> dict[str, Any]:
    return {"job": job, "recipe": recipe.model_dump(mode="json"), "architecture": architecture.model_dump(mode="json")}


def _inputs(live: Mapping[Pair, Manifest]) -> list[dict[str, Any]]:
    """Rule 2 of plan(): weight digests alone, sorted; equal ones by all that is said of them, for anybody may list them too."""
    found = [
        {
            "weights": pair.digest,
            "labels": [[count.label, count.images] for count in manifest.labels],
            "architecture": manifest.architecture.model_dump(mode="json"),
        }
        for pair, manifest in live.items()
    ]
    return sorted(found, key=lambda one: (one["weights"], json.dumps(one, sort_keys=True)))
