"""Federated evaluation between real node processes: every node has all counts, takes the same choice, and unlearns it."""

import json

import pytest
from federation import Federation
from nodes import Node

pytestmark = pytest.mark.process

SILOS = {"a": ("ant",), "b": ("bee",), "c": ("cat",)}
CELLS = {"experts", "generative", "generative-low", "generative-high", "both"}


def counted(node: Node) -> list[str]:
    """The nodes whose counts about what answers now are here."""
    found: list[str] = node.status()["evaluation"]["nodes"]
    return found


def test_a_peer_whose_expert_does_not_come_is_waited_for_until_the_deadline_and_what_is_slow_is_not_taken() -> None:
    with Federation(SILOS) as federation:
        a, b, c = federation["a"], federation["b"], federation["c"]
        c.pull("hold-expert")
        for node in (a, b, c):
            node.pull("best", "both")
        federation.start(FEDNODE_GATHER_DEADLINE=3, FEDNODE_MAX_LATENCY=4)
        federation.until(lambda: a.status()["evaluation"]["lacking"] == ["c"], "A lacks the expert of C")
        for node in (a, b):
            federation.until(lambda node=node: counted(node) == ["a", "b"], "A and B have scored without it")
            answer = node.predict()
            assert (answer["product"], answer["chosen_by"]) == ("experts", "federated evaluation")
            assert node.predict("both")["product"] == "both"
        measured = a.client.evaluate_federation()
        assert measured["cells"]["both"]["value"] == 1
        assert measured["latency_ms"]["both"] == 6  # more than what the operator allows
        c.release("hold-expert")
        for node in (a, b, c):
            federation.until(lambda node=node: counted(node) == ["a", "b", "c"], "all have scored the whole product")


def test_silos_agree_on_the_best_product_and_count_anew_after_one_has_left() -> None:
    with Federation(SILOS) as federation:
        a, b, c = federation["a"], federation["b"], federation["c"]
        for node in (a, b, c):
            node.pull("best", "both")
        federation.start("a", "b", "c", FEDNODE_GATHER_DEADLINE=30)
        federation.settle()
        for node in (a, b, c):
            federation.until(lambda node=node: counted(node) == ["a", "b", "c"], "every node has all counts")
            found = node.status()["evaluation"]
            assert (found["product"], found["temperature"], found["chosen_by"]) == ("both", 0.5, "federated evaluation")
            assert (found["images"], found["labels"], found["lacking"]) == (15, 3, [])
            assert found["accuracy"]["value"] == 1
            answer = node.predict()
            assert (answer["product"], answer["temperature"]) == ("both", 0.5)
            assert {digest for _, digest in answer["lineage"]} >= {*node.product().values()}
        assert [len(node.requests("score")) for node in (a, b, c)] == [1, 1, 1]
        asked = a.predict("generative")
        assert (asked["product"], asked["levels"], asked["chosen_by"]) == ("generative", "all", "asked")
        document = a.client.evaluate_federation()
        assert [(row["label"], row["nodes"], row["images"]) for row in document["rows"]] == [
            ("ant", ["a"], 5),
            ("bee", ["b"], 5),
            ("cat", ["c"], 5),
        ]
        assert document["cells"].keys() == CELLS
        assert document["cells"]["experts"]["value"] == pytest.approx(0.8)
        assert document["rows"][0]["cells"]["experts"]["answered"] == {"ant": 4, "bee": 1}

        a.pull("hold-score")
        b.pull("hold-score")
        for node in (a, b):
            node.pull("best", "experts")
        c.client.leave("a test")
        federation.settle("a", "b")
        for node in (a, b):
            federation.until(lambda node=node: counted(node) == [], "the counts about what is gone are void")
            assert node.predict()["chosen_by"] == "default"
            assert node.status()["phase"] == "ready"
            node.release("hold-score")
        for node in (a, b):
            federation.until(lambda node=node: counted(node) == ["a", "b"], "what is left was scored again")
            assert node.predict()["product"] == "experts"
            assert c.id not in json.dumps(node.predict()["lineage"])
        before = a.status()["evaluation"]
        a.kill()
        federation.start("a")
        assert a.status()["evaluation"] == before
        assert len(a.requests("score")) == 2
