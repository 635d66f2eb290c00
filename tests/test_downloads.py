"""Data sets of torchvision and MedMNIST, read from files that a test made; nothing is ever downloaded from elsewhere."""

import bz2
import gzip
import hashlib
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.io import savemat
from torchvision import datasets
from torchvision.datasets import stl10, svhn

from fednode.contract import ImageShape
from fednode.errors import DataError
from fednode.learning.dataset import DataSettings, load, load_test
from fednode.learning.describe import describe

GREY = ImageShape(size=28, channels=1)
DIGITS = tuple("0123456789")
NOWHERE = "http://127.0.0.1:1/"
FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def idx(array: npt.NDArray[np.uint8]) -> bytes:
    """The IDX format: two zeros, the type (8 is uint8), the number of axes, each axis in four bytes, and the values."""
    return bytes((0, 0, 8, array.ndim)) + b"".join(size.to_bytes(4) for size in array.shape) + array.tobytes()


def contents(classes: int = 10) -> dict[str, bytes]:
    """Train: two images of each class, test: one; an image's first pixel is 10 times its class, plus its number."""
    found = {}
    for (images, labels), copies in zip((FILES[:2], FILES[2:]), (2, 1), strict=True):
        targets = np.tile(np.arange(classes, dtype=np.uint8), copies)
        pixels = np.zeros((len(targets), 28, 28), np.uint8)
        pixels[:, 0, 0] = 10 * targets + np.arange(len(targets)) // classes
        found |= {images: idx(pixels), labels: idx(targets)}
    return found


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *_: object) -> None:
        """Tests say nothing on stderr."""


@pytest.fixture
def away(tmp_path: Path) -> Iterator[Path]:
    """A folder that is also served at `url_of` it."""
    folder = tmp_path / "away"
    folder.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        (folder / "address").write_text(f"http://127.0.0.1:{server.server_port}/")
        yield folder
        server.shutdown()


def url_of(away: Path) -> str:
    return (away / "address").read_text()


@pytest.fixture
def no_net(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Nothing is reachable; gives the cache folder."""
    for kind in (datasets.MNIST, datasets.FashionMNIST, datasets.KMNIST):
        monkeypatch.setattr(kind, "mirrors", [NOWHERE])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "fednode"


def write(root: Path, name: str) -> None:
    (root / name / "raw").mkdir(parents=True)
    for file, data in contents().items():
        (root / name / "raw" / file).write_bytes(data)


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("MNIST", DIGITS),
        ("KMNIST", ("o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo")),
        (
            "FashionMNIST",
            ("t-shirt-top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle-boot"),
        ),
    ],
)
def test_files_that_are_there_are_read_in_both_parts(
    name: str, labels: tuple[str, ...], no_net: Path, tmp_path: Path
) -> None:
    write(tmp_path / "here", name)
    settings = DataSettings(source=f"torchvision:{name}:{tmp_path / 'here'}")
    data, test = load(settings, GREY, labels), load_test(settings, GREY, labels)
    assert [sorted(own.train[:, 0, 0, 0].tolist()) for own in data.labels.values()] == [
        [10 * at, 10 * at + 1] for at in range(10)
    ]
    assert test.images[:, 0, 0, 0].tolist() == [10 * at for at in range(10)]
    assert test.targets.tolist() == list(range(10))
    assert describe(settings.source).labels == list(labels)


def write_usps(root: Path) -> None:
    for name, start in (("usps.bz2", 0), ("usps.t.bz2", 5)):
        lines = [f"{at + 1} " + " ".join(f"{n + 1}:{at / 5 - 1}" for n in range(256)) for at in range(start, 10)]
        (root / name).write_bytes(bz2.compress("\n".join(lines).encode()))


def write_qmnist(root: Path) -> None:
    folder = root / "QMNIST" / "raw"
    folder.mkdir(parents=True)
    for part, start in (("train", 0), ("test", 5)):
        targets = np.zeros((10 - start, 8), ">i4")
        targets[:, 0] = np.arange(start, 10)
        head = bytes((0, 0, 12, 2)) + len(targets).to_bytes(4) + (8).to_bytes(4)
        (folder / f"qmnist-{part}-labels-idx2-int").write_bytes(head + targets.tobytes())
        pixels = np.ones((len(targets), 28, 28), np.uint8)
        pixels *= np.arange(start, 10, dtype=np.uint8)[:, None, None]
        (folder / f"qmnist-{part}-images-idx3-ubyte").write_bytes(idx(pixels))


def write_svhn(root: Path) -> None:
    for part, start in (("train", 0), ("test", 5)):
        shades = np.arange(start, 10, dtype=np.uint8)
        pixels = np.zeros((32, 32, 3, len(shades)), np.uint8)
        pixels[:, :, 1] = shades
        savemat(root / f"{part}_32x32.mat", {"X": pixels, "y": np.where(shades == 0, 10, shades)[:, None]})


def write_stl10(root: Path) -> None:
    folder = root / "stl10_binary"
    folder.mkdir()
    (folder / "class_names.txt").write_text("\n".join(f"thing {digit}" for digit in DIGITS))
    (folder / "unlabeled_X.bin").write_bytes(b"")
    for part, start in (("train", 0), ("test", 5)):
        shades = np.arange(start, 10, dtype=np.uint8)
        pixels = np.zeros((len(shades), 3, 96, 96), np.uint8)
        pixels[:, 1] = shades[:, None, None]
        (folder / f"{part}_X.bin").write_bytes(pixels.tobytes())
        (folder / f"{part}_y.bin").write_bytes((shades + 1).tobytes())


@pytest.mark.parametrize(
    ("name", "write", "middle"),
    [
        ("USPS", write_usps, lambda digit: int(digit / 5 / 2 * 255)),
        ("QMNIST", write_qmnist, lambda digit: digit),
        ("SVHN", write_svhn, lambda digit: digit),
        ("STL10", write_stl10, lambda digit: digit),
    ],
)
def test_each_other_data_set_gives_its_labels_and_pixels(
    name: str,
    write: Callable[[Path], None],
    middle: Callable[[int], int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Train has an image of each class, test of the last five; a class shows in the last channel but one."""
    for module in (svhn, stl10):
        monkeypatch.setattr(module, "check_integrity", lambda *_: True)
    write(tmp_path)
    source = f"torchvision:{name}:{tmp_path}"
    found = describe(source)
    assert found.labels == [f"thing-{digit}" for digit in DIGITS] if name == "STL10" else list(DIGITS)
    assert [one.test for one in found.counts] == [0] * 5 + [1] * 5
    image = ImageShape(size=found.image.size, channels=found.image.channels)
    test = load_test(DataSettings(source=source), image, found.labels)
    assert test.targets.tolist() == [5, 6, 7, 8, 9]
    assert test.images[:, image.channels // 2, 9, 9].tolist() == [middle(digit) for digit in range(5, 10)]


def test_without_files_and_internet_there_is_one_sentence(no_net: Path) -> None:
    with pytest.raises(DataError) as found:
        load(DataSettings(source="torchvision:MNIST"), GREY, DIGITS)
    assert found.value.message.startswith(f"torchvision:MNIST is not in {no_net}/torchvision and can't be downloaded: ")
    assert found.value.message.endswith("refused.")
    assert "\n" not in found.value.message
    assert list((no_net / "torchvision").iterdir()) == []
    assert socket.getdefaulttimeout() is None


def test_a_download_is_checked_and_kept_in_the_cache(no_net: Path, away: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = {f"{name}.gz": gzip.compress(data) for name, data in contents().items()}
    for name, data in packed.items():
        (away / name).write_bytes(data)
    sums = [(name, hashlib.md5(data).hexdigest()) for name, data in packed.items()]  # noqa: S324 - what torchvision uses
    monkeypatch.setattr(datasets.MNIST, "mirrors", [url_of(away)])
    monkeypatch.setattr(datasets.MNIST, "resources", [(sums[0][0], "0" * 32), *sums[1:]])
    source = DataSettings(source="torchvision:mnist")
    with pytest.raises(DataError, match="can't be downloaded"):
        load(source, GREY, DIGITS)
    monkeypatch.setattr(datasets.MNIST, "resources", sums)
    assert len(load(source, GREY, DIGITS).labels) == 10
    assert {path.name for path in (no_net / "torchvision").iterdir()} == {"MNIST"}
    monkeypatch.setattr(datasets.MNIST, "mirrors", [NOWHERE])
    assert len(load_test(source, GREY, DIGITS).images) == 10


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("torchvision:CIFAR10", "CIFAR10 comes as pickles, which are never loaded"),
        ("torchvision:MMIST", "unknown data set; did you mean 'MNIST'"),
        ("torchvision:ImageNet", "unknown data set"),
        ("torchvision:", "is not a kind of data"),
        ("medmnist:", "is not a kind of data"),
    ],
)
def test_a_data_set_that_is_not_known_is_a_sentence(source: str, reason: str, no_net: Path) -> None:
    with pytest.raises(DataError, match=reason):
        load(DataSettings(source=source), GREY, DIGITS)
    assert not no_net.exists()


def test_pickles_of_an_old_torchvision_are_not_loaded(no_net: Path, tmp_path: Path) -> None:
    write(tmp_path, "MNIST")
    (tmp_path / "MNIST" / "processed").mkdir()
    with pytest.raises(DataError, match="pickles, which are never loaded"):
        load(DataSettings(source=f"torchvision:MNIST:{tmp_path}"), GREY, DIGITS)


# --- medmnist ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def table(no_net: Path, away: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the package medmnist would say of a data set that lies in a folder of this test."""
    file = away / "tiny.npz"
    train = np.arange(4 * 64, dtype=np.uint8).reshape(4, 8, 8)
    labels = np.array([0, 1, 1, 0])[:, None]
    np.savez(file, train_images=train, train_labels=labels, test_images=train[:2], test_labels=labels[:2])
    checksum = hashlib.md5(file.read_bytes()).hexdigest()  # noqa: S324 - what MedMNIST uses
    usual = {
        "task": "binary-class",
        "label": {"0": "Benign", "1": "malignant"},
        "url": url_of(away) + file.name,
        "MD5": checksum,
    }
    found = {
        "tinymnist": {**usual, "url_64": NOWHERE, "MD5_64": checksum},
        "chestmnist": {**usual, "task": "multi-label, binary-class"},
        "organmnist3d": usual,
    }
    monkeypatch.setitem(sys.modules, "medmnist", SimpleNamespace(INFO=found))
    return found


def test_a_medmnist_file_is_downloaded_checked_and_kept_once(table: dict[str, Any], no_net: Path) -> None:
    settings = DataSettings(source="medmnist:tinymnist")
    checksum = table["tinymnist"]["MD5"]
    table["tinymnist"]["MD5"] = "0" * 32
    with pytest.raises(DataError, match="can't be downloaded"):
        load(settings, GREY, ("benign", "malignant"))
    table["tinymnist"]["MD5"] = checksum
    data = load(settings, GREY, ("benign", "malignant"))
    assert [len(own.train) for own in data.labels.values()] == [2, 2]
    assert [path.name for path in (no_net / "medmnist").iterdir()] == ["tinymnist.npz"]
    table["tinymnist"]["url"] = NOWHERE
    assert load_test(settings, GREY, ("benign", "malignant")).targets.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("tinymnist:64", "tinymnist_64.npz is not in .* and can't be downloaded: .*refused"),
        ("tinymnist:32", "has no size '32'. There are 28, 64."),
        ("tinymnits", "did you mean 'tinymnist'"),
        ("chestmnist", "several labels for an image"),
        ("organmnist3d", "volumes in place of images"),
    ],
)
def test_what_medmnist_cannot_give_is_a_sentence(table: dict[str, Any], name: str, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        load(DataSettings(source=f"medmnist:{name}"), GREY, ("benign", "malignant"))


def test_without_the_package_the_error_says_how_to_go_on(no_net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "medmnist", None)
    with pytest.raises(DataError, match="pip install medmnist"):
        load(DataSettings(source="medmnist:bloodmnist"), GREY, DIGITS)
