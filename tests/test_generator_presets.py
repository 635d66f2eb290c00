"""The presets of generators: sizes that fit any image, budgets in images, and recipes that have one byte form."""

import pytest

from fednode.contract import ImageShape
from fednode.recipe import PRESETS, AuditRecipe, GeneratorRecipe, SamplerRecipe, default_preset, generator_architecture


@pytest.mark.parametrize(
    ("size", "preset"), [(8, "nano"), (12, "nano"), (13, "xs"), (28, "xs"), (32, "xs"), (64, "s"), (224, "s")]
)
def test_the_default_preset_follows_the_size_of_the_images(size: int, preset: str) -> None:
    assert default_preset(ImageShape(size=size, channels=3)) == preset


def test_the_paper_preset_is_the_papers_network() -> None:
    architecture = generator_architecture("paper", ImageShape(size=32, channels=3))
    assert (architecture.channels, architecture.blocks, architecture.attention) == ((128, 256, 256, 256), 3, (16, 8))


def test_images_of_28_pixels_have_three_levels_and_attention_on_the_inner_two() -> None:
    architecture = generator_architecture("paper", ImageShape(size=28, channels=1))
    assert (len(architecture.channels), architecture.attention) == (3, (14, 7))


def test_small_images_get_fewer_levels() -> None:
    assert generator_architecture("paper", ImageShape(size=4, channels=1)).channels == (128,)
    assert generator_architecture("paper", ImageShape(size=8, channels=1)).channels == (128, 256)


def test_a_budget_counts_images_and_is_at_least_one_step() -> None:
    assert GeneratorRecipe(images=1000, batch=64, rampup_images=0, decay_images=1).steps == 15
    assert GeneratorRecipe(images=1, batch=64, rampup_images=0, decay_images=1).steps == 1


def test_every_recipe_has_a_digest_of_its_own() -> None:
    digests = [settings.recipe.digest for settings in PRESETS.values()] + [AuditRecipe().digest, SamplerRecipe().digest]
    assert len(set(digests)) == len(digests)
    assert AuditRecipe().digest == AuditRecipe(sampler=SamplerRecipe()).digest
    assert AuditRecipe().digest != AuditRecipe(sampler=SamplerRecipe(steps=13)).digest


def test_the_sampler_goes_from_80_to_a_five_hundredth() -> None:
    assert (SamplerRecipe().sigma_max, SamplerRecipe().sigma_min) == (80.0, 0.002)
