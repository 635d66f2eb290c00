"""How much a comparison of classifiers may cost, as counts: no budget looks at a clock."""

import re
from dataclasses import dataclass, field, replace
from typing import Any, get_args

from comparison import budgets

from fednode.contract import ImageShape
from fednode.recipe import Dtype
from fednode.vit_recipe import DistilRecipe, Mode, Reading, ViTRecipes, vit_recipes
from mitr.painter import Painting

MODES, READINGS = get_args(Mode), get_args(Reading)
LDA = ("lda_pixels", "lda_random", "lda_node")
DISTILLED = ("deepinversion", "dense", "coboosting", "fedftg")
GENERATORS = ("product", "generative")
BASE = (
    "pooled",
    "alone",
    "fedavg",
    "logit_ensemble",
    *LDA,
    *DISTILLED,
    "fedmitr",
    "fedmitr_experts",
    "fedmitr_product",
)
ROUNDS = ("fedavg_rounds", "fedprox")
ABLATION = tuple(f"fedmitr_{mode}_{reading}" for mode in MODES for reading in READINGS)
STOPS = tuple(f"fedmitr_sparse_subset_{percent}" for percent in (15, 45))

VARIANT = re.compile(rf"fedmitr_({'|'.join(MODES)})_({'|'.join(READINGS)})(?:_([1-9][0-9]?))?")


DEFAULT_PAINTING = Painting(batch=64)


@dataclass(frozen=True)
class Budget:
    """What a comparison runs.

    Rows and partitions; `rounds` of the averaged baselines, each of a share `round_milli` of a classifier's steps; changes to
    the recipes of classifiers, of distillation and of its inversion, and to the ViT; how baselines paint;
    how many images gradients are taken of; the budget of generators and their experts.
    """

    partitions: tuple[str, ...]
    methods: tuple[str, ...]
    rounds: int = 10
    round_milli: int = 200
    classifier: dict[str, Any] = field(default_factory=dict)
    distil: dict[str, Any] = field(default_factory=dict)
    inversion: dict[str, Any] = field(default_factory=dict)
    vit: dict[str, Any] = field(default_factory=dict)
    painting: Painting = DEFAULT_PAINTING
    theory: int = 64
    generators: budgets.Budget = budgets.BUDGETS["cpu-small"]
    dtype: Dtype = "float32"

    def recipes(self, image: ImageShape) -> ViTRecipes:
        """The node's own default recipes for images of this shape, with the budget's changes."""
        found = vit_recipes(image, dtype=self.dtype)
        inversion = found.distil.inversion.model_copy(update=self.inversion)
        return ViTRecipes(
            classifier=found.classifier.model_copy(update=self.classifier),
            distil=found.distil.model_copy(update={**self.distil, "inversion": inversion}),
        )


ALL = (*BASE, *ABLATION, *STOPS, *GENERATORS, *ROUNDS)
BUDGETS = {
    "smoke": Budget(
        partitions=("dirichlet:0.3", "shards:2"),
        methods=(
            *BASE,
            "fedmitr_dense_none",
            "fedmitr_sparse_none",
            "fedmitr_random_dense",
            "fedmitr_rebirth_subset",
            *ROUNDS,
        ),
        rounds=2,
        classifier={"steps": 8, "batch": 16},
        distil={"steps": 6, "batch": 16},
        inversion={"steps": 8, "images": 6, "batch": 6},
        vit={"depth": 2},
        painting=Painting(batch=6, steps=4, width=8),
        theory=6,
        generators=budgets.BUDGETS["smoke"],
    ),
    "cpu": Budget(partitions=("dirichlet:0.1", "shards:2"), methods=ALL),
    "gpu": Budget(
        partitions=("dirichlet:0.1",),
        methods=(*BASE, *(f"fedmitr_{mode}_subset" for mode in MODES)),
        vit={"name": "deit_tiny_patch16_224", "width": 192, "depth": 12, "heads": 3},
        dtype="bfloat16",
    ),
}

# What changes from SMALL pixels a side on, where a call takes longer.
SMALL = 12
LARGER = {
    "cpu": replace(
        BUDGETS["cpu"],
        methods=tuple(name for name in ALL if not name.endswith("_dense")),
        classifier={"steps": 600},
        distil={"steps": 600},
        inversion={"steps": 200, "images": 64},
        vit={"width": 64, "depth": 4, "heads": 4},
        generators=replace(budgets.BUDGETS["cpu"], fit={"images": 24_000}, expert={"steps": 600}),
    )
}


def budget_of(name: str, image: ImageShape) -> Budget:
    """The budget of this name for images of this shape."""
    return LARGER[name] if image.size > SMALL and name in LARGER else BUDGETS[name]


def is_method(name: str) -> bool:
    """Whether a row can be asked for by this name."""
    return name in ALL or VARIANT.fullmatch(name) is not None


def variant(recipe: DistilRecipe, name: str) -> DistilRecipe:
    """The recipe of a row `fedmitr`, or `fedmitr_MODE_READING`, or the same with `_PERCENT` of the patches left at each stop."""
    if not (found := VARIANT.fullmatch(name)):
        return recipe
    change = {"mode": found[1]} | ({"stop_percent": int(found[3])} if found[3] else {})
    return recipe.model_copy(update={"relabel": found[2], "inversion": recipe.inversion.model_copy(update=change)})
