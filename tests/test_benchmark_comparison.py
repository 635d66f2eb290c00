"""The comparison's parts: its cache and its workers, its draws, and how rows become a table."""

import hashlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from comparison import wire
from comparison.budgets import Budget
from comparison.crew import Crew, Job
from comparison.draws import Cut, Task, draw, open_task
from comparison.rows import Row, Rows
from comparison.shelf import Shelf
from comparison.summary import bootstrap, minus, student_interval, summarise
from nodes import STANDIN
from silos import main

from fednode.contract import ImageShape
from fednode.errors import DataError, WorkerError
from fednode.learning.dataset import Evaluated
from fednode.learning.session import open_session

GREY = ImageShape(size=8, channels=1)
DIGITS = Task("digits", ("3", "8"), GREY)


class Watched:
    """A bar that remembers."""

    def __init__(self) -> None:
        self.seen: list[float] = []

    def set(self, done: float) -> None:
        self.seen.append(done)


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path / "cache")


# --- the cache --------------------------------------------------------------------------------------------------------


def test_a_kept_thing_is_found_with_its_file(shelf: Shelf) -> None:
    shelf.aside("a").write_bytes(b"12345")
    shelf.keep("a", {"seconds": 2})
    assert shelf.find("a") == {"seconds": 2, "size": 5}
    assert shelf.file("a").read_bytes() == b"12345"


def test_what_is_damaged_or_half_there_counts_as_missing(shelf: Shelf) -> None:
    shelf.aside("a").write_bytes(b"12345")
    assert shelf.find("a") is None
    shelf.keep("a", {})
    shelf.file("a").write_bytes(b"123")
    assert shelf.find("a") is None
    shelf.keep("b", {})
    (shelf.root / "things" / "b.json").write_text('{"siz')
    assert shelf.find("b") is None


def test_a_lock_is_held_by_one_and_freed_by_the_system_when_its_process_dies(shelf: Shelf) -> None:
    hold = "import fcntl, sys; f = open(sys.argv[1], 'wb'); fcntl.flock(f, fcntl.LOCK_EX); print(); sys.stdin.read()"
    holder = subprocess.Popen(
        [sys.executable, "-S", "-c", hold, str(shelf.root / "locks" / "a")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    holder.stdout.readline()
    with shelf.lock("a", wait=False) as mine:
        assert not mine
    holder.kill()
    holder.communicate()
    with shelf.lock("a", wait=False) as mine:
        assert mine


# --- the workers ------------------------------------------------------------------------------------------------------


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A stand-in takes the place of real workers; the folder that steers it."""
    folder = tmp_path / "strings"
    folder.mkdir()
    monkeypatch.setenv("STANDIN_DIR", str(folder))
    monkeypatch.setenv("FEDNODE_WORKER", STANDIN)
    return folder


def fits(labels: list[str]) -> list[Job]:
    """Fits of images that the stand-in has."""
    data = {"source": "digits", "labels": None, "skip_bad": False}
    return [
        Job("fit", {"label": label, "images": digest_of(label)}, {"data": data, "labels": labels}) for label in labels
    ]


def digest_of(label: str) -> str:
    """As the stand-in names a label's images."""
    names = sorted(hashlib.sha256(f"0 {label} {number}".encode()).digest() for number in range(40))
    return hashlib.sha256(b"".join(names)).hexdigest()


def asked(folder: Path) -> list[str]:
    """The labels that the stand-ins were asked to fit, so far."""
    lines = [json.loads(line) for line in (folder / "requests.jsonl").read_text().splitlines()]
    return sorted(line["label"] for line in lines if line["op"] == "fit")


def test_workers_make_each_job_once_and_a_second_run_makes_none(shelf: Shelf, told: Path) -> None:
    crew, bar = Crew(2, open_session("cpu", 1), shelf), Watched()
    made = crew.make(fits(["1", "2", "3"]), bar)
    assert asked(told) == ["1", "2", "3"]
    assert bar.seen[-1] == 3
    assert [one["size"] for one in made] == [Path(one["file"]).stat().st_size for one in made]
    assert len({one["digest"] for one in made}) == 3
    assert crew.make(fits(["3", "1"]), Watched()) == [made[2], made[0]]
    assert asked(told) == ["1", "2", "3"]


def test_a_run_that_was_broken_off_goes_on_with_what_is_missing(shelf: Shelf, told: Path) -> None:
    (told / "crash-fit-3").touch()
    crew = Crew(1, open_session("cpu", 1), shelf)
    two = Crew(2, crew.session, shelf)
    with pytest.raises(WorkerError):
        two.make(fits(["1", "3"]), Watched())
    two.make(fits(["1", "3"]), Watched())
    assert asked(told).count("3") == 2
    assert asked(told).count("1") <= 2
    assert len(two.make(fits(["1", "3"]), Watched())) == 2


def test_a_job_that_another_process_is_at_is_waited_for_and_not_made_twice(shelf: Shelf, told: Path) -> None:
    crew = Crew(2, open_session("cpu", 1), shelf)
    first, second = fits(["1", "2"])
    key = first.key(crew.session)

    def finish() -> None:
        shelf.aside(key).write_bytes(b"theirs")
        shelf.keep(key, {"digest": "d", "seconds": 1})
        held.__exit__(None, None, None)

    held = shelf.lock(key)
    assert held.__enter__()
    timer = threading.Timer(0.5, finish)
    timer.start()
    made = crew.make([first, second], Watched())
    timer.join()
    assert made[0]["digest"] == "d"
    assert asked(told) == ["2"]


# --- draws ------------------------------------------------------------------------------------------------------------


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


# --- tables -----------------------------------------------------------------------------------------------------------


def row(answers: list[int], chosen: str = "") -> Row:
    """A predictor of three labels that is sure of these answers to four test images."""
    sure = np.eye(3)[answers][None]
    return Row(sure, sure, {"wire": 1_000_000, "rounds_200": 5}, 1, 2.0, chosen)


TESTS = {
    name: Evaluated(np.arange(seed * 4, seed * 4 + 4, dtype=np.uint8).reshape(4, 1, 1, 1), np.array([0, 1, 2, 0]))
    for seed, name in enumerate(("0", "1"))
}


def chooser(monkeypatch: pytest.MonkeyPatch, rows: dict[str, Row]) -> Rows:
    """Rows of a draw with four validation images, of labels 0, 0, 0 and 1, whose products and experts are given."""
    held = Evaluated(np.zeros((4, 1, 1, 1), dtype=np.uint8), np.array([0, 0, 0, 1]))
    monkeypatch.setattr(Rows, "_product", lambda self, recipe: rows["product"])
    monkeypatch.setattr(Rows, "_generative", lambda self: rows["generative"])
    monkeypatch.setattr(Rows, "_experts", lambda self: rows["experts"])
    making = SimpleNamespace(draw=SimpleNamespace(validation=held), recipes=SimpleNamespace(expert=None))
    return Rows(making, Budget(rounds=1))  # type: ignore[arg-type]


def said(validation: list[list[int]], test: list[list[int]], moved: int = 0) -> Row:
    return Row(0.9 * np.eye(3)[validation] + 1 / 30, np.eye(3)[test], {"wire": moved}, 1, 1.0)


def test_auto_takes_the_product_that_is_right_about_more_labels_of_validation_images(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The product is right about 3 of 4 images but knows one label only; the other, about 2 but of both labels."""
    rows = {"product": said([[0, 0, 0, 0]], [[0, 1, 2, 0]], 9), "generative": said([[0, 0, 1, 1]], [[2, 2, 1, 1]], 5)}
    found = chooser(monkeypatch, rows).row("auto")
    assert found.chosen == "generative"
    assert found.test is rows["generative"].test
    assert found.bytes == {"wire": 9}


def test_the_best_expert_is_the_best_on_validation_images_whatever_it_does_on_test_images(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    experts = said([[0, 0, 0, 0], [0, 0, 0, 1], [2, 2, 2, 2]], [[0, 1, 2, 0], [1, 1, 1, 1], [0, 1, 2, 0]])
    found = chooser(monkeypatch, {"experts": experts}).row("best_expert")
    assert found.chosen == "node 1"
    assert found.test.argmax(2).tolist() == [[1, 1, 1, 1]]


def test_both_is_the_geometric_mean_of_the_products(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = np.array([[[0.6, 0.3, 0.1]]]), np.array([[[0.1, 0.3, 0.6]]])
    rows = {name: Row(p, p, {"wire": 1}, 3, 5.0) for name, p in (("product", one), ("generative", other))}
    monkeypatch.setattr(Rows, "_fits", [{"seconds": 4.0}])
    found = chooser(monkeypatch, rows).row("both")
    root = np.sqrt(0.06)
    assert found.test[0, 0] == pytest.approx(np.array([root, 0.3, root]) / (2 * root + 0.3))
    assert (found.calls, found.seconds) == (6, 6.0)


def test_rows_are_summed_up_as_mean_and_deviation_over_the_seeds() -> None:
    rows = {"pooled": {"0": row([0, 1, 2, 0]), "1": row([0, 1, 2, 2])}}
    found = summarise(rows, TESTS)["pooled"]
    assert found["mean"] == pytest.approx(0.875)
    assert found["sd"] == pytest.approx(0.125 * 2**0.5)
    assert found["seeds"] == {"0": 1.0, "1": 0.75}
    assert found["bytes"]["wire"] == 1_000_000
    assert {"auroc", "f1", "ece", "network_calls", "seconds"} <= found.keys()


def test_auto_is_compared_with_pooled_image_by_image() -> None:
    rows = {
        "pooled": {"0": row([0, 1, 2, 1]), "1": row([0, 1, 2, 0])},
        "auto": {"0": row([0, 1, 2, 0], "generative"), "1": row([0, 1, 1, 0], "product")},
    }
    found = summarise(rows, TESTS)["auto"]
    assert found["chosen"] == {"0": "generative", "1": "product"}
    gap = found["minus_pooled"]
    assert (gap["mean"], gap["images"]) == (0.0, 8)
    low, high = gap["interval_images"]
    assert low == -high == pytest.approx(-0.375, abs=0.13)
    reach = 12.706 * 0.25  # t of 1 degree of freedom, times s / sqrt(2) for gaps of +-1/4
    assert gap["interval_draws"] == pytest.approx([-reach, reach], abs=1e-3)


def test_one_image_in_several_draws_counts_as_one() -> None:
    tests = {"0": TESTS["0"], "1": TESTS["0"]}
    one, other = {"0": row([0] * 4), "1": row([0] * 4)}, {"0": row([0, 1, 2, 0]), "1": row([0] * 4)}
    gap = minus(one, other, tests)
    assert gap["images"] == 4
    assert gap["mean"] == -0.25


def test_intervals_are_those_of_the_textbook() -> None:
    """Of 1000 values of which 100 are 1: the standard error is sqrt(0.1 0.9 / 1000) = 0.0095."""
    low, high = bootstrap(np.repeat([0.0, 1.0], [900, 100]))
    assert (low, high) == pytest.approx((0.1 - 1.96 * 0.0095, 0.1 + 1.96 * 0.0095), abs=0.002)
    assert student_interval([1.0, 2.0, 3.0]) == pytest.approx([2 - 2.484, 2 + 2.484], abs=1e-3)
    assert student_interval([1.0]) is None


def test_bytes_are_counted_for_each_way_of_moving_them() -> None:
    """Ten generators of 3 bytes: 9 copies of each go to peers, one more through a relay, and one each to one place."""
    assert wire.exchanged([3] * 10, 10) == {"wire": 270, "p2p": 270, "relayed": 300}
    assert wire.centralised([3] * 10)["wire"] == 30
    found = wire.averaged(7, nodes=10, rounds=2, many=200)
    assert (found["wire"], found["rounds_200"]) == (280, 28_000)


# --- the whole --------------------------------------------------------------------------------------------------------


@pytest.fixture
def own_numerics() -> Iterator[None]:
    """What the script changes for its process is as it was."""
    before, threads = torch.are_deterministic_algorithms_enabled(), torch.get_num_threads()
    yield
    torch.use_deterministic_algorithms(before)
    torch.set_num_threads(threads)


def test_a_smoke_run_fills_every_row_and_goes_on_from_its_cache(
    tmp_path: Path, own_numerics: None, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "--budget",
        "smoke",
        "--labels",
        "0,1,2",
        "--test-images",
        "45",
        "--jobs",
        "1",
        "--device",
        "cpu",
        "--json",
    ]
    words += ["--cache", str(tmp_path / "cache"), "--out", str(tmp_path / "out")]
    assert main(words) == 0
    rows = json.loads(capsys.readouterr().out)
    named = (
        "pooled alone fedavg fedavg_rounds fedprox logit_ensemble centralised experts best_expert product product_paper"
    )
    assert rows.keys() == {*named.split(), "generative", "both", "auto"}
    for name, one in rows.items():
        assert 0 <= one["mean"] <= 1
        assert one["seeds"].keys() == {"0"}
        assert one["bytes"]["wire"] > 0 or name == "alone"
    assert rows["alone"]["mean"] == pytest.approx(1 / 3, abs=0.05)
    assert rows["generative"]["bytes"]["wire"] < rows["product"]["bytes"]["wire"]
    assert rows["auto"]["chosen"]["0"] in ("product", "generative")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "results.json",
        "accuracy.png",
        "samples.png",
        "confusion.png",
    }
    assert json.loads((tmp_path / "out" / "results.json").read_text()) == rows
    made = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache" / "things").iterdir()}
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out) == rows
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "cache" / "things").iterdir()} == made


def test_what_is_wrong_with_the_arguments_is_told_in_a_sentence(
    tmp_path: Path, own_numerics: None, capsys: pytest.CaptureFixture[str]
) -> None:
    cache = ["--cache", str(tmp_path)]
    assert main([*cache, "--data", "npz:/nowhere.npz"]) == 5
    assert main([*cache, "--partition", "circles"]) == 5
    errors = capsys.readouterr().err
    assert "Traceback" not in errors
    assert "/nowhere.npz is not there" in errors
    assert "'circles' is not a partition" in errors
    for wrong in (["--methods", "magic"], ["--seeds", "0,0"], ["--folds", "1"], ["--jobs", "0"]):
        with pytest.raises(SystemExit) as ended:
            main([*cache, *wrong])
        assert ended.value.code == 2
