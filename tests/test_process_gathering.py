"""The gather rule between real node processes: who waits for whom, for how long, and what comes of those who are late."""

import pytest
from federation import Federation, reference
from nodes import Node

pytestmark = pytest.mark.process

THREE = {"a": ("ant",), "b": ("cat",), "c": ("dog", "eel")}


def experts_built(node: Node) -> int:
    """How many experts a node has begun to train."""
    return len(node.requests("expert"))


def test_an_expert_waits_for_a_peer_that_declared_and_is_gone_and_the_status_names_it() -> None:
    with Federation(THREE) as federation:
        a, c = federation["a"], federation["c"]
        c.pull("hold-fit-eel")
        federation.start("a", "b")
        federation.until(lambda: a.gamma().keys() == {"a", "b"}, "A has what there is")
        assert a.status()["waiting"] == ["a first word from c, which is not connected"]
        federation.start("c")
        federation.until(
            lambda: a.status()["waiting"] == ["the generator of eel from c"], "A has dog, and waits for eel"
        )
        assert a.status()["phase"] == "gathering"
        assert a.peer("c")["publishes"] == ["dog", "eel"]
        assert a.peer("c")["missing"] == ["eel"]
        assert a.predict()["product"] == "generative"
        c.kill()
        federation.until(
            lambda: a.status()["waiting"] == ["the generator of eel from c, which is not connected"],
            "A knows that C is gone",
        )
        assert experts_built(a) == 0
        c.release("hold-fit-eel")
        federation.start("c")
        experts = federation.settle()
        assert [experts_built(node) for node in federation.nodes.values()] == [1, 1, 1]
        of = {one["label"]: (one["peers"], one["asked"], one["doubted"]) for one in a.status()["expert"]["samples"]}
        assert of == {label: ([peer], 16, 1) for peer, labels in THREE.items() for label in labels}
    assert experts == reference(THREE)


def test_after_the_deadline_an_expert_is_built_without_a_peer_and_once_more_when_all_of_it_has_come() -> None:
    with Federation(THREE) as federation:
        a, b, c = federation["a"], federation["b"], federation["c"]
        federation.start("a", "b", FEDNODE_GATHER_DEADLINE=1)
        early = federation.until_product({"a", "b"}, "a", "b")
        assert [experts_built(node) for node in (a, b)] == [1, 1]
        assert a.status()["phase"] == "ready"
        assert a.peer("c")["reason"]
        for node in (a, b):
            assert node.stop() == 0
        c.pull("hold-fit-eel")
        federation.start()
        federation.until(lambda: a.gamma().get("c", {}).keys() == {"dog"}, "A has dog")
        assert a.predict()["product"] == "generative"
        assert [experts_built(node) for node in (a, b)] == [1, 1]
        c.release("hold-fit-eel")
        experts = federation.settle()
        assert [experts_built(node) for node in (a, b, c)] == [2, 2, 1]
    assert early == reference({name: THREE[name] for name in ("a", "b")})
    assert experts == reference(THREE)


def test_a_peer_without_images_gets_an_expert_too_and_nobody_waits_for_it() -> None:
    with Federation({"a": ("ant",), "b": ("cat",), "n": ()}) as federation:
        federation.start()
        experts = federation.settle()
        assert experts.keys() == {"a", "b", "n"}
        assert federation["n"].gamma().keys() == {"a", "b"}
