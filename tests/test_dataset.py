"""Sources of images: names of labels, bad images, parts, digests, and every wrong input with its sentence."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from fednode.contract import ImageShape
from fednode.errors import DataError
from fednode.learning.dataset import Dataset, DataSettings, load, load_test
from fednode.learning.describe import describe

GREY = ImageShape(size=8, channels=1)
LABELS = ("cat", "dog", "red-fox")
DIGITS = tuple(str(digit) for digit in range(10))


def write_images(folder: Path, count: int, seed: int = 0) -> None:
    folder.mkdir(parents=True)
    random = np.random.default_rng(seed)
    for index in range(count):
        Image.fromarray(random.integers(0, 256, (8, 8), np.uint8)).save(folder / f"{index:03}.png")


@pytest.fixture
def animals(tmp_path: Path) -> Path:
    root = tmp_path / "animals"
    write_images(root / "Cat", 16, 1)
    write_images(root / "Red_Fox", 9, 2)
    return root


def load_folder(root: Path, keep: tuple[str, ...] | None = None, skip_bad: bool = False) -> Dataset:
    return load(DataSettings(source=f"folder:{root}", labels=keep, skip_bad=skip_bad), GREY, LABELS)


def test_folders_become_labels_in_the_order_of_the_contract(animals: Path) -> None:
    data = load_folder(animals)
    assert list(data.labels) == ["cat", "red-fox"]
    assert [(len(own.train), len(own.holdout)) for own in data.labels.values()] == [(14, 2), (8, 1)]
    assert data.labels["cat"].train.shape == (14, 1, 8, 8)


def test_a_folder_that_is_no_label_is_named_with_the_nearest_label(animals: Path) -> None:
    write_images(animals / "dogs", 1)
    with pytest.raises(DataError, match=r"'dogs' .* the nearest is 'dog'"):
        load_folder(animals)


def test_a_folder_that_is_no_label_may_stay_if_the_labels_to_keep_leave_it_out(animals: Path) -> None:
    write_images(animals / "dogs", 1)
    assert list(load_folder(animals, ("cat",)).labels) == ["cat"]


def test_a_label_to_keep_without_images_is_an_error(animals: Path) -> None:
    with pytest.raises(DataError, match="Label 'dog' has no images"):
        load_folder(animals, ("cat", "dog"))


def test_an_empty_folder_is_an_error(animals: Path) -> None:
    (animals / "dog").mkdir()
    with pytest.raises(DataError, match="Label 'dog' has no images"):
        load_folder(animals)


def test_a_label_to_keep_that_the_contract_lacks_is_named(animals: Path) -> None:
    with pytest.raises(DataError, match="'catt' is not a label of the contract; the nearest is 'cat'"):
        load_folder(animals, ("catt",))


def test_a_bad_image_is_named(animals: Path) -> None:
    (animals / "Cat" / "bad.png").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"Cat/bad.png .* not an image of a known format"):
        load_folder(animals)


def test_bad_images_are_skipped_and_counted_when_asked(animals: Path) -> None:
    (animals / "Cat" / "bad.png").write_bytes(b"no image")
    (animals / "Red_Fox" / "inner").mkdir()
    data = load_folder(animals, skip_bad=True)
    assert [bad.name for bad in data.bad] == ["Cat/bad.png", "Red_Fox/inner"]
    assert len(data.labels["cat"].train) == 14


def test_files_that_start_with_a_dot_are_no_images(animals: Path) -> None:
    (animals / "Cat" / ".DS_Store").write_bytes(b"x")
    (animals / ".hidden").mkdir()
    assert load_folder(animals).bad == ()


def test_a_digest_depends_on_the_images_alone_and_not_on_names_or_copies(animals: Path, tmp_path: Path) -> None:
    before = load_folder(animals).labels["cat"]
    moved = tmp_path / "other"
    (moved / "cat").mkdir(parents=True)
    for number, path in enumerate(sorted((animals / "Cat").iterdir(), reverse=True)):
        shutil.copy(path, moved / "cat" / f"renamed-{number}.png")
    shutil.copy(animals / "Cat" / "000.png", moved / "cat" / "again.png")
    after = load_folder(moved).labels["cat"]
    assert after.digest == before.digest
    assert (after.train == before.train).all()


def test_taking_an_image_away_changes_the_digest_and_moves_at_most_one_other(animals: Path) -> None:
    before = load_folder(animals).labels["cat"]
    held = {image.tobytes() for image in before.holdout}
    (animals / "Cat" / "003.png").unlink()
    after = load_folder(animals).labels["cat"]
    assert after.digest != before.digest
    assert len(held ^ {image.tobytes() for image in after.holdout}) <= 2


def test_held_out_and_training_images_share_none(animals: Path) -> None:
    own = load_folder(animals).labels["cat"]
    assert not {image.tobytes() for image in own.train} & {image.tobytes() for image in own.holdout}


def test_seven_images_hold_none_out_and_eight_hold_one(tmp_path: Path) -> None:
    write_images(tmp_path / "cat", 7, 1)
    write_images(tmp_path / "dog", 8, 2)
    data = load_folder(tmp_path)
    assert [len(own.holdout) for own in data.labels.values()] == [0, 1]


def test_all_images_of_a_folder_are_in_its_test_part(animals: Path) -> None:
    test = load_test(DataSettings(source=f"folder:{animals}"), GREY, LABELS)
    assert len(test.images) == 25
    assert np.bincount(test.targets, minlength=3).tolist() == [16, 0, 9]


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("folder:/nowhere/at/all", "is not a folder"),
        ("npz:/nowhere.npz", "is not there"),
        ("images", "'images' is not a kind of data"),
        ("folder:", "is not a kind of data"),
        ("digits:x", "'x' is not a seed"),
        ("digits:-1", "'-1' is not a seed"),
    ],
)
def test_a_source_that_is_not_there_is_a_sentence(source: str, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        load(DataSettings(source=source), GREY, LABELS)


def test_a_folder_without_subfolders_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has no subfolders"):
        load_folder(tmp_path)


# --- digits -----------------------------------------------------------------------------------------------------------


def test_digits_are_split_three_to_one_for_each_label_and_no_image_is_lost() -> None:
    data = load(DataSettings(source="digits:3"), GREY, DIGITS)
    test = load_test(DataSettings(source="digits:3"), GREY, DIGITS)
    counts = np.bincount(load_digits().target)
    train = np.array([len(own.train) + len(own.holdout) for own in data.labels.values()])
    assert (train + np.bincount(test.targets) == counts).all()
    assert np.abs(np.bincount(test.targets) / counts - 0.25).max() < 0.01


def test_digits_keep_their_sixteen_shades_scaled_to_the_full_range() -> None:
    test = load_test(DataSettings(source="digits"), GREY, DIGITS)
    shades = {round(value * 255 / 16) for value in range(17)}
    assert set(np.unique(test.images).tolist()) == shades


def test_the_seed_of_digits_changes_the_split() -> None:
    splits = [
        load(DataSettings(source=source), GREY, DIGITS).labels["4"].digest
        for source in ("digits", "digits:0", "digits:1")
    ]
    assert splits[0] == splits[1] != splits[2]


# --- npz --------------------------------------------------------------------------------------------------------------


def save_npz(path: Path, **changes: object) -> str:
    random = np.random.default_rng(5)
    arrays = {
        "train_images": random.integers(0, 256, (20, 8, 8), np.uint8),
        "train_labels": np.repeat([0, 1], 10)[:, None],
        "test_images": random.integers(0, 256, (6, 8, 8), np.uint8),
        "test_labels": np.array([0, 1, 1, 1, 1, 1])[:, None],
        **changes,
    }
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})  # type: ignore[arg-type]
    return f"npz:{path}"


@pytest.mark.parametrize("flat", [True, False])
def test_medmnist_files_give_the_labels_of_the_contract_by_index(tmp_path: Path, flat: bool) -> None:
    labels = np.repeat([0, 2], 10)
    source = save_npz(tmp_path / "a.npz", train_labels=labels if flat else labels[:, None])
    data = load(DataSettings(source=source), GREY, LABELS)
    assert list(data.labels) == ["cat", "red-fox"]
    test = load_test(DataSettings(source=source), GREY, LABELS)
    assert test.targets.tolist() == [0, 1, 1, 1, 1, 1]


def test_class_names_in_the_file_name_the_labels(tmp_path: Path) -> None:
    source = save_npz(tmp_path / "a.npz", class_names=np.array(["Red fox", "Dog"]))
    assert list(load(DataSettings(source=source), GREY, LABELS).labels) == ["dog", "red-fox"]


@pytest.mark.parametrize("shape", [(20, 8, 8, 3), (20, 8, 8, 1), (20, 5, 9)])
def test_npz_images_of_any_usual_shape_fit_the_contract(tmp_path: Path, shape: tuple[int, ...]) -> None:
    images = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    source = save_npz(tmp_path / "a.npz", train_images=images)
    assert load(DataSettings(source=source), GREY, LABELS).labels["dog"].train.shape[1:] == (1, 8, 8)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"train_images": None}, "has no array 'train_images'"),
        ({"train_labels": None}, "has no array 'train_labels'"),
        ({"train_images": np.zeros((20, 8, 8), np.float32)}, "float32"),
        ({"train_images": np.zeros((20, 64), np.uint8)}, r"\(20, 64\)"),
        ({"train_labels": np.zeros(19, int)}, r"\(19,\)"),
        ({"train_labels": np.zeros((20, 3), int)}, r"\(20, 3\)"),
        ({"train_labels": np.zeros(20)}, "float64"),
        ({"train_labels": np.repeat([0, 7], 10)}, "from 0 to 7"),
        ({"train_images": np.array([{}] * 20)}, "can't be read as npz"),
        ({"class_names": np.array([{"a": 1}, None])}, "can't be read as npz"),
    ],
)
def test_another_layout_is_refused_by_name(tmp_path: Path, changes: dict[str, object], reason: str) -> None:
    source = save_npz(tmp_path / "a.npz", **changes)
    with pytest.raises(DataError, match=reason):
        load(DataSettings(source=source), GREY, LABELS)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 broken", b"\x80\x04K\x01."])
def test_what_is_no_npz_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(DataError, match="can't be read as npz"):
        load(DataSettings(source=f"npz:{tmp_path / 'a.npz'}"), GREY, LABELS)


def test_a_single_array_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(3))
    with pytest.raises(DataError, match="not an npz archive"):
        load(DataSettings(source=f"npz:{tmp_path / 'a.npy'}"), GREY, LABELS)


# --- describe ---------------------------------------------------------------------------------------------------------


def test_a_description_names_labels_and_shape(animals: Path, tmp_path: Path) -> None:
    assert describe("digits:4") == (list(DIGITS), GREY)
    assert describe(f"folder:{animals}") == (["cat", "red-fox"], GREY)
    colour = np.zeros((20, 28, 28, 3), np.uint8)
    source = save_npz(tmp_path / "a.npz", train_images=colour, class_names=np.array(["B", "A"]))
    assert describe(source) == (["b", "a"], ImageShape(size=28, channels=3))


def test_a_description_counts_numbers_and_bounds_the_size(tmp_path: Path) -> None:
    for name in ("10", "9", "1"):
        (tmp_path / name).mkdir()
        Image.new("RGB", (640, 480)).save(tmp_path / name / "a.jpg")
    assert describe(f"folder:{tmp_path}") == (["1", "9", "10"], ImageShape(size=32, channels=3))
