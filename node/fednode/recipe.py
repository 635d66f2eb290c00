"""Recipes: every constant that a model depends on, as plain values whose digests go into specs.

Rule 1: whatever changes a model's bits is in its recipe or in its inputs; a clock, a count from others or a latency never is.
Rule 2: `version` rises whenever the code behind a recipe changes what comes out.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from fednode.contract import ImageShape, Value
from fednode_crypto.digest import digest_json

Preset = Literal["nano", "xs", "s", "m", "paper"]
PLAIN = ("none", "float32")
Dtype = Literal["float32", "bfloat16"]
Solver = Literal["heun", "dpm2m"]
Width = Annotated[int, Field(ge=10, le=250)]
MAX_GRID = 64


class GeneratorArchitecture(Value):
    """The EDM2 denoiser of one label: channels at each resolution, blocks a resolution, sides that have attention.

    The network works on a grid of squares of `patch` by `patch` pixels; `attention` counts in squares.
    """

    family: Literal["edm2"] = "edm2"
    image: ImageShape
    channels: Annotated[tuple[Annotated[int, Field(ge=8, le=512)], ...], Field(min_length=1, max_length=6)]
    blocks: Annotated[int, Field(ge=1, le=4)]
    attention: Annotated[tuple[Annotated[int, Field(ge=1, le=256)], ...], Field(max_length=6)] = ()
    patch: Annotated[Literal[1, 2, 4], Field(exclude_if=lambda patch: patch == 1)] = (
        1  # statements without it stay canonical
    )


ExpertName = Literal["resnet10t", "resnet18", "resnet26", "resnet50"]


class ExpertArchitecture(Value):
    """A timm network from the allow-list; `width` is the channels of the first stage, `outputs` the labels it tells apart.

    The stem divides an image's sides by `reduction`; None stands for 1 up to 64 px and for 4 above.
    """

    family: Literal["timm"] = "timm"
    name: ExpertName
    image: ImageShape
    width: Annotated[int, Field(ge=8, le=256)]
    outputs: Annotated[int, Field(ge=1, le=1000)]
    reduction: Annotated[Literal[1, 2, 4] | None, Field(exclude_if=lambda reduction: reduction is None)] = None


ViTName = Literal[
    "vit_tiny_patch16_224",
    "vit_small_patch16_224",
    "vit_base_patch16_224",
    "deit_tiny_patch16_224",
    "deit_small_patch16_224",
    "deit_base_patch16_224",
]


class ViTArchitecture(Value):
    """A timm ViT from the allow-list: patches of `patch` by `patch` pixels, `depth` blocks of `width` channels and `heads` heads.

    An image whose side `patch` does not divide is continued to the right and below by its border.
    """

    family: Literal["vit"] = "vit"
    name: ViTName
    image: ImageShape
    patch: Annotated[int, Field(ge=1, le=64)]
    width: Annotated[int, Field(ge=8, le=1024)]
    depth: Annotated[int, Field(ge=1, le=24)]
    heads: Annotated[int, Field(ge=1, le=16)]
    outputs: Annotated[int, Field(ge=1, le=1000)]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.width % self.heads:
            raise ValueError("the heads share the width equally")
        if not 2 <= self.grid <= MAX_GRID:
            raise ValueError(f"an image has 2 to {MAX_GRID} patches a side")
        return self

    @property
    def grid(self) -> int:
        """Patches along a side."""
        return -(-self.image.size // self.patch)

    @property
    def side(self) -> int:
        """The side in pixels of what the network sees."""
        return self.grid * self.patch


ExpertShape = Annotated[ExpertArchitecture | ViTArchitecture, Field(discriminator="family")]
Architecture = Annotated[GeneratorArchitecture | ExpertArchitecture | ViTArchitecture, Field(discriminator="family")]


class Recipe(Value):
    """Base of all recipes."""

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the recipe."""
        return digest_json("fednode/recipe/v1", {"recipe": type(self).__name__, **self.model_dump(mode="json")})


class SamplerRecipe(Recipe):
    """How a generator draws: `solver` over `steps` noise levels from sigma_max to sigma_min, `batch` images at a time.

    `dtype`: what the network computes in.
    """

    version: Literal[2] = 2
    solver: Solver = "dpm2m"
    steps: Annotated[int, Field(ge=2, le=200)] = 12
    sigma_min_micro: Annotated[int, Field(ge=100, le=1_000_000)] = 2_000
    sigma_max_milli: Annotated[int, Field(ge=2_000, le=200_000)] = 80_000
    rho: Annotated[int, Field(ge=1, le=20)] = 7
    batch: Annotated[int, Field(ge=1, le=4096)] = 50
    dtype: Dtype = "float32"

    @property
    def sigma_min(self) -> float:
        """The lowest noise level above 0, in data units."""
        return self.sigma_min_micro / 1e6

    @property
    def sigma_max(self) -> float:
        """The noise level that drawing starts from, in data units."""
        return self.sigma_max_milli / 1e3

    @property
    def calls(self) -> int:
        """Calls of the network for one image."""
        return 2 * self.steps - 1 if self.solver == "heun" else self.steps


class PrivacyRecipe(Recipe):
    """Differential privacy of a fit: an image more or less changes the odds of any outcome by at most e^epsilon, but for delta.

    The gradient of an image is averaged over `draws` noise levels and clipped to `clip`. Rule 1 of `learning/privacy.py` makes
    one image the unit: a person with several images is protected less.
    """

    version: Literal[1] = 1
    epsilon_milli: Annotated[int, Field(ge=10, le=1_000_000)]
    delta_ppb: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000
    clip_milli: Annotated[int, Field(ge=1, le=1_000_000)] = 1_000
    draws: Annotated[int, Field(ge=1, le=64)] = 4


class GeneratorRecipe(Recipe):
    """How a generator is fitted; budgets count images seen, so that they never depend on a clock.

    At most `images` are seen, and none of the training images more than `max_passes` times. The learning rate rises over
    `rampup_milli` thousandths of this budget, stays `lr` until `decay_milli`, and falls with the inverse square root.
    ln sigma ~ N(p_mean, p_std^2) in training; `ema_milli` is the width of the weights' average, in thousandths of the fit.

    With `ema_choices_milli` the width is the one of these whose average denoises the held-out images best, put together from
    averages of the widths `ema_tracks_milli`, which are stored at `looks` points of the fit. With `patience` a fit ends once that
    many looks in a row have not lowered the held-out loss, and the best look counts. Without held-out images neither happens.
    A held-out loss takes `held_draws` noisy images.

    With `augment`, `augment_milli` thousandths of the images are turned or mirrored, and the network is told how. `dtype` and
    `compile` are about the network's forward and backward; weights and sums stay float32.
    """

    version: Literal[2] = 2
    images: Annotated[int, Field(ge=1, le=10**9)]
    max_passes: Annotated[int, Field(ge=1, le=10**9)] = 1_000
    batch: Annotated[int, Field(ge=1, le=4096)] = 64
    lr_micro: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000
    rampup_milli: Annotated[int, Field(ge=0, le=1_000)] = 40
    decay_milli: Annotated[int, Field(ge=1, le=1_000)] = 333
    p_mean_milli: Annotated[int, Field(ge=-5_000, le=5_000)] = -800
    p_std_milli: Annotated[int, Field(ge=100, le=5_000)] = 1_200
    ema_milli: Width = 100
    ema_tracks_milli: Annotated[tuple[Width, ...], Field(min_length=1, max_length=4)] = (50, 100)
    ema_choices_milli: Annotated[tuple[Width, ...], Field(max_length=16)] = ()
    looks: Annotated[int, Field(ge=1, le=100)] = 10
    patience: Annotated[int, Field(ge=0, le=100)] = 0
    held_draws: Annotated[int, Field(ge=1, le=100_000)] = 256
    dropout_milli: Annotated[int, Field(ge=0, le=900)] = 0
    augment: Literal["none", "dihedral"] = "none"
    augment_milli: Annotated[int, Field(ge=1, le=1_000)] = 500
    dtype: Dtype = "float32"
    compile: bool = False
    privacy: PrivacyRecipe | None = None

    @model_validator(mode="after")
    def _private_fits_see_nothing_else(self) -> Self:
        if self.privacy and (self.chooses or self.compile or self.dropout_milli or (self.augment, self.dtype) != PLAIN):
            raise ValueError("a private fit chooses nothing on held-out images, and is plain: float32, not augmented")
        return self

    def steps(self, count: int) -> int:
        """Optimiser steps in the budget for `count` training images, at least one."""
        return max(1, min(self.images, self.max_passes * count) // self.batch)

    @property
    def widths(self) -> tuple[float, ...]:
        """The widths of the averages that run along with a fit: one without a choice, else those that others follow from."""
        return tuple(width / 1e3 for width in (self.ema_tracks_milli if self.ema_choices_milli else (self.ema_milli,)))

    @property
    def chooses(self) -> bool:
        """Whether something is chosen on held-out images."""
        return bool(self.ema_choices_milli or self.patience)


class AuditRecipe(Recipe):
    """What a generator must pass before it is signed; docs/audit.md has the reasons for the numbers.

    Copies: each test fails a generator that copies nothing with a chance of at most `alpha_ppm`; `percentile` of the held-out
    distances, `neighbours` of the Carlini ratio. Membership: `draws` of noise at each of `levels_milli`; a generator fails if
    its area under the curve is above `auc_limit_milli` but for a chance of `auc_tail_ppm`. `manifold`: k of precision and recall.
    """

    version: Literal[2] = 2
    minimum_images: Annotated[int, Field(ge=1, le=1_000_000)] = 32
    samples: Annotated[int, Field(ge=2, le=100_000)] = 250
    sampler: SamplerRecipe = SamplerRecipe()
    features: Literal["random-conv-v1"] = "random-conv-v1"
    alpha_ppm: Annotated[int, Field(ge=1, le=100_000)] = 100
    percentile: Annotated[int, Field(ge=1, le=50)] = 1
    neighbours: Annotated[int, Field(ge=2, le=1_000)] = 10
    levels_milli: Annotated[tuple[Annotated[int, Field(ge=1, le=80_000)], ...], Field(min_length=1, max_length=20)] = (
        100,
        200,
        400,
        800,
    )
    draws: Annotated[int, Field(ge=1, le=100)] = 2
    auc_limit_milli: Annotated[int, Field(ge=500, le=999)] = 700
    auc_tail_ppm: Annotated[int, Field(ge=1, le=100_000)] = 10_000
    manifold: Annotated[int, Field(ge=1, le=100)] = 3


class PresetSettings(Value):
    """A size of generator: side of a patch, channels at each level, blocks a level, whether sides of 7 to 16 attend, its fit."""

    patch: Literal[1, 2, 4] = 1
    channels: tuple[int, ...]
    blocks: int
    attends: bool
    recipe: GeneratorRecipe


WIDTHS = (50, 70, 100, 140, 200)

PRESETS: dict[Preset, PresetSettings] = {
    "nano": PresetSettings(
        channels=(16, 16),
        blocks=1,
        attends=False,
        recipe=GeneratorRecipe(images=11_520, lr_micro=20_000, decay_milli=500),
    ),
    "xs": PresetSettings(
        patch=2,
        channels=(32, 64),
        blocks=1,
        attends=False,
        recipe=GeneratorRecipe(images=96_000, batch=32, ema_choices_milli=WIDTHS, patience=3),
    ),
    "s": PresetSettings(
        patch=2,
        channels=(32, 64, 64),
        blocks=1,
        attends=True,
        recipe=GeneratorRecipe(images=96_000, batch=32, ema_choices_milli=WIDTHS, patience=3),
    ),
    "m": PresetSettings(
        channels=(64, 128, 128, 128),
        blocks=3,
        attends=True,
        recipe=GeneratorRecipe(
            images=4_000_000,
            max_passes=4_000,
            batch=256,
            decay_milli=250,
            ema_milli=50,
            ema_choices_milli=WIDTHS,
            patience=3,
            dtype="bfloat16",
        ),
    ),
    "paper": PresetSettings(
        channels=(128, 256, 256, 256),
        blocks=3,
        attends=True,
        recipe=GeneratorRecipe(
            images=25_000_000,
            max_passes=5_000,
            batch=1024,
            decay_milli=240,
            p_std_milli=1_600,
            ema_milli=50,
            dropout_milli=300,
            dtype="bfloat16",
        ),
    ),
}


def default_preset(image: ImageShape) -> Preset:
    """The preset for CPU cores: minutes a label up to 32 px, an hour beyond. `m` and `paper` are for accelerators, by name."""
    if image.size <= 12:
        return "nano"
    return "xs" if image.size <= 32 else "s"


def generator_architecture(preset: Preset, image: ImageShape) -> GeneratorArchitecture:
    """The denoiser of `preset` for images of this shape, with as many levels as leave 4 squares or more at the coarsest."""
    settings = PRESETS[preset]
    side = -(-image.size // settings.patch)
    levels = max(1, min(len(settings.channels), (side // 4).bit_length()))
    unit = 2 ** (levels - 1)
    padded = -(-side // unit) * unit
    sides = [padded >> level for level in range(levels)]
    return GeneratorArchitecture(
        image=image,
        channels=settings.channels[:levels],
        blocks=settings.blocks,
        attention=tuple(side for side in sides if 7 <= side <= 16) if settings.attends else (),
        patch=settings.patch,
    )


Mix = Literal["paper", "mixed", "projected", "synthetic"]
Augment = Literal["none", "shift", "flip", "dihedral", "colour"]


class SynthesisRecipe(Recipe):
    """How the images that an expert lacks are drawn from the donors' generators.

    Each of `pools` pools holds `samples_per_label` images of a label; every pool is drawn afresh. Donors of one label share by
    their image counts, and no donor gives more than `donor_cap_percent` of a label that has others.
    """

    version: Literal[1] = 1
    sampler: SamplerRecipe = SamplerRecipe()
    samples_per_label: Annotated[int, Field(ge=1, le=1_000_000)] = 200
    pools: Annotated[int, Field(ge=1, le=10_000)] = 1
    donor_cap_percent: Annotated[int, Field(ge=1, le=100)] = 75


class TeacherRecipe(Recipe):
    """The generative product: noise levels from sigma_min to sigma_max, equally spaced in ln sigma, and a temperature.

    Levels are asked from the middle outwards. After each, the best `keep_percent` of the labels left stay, at least two; 100
    asks all labels at all levels. `sharpness` is the unit of scores, in which a temperature of 1 is about right. The defaults are
    for 8 px.
    """

    version: Literal[2] = 2
    levels: Annotated[int, Field(ge=1, le=100)] = 8
    sigma_min_milli: Annotated[int, Field(ge=1, le=80_000)] = 110
    sigma_max_milli: Annotated[int, Field(ge=1, le=80_000)] = 930
    keep_percent: Annotated[int, Field(ge=1, le=100)] = 70
    sharpness: Annotated[int, Field(ge=1, le=10_000)] = 16
    temperature_milli: Annotated[int, Field(ge=1, le=1_000_000)] = 1_000
    dtype: Dtype = "float32"


def teacher_recipe(image: ImageShape) -> TeacherRecipe:
    """The default for images of this shape: what noise hides of an image depends on its deviation over the image's side.

    The levels grow with the side (2301.11093) and the sharpness with its power 2/3, both measured at 8 and 28 px; from 64 px
    on they stay, for generators are not fitted to more noise.
    """
    scale = min(image.size, 64) / 8
    low, high, sharpness = round(110 * scale), round(930 * scale), round(16 * scale ** (2 / 3))
    return TeacherRecipe(sigma_min_milli=low, sigma_max_milli=high, sharpness=sharpness)


class ExpertRecipe(Recipe):
    """How an expert is trained.

    `mix`: own labels come from own real images alone (`paper`), half from real and half from synthetic ones (`mixed`), from real
    ones that the label's generators have noised to `projection_milli` and denoised (`projected`), or, as all others do, from
    synthetic ones alone (`synthetic`).
    `targets`: a synthetic image has its donor's label (`donor`), the generative product's soft label (`teacher`), or its donor's
    label unless the generative product gives it another, and then it is left out (`agreed`). `teach_real`: real images have soft
    labels as well. Each synthetic image has a copy with noise of up to `noise_milli`, and with `mixup` one mixed with another.
    `augment`: by which policy of `learning/augment.py` images change anew at each step, moved by up to `shift` pixels; `colour`
    changes brightness and contrast by up to `jitter_milli` of the range. `dtype`: the numbers that the network computes in.
    """

    version: Literal[2] = 2
    mix: Mix = "mixed"
    targets: Literal["donor", "teacher", "agreed"] = "donor"
    teach_real: bool = False
    projection_milli: Annotated[int, Field(ge=1, le=80_000)] = 300
    noise_milli: Annotated[int, Field(ge=0, le=80_000)] = 0
    mixup: bool = False
    steps: Annotated[int, Field(ge=1, le=10_000_000)] = 100
    batch: Annotated[int, Field(ge=2, le=4096)] = 64
    lr_micro: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000
    weight_decay_micro: Annotated[int, Field(ge=0, le=1_000_000)] = 10_000
    smoothing_milli: Annotated[int, Field(ge=0, le=500)] = 0
    augment: Augment = "none"
    shift: Annotated[int, Field(ge=0, le=64)] = 0
    jitter_milli: Annotated[int, Field(ge=0, le=1_000)] = 150
    dtype: Dtype = "float32"
    synthesis: SynthesisRecipe = SynthesisRecipe()
    teacher: TeacherRecipe = TeacherRecipe()


def expert_recipe(image: ImageShape, augment: Augment | None = None) -> ExpertRecipe:
    """The default for images of this shape, sized for CPU cores up to 64 px; `augment` asks for another policy by name.

    Tiny images are not moved, for a pixel is much of them. Grey ones are not mirrored, for many mean something else then.
    """
    teacher = teacher_recipe(image)
    if image.size <= 12:
        synthesis = SynthesisRecipe(samples_per_label=300)
        return ExpertRecipe(steps=200, augment=augment or "none", synthesis=synthesis, teacher=teacher)
    return ExpertRecipe(
        steps=1_000,
        augment=augment or ("shift" if image.channels == 1 else "flip"),
        shift=max(1, image.size // 16),
        synthesis=SynthesisRecipe(samples_per_label=1_000),
        teacher=teacher,
    )


def expert_architecture(image: ImageShape, outputs: int) -> ExpertArchitecture:
    """The default expert for images of this shape that tells `outputs` labels apart."""
    if image.size <= 12:
        return ExpertArchitecture(name="resnet10t", image=image, width=16, outputs=outputs)
    if image.size <= 64:
        reduction: Literal[2, 4] = 2 if image.size <= 32 else 4
        return ExpertArchitecture(name="resnet10t", image=image, width=32, outputs=outputs, reduction=reduction)
    return ExpertArchitecture(name="resnet18", image=image, width=64, outputs=outputs)


def vit_architecture(image: ImageShape, outputs: int) -> ViTArchitecture:
    """The default ViT for images of this shape, classifier or expert, with at most 12 patches along a side up to 192 px."""
    patch = next((patch for limit, patch in ((12, 2), (40, 4), (96, 8)) if image.size <= limit), 16)
    width, depth, heads = (64, 4, 4) if image.size <= 12 else (128, 6, 4) if image.size <= 96 else (192, 12, 3)
    return ViTArchitecture(
        name="vit_tiny_patch16_224",
        image=image,
        patch=patch,
        width=width,
        depth=depth,
        heads=heads,
        outputs=outputs,
    )


class Recipes(Value):
    """All that one node needs to know to name its jobs: the size of its generators, and how it fits, audits and trains."""

    preset: Preset
    generator: GeneratorRecipe
    audit: AuditRecipe
    expert: ExpertRecipe


def recipes(
    image: ImageShape,
    preset: Preset | None = None,
    fit_images: int | None = None,
    augment: Augment | None = None,
    epsilon: float | None = None,
    dtype: Dtype | None = None,
) -> Recipes:
    """The default recipes for images of this shape.

    `preset` and `fit_images` ask for other generators, `epsilon` for private ones, `augment` for another policy of experts, and
    `dtype` for other numbers in all networks; private fits stay float32.
    """
    chosen = preset or default_preset(image)
    fit = PRESETS[chosen].recipe
    fit = fit if fit_images is None else fit.model_copy(update={"images": fit_images})
    fit = fit if epsilon is None else _private(fit, epsilon)
    made = Recipes(preset=chosen, generator=fit, audit=AuditRecipe(), expert=expert_recipe(image, augment))
    return made if dtype is None else _computing(made, dtype)


def _computing(made: Recipes, dtype: Dtype) -> Recipes:
    change = {"dtype": dtype}
    fit, audit, expert = made.generator, made.audit, made.expert
    synthesis = expert.synthesis.model_copy(update={"sampler": expert.synthesis.sampler.model_copy(update=change)})
    learned = {"synthesis": synthesis, "teacher": expert.teacher.model_copy(update=change)}
    return made.model_copy(
        update={
            "generator": fit if fit.privacy else fit.model_copy(update=change),
            "audit": audit.model_copy(update={"sampler": audit.sampler.model_copy(update=change)}),
            "expert": expert.model_copy(update={**change, **learned}),
        }
    )


def _private(fit: GeneratorRecipe, epsilon: float) -> GeneratorRecipe:
    privacy = PrivacyRecipe(epsilon_milli=round(epsilon * 1e3))
    plain = {
        "dropout_milli": 0,
        "dtype": "float32",
        "ema_choices_milli": (),
        "patience": 0,
        "augment": "none",
        "compile": False,
    }
    return GeneratorRecipe.model_validate({**fit.model_dump(), **plain, "privacy": privacy})
