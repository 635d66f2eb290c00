"""Votes between real node processes: suspended at once by the voter, revoked everywhere and for ever by a quorum."""

import pytest
from federation import Federation, reference
from nodes import Document, Node

from fednode.errors import RefusedError

pytestmark = pytest.mark.process

FOUR = {"a": ("ant", "bee"), "b": ("cat",), "c": ("dog",), "d": ("eel", "bee")}
THREE = {name: FOUR[name] for name in ("a", "b", "c")}


def standing(node: Node, peer: str) -> str:
    """How a peer stands with a node."""
    return str(node.peer(peer)["standing"])


def revocation(node: Node) -> Document:
    """What a node says of the only revocation that it knows."""
    (found,) = node.status()["revocations"]
    return dict(found)


def test_a_vote_suspends_at_once_is_undone_by_restore_and_binds_with_a_second_one_for_ever() -> None:
    with Federation(FOUR) as federation:
        a, b, c, d = (federation[name] for name in "abcd")
        federation.start()
        everybody = federation.settle()
        weights = [path.read_bytes() for path in (a.home.store / d.id).rglob("weights.safetensors")]
        assert len(weights) == 3

        done = a.run("revoke", "d", "--reason", "a test", "--yes")
        assert done.returncode == 0, done.stderr
        assert "1 of 2" in done.stdout
        assert standing(a, "d") == "suspended"
        federation.until(lambda: a.product().keys() == {"a"}, "A goes on without D")
        assert a.gamma().keys() == {"a", "b", "c"}
        assert [path for data in weights for path in a.files_with(data)] == []
        assert {issuer for issuer, _ in a.predict()["lineage"]} == {a.id, b.id, c.id}
        for node in (b, c):
            federation.until(lambda node=node: node.status()["revocations"], "the vote is heard")
            found = revocation(node)
            assert (found["name"], found["binding"], found["votes"], found["needed"]) == ("d", False, 1, 2)
            assert standing(node, "d") == "present"
            assert "d" in node.gamma()
        assert d.status()["phase"] != "left"

        done = a.run("restore", "d")
        assert done.returncode == 0, done.stderr
        assert federation.settle() == everybody
        assert revocation(a)["votes"] == 1

        b.client.revoke("d", "a second vote")
        federation.until(lambda: d.status()["phase"] == "left", "D hears that it is revoked")
        survivors = federation.settle("a", "b", "c")
        for node in (a, b, c):
            federation.until(lambda node=node: revocation(node)["confirmed"] == ["a", "b", "c"], "all have confirmed")
            assert revocation(node)["binding"]
            assert standing(node, "d") == "revoked"
            assert [path for data in weights for path in node.files_with(data)] == []
            with pytest.raises(RefusedError, match="for ever"):
                node.client.restore("d")
        assert d.gamma().keys() <= {"d"}

        for node in (a, b, c, d):
            node.kill()
        federation.start()
        assert federation.settle("a", "b", "c") == survivors
        assert [standing(node, "d") for node in (a, b, c)] == ["revoked"] * 3
        assert d.status()["phase"] == "left"
    assert survivors == reference(THREE)


def test_with_quorum_1_a_single_revoke_binds_everywhere_and_no_relay_brings_the_peer_back() -> None:
    labels = {"a": ("ant",), "b": ("cat",), "d": ("eel",)}
    with Federation(labels, quorum=1) as federation:
        a, b, d = (federation[name] for name in "abd")
        federation.introduce(a, unreachable=["d"])
        federation.introduce(d, unreachable=["a"])
        federation.start()
        federation.settle()
        assert not a.peer("d")["connected"]
        assert a.gamma().keys() == {"a", "b", "d"}  # what B passed on

        assert b.stop() == 0
        answer = a.client.revoke("d", "a test")
        assert (answer["binding"], answer["votes"], answer["needed"]) == (True, 1, 1)
        federation.until(lambda: a.gamma().keys() == {"a", "b"}, "A goes on without D")
        assert d.status()["phase"] == "ready"
        federation.start("b")
        survivors = federation.settle("a", "b")
        federation.until(lambda: d.status()["phase"] == "left", "D hears it from B")
        assert [standing(node, "d") for node in (a, b)] == ["revoked", "revoked"]
        assert a.gamma().keys() == b.gamma().keys() == {"a", "b"}
    assert survivors == reference({"a": labels["a"], "b": labels["b"]}, quorum=1)


def test_nobody_revokes_itself_or_a_stranger() -> None:
    with Federation(THREE) as federation:
        a = federation["a"]
        federation.start("a")
        for peer in (a.id, "nobody"):
            done = a.run("revoke", peer, "--reason", "a test", "--yes")
            assert done.returncode == 13, done.stderr
            assert done.stderr.startswith("fednode: ")
        unconfirmed = a.run("revoke", "b", "--reason", "a test")
        assert unconfirmed.returncode == 13
        assert a.status()["revocations"] == []
