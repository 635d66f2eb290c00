"""`fednode describe`: what a source has, and a contract that a peers file can begin with."""

import json
from pathlib import Path
from typing import Any

import pytest
from nodes import STANDIN

from fednode import peersfile
from fednode.contract import Contract
from fednode.errors import DataError
from fednode_cli import ownworker
from fednode_cli.demo import bench
from fednode_cli.main import run

FOUND: dict[str, Any] = {
    "labels": ["null", "007", "1e3", "2026-01-01", "no"],
    "size": 28,
    "channels": 3,
    "counts": [{"label": "no", "images": 70, "holdout": 10, "test": 0, "patients": 12}],
    "bad": [{"name": "no/x.png", "reason": "the image is damaged (truncated)"}],
}


@pytest.fixture
def standin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A worker that learns nothing, and the folder with one image of each of two labels that it is to look at."""
    monkeypatch.setenv("FEDNODE_WORKER", STANDIN)
    monkeypatch.setenv("STANDIN_DIR", str(tmp_path))
    for label in ("cat", "dog"):
        (tmp_path / "animals" / label).mkdir(parents=True)
        (tmp_path / "animals" / label / "a.png").write_bytes(label.encode())
    return tmp_path


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every worker finds the same; gives what was asked."""
    asked: list[Any] = []
    monkeypatch.setattr(ownworker, "ask", lambda requests, *_: asked.append(requests) or [FOUND])
    return asked


def test_a_source_is_described_by_a_worker_without_a_daemon_or_a_home(
    standin: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(standin)
    monkeypatch.setenv("FEDNODE_HOME", str(standin / "home"))
    assert run(["describe", "folder:animals", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [row["label"] for row in document["labels"]] == ["cat", "dog"]
    assert document["source"] == "folder:animals"
    assert document["contract"] == {
        "federation": "animals",
        "labels": ["cat", "dog"],
        "image": {"size": 8, "channels": 1},
        "quorum": 0,
    }
    assert not (standin / "home").exists()


def test_a_source_that_cannot_be_used_ends_with_the_code_of_data(
    standin: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["describe", f"npz:{standin}/none.npz"]) == 5
    out, err = capsys.readouterr()
    assert not out
    assert "none.npz is not there" in err


def test_the_text_has_counts_bad_images_and_patients(found: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["describe", "digits:3"]) == 0
    out, err = capsys.readouterr()
    lines = [line.split() for line in out.splitlines()]
    assert ["no", "70", "10", "0", "12"] in lines
    assert "no/x.png  the image is damaged (truncated)" in out
    assert "add those of your peers" in err
    assert found == [[("describe", {"source": "digits:3"})]]


def test_the_contract_that_is_printed_can_be_a_peers_file(
    found: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["describe", f"csv:{tmp_path}/Skin lesions.csv"]) == 0
    out = capsys.readouterr().out
    (tmp_path / "peers.yaml").write_text(out[out.index("contract:") :])
    assert peersfile.load(tmp_path / "peers.yaml", None).contract == Contract.model_validate(
        {
            "federation": "skin-lesions",
            "labels": tuple(FOUND["labels"]),
            "image": {"size": 28, "channels": 3},
            "quorum": 0,
        }
    )


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("digits", "digits"),
        ("torchvision:FashionMNIST:/data", "fashionmnist"),
        ("medmnist:bloodmnist:64", "bloodmnist"),
        ("npz:/a/b.c/blood_28.npz", "blood-28"),
        ("folder:/", "folder"),
    ],
)
def test_the_federation_is_called_like_the_data(
    source: str, name: str, found: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["describe", source, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["contract"]["federation"] == name


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"labels": ["no"]}, "csv:x has 1 label, and at least 2 are needed"),
        ({}, "csv:x has no test images to measure on"),
    ],
)
def test_a_demo_needs_two_labels_and_test_images(
    changes: dict[str, Any], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ownworker, "ask", lambda *_: [FOUND | changes])
    with pytest.raises(DataError, match=reason):
        bench.describe("csv:x", tmp_path / "log")
