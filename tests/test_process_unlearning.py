"""Unlearning between real node processes: one of three leaves while another is offline; labels and own images go away."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest
from federation import Federation, reference
from nodes import IMAGES, Node, is_alive

from fednode.errors import NoAnswerError

pytestmark = pytest.mark.process

THREE = {"a": ("ant", "bee"), "b": ("cat", "bee"), "c": ("dog",)}


def issuers(answer: dict[str, object]) -> set[str]:
    """Whose artifacts an answer descends from."""
    return {issuer for issuer, _ in answer["lineage"]}


def weights(holder: Node, issuer: Node) -> dict[str, bytes]:
    """All weight files of an issuer that a node holds, by digest."""
    folder = holder.home.store / issuer.id
    return {path.parent.name: path.read_bytes() for path in folder.glob("*/weights.safetensors")}


def revocation(node: Node, subject: str) -> dict[str, object]:
    """What a node says of a revocation."""
    return next(found for found in node.status()["revocations"] if found["name"] == subject)


def leave(node: Node) -> dict[str, object]:
    """Leave by the command line; what it printed."""
    done = node.run("leave", "--yes", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def assert_no_trace(holder: Node, gone: dict[str, bytes]) -> None:
    """Nothing of these weights is in any file of a node's home."""
    assert [path for data in gone.values() for path in holder.files_with(data)] == []


def assert_keeps_just_its_own(left: Node, others: list[Node]) -> None:
    """A node that left has its images and generators, and nothing of anybody else."""
    assert left.status()["phase"] == "left"
    assert weights(left, left).keys() == set(left.gamma()[left.name].values())
    assert left.gamma().keys() == {left.name}
    for other in others:
        assert not (left.home.store / other.id).exists()
        assert_no_trace(left, weights(other, other))
    assert all(len(list((left.data / label).iterdir())) == IMAGES for label in left.labels)
    again = left.run("leave", "--yes")
    assert again.returncode == 13
    assert "left the federation already" in again.stderr


def test_a_node_leaves_while_another_is_offline_and_returns_later() -> None:
    with Federation(THREE) as federation:
        a, b, c = federation["a"], federation["b"], federation["c"]
        federation.start()
        before = federation.settle()
        assert set(before) == {"a", "b", "c"}
        left = weights(a, c)
        assert len(left) == 2  # the generator of dog and the expert
        tainted = {**left, **{before[name]: weights(a, federation[name])[before[name]] for name in ("a", "b")}}
        kept = a.gamma()["b"]

        assert b.stop() == 0
        a.pull("hold-expert")
        workers = {request["pid"] for request in a.requests("expert") + a.requests("check")}
        assert leave(c)["told"] == ["a"]

        federation.until(lambda: a.status()["product"]["default"] == "generative", "A answers from the generators")
        answer = a.predict()
        assert answer["product"] == "generative"
        assert {digest for _, digest in answer["lineage"]} == {*a.gamma()["a"].values(), *kept.values()}
        assert issuers(answer) == {a.id, b.id}
        assert a.gamma().keys() == {"a", "b"}
        assert answer["uncovered"] == ["dog", "eel", "fox"]
        assert "tainted" in a.stale()["b"]
        assert_no_trace(a, tainted)
        federation.until(lambda: not any(map(is_alive, workers)), "the workers that held it are gone")
        with pytest.raises(NoAnswerError):
            a.predict("experts")
        assert revocation(a, "c")["binding"]
        assert revocation(a, "c")["waiting"] == ["a", "b"]

        a.release("hold-expert")
        federation.until(lambda: a.product().keys() == {"a"}, "A has its new expert")
        federation.until(lambda: revocation(a, "c")["confirmed"] == ["a"], "A has confirmed")
        assert revocation(a, "c")["waiting"] == ["b"]
        assert a.product()["a"] != before["a"]
        assert issuers(a.predict()) == {a.id, b.id}
        assert "tainted" in a.stale()["b"]

        b.start()
        after = federation.settle("a", "b")
        for node in (a, b):
            federation.until(lambda node=node: revocation(node, "c")["confirmed"] == ["a", "b"], "both have confirmed")
            assert revocation(node, "c")["waiting"] == []
            assert node.stale() == {}
            assert_no_trace(node, tainted)
            assert node.peer("c")["standing"] == "revoked"
            assert not node.peer("c")["connected"]
            assert issuers(node.predict()) == {a.id, b.id}
        assert a.gamma()["b"] == kept

        assert_keeps_just_its_own(c, [a, b])
        federation.until(lambda: revocation(c, "c")["confirmed"] == ["a", "b"], "C has the receipts about itself")
    assert after == reference({"a": THREE["a"], "b": THREE["b"]})


def test_a_left_identity_in_a_fresh_home_is_refused_and_told_so() -> None:
    with Federation(THREE) as federation:
        a, b, c = federation["a"], federation["b"], federation["c"]
        federation.start()
        federation.settle()
        leave(c)
        survivors = federation.settle("a", "b")
        c.kill()
        for name in ("ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm"):
            (c.home.root / name).unlink(missing_ok=True)
        shutil.rmtree(c.home.store)
        c.start()
        federation.until(lambda: c.status()["phase"] == "left", "C hears that it has left")
        assert c.gamma().keys() <= {"c"}
        assert a.product() == b.product() == survivors
        for node in (a, b):
            node.kill()
        federation.start("a", "b")
        assert federation.settle("a", "b") == survivors
        assert a.peer("c")["standing"] == b.peer("c")["standing"] == "revoked"


def test_a_withdrawn_label_is_gone_everywhere() -> None:
    with Federation(THREE) as federation:
        a, b, c = federation["a"], federation["b"], federation["c"]
        federation.start()
        before = federation.settle()
        gone = a.gamma()["a"]["ant"]
        tainted = {gone: weights(b, a)[gone]} | {
            before[name]: weights(b, federation[name])[before[name]] for name in before
        }
        done = a.run("withdraw", "ant", "--yes", "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == {"label": "ant", "digest": gone}
        after = federation.settle()
        assert not before.items() & after.items()
        for node in (a, b, c):
            assert "ant" not in node.gamma()["a"]
            assert node.status()["uncovered"] == ["ant", "eel", "fox"]
            assert_no_trace(node, tainted)
        federation.until(
            lambda: [(found["digest"], found["waiting"]) for found in a.status()["withdrawals"]] == [(gone, [])],
            "all have confirmed",
        )
        assert a.status()["withdrawn"] == ["ant"]
        a.kill()
        federation.start("a")
        assert federation.settle() == after
        again = a.run("withdraw", "ant", "--yes")
        assert again.returncode == 13
        assert "withdrawn already" in again.stderr
    assert after == reference({**THREE, "a": ("bee",)})


def test_nothing_is_answered_where_one_label_alone_is_left() -> None:
    with Federation({"a": ("ant",), "b": ("bee",)}) as federation:
        a, b = federation["a"], federation["b"]
        federation.start()
        federation.settle()
        b.client.leave("goes")
        federation.until(lambda: a.status()["product"]["default"] == "none", "A has no product any more")
        image = a.folder / "image.png"
        image.write_bytes(b"an image")
        for product in ("auto", "experts", "generative"):
            done = a.run("predict", str(image), "--product", product)
            assert done.returncode == 10, done.stderr
            assert done.stdout == ""
        assert "ant" in done.stderr


def test_an_image_that_is_taken_away_is_unlearned_everywhere() -> None:
    with Federation(THREE) as federation:
        a, b, c = federation["a"], federation["b"], federation["c"]
        federation.start()
        before = federation.settle()
        gamma = a.gamma()["a"]
        old = weights(b, a)[gamma["ant"]]
        (a.data / "ant" / "7.png").unlink()
        done = a.run("rescan")
        assert done.returncode == 0, done.stderr
        federation.until(
            lambda: b.gamma().get("a", {}).get("ant") not in (None, gamma["ant"]), "B has the new generator"
        )
        after = federation.settle()
        assert not before.items() & after.items()
        for node in (a, b, c):
            assert node.gamma()["a"]["bee"] == gamma["bee"]
            assert node.gamma()["b"] == a.gamma()["b"]
            assert node.files_with(old) == []
        assert [request["label"] for request in a.requests("fit")].count("bee") == 1
        assert len(b.requests("fit")) == len(THREE["b"])
        assert {own["label"]: own["images"] + own["holdout"] for own in a.status()["data"]["labels"]} == {
            "ant": IMAGES - 1,
            "bee": IMAGES,
        }


def test_requests_in_flight_wait_through_a_leave_and_are_answered_without_what_is_void() -> None:
    with Federation(THREE) as federation, ThreadPoolExecutor(6) as pool:
        a, c = federation["a"], federation["c"]
        federation.start()
        federation.settle()
        assert issuers(a.predict()) == {a.id, federation["b"].id, c.id}
        a.pull("hold-predict")
        asked = len(a.requests("predict"))
        answers = [pool.submit(a.predict) for _ in range(6)]
        federation.until(lambda: len(a.requests("predict")) > asked, "one request is with the worker")
        leave(c)
        federation.until(lambda: "c" not in a.gamma(), "A knows it")
        a.release("hold-predict")
        for answer in answers:
            assert c.id not in issuers(answer.result(60))
