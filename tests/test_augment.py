"""Augmentation: what each policy may do to an image, and that it does all of it."""

import pytest
import torch
from torch import Tensor

from fednode.contract import ImageShape
from fednode.learning.augment import augment
from fednode.presets import expert_recipe, recipes
from fednode.recipe import Augment, ExpertRecipe


def policy(name: Augment, shift: int = 0, jitter_milli: int = 150) -> ExpertRecipe:
    return ExpertRecipe(augment=name, shift=shift, jitter_milli=jitter_milli)


def drawn(images: Tensor, recipe: ExpertRecipe, seed: int = 0) -> Tensor:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return augment(images, recipe)


def test_moved_images_keep_their_pixels_and_each_moves_by_its_own_offset() -> None:
    spot = torch.zeros((200, 1, 5, 5), dtype=torch.uint8)
    spot[:, :, 2, 2] = 255
    moved = drawn(spot, policy("shift", 1))
    assert (moved.flatten(1).sum(1) == 255).all()
    places = {tuple(place) for place in moved[:, 0].nonzero()[:, 1:].tolist()}
    assert places == {(row, column) for row in (1, 2, 3) for column in (1, 2, 3)}


def test_the_eight_symmetries_of_the_square_all_occur_and_no_other_images() -> None:
    image = torch.arange(9, dtype=torch.uint8).reshape(1, 1, 3, 3)
    turned = drawn(image.repeat(200, 1, 1, 1), policy("dihedral"))
    found = {tuple(one.flatten().tolist()) for one in turned}
    expected = {
        tuple(one.flatten().tolist())
        for turns in range(4)
        for one in (image.rot90(turns, (2, 3)), image.rot90(turns, (2, 3)).transpose(2, 3))
    }
    assert found == expected
    assert len(found) == 8


def test_a_flip_mirrors_about_half_of_the_images_and_never_stands_them_on_their_heads() -> None:
    image = torch.arange(12, dtype=torch.uint8).reshape(1, 3, 2, 2)
    flipped = drawn(image.repeat(200, 1, 1, 1), policy("flip"))
    mirrored = (flipped == image.flip(3)).flatten(1).all(1)
    assert ((flipped == image).flatten(1).all(1) ^ mirrored).all()
    assert 70 < int(mirrored.sum()) < 130


def test_colour_changes_brightness_and_contrast_within_their_bounds_and_all_channels_alike() -> None:
    image = torch.full((200, 3, 4, 4), 100, dtype=torch.uint8)
    image[:, :, :2] = 150
    coloured = drawn(image, policy("colour")).float()
    assert torch.equal(coloured[:, 0], coloured[:, 2])
    contrast = coloured[:, 0, 0, 0] - coloured[:, 0, 3, 0]
    mean = coloured.mean((1, 2, 3))
    assert 41 < float(contrast.min()) < 50 * 0.9
    assert 50 * 1.1 < float(contrast.max()) < 59
    assert 125 - 0.15 * 255 - 1 < float(mean.min()) < 125 - 0.1 * 255
    assert 125 + 0.1 * 255 < float(mean.max()) < 125 + 0.15 * 255 + 1


def test_colours_stop_at_the_ends_of_the_range() -> None:
    image = torch.tensor([[0], [255]], dtype=torch.uint8).repeat(50, 1, 1, 2)
    dark, bright = drawn(image, policy("colour", jitter_milli=500)).view(50, 2, 2).unbind(1)
    assert {0, 255} <= {*dark.flatten().tolist(), *bright.flatten().tolist()}
    assert (dark < bright).all()


def test_no_policy_leaves_images_as_they_are_whatever_the_shift() -> None:
    images = torch.randint(0, 256, (4, 1, 5, 5), dtype=torch.uint8)
    assert torch.equal(drawn(images, policy("none", 2)), images)


@pytest.mark.parametrize(
    ("size", "channels", "expected", "shift"),
    [(8, 1, "none", 0), (28, 1, "shift", 1), (28, 3, "flip", 1), (64, 3, "flip", 4), (224, 1, "shift", 14)],
)
def test_the_default_policy_follows_size_and_colour_and_gives_way_to_a_name(
    size: int, channels: int, expected: str, shift: int
) -> None:
    image = ImageShape(size=size, channels=channels)
    assert (expert_recipe(image).augment, expert_recipe(image).shift) == (expected, shift)
    assert recipes(image, augment="dihedral").expert == expert_recipe(image).model_copy(update={"augment": "dihedral"})
