"""Recipes: every constant that a model depends on, as plain values whose digests go into specs.

Rule 1: whatever changes a model's bits is in its recipe or in its inputs; a clock, a count from others or a latency never is.
Rule 2: `version` rises whenever the code behind a recipe changes what comes out.
"""

from typing import Annotated, Literal

from pydantic import Field

from fednode.contract import ImageShape, Value
from fednode_crypto.digest import digest_json

Preset = Literal["nano", "xs", "s", "m", "paper"]
Solver = Literal["heun", "dpm2m"]
Small = Annotated[int, Field(ge=1, le=64)]


class GeneratorArchitecture(Value):
    """The EDM2 denoiser of one label: channels at each resolution, blocks a resolution, sides that have attention."""

    family: Literal["edm2"] = "edm2"
    image: ImageShape
    channels: Annotated[tuple[Annotated[int, Field(ge=8, le=512)], ...], Field(min_length=1, max_length=6)]
    blocks: Annotated[int, Field(ge=1, le=4)]
    attention: Annotated[tuple[Annotated[int, Field(ge=1, le=256)], ...], Field(max_length=6)] = ()


ExpertName = Literal["resnet10t", "resnet18", "resnet26", "resnet50"]


class ExpertArchitecture(Value):
    """A timm network from the allow-list; `width` is the channels of the first stage, `outputs` the labels it tells apart."""

    family: Literal["timm"] = "timm"
    name: ExpertName
    image: ImageShape
    width: Annotated[int, Field(ge=8, le=256)]
    outputs: Annotated[int, Field(ge=1, le=1000)]


Architecture = Annotated[GeneratorArchitecture | ExpertArchitecture, Field(discriminator="family")]


class Recipe(Value):
    """Base of all recipes."""

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the recipe."""
        return digest_json("fednode/recipe/v1", {"recipe": type(self).__name__, **self.model_dump(mode="json")})


class SamplerRecipe(Recipe):
    """How a generator draws: `solver` over `steps` noise levels from sigma_max to sigma_min, `batch` images at a time."""

    version: Literal[2] = 2
    solver: Solver = "heun"
    steps: Annotated[int, Field(ge=2, le=200)] = 12
    sigma_min_micro: Annotated[int, Field(ge=100, le=1_000_000)] = 2_000
    sigma_max_milli: Annotated[int, Field(ge=2_000, le=200_000)] = 80_000
    rho: Annotated[int, Field(ge=1, le=20)] = 7
    batch: Annotated[int, Field(ge=1, le=4096)] = 50

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


class GeneratorRecipe(Recipe):
    """How a generator is fitted; budgets count images seen, so that they never depend on a clock.

    The learning rate rises over `rampup_images`, then stays `lr` until `decay_images` and falls with the inverse square root.
    ln sigma ~ N(p_mean, p_std^2) in training; `ema_milli` is the width of the weights' average, in thousandths of the fit.
    """

    version: Literal[1] = 1
    images: Annotated[int, Field(ge=1, le=10**9)]
    batch: Annotated[int, Field(ge=1, le=4096)] = 64
    lr_micro: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000
    rampup_images: Annotated[int, Field(ge=0, le=10**9)]
    decay_images: Annotated[int, Field(ge=1, le=10**9)]
    p_mean_milli: Annotated[int, Field(ge=-5_000, le=5_000)] = -800
    p_std_milli: Annotated[int, Field(ge=100, le=5_000)] = 1_200
    ema_milli: Annotated[int, Field(ge=10, le=250)] = 100
    dropout_milli: Annotated[int, Field(ge=0, le=900)] = 0

    @property
    def steps(self) -> int:
        """Optimiser steps in the budget, at least one."""
        return max(1, self.images // self.batch)


class AuditRecipe(Recipe):
    """What a generator must pass before it is signed: enough images, and samples no nearer to them than chance allows."""

    version: Literal[1] = 1
    minimum_images: Annotated[int, Field(ge=1, le=1_000_000)] = 20
    samples: Annotated[int, Field(ge=1, le=100_000)] = 250
    sampler: SamplerRecipe = SamplerRecipe()
    percentile: Annotated[int, Field(ge=1, le=50)] = 1
    alpha_ppm: Annotated[int, Field(ge=1, le=100_000)] = 1_000


class PresetSettings(Value):
    """A size of generator: channels at each resolution, blocks a resolution, whether 7 to 16 px attend, and its fit."""

    channels: tuple[int, ...]
    blocks: int
    attends: bool
    recipe: GeneratorRecipe


PRESETS: dict[Preset, PresetSettings] = {
    "nano": PresetSettings(
        channels=(16, 16),
        blocks=1,
        attends=False,
        recipe=GeneratorRecipe(images=11_520, rampup_images=460, decay_images=5_760, lr_micro=20_000),
    ),
    "xs": PresetSettings(
        channels=(16, 32, 48),
        blocks=1,
        attends=False,
        recipe=GeneratorRecipe(images=96_000, rampup_images=4_000, decay_images=32_000),
    ),
    "s": PresetSettings(
        channels=(32, 64, 64),
        blocks=2,
        attends=True,
        recipe=GeneratorRecipe(images=512_000, rampup_images=20_000, decay_images=128_000, batch=128),
    ),
    "m": PresetSettings(
        channels=(64, 128, 128, 128),
        blocks=3,
        attends=True,
        recipe=GeneratorRecipe(
            images=4_000_000, rampup_images=160_000, decay_images=1_000_000, batch=256, ema_milli=50
        ),
    ),
    "paper": PresetSettings(
        channels=(128, 256, 256, 256),
        blocks=3,
        attends=True,
        recipe=GeneratorRecipe(
            images=25_000_000,
            rampup_images=1_000_000,
            decay_images=6_000_000,
            batch=1024,
            p_std_milli=1_600,
            ema_milli=50,
            dropout_milli=300,
        ),
    ),
}


def default_preset(image: ImageShape) -> Preset:
    """The preset that two CPU cores fit in minutes; `m` and `paper` are for accelerators and are asked for by name."""
    if image.size <= 12:
        return "nano"
    return "xs" if image.size <= 32 else "s"


def generator_architecture(preset: Preset, image: ImageShape) -> GeneratorArchitecture:
    """The denoiser of `preset` for images of this shape, with as many levels as leave 4 px or more at the coarsest."""
    settings = PRESETS[preset]
    levels = max(1, min(len(settings.channels), (image.size // 4).bit_length()))
    unit = 2 ** (levels - 1)
    padded = -(-image.size // unit) * unit
    sides = [padded >> level for level in range(levels)]
    attention = tuple(side for side in sides if 7 <= side <= 16) if settings.attends else ()
    return GeneratorArchitecture(
        image=image, channels=settings.channels[:levels], blocks=settings.blocks, attention=attention
    )


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

    `mix`: own labels come from own real images alone (`paper`), or half from real and half from synthetic ones (`mixed`).
    `targets`: a synthetic image has its donor's label (`donor`), or the generative product's soft label (`teacher`).
    Augmentation: moves by up to `shift` pixels; `dihedral` flips and right-angle turns, for images that have no upside.
    """

    version: Literal[1] = 1
    mix: Literal["paper", "mixed"] = "mixed"
    targets: Literal["donor", "teacher"] = "donor"
    steps: Annotated[int, Field(ge=1, le=10_000_000)] = 100
    batch: Annotated[int, Field(ge=2, le=4096)] = 64
    lr_micro: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000
    weight_decay_micro: Annotated[int, Field(ge=0, le=1_000_000)] = 10_000
    smoothing_milli: Annotated[int, Field(ge=0, le=500)] = 100
    shift: Annotated[int, Field(ge=0, le=64)] = 0
    dihedral: bool = False
    synthesis: SynthesisRecipe = SynthesisRecipe()
    teacher: TeacherRecipe = TeacherRecipe()


def expert_recipe(image: ImageShape) -> ExpertRecipe:
    """The default for images of this shape, sized for CPU cores up to 32 px."""
    teacher = teacher_recipe(image)
    if image.size <= 12:
        synthesis = SynthesisRecipe(sampler=SamplerRecipe(steps=8), samples_per_label=150)
        return ExpertRecipe(synthesis=synthesis, teacher=teacher)
    synthesis = SynthesisRecipe(samples_per_label=1_000)
    return ExpertRecipe(steps=1_000, shift=max(1, image.size // 16), synthesis=synthesis, teacher=teacher)


def expert_architecture(image: ImageShape, outputs: int) -> ExpertArchitecture:
    """The default expert for images of this shape that tells `outputs` labels apart."""
    if image.size <= 12:
        return ExpertArchitecture(name="resnet10t", image=image, width=16, outputs=outputs)
    if image.size <= 64:
        return ExpertArchitecture(name="resnet18", image=image, width=32, outputs=outputs)
    return ExpertArchitecture(name="resnet18", image=image, width=64, outputs=outputs)


class Recipes(Value):
    """All that one node needs to know to name its jobs: the size of its generators, and how it fits, audits and trains."""

    preset: Preset
    generator: GeneratorRecipe
    audit: AuditRecipe
    expert: ExpertRecipe


def recipes(image: ImageShape, preset: Preset | None = None) -> Recipes:
    """The default recipes for images of this shape; `preset` asks for another size of generator."""
    chosen = preset or default_preset(image)
    return Recipes(preset=chosen, generator=PRESETS[chosen].recipe, audit=AuditRecipe(), expert=expert_recipe(image))
