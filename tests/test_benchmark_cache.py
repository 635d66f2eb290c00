"""The comparison's cache and its workers: each thing is made once, whole or not at all, by one of those who share the work."""

import hashlib
import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from comparison.crew import Crew, Job
from comparison.shelf import Shelf
from nodes import STANDIN

from fednode.errors import WorkerError
from fednode.learning.session import open_session


class Watched:
    """A bar that remembers."""

    def __init__(self) -> None:
        self.seen: list[float] = []

    def set(self, done: float) -> None:
        self.seen.append(done)


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path / "cache")


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
    hold = "import fcntl, sys; f = open(sys.argv[1], 'wb'); fcntl.flock(f, fcntl.LOCK_EX); print(flush=True); sys.stdin.read()"
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
