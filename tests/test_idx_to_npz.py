"""IDX files become an npz file that fednode reads, and anything else is refused with a sentence."""

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
from idx_to_npz import FILES, IdxError, main, read_idx

from fednode.contract import ImageShape
from fednode.learning.dataset import DataSettings, load, load_test


def idx(shape: tuple[int, ...], values: bytes) -> bytes:
    return bytes([0, 0, 8, len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + values


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Six training images of 4x4 with labels 1 0 1 0 1 0, whose pixels count on; two test images. Two files are gzipped."""
    contents = {
        "train_images": idx((6, 4, 4), bytes(range(96))),
        "train_labels": idx((6,), bytes([1, 0, 1, 0, 1, 0])),
        "test_images": idx((2, 4, 4), bytes(range(100, 132))),
        "test_labels": idx((2,), bytes([0, 1])),
    }
    for key, data in contents.items():
        if key.endswith("images"):
            (tmp_path / f"{FILES[key]}.gz").write_bytes(gzip.compress(data))
        else:
            (tmp_path / FILES[key]).write_bytes(data)
    return tmp_path


def test_the_npz_holds_the_images_as_a_data_source(folder: Path) -> None:
    out = folder / "two.npz"
    assert main([str(folder), str(out), "--classes", "Bag,Ankle boot"]) == 0
    settings, image = DataSettings(source=f"npz:{out}"), ImageShape(size=4, channels=1)
    labels = ["bag", "ankle-boot"]
    found = load(settings, image, labels).labels
    assert {label: len(own.train) + len(own.holdout) for label, own in found.items()} == {"bag": 3, "ankle-boot": 3}
    firsts = sorted(int(pixels.flat[0]) for pixels in found["bag"].train)
    assert firsts == [16, 48, 80]
    test = load_test(settings, image, labels)
    assert test.targets.tolist() == [0, 1]
    assert test.images[1].ravel().tolist() == list(range(116, 132))


def test_per_label_keeps_the_first_training_images_of_each_label_and_all_test_images(folder: Path) -> None:
    out = folder / "two.npz"
    assert main([str(folder), str(out), "--classes", "a,b", "--per-label", "1"]) == 0
    with np.load(out, allow_pickle=False) as arrays:
        assert arrays["train_labels"].tolist() == [1, 0]
        assert arrays["train_images"][:, 0, 0].tolist() == [0, 16]
        assert len(arrays["test_images"]) == 2


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "not an IDX file"),
        (b"PK\x03\x04....", "not an IDX file"),
        (idx((2, 2), bytes(4))[:9], "ends within its header"),
        (idx((2, 2), bytes(3)), "has 3 values"),
        (idx((2, 2), bytes(5)), "has 5 values"),
    ],
)
def test_what_is_no_idx_file_is_refused(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "some"
    path.write_bytes(data)
    with pytest.raises(IdxError, match=said):
        read_idx(path)


def test_a_damaged_archive_a_missing_file_and_too_few_names_are_told_in_a_sentence(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(folder / "out.npz")
    assert main([str(folder), out, "--classes", "one"]) == 1
    assert "there are 1 class names" in capsys.readouterr().err
    images = folder / f"{FILES['train_images']}.gz"
    images.write_bytes(images.read_bytes()[:20])
    assert main([str(folder), out]) == 1
    assert "can't be read" in capsys.readouterr().err
    images.unlink()
    assert main([str(folder), out]) == 1
    assert "has neither" in capsys.readouterr().err
