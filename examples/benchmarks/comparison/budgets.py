"""How much a comparison may cost, as counts: no budget looks at a clock."""

from dataclasses import dataclass, field, replace
from typing import Any, get_args

from fednode.contract import ImageShape
from fednode.presets import Recipes, recipes
from fednode.recipe import Dtype, ExpertRecipe, Preset

MANY_ROUNDS = 200  # FedAvg's rounds in FederatedFactory's comparison (2603.16370); their bytes are reported, not run

SINGLE = ("pooled", "alone", "fedavg", "logit_ensemble", "centralised", "experts", "best_expert")
PRODUCTS = ("product", "generative", "both", "auto")
ROUNDS = ("fedavg_rounds", "fedprox")


@dataclass(frozen=True)
class Budget:
    """What a comparison runs.

    `rounds` and `epochs` of the averaged baselines; changes to the recipes of generators (`fit`), of experts (`expert`), of their
    synthesis (`draws`) and of the audit; the other recipes of experts to compare (None: all); the size of generators (None: by
    image size); what networks compute in (None: as the recipes say); the epsilon of private generators (None: none).
    """

    rounds: int
    epochs: int = 5
    fit: dict[str, Any] = field(default_factory=dict)
    expert: dict[str, Any] = field(default_factory=dict)
    draws: dict[str, Any] = field(default_factory=dict)
    audit: dict[str, Any] = field(default_factory=dict)
    variants: tuple[str, ...] | None = None
    preset: Preset | None = None
    dtype: Dtype | None = None
    epsilon: float | None = None

    def recipes(self, image: ImageShape) -> Recipes:
        """The node's own default recipes for images of this shape, with the budget's changes."""
        found = recipes(image, self.preset, epsilon=self.epsilon, dtype=self.dtype)
        synthesis = found.expert.synthesis.model_copy(update=self.draws)
        return found.model_copy(
            update={
                "generator": found.generator.model_copy(update=self.fit),
                "expert": found.expert.model_copy(update={**self.expert, "synthesis": synthesis}),
                "audit": found.audit.model_copy(update=self.audit),
            }
        )

    def changed(
        self, preset: Preset | None, fit_images: int | None, expert_steps: int | None, dtype: Dtype | None
    ) -> "Budget":
        """The same with another size of generators, images seen by a fit, steps of an expert, or `dtype`, where given."""
        fit = self.fit | ({"images": fit_images} if fit_images else {})
        expert = self.expert | ({"steps": expert_steps} if expert_steps else {})
        return replace(self, preset=preset or self.preset, dtype=dtype or self.dtype, fit=fit, expert=expert)

    def compiled(self) -> "Budget":
        """The same with fits of generators compiled."""
        return replace(self, fit={**self.fit, "compile": True})


BUDGETS = {
    "smoke": Budget(
        rounds=2,
        epochs=1,
        fit={"images": 512},
        expert={"steps": 6, "batch": 16},
        draws={"samples_per_label": 25},
        audit={"minimum_images": 4},
        variants=("paper",),
    ),
    "cpu-small": Budget(rounds=10),
    "cpu": Budget(rounds=10, variants=("paper",)),
    "gpu": Budget(rounds=20),
}


def variants() -> dict[str, dict[str, str]]:
    """The recipes of experts beside the default, as changes to it: each mix with the donor's labels, then other targets.

    `paper` is FederatedFactory's recipe: own labels from own real images alone, all others from synthetic ones.
    """
    mixes = get_args(ExpertRecipe.model_fields["mix"].annotation)
    targets = get_args(ExpertRecipe.model_fields["targets"].annotation)
    by_mix = {mix: {"mix": mix, "targets": "donor"} for mix in mixes}
    return by_mix | {name: {"targets": name} for name in targets if name != "donor"}


def methods(budget: Budget) -> tuple[str, ...]:
    """The rows of a budget in their order; those of many rounds come last."""
    others = variants() if budget.variants is None else budget.variants
    return (*SINGLE, *(f"product_{name}" for name in others), *PRODUCTS, *ROUNDS)


def all_methods() -> tuple[str, ...]:
    """Every row that can be asked for."""
    return methods(Budget(rounds=1))
