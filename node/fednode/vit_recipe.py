"""Recipes of FedMITR (2605.10748): how classifiers are fitted and inverted, and how an expert is distilled from them.

The rules of `recipe.py` hold.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from fednode.architecture import ViTArchitecture, ViTName
from fednode.contract import ImageShape, Value
from fednode.presets import vit_architecture
from fednode.recipe import Augment, Dtype, Recipe

Mode = Literal["dense", "sparse", "random", "rebirth"]
Reading = Literal["none", "subset", "dense"]
Thousandths = Annotated[int, Field(ge=0, le=1_000)]

SIZES = {
    "tiny": (192, 12, 3),
    "small": (384, 12, 6),
    "base": (768, 12, 12),
}  # width, depth, heads (2010.11929, 2012.12877)


class ClassifierRecipe(Recipe):
    """How a ViT is fitted to own images: AdamW over `steps` random batches, its rate rising over a tenth, then half a cosine.

    Each image carries normal noise of its own strength, uniform up to `noise_milli` thousandths of the data unit: what is
    inverted from a classifier without it looks like its label to this classifier alone.
    `augment`, `shift` and `jitter_milli` are as in ExpertRecipe.
    """

    version: Literal[1] = 1
    steps: Annotated[int, Field(ge=1, le=10_000_000)] = 300
    batch: Annotated[int, Field(ge=2, le=4096)] = 64
    lr_micro: Annotated[int, Field(ge=1, le=1_000_000)] = 1_000
    weight_decay_micro: Annotated[int, Field(ge=0, le=1_000_000)] = 50_000
    smoothing_milli: Annotated[int, Field(ge=0, le=500)] = 0
    noise_milli: Annotated[int, Field(ge=0, le=80_000)] = 1_000
    augment: Augment = "none"
    shift: Annotated[int, Field(ge=0, le=64)] = 0
    jitter_milli: Thousandths = 150
    dtype: Dtype = "float32"


class InversionRecipe(Recipe):
    """How images are found to which a classifier gives wanted labels (SMI, 2510.27186; PRI, 2509.23235).

    Adam at `lr` along half a cosine, on cross-entropy plus `tv` times the total variation of an image. Each step sees the images
    rolled by up to `jitter_milli` of the side and, with `flip`, mirrored in half of all steps.
    After each of `stop_at_milli` thousandths of the steps, `stop_percent` of the patches left stop, and are seen no more: those
    that the classifier attends to least (`sparse`), any (`random`), or those that it attends to most (`rebirth`); `dense` stops
    none. The patches that count as the image's own are those left, with `rebirth` those that stopped.
    `images` are made for each classifier, `batch` at a time; its labels share them by their image counts or equally. At
    224 px a batch takes about 42 MiB of memory an image with vit_tiny in float32, and more in proportion to the width.
    """

    version: Literal[2] = 2
    mode: Mode = "sparse"
    steps: Annotated[int, Field(ge=1, le=100_000)] = 400
    lr_milli: Annotated[int, Field(ge=1, le=10_000)] = 250
    beta1_milli: Annotated[int, Field(ge=0, le=999)] = 500
    beta2_milli: Annotated[int, Field(ge=0, le=999)] = 990
    tv_micro: Annotated[int, Field(ge=0, le=10_000_000)] = 100
    jitter_milli: Annotated[int, Field(ge=0, le=500)] = 125
    flip: bool = True
    stop_at_milli: Annotated[tuple[Thousandths, ...], Field(max_length=16)] = (125, 250, 500, 750)
    stop_percent: Annotated[int, Field(ge=1, le=99)] = 30
    images: Annotated[int, Field(ge=1, le=1_000_000)] = 128
    batch: Annotated[int, Field(ge=1, le=4096)] = 64
    share: Literal["counts", "equal"] = "counts"
    dtype: Dtype = "float32"

    @model_validator(mode="after")
    def _stops_in_order(self) -> Self:
        if list(self.stop_at_milli) != sorted(set(self.stop_at_milli)):
            raise ValueError("stops come one after the other")
        return self


class DistilRecipe(Recipe):
    """How an expert learns from the inverted images of all classifiers, and with `own` from own real images.

    It starts as the classifier that saw most images, if that has the expert's shape, or `fresh`, from random weights.
    Every covered label has the same weight, and inverted and real images of a label share it equally.
    `relabel`: the image's own patches learn its label, and (unless `none`) the others the classifiers' soft label at
    `temperature`, weighted by `strength`; the expert sees the two sets of patches one after the other (`subset`), or all at once
    and answers at each patch (`dense`; LV-ViT, 2104.10858), patches weighted by `token_milli`.
    With `teach_whole` whole images, such as own ones, have the classifiers' soft label too, beside their own.
    Classifiers weigh alike (`uniform`), by their images (`counts`), or label by label by their images of it (`labels`); with
    `seen` those without images of a label have no say about it.
    `optimiser`: SGD with momentum 0.9, as in the paper, or AdamW; the rate falls along half a cosine.
    `augment`, `shift` and `jitter_milli` change real images, as in ExpertRecipe.
    """

    version: Literal[2] = 2
    inversion: InversionRecipe = InversionRecipe()
    start: Literal["classifier", "fresh"] = "classifier"
    relabel: Reading = "subset"
    strength_milli: Annotated[int, Field(ge=0, le=1_000_000)] = 4_000
    temperature_milli: Annotated[int, Field(ge=100, le=1_000_000)] = 4_000
    token_milli: Thousandths = 500
    weights: Literal["uniform", "counts", "labels"] = "labels"
    voters: Literal["seen", "all"] = "seen"
    own: bool = True
    teach_whole: bool = True
    steps: Annotated[int, Field(ge=1, le=10_000_000)] = 300
    batch: Annotated[int, Field(ge=2, le=4096)] = 64
    optimiser: Literal["sgd", "adamw"] = "adamw"
    lr_micro: Annotated[int, Field(ge=1, le=1_000_000)] = 1_000
    weight_decay_micro: Annotated[int, Field(ge=0, le=1_000_000)] = 50_000
    augment: Augment = "none"
    shift: Annotated[int, Field(ge=0, le=64)] = 0
    jitter_milli: Thousandths = 150
    dtype: Dtype = "float32"


class ImportRecipe(Recipe):
    """A ready classifier: a timm ViT that was made elsewhere."""

    version: Literal[1] = 1
    model: ViTName


def ready_architecture(model: ViTName, image: ImageShape, outputs: int) -> ViTArchitecture:
    """The ViT of this name as timm has it, for the patches that images of this shape are cut into here.

    Raises ValidationError if there are too many outputs.
    """
    width, depth, heads = SIZES[model.split("_")[1]]
    patch = vit_architecture(image, outputs).patch
    return ViTArchitecture(name=model, image=image, patch=patch, width=width, depth=depth, heads=heads, outputs=outputs)


class ViTRecipes(Value):
    """All that a node needs to name its jobs with classifiers."""

    classifier: ClassifierRecipe
    distil: DistilRecipe


def vit_recipes(image: ImageShape, augment: Augment | None = None, dtype: Dtype = "float32") -> ViTRecipes:
    """The defaults for images of this shape, sized for CPU cores up to 64 px; `augment` asks for another policy by name.

    As with experts, tiny images are not moved, and grey ones are not mirrored, neither real nor inverted ones.
    """
    flip = image.channels == 3
    if image.size <= 12:
        chosen: Augment = augment or "none"
        inversion = InversionRecipe(steps=200, flip=flip, dtype=dtype)
        return ViTRecipes(
            classifier=ClassifierRecipe(steps=600, lr_micro=3_000, augment=chosen, dtype=dtype),
            distil=DistilRecipe(inversion=inversion, augment=chosen, dtype=dtype),
        )
    inversion = InversionRecipe(flip=flip, dtype=dtype)
    chosen = augment or ("shift" if image.channels == 1 else "flip")
    shift = max(1, image.size // 16)
    return ViTRecipes(
        classifier=ClassifierRecipe(steps=1_000, augment=chosen, shift=shift, dtype=dtype),
        distil=DistilRecipe(inversion=inversion, steps=1_000, augment=chosen, shift=shift, dtype=dtype),
    )
