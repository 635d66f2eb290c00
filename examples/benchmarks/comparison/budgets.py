"""How much a comparison may cost, as counts: no budget looks at a clock."""

from dataclasses import dataclass, field
from typing import Any, get_args

from fednode.contract import ImageShape
from fednode.recipe import AuditRecipe, ExpertRecipe, Recipes, recipes

MANY_ROUNDS = 200  # FedAvg's rounds in FederatedFactory's comparison (2603.16370); their bytes are reported, not run

SINGLE = ("pooled", "alone", "fedavg", "logit_ensemble", "centralised", "experts", "best_expert")
PRODUCTS = ("product", "generative", "both", "auto")
ROUNDS = ("fedavg_rounds", "fedprox")


@dataclass(frozen=True)
class Budget:
    """`rounds` and `epochs` of the averaged baselines; `fit_images` that a generator's fit sees (None: the preset's); changes to
    the recipe of experts (`expert`) and to its synthesis (`draws`); the other recipes of experts that are compared (None: all).
    """

    rounds: int
    epochs: int = 5
    fit_images: int | None = None
    expert: dict[str, Any] = field(default_factory=dict)
    draws: dict[str, Any] = field(default_factory=dict)
    variants: tuple[str, ...] | None = None

    def recipes(self, image: ImageShape) -> Recipes:
        """The node's own default recipes for images of this shape, with the budget's changes."""
        found = recipes(image)
        fit = {"images": self.fit_images} if self.fit_images else {}
        synthesis = found.expert.synthesis.model_copy(update=self.draws)
        return found.model_copy(
            update={
                "generator": found.generator.model_copy(update=fit),
                "expert": found.expert.model_copy(update={**self.expert, "synthesis": synthesis}),
                "audit": AuditRecipe(minimum_images=4) if self.fit_images else found.audit,
            }
        )


BUDGETS = {
    "smoke": Budget(
        rounds=2,
        epochs=1,
        fit_images=512,
        expert={"steps": 6, "batch": 16},
        draws={"samples_per_label": 25},
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
