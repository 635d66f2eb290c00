"""The comparison of classifiers' uses as a script: a small run fills every row, and what is wrong is told in a sentence."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from comparison.rows import Row
from fedmitr import Found, main, summarise
from mitr.budgets import BUDGETS, variant
from mitr.calls import distil_calls, inversion_calls, metered, patches_left

from fednode.contract import ImageShape
from fednode.learning import distil, vit
from fednode.learning.dataset import Evaluated
from fednode.learning.distil import Lesson
from fednode.learning.inversion import invert
from fednode.learning.inverted import Classifier
from fednode.learning.vitfit import Aids
from fednode.presets import vit_architecture
from fednode.vit_recipe import DistilRecipe, InversionRecipe

IMAGE = ImageShape(size=8, channels=1)
SPENDS = {"deepinversion", "dense", "coboosting", "fedftg", "fedmitr"}


def test_a_smoke_run_fills_every_row_and_goes_on_from_its_cache(
    tmp_path: Path, own_numerics: None, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "--budget",
        "smoke",
        "--partition",
        "dirichlet:0.3",
        "--labels",
        "0,1,2",
        "--test-images",
        "45",
        "--theory",
    ]
    words += ["--jobs", "1", "--device", "cpu", "--json"]
    words += ["--cache", str(tmp_path / "cache"), "--out", str(tmp_path / "out")]
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)
    rows = found["partitions"]["dirichlet:0.3"]
    assert tuple(rows) == BUDGETS["smoke"].methods
    for name, one in rows.items():
        assert 0 <= one["mean"] <= 1
        assert one["seeds"].keys() == {"0"}
        assert one["bytes"]["wire"] > 0 or name == "alone"
        assert 0 <= one["validation"]["mean"] <= 1
    assert rows["lda_pixels"]["mean"] > 0.9
    calls = {name: rows[name]["spent"]["calls"] for name in SPENDS}
    assert list(calls.values()) == pytest.approx([calls["fedmitr"]] * len(SPENDS), rel=0.1)
    assert rows["fedmitr"]["minus"].keys() == rows.keys() - {"fedmitr"}
    assert found["theory"].keys() == {"dense", "sparse, whole images", "sparse, own patches", "sparse, relabelled"}
    pictures = {f"{name}.png" for name in ("accuracy", "inverted", "tokens", "theory")}
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"results.json", *pictures}
    made = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache" / "things").iterdir()}
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out) == found
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "cache" / "things").iterdir()} == made


def test_what_is_wrong_with_the_arguments_is_told_in_a_sentence(
    tmp_path: Path, own_numerics: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--cache", str(tmp_path), "--partition", "circles"]) == 5
    errors = capsys.readouterr().err
    assert "Traceback" not in errors
    assert "'circles' is not a partition" in errors
    for wrong in ("magic", "fedmitr_dense", "fedmitr_sparse_subset_0"):
        with pytest.raises(SystemExit) as ended:
            main(["--cache", str(tmp_path), "--methods", wrong])
        assert ended.value.code == 2


def test_fedmitr_is_compared_draw_by_draw_with_every_other_row() -> None:
    """Of four images it gets all right in the first draw and two in the second; the other row three in both."""

    def row(answers: list[int]) -> Row:
        sure = np.eye(3)[answers][None]
        return Row(sure, sure, {"wire": 1}, 1, 2.0, told={"calls": sum(answers)})

    tests = {
        name: Evaluated(np.arange(4 * at, 4 * at + 4, dtype=np.uint8).reshape(4, 1, 1, 1), np.array([0, 1, 2, 0]))
        for at, name in enumerate(("0", "1"))
    }
    ours = {"0": row([0, 1, 2, 0]), "1": row([0, 1, 0, 1])}
    found = Found({"fedmitr": ours, "dense": {name: row([0, 1, 2, 2]) for name in tests}}, tests, tests)
    rows = summarise(found)
    gap = rows["fedmitr"]["minus"]["dense"]
    assert (gap["mean"], gap["wins"], gap["draws"]) == (0.0, 1, 2)
    assert rows["fedmitr"]["validation"]["mean"] == 0.75
    assert rows["fedmitr"]["spent"] == {"calls": 2.5}


def test_a_rows_name_says_its_mode_reading_and_share_of_patches_that_stop() -> None:
    recipe = DistilRecipe()
    assert variant(recipe, "fedmitr") == recipe
    found = variant(recipe, "fedmitr_random_dense_45")
    assert (found.inversion.mode, found.relabel, found.inversion.stop_percent) == ("random", "dense", 45)
    assert variant(recipe, "fedmitr_dense_none").inversion.stop_percent == recipe.inversion.stop_percent


def test_patches_left_are_those_of_the_published_schedule() -> None:
    """Of 196 patches 30 % stop after steps 50, 100, 200 and 300."""
    left = patches_left(InversionRecipe(steps=400, stop_at_milli=(125, 250, 500, 750), stop_percent=30), 196)
    assert [left[step] for step in (0, 49, 50, 100, 200, 300, 400)] == [196, 196, 137, 95, 66, 46, 46]
    assert set(patches_left(InversionRecipe(mode="dense"), 196)) == {196}


@pytest.mark.parametrize("name", ["dense_none", "sparse_subset", "random_subset", "rebirth_dense"])
def test_calls_that_a_budget_states_are_those_that_are_made(name: str) -> None:
    inversion = InversionRecipe(steps=8, images=5, batch=5)
    recipe = variant(DistilRecipe(steps=1, batch=4, inversion=inversion), f"fedmitr_{name}")
    architecture = vit_architecture(IMAGE, 2).model_copy(update={"depth": 2})
    aids = Aids(lambda done, total: None, torch.device("cpu"))
    networks = [vit.build(architecture).eval().requires_grad_(False) for _ in range(3)]
    members = [Classifier(f"{at}" * 64, one, architecture, {"a": 3, "b": 4}) for at, one in enumerate(networks)]
    with metered(networks) as meter:
        found = [
            invert(one.network, torch.tensor([0, 1, 0, 1, 0]), architecture, recipe.inversion, 0, aids)
            for one in members
        ]
        calls, tokens = inversion_calls(recipe.inversion, architecture.grid**2)
        assert (meter.images, meter.tokens) == (15 * calls, 15 * tokens)
        distil.prepare(Lesson(["a", "b"], [], members, recipe), found, architecture, aids.device)
    assert (meter.images, meter.tokens) == distil_calls(recipe, architecture.grid**2, 3)
