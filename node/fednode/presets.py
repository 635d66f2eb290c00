"""Defaults: the sizes of generators by name, and the architectures and recipes for images of a shape."""

from typing import Literal

from fednode.architecture import ExpertArchitecture, GeneratorArchitecture, ViTArchitecture
from fednode.contract import ImageShape, Value
from fednode.recipe import (
    AuditRecipe,
    Augment,
    Dtype,
    ExpertRecipe,
    GeneratorRecipe,
    Preset,
    PrivacyRecipe,
    SynthesisRecipe,
    TeacherRecipe,
)


class PresetSettings(Value):
    """A size of generator: side of a patch, channels at each level, blocks a level, whether sides of 7 to 16 attend, its fit."""

    patch: Literal[1, 2, 4] = 1
    channels: tuple[int, ...]
    blocks: int
    attends: bool
    recipe: GeneratorRecipe


WIDTHS = (50, 70, 100, 140, 200)
MINUTES = GeneratorRecipe(images=96_000, batch=32, ema_choices_milli=WIDTHS, patience=3)  # a fit on a CPU core

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
        recipe=MINUTES,
    ),
    "s": PresetSettings(
        patch=2,
        channels=(32, 64, 64),
        blocks=1,
        attends=True,
        recipe=MINUTES,
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


def teacher_recipe(image: ImageShape) -> TeacherRecipe:
    """The default for images of this shape: what noise hides of an image depends on its deviation over the image's side.

    The levels grow with the side (2301.11093) and the sharpness with its power 2/3, both measured at 8 and 28 px; from 64 px
    on they stay, for generators are not fitted to more noise.
    """
    scale = min(image.size, 64) / 8
    low, high, sharpness = round(110 * scale), round(930 * scale), round(16 * scale ** (2 / 3))
    return TeacherRecipe(sigma_min_milli=low, sigma_max_milli=high, sharpness=sharpness)


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
