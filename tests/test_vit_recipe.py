"""The recipes of FedMITR: defaults that suit an image, and what no recipe may say."""

import pytest
from pydantic import ValidationError

from fednode.contract import ImageShape
from fednode.vit_recipe import DistilRecipe, InversionRecipe, vit_recipes


@pytest.mark.parametrize(
    ("size", "channels", "augment", "flip"), [(8, 1, "none", False), (28, 1, "shift", False), (32, 3, "flip", True)]
)
def test_images_are_moved_and_mirrored_as_they_can_be(size: int, channels: int, augment: str, flip: bool) -> None:
    found = vit_recipes(ImageShape(size=size, channels=channels))
    assert (found.classifier.augment, found.distil.augment, found.distil.inversion.flip) == (augment, augment, flip)


def test_what_is_asked_for_by_name_is_in_every_part() -> None:
    found = vit_recipes(ImageShape(size=8, channels=3), "dihedral", "bfloat16")
    assert (found.classifier.augment, found.distil.augment) == ("dihedral", "dihedral")
    assert {found.classifier.dtype, found.distil.dtype, found.distil.inversion.dtype} == {"bfloat16"}


def test_a_part_of_a_recipe_is_in_its_digest() -> None:
    changed = DistilRecipe(inversion=InversionRecipe(stop_percent=31))
    assert changed.digest != DistilRecipe().digest


def test_stops_are_in_order() -> None:
    with pytest.raises(ValidationError, match="one after the other"):
        InversionRecipe(stop_at_milli=(500, 250))
