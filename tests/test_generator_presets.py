"""The presets of generators: sizes that fit any image, budgets in images, and recipes that have one byte form."""

import pytest

from fednode.architecture import GeneratorArchitecture
from fednode.contract import ImageShape
from fednode.presets import PRESETS, default_preset, generator_architecture
from fednode.recipe import AuditRecipe, GeneratorRecipe, SamplerRecipe


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
    assert GeneratorRecipe(images=1000, batch=64).steps(100) == 15
    assert GeneratorRecipe(images=1, batch=64).steps(100) == 1


def test_no_image_is_seen_more_often_than_the_recipe_allows() -> None:
    recipe = GeneratorRecipe(images=96_000, max_passes=100, batch=32)
    assert [recipe.steps(count) for count in (1, 320, 959, 960, 5000)] == [3, 1000, 2996, 3000, 3000]


def test_the_default_for_28_pixels_works_on_squares_of_two_by_two() -> None:
    architecture = generator_architecture("xs", ImageShape(size=28, channels=1))
    assert (architecture.patch, architecture.channels, architecture.attention) == (2, (32, 64), ())
    assert PRESETS["xs"].recipe.steps(1000) == 3000


def test_an_architecture_without_patches_has_the_bytes_that_it_had_before_there_were_any() -> None:
    architecture = generator_architecture("nano", ImageShape(size=8, channels=1))
    said = architecture.model_dump(mode="json")
    assert said.keys() == {"family", "image", "channels", "blocks", "attention"}
    patched = architecture.model_copy(update={"patch": 2})
    assert patched.model_dump(mode="json") == {**said, "patch": 2}
    assert GeneratorArchitecture.model_validate_json(patched.model_dump_json()) == patched


def test_every_recipe_has_a_digest_of_its_own() -> None:
    different = {*(settings.recipe for settings in PRESETS.values()), AuditRecipe(), SamplerRecipe()}
    assert len({recipe.digest for recipe in different}) == len(different) > len(PRESETS)
    assert AuditRecipe().digest == AuditRecipe(sampler=SamplerRecipe()).digest
    assert AuditRecipe().digest != AuditRecipe(sampler=SamplerRecipe(steps=13)).digest


def test_the_sampler_goes_from_80_to_a_five_hundredth() -> None:
    assert (SamplerRecipe().sigma_max, SamplerRecipe().sigma_min) == (80.0, 0.002)
