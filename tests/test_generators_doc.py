"""The tables of docs/generators.md are what the presets are."""

from math import prod

import pytest
from nodes import ROOT

from fednode.contract import ImageShape
from fednode.learning.weights import generator_tensors
from fednode.presets import PRESETS, generator_architecture
from fednode.recipe import Preset

TEXT = (ROOT / "docs" / "generators.md").read_text()


def rows(heading: str) -> list[list[str]]:
    """The cells of the table with that heading."""
    table = TEXT.split(heading)[1].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in table]


def listed(values: tuple[int, ...]) -> str:
    return ", ".join(map(str, values)) or "-"


@pytest.mark.parametrize("row", rows("| preset | images | patch |"), ids=lambda row: f"{row[0]} {row[1]}")
def test_a_preset_has_the_size_that_the_documents_say(row: list[str]) -> None:
    side, colour = row[1].split(" px, ")
    name: Preset = row[0].strip("`")  # type: ignore[assignment]
    made = generator_architecture(name, ImageShape(size=int(side), channels=3 if colour == "colour" else 1))
    numbers = sum(prod(shape) for shape, _ in generator_tensors(made).values())
    shape = [str(made.patch), listed(made.channels), str(made.blocks), listed(made.attention)]
    assert row[2:] == [*shape, f"{numbers:,}", f"{2 * numbers:,}"]


def test_every_preset_is_fitted_as_the_documents_say() -> None:
    said = {row[0].strip("`"): row[1:] for row in rows("| preset | images seen |")}
    assert said.keys() == PRESETS.keys()
    for name, settings in PRESETS.items():
        recipe = settings.recipe
        assert recipe.rampup_milli == 40
        assert said[name] == [
            f"{recipe.images:,}",
            f"{recipe.max_passes:,}",
            f"{recipe.batch:,}",
            f"{recipe.lr_micro / 1e6:g}",
            f"{recipe.decay_milli / 10:.1f} %",
            f"{recipe.p_mean_milli / 1e3:g}, {recipe.p_std_milli / 1e3:g}",
            f"{recipe.ema_milli / 10:.1f} %",
            "yes" if recipe.chooses else "no",
            recipe.dtype,
        ]
