"""Power cuts, full disks and dying workers: a node goes on where it was, and ends in the same state as if nothing had been."""

import signal
from dataclasses import replace

import pytest
from federation import Federation, reference
from nodes import Document, Node, is_alive

from fednode import failpoints
from fednode.catalogue import Catalogue
from fednode.errors import FednodeError, WorkerError
from fednode.ledger import Ledger

pytestmark = pytest.mark.process

THREE = {"a": ("ant", "bee"), "b": ("cat",), "c": ("dog",)}
TWO = {"a": ("ant", "bee"), "b": ("cat",)}

# Written only inside other transactions, so that no node ever passes these two by themselves.
INNER = {f"ledger.{moment}.{name}" for moment in ("commit", "committed") for name in ("listed", "erasure")}


def moments(*transactions: str) -> list[str]:
    """The failpoints before and after the commit of each transaction."""
    return [f"ledger.{moment}.{name}" for name in transactions for moment in ("commit", "committed")]


STARTING = moments("schema", "setting", "roster", "scan", "event", "catalogue")
BUILDING = [*moments("job"), "store.copied", "store.synced", "store.described", "store.placed", *moments("manifest")]
FETCHING = ["store.piece", *moments("check", "bytes")]
ERASING = [*moments("revocation", "erase"), "store.erase", "store.unlinked", "store.erased"]
CONFIRMING = moments("receipt")
ASKED = moments("withdrawn", "standing")
CONTRADICTED = moments("quarantine")
SCORING = moments("evaluation")


def dies(federation: Federation, node: Node, failpoint: str) -> None:
    """Start a node that is to die at a failpoint, wait for that, and see that its workers went with it."""
    node.start(failpoint=f"{failpoint}:kill")
    assert node.wait() == -signal.SIGKILL, f"{failpoint}: {node.tail()}"
    federation.until(lambda: not any(is_alive(request["pid"]) for request in node.requests()), "its workers end")


def test_every_failpoint_is_met_by_one_of_these_tests() -> None:
    met = [*STARTING, *BUILDING, *FETCHING, *ERASING, *CONFIRMING, *ASKED, *CONTRADICTED, *SCORING]
    assert {*met} | INNER == failpoints.NAMES
    assert len({*met}) == len(met)


def test_a_node_that_is_killed_at_every_step_of_building_ends_with_the_same_expert() -> None:
    with Federation(TWO) as federation:
        a, b = federation["a"], federation["b"]
        federation.start("b")
        for failpoint in (*STARTING, *BUILDING, *FETCHING, *SCORING):
            dies(federation, a, failpoint)
        federation.start("a")
        experts = federation.settle()
        assert b.peer("a")["standing"] == "present"
        assert b.peer("a")["reason"] is None
    assert experts == reference(TWO)


def test_a_node_that_is_killed_at_every_step_of_unlearning_ends_without_what_is_void() -> None:
    with Federation(THREE) as federation:
        a, c = federation["a"], federation["c"]
        federation.start()
        before = federation.settle()
        gone = {path: path.read_bytes() for path in a.home.store.rglob("weights.safetensors")}
        a.kill()
        c.client.leave("a test")
        for failpoint in ERASING:
            dies(federation, a, failpoint)
        a.pull("hold-expert")
        federation.start("a")
        federation.until(lambda: any("held" in job["phase"] for job in a.status()["jobs"]), "A is rebuilding")
        a.kill()
        a.release("hold-expert")
        for failpoint in CONFIRMING:
            dies(federation, a, failpoint)
        federation.start("a")
        after = federation.settle("a", "b")
        federation.until(lambda: a.status()["revocations"][0]["confirmed"] == ["a", "b"], "A has confirmed")
        assert not before.items() & after.items()
        void = [data for path, data in gone.items() if c.id in path.parts or path.parent.name in before.values()]
        assert len(void) == 4
        assert [path for data in void for path in a.files_with(data)] == []
        assert a.status()["erased"] == {"generator": 1, "expert": 3}
    assert after == reference(TWO)


def test_what_an_operator_asked_for_is_done_or_not_done_after_a_power_cut() -> None:
    with Federation(THREE) as federation:
        a = federation["a"]
        federation.start()
        federation.settle()
        for at, failpoint in enumerate(moments("withdrawn")):
            a.kill()
            federation.start("a", failpoint=f"{failpoint}:kill")
            federation.until(lambda: a.status()["data"]["labels"], "A knows its images")
            with pytest.raises(FednodeError):
                a.client.withdraw("ant")
            assert a.wait() == -signal.SIGKILL
            federation.start("a")
            assert a.status()["withdrawn"] == ["ant"] * at
        federation.settle()
        a.client.revoke("b", "a test")
        for at, failpoint in enumerate(moments("standing")):
            a.kill()
            federation.start("a", failpoint=f"{failpoint}:kill")
            assert a.peer("b")["standing"] == "suspended"
            with pytest.raises(FednodeError):
                a.client.restore("b")
            assert a.wait() == -signal.SIGKILL
            federation.start("a")
            assert (a.peer("b")["standing"] == "suspended") == (at == 0)
        federation.settle()


def contradict(node: Node) -> None:
    """Put another catalogue of the same number into the ledger of a stopped node, signed with its key."""
    ledger = Ledger(node.home.ledger)
    (held,) = [record for record in ledger.statements("catalogue") if record.issuer == node.id]
    catalogue, _ = Catalogue.read(held.envelope)
    other = catalogue.model_copy(update={"fresh_until": catalogue.fresh_until + 1})
    ledger.drop_statement("catalogue", held.digest)
    ledger.put_statement(replace(held, digest=other.digest, envelope=other.seal(node.identity)))
    ledger.close()


def test_a_peer_that_contradicts_itself_is_quarantined_also_if_the_power_fails_meanwhile() -> None:
    with Federation(THREE) as federation:
        a, b, c = federation["a"], federation["b"], federation["c"]
        federation.start()
        federation.settle()
        for node in (a, b, c):
            node.kill()
        contradict(b)
        federation.start("b")
        for failpoint in CONTRADICTED:
            dies(federation, a, failpoint)
        federation.start("a", "c")
        survivors = federation.settle("a", "c")
        assert [node.peer("b")["standing"] for node in (a, c)] == ["quarantined", "quarantined"]
        assert a.gamma().keys() == c.gamma().keys() == {"a", "c"}
    assert survivors == reference({"a": THREE["a"], "c": THREE["c"]})


FULL_AT_START = ("schema", "setting", "roster")
FULL_WHILE_BUILDING = (
    *(f"ledger.commit.{name}" for name in ("scan", "event", "bytes", "catalogue", "job")),
    *("store.copied", "store.synced", "store.described", "store.placed", "ledger.commit.manifest"),
)
FULL_WHILE_FETCHING = ("store.piece", "ledger.commit.check")  # on their own: who builds meanwhile fetches everything


@pytest.mark.parametrize("transaction", FULL_AT_START)
def test_a_node_that_can_not_write_at_its_start_says_so_in_one_sentence(transaction: str) -> None:
    with Federation(TWO) as federation:
        a = federation["a"]
        a.start(failpoint=f"ledger.commit.{transaction}:enospc")
        assert a.wait() == 11
        assert "fednode: The disk is full.\n" in a.log.read_text()


@pytest.mark.parametrize("failpoints", [FULL_WHILE_BUILDING, FULL_WHILE_FETCHING], ids=["building", "fetching"])
def test_a_node_whose_disk_is_full_at_any_step_stays_up_and_goes_on_when_there_is_space(
    failpoints: tuple[str, ...],
) -> None:
    with Federation(TWO) as federation:
        a = federation["a"]
        federation.start("b")
        for failpoint in failpoints:
            federation.start("a", failpoint=f"{failpoint}:enospc")
            federation.until(lambda: "disk is full" in (a.status()["last_error"] or ""), f"A is stuck at {failpoint}")
            assert a.stop() == 0
        federation.start("a")
        experts = federation.settle()
        assert a.status()["last_error"] is None
    assert experts == reference(TWO)


@pytest.mark.parametrize(
    ("string", "code"), [("crash", "crash"), ("kill", "memory"), ("memory", "memory"), ("data", "data")]
)
def test_a_job_whose_worker_fails_is_a_state_with_a_reason_and_the_node_lives_on(string: str, code: str) -> None:
    with Federation(TWO) as federation:
        a = federation["a"]
        a.pull(f"{string}-fit-ant")
        federation.start()
        federation.until(lambda: a.status()["failed"], "A says what failed")
        (failed,) = a.status()["failed"]
        assert (failed["job"], failed["code"]) == ("fit ant", code)
        assert failed["reason"].endswith(".")
        assert a.status()["last_error"] == failed["reason"]
        experts = federation.settle()
        hopeless = code == "data"
        assert ("ant" in a.gamma()["a"]) != hopeless
        assert bool(a.status()["failed"]) == hopeless
    assert experts == reference({"a": ("bee",), "b": ("cat",)} if hopeless else TWO)


def test_an_answer_survives_crashes_of_the_worker_and_fails_in_words_if_they_go_on() -> None:
    with Federation(TWO) as federation:
        a = federation["a"]
        federation.start()
        federation.settle()
        federation.until(lambda: a.status()["evaluation"]["nodes"] == ["a", "b"], "nothing changes how A answers")
        expected = a.predict()
        a.pull("crash-predict")
        assert a.predict() == expected
        for string in ("kill-predict", "memory-predict"):
            a.pull(string)
            with pytest.raises(WorkerError, match="memory"):
                a.predict()
        assert a.predict() == expected


def test_a_fit_is_cancelled_when_its_label_is_withdrawn() -> None:
    with Federation({"a": ("ant", "bee", "eel"), "b": ("cat",)}) as federation:
        a = federation["a"]
        a.pull("hold-fit-bee")
        federation.start()
        federation.until(lambda: any("held" in job["phase"] for job in a.status()["jobs"]), "A fits bee")
        (worker,) = {request["pid"] for request in a.requests("fit")}
        a.client.withdraw("bee")
        experts = federation.settle()
        assert not is_alive(worker)
        assert a.status()["failed"] == []
        assert a.gamma()["a"].keys() == {"ant", "eel"}
    assert experts == reference({"a": ("ant", "eel"), "b": ("cat",)})


def test_the_state_of_a_fit_survives_a_power_cut_and_not_the_withdrawal_of_its_label() -> None:
    with Federation({"a": ("ant", "bee"), "b": ("cat",)}) as federation:
        a = federation["a"]
        a.pull("hold-fit-ant")
        federation.start()
        federation.until(lambda: any("held" in job["phase"] for job in a.status()["jobs"]), "A fits ant")
        (state,) = a.home.work.iterdir()
        state.write_bytes(b"half of ant")
        (a.home.work / f"{'0' * 64}.safetensors").write_bytes(b"what no job wants")
        a.kill()
        a.start()
        federation.until(lambda: any("held" in job["phase"] for job in a.status()["jobs"]), "A fits ant again")
        assert {path.name: path.read_bytes() for path in a.home.work.iterdir()} == {state.name: b"half of ant"}
        a.client.withdraw("ant")
        federation.settle()
        assert list(a.home.work.iterdir()) == []


def build_starts(node: Node) -> list[Document]:
    return [request for request in node.requests("start") if request["role"] == "build"]


def test_a_job_that_is_cancelled_while_its_worker_starts_harms_no_later_one() -> None:
    with Federation(TWO) as federation:
        a = federation["a"]
        a.pull("hold-fit-ant")
        federation.start()
        federation.until(lambda: any("held" in job["phase"] for job in a.status()["jobs"]), "A fits ant")
        begun = len(build_starts(a))
        a.pull("hold-ready")
        a.pull("crash-fit-ant")
        a.release("hold-fit-ant")
        federation.until(lambda: len(build_starts(a)) > begun, "a new build worker starts")
        worker = build_starts(a)[-1]
        a.client.withdraw("bee")
        federation.until(lambda: not is_alive(worker["pid"]), "the worker ends with its job")
        a.release("hold-ready")
        experts = federation.settle()
    assert experts == reference({"a": ("ant",), "b": ("cat",)})


def test_weights_that_do_not_pass_the_check_are_never_used_and_not_waited_for() -> None:
    with Federation(TWO) as federation:
        a, b = federation["a"], federation["b"]
        a.pull("bad-fit-ant")
        federation.start()
        federation.until(lambda: "b" in b.product() and b.gamma()["a"].keys() == {"bee"}, "B goes on without ant")
        bad = a.gamma()["a"]["ant"]
        assert not b.weights(a, bad).exists()
        assert b.files_with(a.weights(a, bad).read_bytes()) == []


def test_a_label_whose_audit_fails_is_not_published_and_not_waited_for() -> None:
    with Federation(TWO) as federation:
        a, b = federation["a"], federation["b"]
        a.pull("fail-audit-ant")
        federation.start()
        experts = federation.settle()
        assert b.gamma()["a"].keys() == a.gamma()["a"].keys() == {"bee"}
        assert b.peer("a")["publishes"] == ["bee"]
        (failed,) = a.status()["failed"]
        assert failed["job"] == "audit ant"
        assert "too near" in failed["reason"]
    assert experts == reference({"a": ("bee",), "b": ("cat",)})
