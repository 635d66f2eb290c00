"""The demo: its parts on their own, and the whole with real node processes and a worker that learns nothing."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_documents import status_document
from nodes import SOURCES, STANDIN, processes_of

from fednode.contract import ImageShape
from fednode.errors import ExitCode, NoAnswerError
from fednode.peersfile import load
from fednode_cli.demo import federation, goals, homes, measures
from fednode_cli.demo.asking import Answer, Asking, question
from fednode_cli.demo.budgets import budgets
from fednode_cli.demo.interrupts import Interrupts
from fednode_cli.demo.ports import HeldPorts
from fednode_cli.demo.progress import blocks
from fednode_cli.demo.stages import PHASES
from fednode_cli.output import plain_lines
from fednode_crypto.identity import Identity

DIGITS = tuple("0123456789")
PATIENCE = 90.0
KEYS = {"accuracy", "after", "bytes", "seconds", "unlearning", "nodes", "seed", "data", "labels", "exchange", "own"}
PRODUCTS = {"experts", "product", "generative", "ensemble", "chosen"}


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short name, since sockets go into it; whatever runs in it at the end is killed."""
    made = Path(tempfile.mkdtemp(prefix="fed-"))
    for name in ("tmp", "run", "strings", "here"):
        (made / name).mkdir(mode=0o700)
    yield made
    for pid in processes_of(made):
        os.kill(pid, signal.SIGKILL)
    shutil.rmtree(made)


def variables(folder: Path) -> dict[str, str]:
    """The variables that keep all files in `folder`, and let the stand-in worker work."""
    return {
        "PYTHONPATH": SOURCES,
        "TMPDIR": str(folder / "tmp"),
        "XDG_RUNTIME_DIR": str(folder / "run"),
        "STANDIN_DIR": str(folder / "strings"),
        "FEDNODE_WORKER": STANDIN,
    }


def start_demo(folder: Path, *arguments: str, **more: str) -> "subprocess.Popen[str]":
    """`fednode demo` in FOLDER/here with the stand-in worker, its temporary files in FOLDER/tmp."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FEDNODE_")}
    return subprocess.Popen(
        [sys.executable, "-m", "fednode_cli", "demo", *arguments],
        env=kept | variables(folder) | more,
        cwd=folder / "here",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def end_of(demo: "subprocess.Popen[str]") -> tuple[int, str, str]:
    """Exit code, stdout and stderr."""
    out, err = demo.communicate(timeout=PATIENCE)
    return demo.returncode, out, err


def wait_for_line(demo: "subprocess.Popen[str]", text: str) -> None:
    """Read stderr up to a line with this text."""
    assert demo.stderr is not None
    assert any(text in line for line in demo.stderr), f"the demo ended without {text!r}"


def assert_nothing_left(folder: Path) -> None:
    assert processes_of(folder) == []
    assert list((folder / "tmp").iterdir()) == []
    assert list((folder / "run").rglob("*.sock")) == []


# --- the whole --------------------------------------------------------------------------------------------------------


@pytest.mark.process
def test_the_demo_prints_one_object_and_leaves_a_report_but_no_process_and_no_temporary_file(folder: Path) -> None:
    code, out, err = end_of(
        start_demo(folder, "--nodes", "3", "--json", http_proxy="http://127.0.0.1:9", FEDNODE_LISTEN="nowhere")
    )
    assert code == 0, err
    found = json.loads(out)
    assert found.keys() == KEYS
    assert found["accuracy"].keys() == {"alone", "pooled", *PRODUCTS}
    assert found["after"].keys() == {"labels", *PRODUCTS}
    assert found["own"] == {"node-1": list("0123"), "node-2": list("456"), "node-3": list("789")}
    assert [len(found["accuracy"][name]) for name in ("alone", "experts")] == [3, 3]
    assert (found["nodes"], found["seed"], found["data"], found["labels"]) == (3, 0, "digits:0", list(DIGITS))
    assert found["after"]["labels"] == list("0123456")
    assert found["seconds"].keys() == {"total", *PHASES}
    # each of 3 nodes sends to 2 others; a file of the stand-in has 6,000 bytes of weights and a header
    assert found["bytes"]["generators"] == 2 * 10 * 6080
    assert found["bytes"]["experts"] == 2 * 3 * 6080
    assert found["bytes"]["wire"] > found["bytes"]["generators"] + found["bytes"]["experts"]
    left = found["unlearning"]
    assert left["peer"] == "node-3"
    assert left["bit_identical"] is True
    assert left["answers_before"] >= 2 * 10 and left["answers_after"] >= 2 * 10
    # at both others 3 generators and 3 experts; the one that left keeps only its own generators
    assert left["erased"] == {"generator": 2 * 3 + 7, "expert": 3 * 3}
    (report,) = (folder / "here").iterdir()
    assert json.loads((report / "report.json").read_text()) == found
    assert str(report) in err
    assert_nothing_left(folder)


@pytest.mark.process
def test_the_demo_of_classifiers_deals_every_label_and_unlearns_the_last_node_to_the_bit(folder: Path) -> None:
    code, out, err = end_of(start_demo(folder, "--nodes", "3", "--exchange", "classifiers", "--json"))
    assert code == 0, err
    found = json.loads(out)
    assert found.keys() == KEYS
    assert found["exchange"] == "classifiers"
    assert found["own"]["node-2"] == list("023456789")
    assert found["accuracy"]["generative"] is None
    assert found["accuracy"]["ensemble"] == 0.75
    # each of 3 nodes sends its classifier and its expert to 2 others
    assert (found["bytes"]["generators"], found["bytes"]["classifiers"], found["bytes"]["experts"]) == (0, 36480, 36480)
    assert found["unlearning"]["bit_identical"] is True
    assert found["unlearning"]["answers_failed"] == 0
    # the two others lose the classifier of the last and three experts each; the one that left keeps its classifier
    assert found["unlearning"]["erased"] == {"classifier": 2 * 1 + 2, "expert": 3 * 3}
    assert_nothing_left(folder)


@pytest.mark.process
@pytest.mark.parametrize(
    ("number", "hold", "line"),
    [
        (signal.SIGINT, "hold-fit", "node-3: fitting"),
        (signal.SIGTERM, "hold-evaluate", "measures the experts"),
        (signal.SIGINT, "hold-baseline", "pictures and baselines: 1 of 5"),
        (signal.SIGINT, "", "node-3 leaves"),
    ],
)
def test_a_signal_in_the_middle_ends_every_process_and_removes_every_file(
    folder: Path, number: signal.Signals, hold: str, line: str
) -> None:
    if hold:
        (folder / "strings" / hold).touch()
    demo = start_demo(folder, "--nodes", "3", "--json")
    wait_for_line(demo, line)
    demo.send_signal(number)
    code, out, err = end_of(demo)
    assert (code, out) == (ExitCode.INTERRUPTED, "")
    assert "Traceback" not in err
    assert not list((folder / "here").rglob("report.json"))
    assert_nothing_left(folder)


@pytest.mark.process
def test_a_node_that_cant_go_on_ends_the_demo_with_its_reason(folder: Path) -> None:
    (folder / "strings" / "fail-audit-6").touch()
    code, out, err = end_of(start_demo(folder, "--nodes", "2"))
    assert (code, out) == (ExitCode.INTERNAL, "")
    assert "fednode: node-2 can't go on: audit 6: The samples of 6 are too near to its images." in err
    assert "Its log ends with: " in err
    assert_nothing_left(folder)


@pytest.mark.process
def test_a_node_that_dies_ends_the_demo_with_its_exit_code_and_the_end_of_its_log(folder: Path) -> None:
    (folder / "strings" / "hold-fit").touch()
    demo = start_demo(folder, "--nodes", "2")
    wait_for_line(demo, "node-2: fitting")
    (lock,) = (folder / "tmp").glob("fednode-demo-*/nodes/node-2/lock")
    os.kill(int(lock.read_text()), signal.SIGKILL)
    code, _, err = end_of(demo)
    assert code == ExitCode.INTERNAL
    assert "fednode: node-2 has ended (exit code -9)." in err
    assert "Its log ends with: " in err
    assert_nothing_left(folder)


@pytest.mark.process
def test_what_is_kept_has_homes_and_report_and_is_never_written_over(folder: Path) -> None:
    kept = folder / "kept"
    code, out, err = end_of(start_demo(folder, "--nodes", "2", "--no-verify", "--keep", str(kept)))
    assert code == 0, err
    assert "bit-identical to a federation without it  not verified" in out
    found = json.loads((kept / "report.json").read_text())
    assert found.keys() == KEYS
    assert found["unlearning"]["bit_identical"] is None
    assert {path.name for path in (kept / "nodes").iterdir()} == {"node-1", "node-2"}
    assert list((folder / "here").iterdir()) == []
    code, _, err = end_of(start_demo(folder, "--nodes", "2", "--keep", str(kept)))
    assert code == ExitCode.REFUSED
    assert f"There is something in {kept} already." in err
    assert_nothing_left(folder)


@pytest.mark.process
def test_more_nodes_than_labels_are_refused(folder: Path) -> None:
    code, _, err = end_of(start_demo(folder, "--nodes", "11"))
    assert code == ExitCode.REFUSED
    assert "digits:0 has 10 labels, which is too few for 11 nodes." in err
    assert_nothing_left(folder)


@pytest.mark.process
def test_a_port_that_another_process_took_is_replaced_in_every_peers_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables(folder).items():
        monkeypatch.setenv(name, value)
    source = homes.Source("digits", DIGITS, ImageShape(size=8, channels=1))
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        tries = []

        class FirstTaken(HeldPorts):
            def __init__(self, names: Iterable[str]) -> None:
                super().__init__(names)
                if not tries:
                    self.addresses["node-2"] = taken
                tries.append(self.addresses)

        monkeypatch.setattr(federation, "HeldPorts", FirstTaken)
        with federation.Federation(folder / "tmp", source, homes.shares(DIGITS, 2), Interrupts()) as started:
            started.start()
            listening = {name: status["listen"] for name, status in started.statuses().items()}
            peers = {name: load(node.home.peers, node.peer_id).peers for name, node in started.nodes.items()}
    assert len(tries) == 2
    assert listening == tries[1] != tries[0]
    assert [peer.address for peer in peers["node-1"]] == [listening["node-2"]]
    assert [peer.address for peer in peers["node-2"]] == [listening["node-1"]]
    assert processes_of(folder) == []


# --- its parts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "counts"), [(10, [1] * 10), (5, [2] * 5), (3, [4, 3, 3]), (4, [3, 3, 2, 2]), (1, [10])]
)
def test_labels_are_shared_out_in_order_and_evenly(nodes: int, counts: list[int]) -> None:
    shares = homes.shares(DIGITS, nodes)
    assert list(shares) == [f"node-{number}" for number in range(1, nodes + 1)]
    assert [len(labels) for labels in shares.values()] == counts
    assert sum(shares.values(), ()) == DIGITS


def test_a_node_reads_back_the_peers_file_that_is_written_for_it(tmp_path: Path) -> None:
    ids = {name: Identity.generate().peer_id for name in ("node-1", "node-2", "node-3")}
    addresses = {name: f"127.0.0.1:{7000 + at}" for at, name in enumerate(ids)}
    contract = homes.Source("digits", DIGITS, ImageShape(size=8, channels=1)).contract
    (tmp_path / "peers.yaml").write_text(homes.peers_text(contract, ids, addresses, "node-2"))
    peers = load(tmp_path / "peers.yaml", ids["node-2"])
    assert peers.contract == contract
    assert [(peer.name, peer.id, peer.address) for peer in peers.peers] == [
        ("node-1", ids["node-1"], "127.0.0.1:7000"),
        ("node-3", ids["node-3"], "127.0.0.1:7002"),
    ]


def test_nodes_get_the_environment_without_settings_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FEDNODE_HOME", "FEDNODE_LISTEN", "FEDNODE_WORKER", "http_proxy"):
        monkeypatch.setenv(name, "given")
    environment = homes.environment(Path("/a/home"))
    assert environment["FEDNODE_HOME"] == "/a/home"
    assert environment["FEDNODE_WORKER"] == environment["http_proxy"] == "given"
    assert "FEDNODE_LISTEN" not in environment


def test_ports_are_held_until_they_are_released() -> None:
    def take(address: str) -> None:
        with socket.socket() as other:
            other.bind(("127.0.0.1", int(address.rpartition(":")[2])))

    with HeldPorts(["a", "b"]) as ports:
        assert ports.addresses["a"] != ports.addresses["b"]
        with pytest.raises(OSError, match="in use"):
            take(ports.addresses["a"])
        ports.release("a")
        take(ports.addresses["a"])


def test_an_interrupt_waits_for_the_end_of_what_must_be_done_whole() -> None:
    done = []
    with Interrupts() as interrupts, pytest.raises(KeyboardInterrupt):
        with interrupts.held():
            signal.raise_signal(signal.SIGTERM)
            done.append("whole")
        done.append("too far")
    assert done == ["whole"]


def test_a_second_interrupt_does_not_cut_into_the_way_out() -> None:
    done = []
    with Interrupts():
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            signal.raise_signal(signal.SIGINT)
            done.append("cleaned")
    assert done == ["cleaned"]


class Oracle:
    """A client that counts how many questions are in flight, and answers or fails as it is told."""

    def __init__(self, answer: Callable[[int], dict[str, Any]]) -> None:
        self.asked = self.in_flight = self.most = 0
        self._answer = answer
        self._lock = threading.Lock()

    def predict(self, images: list[tuple[str, bytes]]) -> dict[str, Any]:
        with self._lock:
            self.asked, self.in_flight = self.asked + 1, self.in_flight + 1
            self.most = max(self.most, self.in_flight)
        time.sleep(0.001)
        with self._lock:
            self.in_flight -= 1
        return self._answer(self.asked)


def test_each_node_has_one_question_in_flight_and_failures_do_not_end_the_asking() -> None:
    def answer(count: int) -> dict[str, Any]:
        if count == 2:
            raise NoAnswerError("Not now.")
        return {"product": "experts", "lineage": [["fn1-x" if count < 5 else "fn1-y", "d"]]}

    oracles = {"a": Oracle(answer), "b": Oracle(answer)}
    with Asking(oracles, b"image", "fn1-x") as questions:
        while questions.least(0.0) < 10:
            time.sleep(0.01)
    assert [oracle.most for oracle in oracles.values()] == [1, 1]
    assert sorted(questions.failures) == ["a: Not now.", "b: Not now."]
    assert [answer.tainted for answer in questions.answers if answer.node == "a"][:5] == [
        True,
        True,
        True,
        False,
        False,
    ]
    asked = sum(oracle.asked for oracle in oracles.values())
    assert len(questions.answers) == asked - 2


@pytest.mark.parametrize(("channels", "kind"), [(1, b"P5\n8 8\n255\n"), (3, b"P6\n8 8\n255\n")])
def test_the_question_is_an_image_of_the_contract(channels: int, kind: bytes) -> None:
    image = question(ImageShape(size=8, channels=channels), 3)
    assert image.startswith(kind)
    assert len(image) == len(kind) + 64 * channels


def test_taint_ends_with_the_last_tainted_answer_of_any_node_after_the_signature() -> None:
    answers = [
        Answer("a", 99.0, 0.1, "experts", True),
        Answer("a", 100.02, 0.1, "experts", True),
        Answer("b", 100.25, 0.2, "experts", True),
        Answer("a", 100.5, 3.0, "generative", False),
    ]
    assert measures.taint(answers, 100.0) == {
        "stopped_ms": 250.0,
        "tainted_answers_seen": 2,
        "answers_before": 1,
        "answers_after": 3,
        "slowest_answer_s": 3.0,
    }
    assert measures.taint(answers, 100.3)["stopped_ms"] == 0.0


def test_each_transfer_counts_once_where_it_was_received() -> None:
    statuses = {
        "a": status_document(bytes={"received": {"generator": 10, "statement": 1}, "sent": {"expert": 7}}),
        "b": status_document(bytes={"received": {"generator": 20, "expert": 7}, "sent": {"generator": 10}}),
    }
    assert measures.traffic(statuses) == {"generators": 30, "classifiers": 0, "experts": 7, "wire": 38}


def test_accuracies_are_in_the_order_of_the_nodes_and_name_the_chosen_product() -> None:
    evaluation = {
        "experts": [{"peer": "b", "accuracy": 0.2}, {"peer": "a", "accuracy": 0.1}],
        "products": {"experts": {"accuracy": 0.3}, "generative": {"accuracy": 0.4}},
        "chosen": {"product": "generative", "accuracy": 0.4},
    }
    assert measures.accuracies(evaluation, ["a", "b"]) == {
        "experts": [0.1, 0.2],
        "product": 0.3,
        "generative": 0.4,
        "ensemble": None,
        "chosen": 0.4,
    }


SHARES = {"a": ("0", "1"), "b": ("2",)}
OWN = {"a": {"a": {"0": "x", "1": "x"}}, "b": {"b": {"2": "x"}}}
ALL = {**OWN["a"], **OWN["b"]}


def experts(*names: str) -> dict[str, Any]:
    return {"default": "experts", "experts": [{"peer": name, "digest": f"expert of {name}"} for name in names]}


def test_a_federation_has_fitted_when_every_node_has_its_own_and_gathered_when_every_node_has_all() -> None:
    own = {name: status_document(gamma=OWN[name]) for name in SHARES}
    both = {name: status_document(gamma=ALL) for name in SHARES}
    assert goals.fitted(own, SHARES) and not goals.gathered(own, SHARES)
    assert goals.fitted(both, SHARES) and goals.gathered(both, SHARES)
    assert not goals.fitted({**own, "a": status_document(gamma={"a": {"0": "x"}})}, SHARES)


def test_a_classifier_stands_for_all_labels_that_it_has_seen() -> None:
    def knows(*names: str) -> dict[str, Any]:
        seen = {"a": {"0": 4, "1": 4, "2": 1}, "b": {"2": 9}}
        return status_document(classifiers=[{"peer": name, "labels": seen[name]} for name in names])

    assert goals.fitted({"a": knows("a"), "b": knows("b")}, SHARES)
    assert not goals.gathered({"a": knows("a", "b"), "b": knows("b")}, SHARES)
    assert goals.gathered({"a": knows("a", "b"), "b": knows("a", "b")}, SHARES)


def test_a_federation_is_ready_when_just_the_experts_of_those_who_are_in_it_answer() -> None:
    def statuses(*names: str, phase: str = "ready") -> dict[str, Any]:
        return {me: status_document(phase=phase, product=experts(*names)) for me in SHARES}

    assert goals.ready(statuses("b", "a"), SHARES)
    assert not goals.ready(statuses("a"), SHARES)
    assert not goals.ready(statuses("a", "b", "c"), SHARES)
    assert not goals.ready(statuses("a", "b", phase="fetching"), SHARES)
    assert goals.own_experts(statuses("a", "b"), SHARES) == {"a": "expert of a", "b": "expert of b"}


def test_a_node_is_hopeless_when_it_does_not_try_again() -> None:
    failed = {"job": "fit 3", "code": "memory", "reason": "There is no memory.", "retry_in": 4}
    assert goals.hopeless(status_document(failed=[failed])) is None
    assert goals.hopeless(status_document(failed=[{**failed, "retry_in": None}])) == "fit 3: There is no memory."
    assert goals.hopeless(status_document(phase="blocked", last_error="The disk is full.")) == "The disk is full."


def test_the_live_view_has_a_row_for_each_node_with_what_it_does_and_has() -> None:
    job = {"job": "fit 3", "phase": "fit 3", "done": 50, "total": 100, "rate": 10.0, "eta": 5.0}
    busy = status_document(phase="fitting", jobs=[job], gamma=ALL, product=experts("a"))
    headline, _columns, row = plain_lines(blocks("12.0 s  fits", {"node-1": busy}))
    assert headline == "12.0 s  fits"
    assert row.split() == ["node-1", "nevus", "fitting", "fit", "3", "█" * 10 + "░" * 10, "50%", "5.0", "s", "3", "1"]


def test_every_phase_has_a_budget_and_five_nodes_are_done_in_seven_minutes() -> None:
    allowed = budgets(homes.shares(DIGITS, 5))
    assert tuple(allowed) == PHASES
    assert sum(allowed.values()) <= 7 * 60
