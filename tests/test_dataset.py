"""Sources of images: names of labels, bad images, parts, digests, and every wrong input with its sentence."""

import hashlib
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from fednode import source
from fednode.contract import ImageShape
from fednode.errors import DataError
from fednode.learning.dataset import Dataset, DataSettings, load, load_test
from fednode.learning.describe import Counts, describe
from fednode.learning.sources import BadImage

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
    with pytest.raises(DataError, match="'melanoma' is not a label of the contract; it has cat, "):
        load_folder(animals, ("melanoma",))


def test_a_bad_image_is_named(animals: Path) -> None:
    (animals / "Cat" / "bad.png").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"Cat/bad.png .* not an image of a known format"):
        load_folder(animals)


def test_bad_images_are_skipped_and_counted_when_asked(animals: Path) -> None:
    (animals / "Cat" / "bad.png").write_bytes(b"no image")
    (animals / "Red_Fox" / "inner" / "deeper").mkdir(parents=True)
    data = load_folder(animals, skip_bad=True)
    assert [bad.name for bad in data.bad] == ["Cat/bad.png", "Red_Fox/inner/deeper"]
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
        (f"npz:/{'n' * 300}", "File name too long"),
        (f"csv:/{'n' * 300}", "File name too long"),
        (f"folder:/{'n' * 300}", "File name too long"),
        ("images", "'images' is not a kind of data"),
        ("folder:", "is not a kind of data"),
        ("digits:x", "'x' is not a seed"),
        ("digits:-1", "'-1' is not a seed"),
    ],
)
def test_a_source_that_is_not_there_is_a_sentence(source: str, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        load(DataSettings(source=source), GREY, LABELS)


@pytest.mark.parametrize("kind", ["folder", "npz", "csv"])
def test_a_path_that_no_system_has_is_a_sentence_before_a_source_is_read(kind: str) -> None:
    with pytest.raises(DataError, match="File name too long"):
        source.check(f"{kind}:/{'n' * 300}")


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
        ({"train_labels": np.repeat([0, 10**15], 10)}, "up to 1000000000000000, and at most 1000 labels"),
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


# --- patients ---------------------------------------------------------------------------------------------------------


def patients_of(root: Path, label: str, sizes: dict[str, int], seed: int) -> None:
    for number, (patient, count) in enumerate(sizes.items()):
        write_images(root / label / patient, count, 100 * seed + number)


def owners(root: Path) -> dict[bytes, str]:
    """Content of an image -> the name of its patient's folder."""
    return {np.asarray(Image.open(path)).tobytes(): path.parent.name for path in root.glob("*/*/*.png")}


def sides(data: Dataset, owner: dict[bytes, str]) -> tuple[set[str], set[str]]:
    """The patients of all training images, and of all held-out images."""
    parts = [(own.train, own.holdout) for own in data.labels.values()]
    train, holdout = (np.concatenate(part) for part in zip(*parts, strict=True))
    return {owner[image.tobytes()] for image in train}, {owner[image.tobytes()] for image in holdout}


def test_no_patient_of_a_folder_is_on_both_sides_of_the_split(tmp_path: Path) -> None:
    patients_of(tmp_path, "cat", {f"p{n}": 1 + n % 4 for n in range(16)}, 1)
    patients_of(tmp_path, "dog", {f"p{n}": 3 for n in range(4, 12)}, 2)
    data = load_folder(tmp_path)
    train, holdout = sides(data, owners(tmp_path))
    assert not train & holdout
    assert train | holdout == {f"p{n}" for n in range(16)}
    assert [own.patients for own in data.labels.values()] == [16, 8]
    for own in data.labels.values():
        assert len(own.holdout) >= (len(own.train) + len(own.holdout)) // 8


def test_names_of_patients_and_files_do_not_matter(tmp_path: Path) -> None:
    patients_of(tmp_path / "a", "cat", {"ann": 5, "bob": 7, "cid": 6}, 1)
    patients_of(tmp_path / "b", "cat", {"9": 5, "zoe": 7, "1": 6}, 1)
    first, second = (load_folder(tmp_path / name).labels["cat"] for name in "ab")
    assert first.digest == second.digest
    assert (first.holdout == second.holdout).all()


def test_the_digest_is_the_plain_one_unless_patients_change_what_is_held_out(tmp_path: Path) -> None:
    write_images(tmp_path / "plain" / "cat", 16, 1)
    for number, path in enumerate(sorted((tmp_path / "plain" / "cat").iterdir())):
        for kind, patient in (("alone", number), ("pairs", number // 8)):
            (tmp_path / kind / "cat" / str(patient)).mkdir(parents=True, exist_ok=True)
            shutil.copy(path, tmp_path / kind / "cat" / str(patient))
    plain, alone, pairs = (load_folder(tmp_path / kind).labels["cat"] for kind in ("plain", "alone", "pairs"))
    names = sorted(hashlib.sha256(image.tobytes()).digest() for image in (*plain.train, *plain.holdout))
    assert plain.digest == alone.digest == hashlib.sha256(b"fednode/images/v1\0" + b"".join(names)).hexdigest()
    assert len(pairs.holdout) == 8
    assert pairs.digest != plain.digest
    assert (plain.patients, alone.patients, pairs.patients) == (None, 16, 2)


def test_patients_in_an_npz_are_honoured(tmp_path: Path) -> None:
    patients = np.tile([3, 3, 5, 5, 7], 4)
    for values in (patients, patients.astype(str), patients.astype("S1"), patients[:, None]):
        source = save_npz(tmp_path / "a.npz", train_patients=values)
        own = load(DataSettings(source=source), GREY, LABELS).labels["cat"]
        assert (own.patients, len(own.holdout)) in {(3, 2), (3, 4)}


def test_an_empty_text_in_an_npz_is_no_patient(tmp_path: Path) -> None:
    source = save_npz(tmp_path / "a.npz", train_patients=np.array([""] * 19 + ["x"]))
    own = load(DataSettings(source=source), GREY, LABELS).labels
    assert [own["cat"].patients, own["dog"].patients] == [None, 1]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"train_patients": np.arange(19)}, r"\(19,\); one text or integer for each of 20 images"),
        ({"train_patients": np.zeros(20)}, "float64"),
        ({"train_patients": np.arange(20), "test_patients": np.arange(18, 24)}, "2 patients .* are in both parts"),
    ],
)
def test_patients_that_are_not_one_for_each_image_are_refused(
    tmp_path: Path, changes: dict[str, object], reason: str
) -> None:
    source = save_npz(tmp_path / "a.npz", **changes)
    with pytest.raises(DataError, match=reason):
        load(DataSettings(source=source), GREY, LABELS)


# --- names ------------------------------------------------------------------------------------------------------------


def test_a_long_class_name_is_cut_to_a_label(tmp_path: Path) -> None:
    long = "actinic keratoses and intraepithelial carcinoma"
    source = save_npz(tmp_path / "a.npz", class_names=np.array([long, "Dog"]))
    labels = ("actinic-keratoses-and-intraepith", "dog")
    assert list(load(DataSettings(source=source), GREY, labels).labels) == list(labels)
    both = save_npz(tmp_path / "b.npz", class_names=np.array([long, long + " in situ"]))
    with pytest.raises(DataError, match="are both the label 'actinic-keratoses-and-intraepith'"):
        load(DataSettings(source=both), GREY, labels)


def test_an_npz_without_a_test_part_says_so_when_it_is_asked_for(tmp_path: Path) -> None:
    source = save_npz(tmp_path / "a.npz", test_images=None, test_labels=None)
    assert load(DataSettings(source=source), GREY, LABELS).labels
    with pytest.raises(DataError, match="has no test images"):
        load_test(DataSettings(source=source), GREY, LABELS)


# --- describe ---------------------------------------------------------------------------------------------------------


def outline(source: str) -> tuple[list[str], ImageShape]:
    found = describe(source)
    return found.labels, found.image


def test_a_description_names_labels_and_shape(animals: Path, tmp_path: Path) -> None:
    assert outline("digits:4") == (list(DIGITS), GREY)
    assert outline(f"folder:{animals}") == (["cat", "red-fox"], GREY)
    colour = np.zeros((20, 28, 28, 3), np.uint8)
    source = save_npz(tmp_path / "a.npz", train_images=colour, class_names=np.array(["B", "A", "C"]))
    assert outline(source) == (["b", "a", "c"], ImageShape(size=28, channels=3))
    assert [one.label for one in describe(source).counts] == ["b", "a"]


def test_a_description_orders_numbers_by_value_and_bounds_the_size(tmp_path: Path) -> None:
    for name in ("10", "9", "1"):
        (tmp_path / name).mkdir()
        Image.new("RGB", (640, 480)).save(tmp_path / name / "a.jpg")
    assert outline(f"folder:{tmp_path}") == (["1", "9", "10"], ImageShape(size=32, channels=3))


def test_a_description_counts_what_a_scan_would_find(animals: Path, tmp_path: Path) -> None:
    (animals / "Cat" / "bad.png").write_bytes(b"no image")
    write_images(animals / "Red_Fox" / "ann", 3, 9)
    found = describe(f"folder:{animals}")
    assert found.counts == [Counts("cat", 14, 2, 16, None), Counts("red-fox", 11, 1, 12, 1)]
    assert found.bad == [BadImage("Cat/bad.png", "the file is not an image of a known format")]
    assert describe(save_npz(tmp_path / "a.npz", test_images=None, test_labels=None)).counts[0].test == 0


def test_what_cannot_be_a_label_or_has_no_image_is_named(tmp_path: Path) -> None:
    write_images(tmp_path / "Ж", 1)
    with pytest.raises(DataError, match="'Ж' can't be a label"):
        describe(f"folder:{tmp_path}")
    (tmp_path / "Ж").rename(tmp_path / "cat")
    (tmp_path / "dog").mkdir()
    with pytest.raises(DataError, match=r"'dog' .* has no image that can be read"):
        describe(f"folder:{tmp_path}")


def test_what_is_no_regular_file_is_named_and_not_waited_for(animals: Path) -> None:
    os.mkfifo(min(animals.iterdir()) / "pipe.png")
    with pytest.raises(DataError, match=r"pipe.png .* it is not a file"):
        load_folder(animals)


def test_a_table_that_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "table.csv")
    with pytest.raises(DataError, match="it is not a file"):
        load(DataSettings(source=f"csv:{tmp_path / 'table.csv'}"), ImageShape(size=8, channels=1), ("cat", "dog"))
