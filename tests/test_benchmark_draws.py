"""A draw: what each seed or fold trains on, holds out and tests on, from each kind of source."""

from pathlib import Path

import numpy as np
import pytest
from comparison.draws import Cut, Task, draw, open_task
from comparison.shelf import Shelf
from PIL import Image

from fednode.contract import ImageShape
from fednode.errors import DataError
from fednode.learning.dataset import Evaluated

DIGITS = Task("digits", ("3", "8"), ImageShape(size=8, channels=1))


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path / "cache")


def all_images(found: Evaluated) -> set[bytes]:
    return {pixels.tobytes() for pixels in found.images}


def test_folds_test_every_image_once_and_never_train_on_it(shelf: Shelf) -> None:
    found = [draw(DIGITS, "silos", None, Cut(0, fold, 5), shelf) for fold in range(5)]
    assert sum(len(one.test.targets) for one in found) == 183 + 174  # the threes and eights of scikit-learn's digits
    for one in found:
        own = [own for node in one.nodes for own in node.own.values()]
        trained = {pixels.tobytes() for each in own for part in (each.train, each.holdout) for pixels in part}
        assert not trained & all_images(one.test)
        assert len(trained) + len(all_images(one.test)) == 183 + 174


def test_validation_images_are_those_that_nodes_hold_out(shelf: Shelf) -> None:
    made = draw(DIGITS, "silos", None, Cut(1), shelf)
    assert [list(node.own) for node in made.nodes] == [["3"], ["8"]]
    counts = [len(node.own[label].holdout) for node, label in zip(made.nodes, DIGITS.labels, strict=True)]
    assert np.bincount(made.validation.targets).tolist() == counts
    assert not all_images(made.validation) & {
        pixels.tobytes() for node in made.nodes for own in node.own.values() for pixels in own.train
    }


@pytest.fixture
def npz(tmp_path: Path) -> str:
    """Three labels of 40 colour images each with one copy, and a test part of 9 images."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (120, 6, 6, 3), dtype=np.uint8)
    labels = np.arange(120) % 3
    np.savez(
        tmp_path / "data.npz",
        train_images=np.concatenate([images, images[:3]]),
        train_labels=np.concatenate([labels, labels[:3]]),
        test_images=rng.integers(0, 256, (9, 6, 6, 3), dtype=np.uint8),
        test_labels=np.arange(9) % 3,
        class_names=np.array(["One", "Two", "Three"]),
    )
    return f"npz:{tmp_path / 'data.npz'}"


def test_each_seed_draws_other_images_of_a_source_with_a_fixed_test_part(npz: str, shelf: Shelf) -> None:
    task = open_task(npz, None, None, None, None)
    assert (task.labels, task.image) == (("one", "two", "three"), ImageShape(size=6, channels=3))
    one, other, again = (draw(task, "silos", None, Cut(seed), shelf) for seed in (0, 1, 0))
    assert [len(own.train) + len(own.holdout) for node in one.nodes for own in node.own.values()] == [38, 38, 38]
    assert {own.digest for node in one.nodes for own in node.own.values()}.isdisjoint(
        own.digest for node in other.nodes for own in node.own.values()
    )
    assert again.digest == one.digest
    assert np.array_equal(one.test.images, other.test.images)


def test_a_folder_with_train_and_test_is_read_as_that_and_another_gives_a_fifth_as_test_images(
    tmp_path: Path, shelf: Shelf
) -> None:
    for part, count in (("train", 10), ("test", 4)):
        for label in ("a", "b"):
            (tmp_path / part / label).mkdir(parents=True)
            for number in range(count):
                pixels = np.full((8, 8), number + 40 * (part == "test") + 100 * (label == "b"), dtype=np.uint8)
                Image.fromarray(pixels).save(tmp_path / part / label / f"{number}.png")
    divided = open_task(f"folder:{tmp_path}", None, None, 10, None)
    made = draw(divided, "silos", None, Cut(0), shelf)
    assert sorted(int(pixels.flat[0]) for pixels in made.test.images) == [40, 41, 42, 43, 140, 141, 142, 143]
    whole = open_task(f"folder:{tmp_path / 'train'}", None, None, None, None)
    made = draw(whole, "silos", None, Cut(0), shelf)
    assert np.bincount(made.test.targets).tolist() == [2, 2]
    assert sum(len(own.train) + len(own.holdout) for node in made.nodes for own in node.own.values()) == 16


def test_a_task_can_be_cut_down_and_resized(npz: str, shelf: Shelf) -> None:
    task = open_task(npz, ["three", "one"], 4, 10, 2)
    made = draw(task, "dirichlet:1", 2, Cut(0), shelf)
    assert made.test.images.shape == (2, 3, 4, 4)
    count = sum(len(own.train) + len(own.holdout) for node in made.nodes for own in node.own.values())
    assert count == 20
    with pytest.raises(DataError, match="no label 'four'"):
        open_task(npz, ["four", "one"], None, None, None)
    with pytest.raises(DataError, match="without a test part"):
        draw(task, "silos", None, Cut(0, 0, 5), shelf)
