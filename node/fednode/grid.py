"""The grid: the ways to answer that every node scores on its own held-out images, fixed before anything is measured.

Rule 1: a cell is a product and the noise levels of its generative part; a way to answer is a cell and a temperature.
Rule 2: counts of two grids are never added up, so a statement names the digest of its grid, the teacher's levels included.
Rule 3: how many images of a label are scored follows from the number of labels alone, so that neither a statement nor the
        time that it takes grows with what a node has.
"""

import math
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from fednode.recipe import Recipe, TeacherRecipe

Product = Literal["experts", "generative", "both", "ensemble"]
Levels = Literal["all", "low", "high"]
Milli = Annotated[int, Field(ge=1, le=1_000_000)]

PLAIN_MILLI = 1_000  # the temperature at which an answer is what the product says


class Cell(NamedTuple):
    """A product, and the noise levels at which its generators are asked (a product of experts has none)."""

    product: Product
    levels: Levels


# The cheaper ones first, but for the halves of the levels, which have to be better than all levels to be taken.
CELLS: dict[str, Cell] = {
    "experts": Cell("experts", "all"),
    "generative": Cell("generative", "all"),
    "generative-low": Cell("generative", "low"),
    "generative-high": Cell("generative", "high"),
    "both": Cell("both", "all"),
}
# The classifiers' own answer, which is not scored: it speaks while there is nothing better.
ANSWERS: dict[str, Cell] = {**CELLS, "ensemble": Cell("ensemble", "all")}


class GridRecipe(Recipe):
    """How the cells are scored: at which temperatures, on how many images, with which clip of one image's log loss.

    A label with fewer than `minimum_images` held out is not scored; at most `images_per_label` of a label and `images` in all
    are.
    """

    version: Literal[1] = 1
    teacher: TeacherRecipe
    temperatures_milli: Annotated[tuple[Milli, ...], Field(min_length=1, max_length=8)] = (
        250,
        500,
        1_000,
        2_000,
        4_000,
    )
    minimum_images: Annotated[int, Field(ge=5, le=1_000)] = 5
    images_per_label: Annotated[int, Field(ge=5, le=2_000)] = 200
    images: Annotated[int, Field(ge=5, le=2_000)] = 2_000
    clip_milli: Annotated[int, Field(ge=1_000, le=16_000)] = 16_000

    @property
    def most_labels(self) -> int:
        """How many own labels a node can score."""
        return self.images // self.minimum_images

    def share(self, labels: int) -> int:
        """How many images of each of so many own labels are scored at most."""
        return min(self.images_per_label, self.images // max(labels, 1))


def levels_of(teacher: TeacherRecipe, levels: Levels) -> TeacherRecipe:
    """The teacher at all of its noise levels, or at the lower or the upper half of them (the middle one belongs to both)."""
    if levels == "all" or teacher.levels == 1:
        return teacher
    half = (teacher.levels + 1) // 2
    low, high = math.log(teacher.sigma_min_milli), math.log(teacher.sigma_max_milli)
    step = (high - low) / (teacher.levels - 1)
    if levels == "low":
        return teacher.model_copy(update={"levels": half, "sigma_max_milli": round(math.exp(low + step * (half - 1)))})
    return teacher.model_copy(update={"levels": half, "sigma_min_milli": round(math.exp(high - step * (half - 1)))})
