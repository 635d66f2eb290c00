"""The life of a daemon: signals, reloading, workers that end when they should, and what it never loads."""

import re
import signal
from pathlib import Path

import pytest
from federation import Federation
from nodes import is_alive, processes_of

pytestmark = pytest.mark.process

TWO = {"a": ("ant", "bee"), "b": ("cat",)}
IDLE_MEGABYTES = 150


def loaded(pid: int) -> str:
    """The names of all files that a process has mapped."""
    return Path(f"/proc/{pid}/maps").read_text()


def resident_megabytes(pid: int) -> float:
    """Memory that a process takes."""
    (kilobytes,) = re.findall(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(kilobytes) / 1024


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_node_cleanly_also_while_it_builds_and_answers(number: signal.Signals) -> None:
    with Federation(TWO) as federation:
        a = federation["a"]
        a.pull("hold-fit-bee")
        federation.start()
        federation.until(lambda: any("held" in job["phase"] for job in a.status()["jobs"]), "A fits bee")
        assert a.end(number) == 0
        assert processes_of(a.folder) == []
        assert not a.home.control_socket.exists()
        assert " ERROR " not in a.log.read_text()
        a.release("hold-fit-bee")
        federation.start("a")
        federation.settle()


def test_stop_ends_the_daemon_and_a_second_stop_says_that_none_runs() -> None:
    with Federation(TWO) as federation:
        a = federation["a"]
        federation.start("a")
        assert a.run("stop").returncode == 0
        assert a.wait() == 0
        again = a.run("stop")
        assert again.returncode == 8
        assert again.stderr.startswith("fednode: ")


def test_a_second_signal_ends_a_node_at_once() -> None:
    with Federation(TWO) as federation:
        a, b = federation["a"], federation["b"]
        federation.start()
        federation.settle()
        b.process.send_signal(signal.SIGSTOP)  # so that A has somebody to wait for while it stops
        a.process.send_signal(signal.SIGTERM)
        a.process.send_signal(signal.SIGTERM)
        assert a.wait() in (0, 14)
        federation.until(lambda: processes_of(a.folder) == [], "its workers end")
        b.process.send_signal(signal.SIGCONT)
        assert "Traceback" not in a.log.read_text()


def test_hangup_reads_peers_and_data_again() -> None:
    with Federation({"a": ("ant",), "b": ("cat",), "c": ("dog",)}) as federation:
        a, b, c = federation["a"], federation["b"], federation["c"]
        federation.introduce(a, ["b"])
        federation.introduce(b, ["a"])
        federation.start()
        federation.settle("a", "b")
        assert [peer["name"] for peer in a.status()["peers"]] == ["b"]
        assert not c.peer("a")["connected"]
        (a.data / "bee").mkdir()
        for number in range(24):
            (a.data / "bee" / f"{number}.png").write_text(f"a bee {number}")
        for node in (a, b):
            federation.introduce(node)
            node.process.send_signal(signal.SIGHUP)
        federation.settle()
        assert a.gamma().keys() == {"a", "b", "c"}
        assert c.gamma()["a"].keys() == {"ant", "bee"}
        good = a.home.peers.read_text()
        a.home.peers.write_text(good + "nonsense: 1\n")
        a.process.send_signal(signal.SIGHUP)
        federation.until(lambda: "nonsense" in a.log.read_text(), "A says what is wrong with the file")
        assert len(a.status()["peers"]) == 2
        federation.introduce(a, ["b"])
        a.process.send_signal(signal.SIGHUP)
        federation.until(lambda: a.gamma().keys() == {"a", "b"}, "A knows nothing of C any more")
        assert [peer["name"] for peer in a.status()["peers"]] == ["b"]


def test_no_worker_outlives_a_killed_daemon_even_in_the_middle_of_a_job() -> None:
    with Federation(TWO) as federation:
        a = federation["a"]
        a.pull("hold-fit-bee")
        federation.start()
        federation.until(lambda: any("held" in job["phase"] for job in a.status()["jobs"]), "A fits bee")
        workers = {request["pid"] for request in a.requests()}
        assert any(map(is_alive, workers))
        a.kill()
        federation.until(lambda: processes_of(a.folder) == [], "its workers end")
        assert not any(map(is_alive, workers))


def test_idle_workers_end_and_what_stays_is_small_and_has_no_torch_in_it() -> None:
    with Federation(TWO) as federation:
        a = federation["a"]
        federation.start("b")
        federation.start("a", FEDNODE_IDLE_TIMEOUT=0.5)
        federation.settle()
        workers = {request["pid"] for request in a.requests()}
        federation.until(lambda: a.status()["workers"] == {"build": "off", "serve": "off"}, "A's workers end")
        assert not any(map(is_alive, workers))
        assert processes_of(a.folder) == [a.process.pid]
        assert "libtorch" not in loaded(a.process.pid)
        assert "grpc" in loaded(a.process.pid)
        assert resident_megabytes(a.process.pid) < IDLE_MEGABYTES
        assert a.predict()["product"] == "experts"
        assert a.status()["workers"]["serve"] == "warm"


def test_the_control_socket_and_the_home_are_for_their_owner_alone() -> None:
    with Federation(TWO) as federation:
        a = federation["a"]
        federation.start("a")
        assert a.home.control_socket.stat().st_mode & 0o777 == 0o600
        open_to_others = [path for path in a.home.root.rglob("*") if path.stat().st_mode & 0o077]
        assert [path for path in open_to_others if path not in (a.home.config, a.home.peers, a.log)] == []


def test_a_restarted_node_builds_and_fetches_nothing_again() -> None:
    with Federation(TWO) as federation:
        a, b = federation["a"], federation["b"]
        federation.start()
        experts = federation.settle()
        built = [request["op"] for request in a.requests() if request["op"] != "scan"]
        received = a.status()["bytes"]["received"]
        assert a.stop() == 0
        federation.start("a")
        federation.until(lambda: a.peer("b")["connected"] and b.peer("a")["connected"], "they are connected again")
        federation.until(lambda: a.status()["phase"] == "ready", "A is ready")
        assert a.product() == b.product() == experts
        assert [request["op"] for request in a.requests() if request["op"] != "scan"] == built
        for kind in ("generator", "expert"):
            assert a.status()["bytes"]["received"][kind] == received[kind]
