"""What names each job: the specs of what a node makes, from what it has and what is live. Pure."""

from fednode.inventory import Inventory
from fednode.planned import Finished, OwnLabel, Spec, State, spec_digest
from fednode.recipe import expert_architecture, generator_architecture


def finished(state: State, spec: Spec) -> Finished | None:
    """What the job of this spec left; None if it has not ended."""
    return state.own.finished.get(spec_digest(spec))


def own_labels(state: State) -> tuple[OwnLabel, ...]:
    """The own labels that are not withdrawn."""
    return tuple(own for own in state.own.scan or () if own.label not in state.own.withdrawn)


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


def audit_spec(state: State, own: OwnLabel, weights: str) -> Spec:
    """The spec of the audit of a fitted generator."""
    recipe = state.recipes.audit.model_dump(mode="json")
    return {**fit_spec(state, own), "job": "audit", "recipe": recipe, "weights": weights}


def expert_spec(state: State, stock: Inventory) -> Spec | None:
    """The spec of the expert for what is live now; None while fewer than two labels are covered."""
    covered = stock.covered(state.contract.labels)
    if len(covered) < 2:
        return None
    inputs = [
        {
            "weights": pair.digest,
            "labels": [[count.label, count.images] for count in manifest.labels],
            "architecture": manifest.architecture.model_dump(mode="json"),
        }
        for pair, manifest in sorted(stock.generators.items(), key=lambda item: (item[0].digest, item[1].names()))
    ]
    return {
        "job": "expert",
        "recipe": state.recipes.expert.model_dump(mode="json"),
        "architecture": expert_architecture(state.contract.image, len(covered)).model_dump(mode="json"),
        "labels": list(covered),
        "own": [[own.label, own.digest] for own in seen_by_expert(state) if own.label in covered],
        "inputs": inputs,
    }


def seen_by_expert(state: State) -> tuple[OwnLabel, ...]:
    """Own real images, unless the operator keeps them out; none where generators are private, for the expert would not be."""
    return own_labels(state) if state.own.shown and not state.recipes.generator.privacy else ()
