"""Real node processes that exchange classifiers: they fit, audit, list, fetch, distil, unlearn, and choose by their labels."""

import json

import pytest
from federation import Federation, reference
from nodes import Node

from fednode.errors import RefusedError, WorkerError

pytestmark = pytest.mark.process

THREE = {"a": ("ant", "bee", "cat"), "b": ("bee", "cat"), "c": ("cat", "dog", "ant")}
TWO = {name: THREE[name] for name in ("a", "b")}
FEW = {"a": ("ant",), "b": ("bee", "cat"), "d": ("dog",)}


def classifiers(node: Node) -> dict[str, dict[str, object]]:
    """The live classifiers that a node knows, by peer name."""
    return {one["peer"]: one for one in node.status()["classifiers"]}


def traces(node: Node, gone: list[bytes]) -> list[object]:
    """The files of a node's home that have any of these weights in them."""
    return [path for data in gone for path in node.files_with(data)]


def test_nodes_exchange_classifiers_distil_experts_and_unlearn_one_of_them_to_the_bit() -> None:
    with Federation(THREE, exchange="classifiers") as federation:
        a, b, c = (federation[name] for name in "abc")
        federation.start()
        before = federation.settle()
        assert classifiers(a).keys() == {"a", "b", "c"}
        assert classifiers(a)["b"]["labels"] == {"bee": 35, "cat": 35}
        assert all(one["audited"] for one in classifiers(a).values())
        status = a.status()
        assert status["gamma"] == {}
        assert status["exchange"] == {"asked": "classifiers", "kinds": ["classifier"], "why": "asked"}
        assert status["uncovered"] == ["eel", "fox"]
        assert status["bytes"]["received"]["classifier"] > 0
        assert [request["op"] for request in a.requests() if request["role"] == "build"][:4] == [
            "scan",
            "classifier",
            "audit-classifier",
            "distil",
        ]
        federation.until(lambda: a.status()["evaluation"]["nodes"] == ["a", "b", "c"], "all have scored")
        scored = a.client.evaluate_federation()
        assert list(scored["cells"]) == ["experts", "ensemble"]
        assert [row["nodes"] for row in scored["rows"]] == [["a", "c"], ["a", "b"], ["a", "b", "c"], ["c"]]
        answer = a.predict()
        assert (answer["product"], answer["experts"], answer["chosen_by"]) == ("experts", 3, "federated evaluation")
        assert {digest for _, digest in answer["lineage"]} == {
            *(one["digest"] for one in classifiers(a).values()),
            *before.values(),
        }
        weights = [path.read_bytes() for path in (a.home.store / c.id).rglob("weights.safetensors")]
        assert len(weights) == 2

        for node in (a, b, c):
            node.kill()
        federation.start()
        assert federation.settle() == before
        assert len(a.requests("distil")) == 1

        a.pull("hold-distil")
        c.client.leave("a test")
        federation.until(lambda: a.status()["product"]["default"] == "ensemble", "A answers from the classifiers")
        answer = a.predict()
        assert (answer["product"], answer["uncovered"]) == ("ensemble", ["dog", "eel", "fox"])
        assert {digest for _, digest in answer["lineage"]} == {one["digest"] for one in classifiers(a).values()}
        a.release("hold-distil")
        after = federation.settle("a", "b")
        assert traces(a, weights) == traces(b, weights) == []
        assert classifiers(a).keys() == {"a", "b"}
        assert a.status()["erased"] == {"classifier": 1, "expert": 3}
    assert after == reference(TWO, exchange="classifiers")


def test_a_withdrawn_label_is_unlearned_by_another_classifier_without_it() -> None:
    with Federation(TWO, exchange="classifiers") as federation:
        a, b = federation["a"], federation["b"]
        federation.start()
        federation.settle()
        old = classifiers(a)["a"]["digest"]
        assert a.client.withdraw("ant") == {"label": "ant", "digest": old}
        federation.until(lambda: "ant" not in classifiers(b).get("a", {"labels": "ant"})["labels"], "B has the new one")
        after = federation.settle()
        assert classifiers(b)["a"]["labels"] == {"bee": 35, "cat": 35}
        federation.until(
            lambda: [one["confirmed"] for one in a.status()["withdrawals"] if one["digest"] == old] == [["b"]],
            "B has confirmed",
        )
    assert after == reference({"a": ("bee", "cat"), "b": TWO["b"]}, exchange="classifiers")


def test_a_classifier_whose_audit_fails_is_held_back_until_its_owner_says_why() -> None:
    with Federation(TWO, exchange="classifiers") as federation:
        a, b = federation["a"], federation["b"]
        a.pull("fail-audit-classifier")
        federation.start()
        federation.settle()
        assert classifiers(b).keys() == {"b"}
        (held,) = a.status()["audits"]
        assert (held["label"], held["passed"]) == ("classifier", False)
        assert a.status()["failed"][0]["job"] == "audit of the classifier"
        done = a.run("override", "classifier", "--reason", "all images are public", "--yes")
        assert done.returncode == 0, done.stderr
        federation.until(lambda: classifiers(b).keys() == {"a", "b"}, "B has it")
        federation.settle()
        (told,) = b.status()["overridden"]
        assert (told["peer"], told["label"], told["reason"]) == ("a", "", "all images are public")


def test_auto_exchanges_what_the_labels_of_all_nodes_speak_for() -> None:
    with Federation(THREE, exchange="auto") as federation:
        a = federation["a"]
        federation.start("a")
        federation.until(lambda: len(a.status()["waiting"]) == 2, "A waits for the others")
        assert a.status()["exchange"]["kinds"] == []
        federation.start("b", "c")
        found = federation.settle()
        for node in federation.nodes.values():
            assert node.status()["exchange"]["kinds"] == ["classifier"]
            assert node.status()["exchange"]["why"] == "nodes hold 2.7 of 4 labels on the mean, which is half or more"
        a.kill()
        federation.start("a")
        federation.settle()
        federation["b"].client.leave("then A and C hold 3 of 4 labels")
        found = federation.settle("a", "c")
        assert a.status()["exchange"]["why"] == "nodes hold 3.0 of 4 labels on the mean, which is half or more"
    assert found == reference({name: THREE[name] for name in ("a", "c")}, exchange="classifiers")


def test_auto_exchanges_generators_where_nodes_hold_few_labels() -> None:
    with Federation(FEW, exchange="auto") as federation:
        federation.start()
        federation.settle()
        a = federation["a"]
        assert a.status()["exchange"]["kinds"] == ["generator"]
        assert "Exchanges generators (auto: nodes hold 1.3 of 4 labels on the mean" in a.run("status").stdout


def test_private_generators_and_classifiers_are_not_published_by_one_node() -> None:
    with Federation(TWO, exchange="classifiers") as federation:
        a = federation["a"]
        a.start(FEDNODE_DP="8")
        assert a.wait() == 3
        assert "has no such privacy" in a.tail()


def test_a_ready_classifier_is_offered_and_every_status_says_that_nobody_audited_it() -> None:
    with Federation(TWO, exchange="classifiers") as federation:
        a, b = federation["a"], federation["b"]
        federation.start()
        before = federation.settle()
        file = a.folder / "model.safetensors"
        file.write_bytes(b"a checkpoint")
        verb = ("import-classifier", str(file), "--model", "vit_tiny_patch16_224", "--labels", "dog,eel", "--yes")
        done = a.run(*verb, "--json")
        assert done.returncode == 0, done.stderr
        made = json.loads(done.stdout)
        assert (made["labels"], made["audited"]) == (["dog", "eel"], False)
        federation.until(lambda: classifiers(b).get("a", {}).get("digest") == made["digest"], "B has it")
        after = federation.settle()
        assert not before.items() & after.items()
        assert classifiers(b)["a"] == {
            "peer": "a",
            "digest": made["digest"],
            "labels": {"dog": 1, "eel": 1},
            "audited": False,
        }
        assert "NOT AUDITED" in b.run("status").stdout

        a.kill()
        a.start()
        assert federation.settle() == after
        (a.folder / "bad").write_bytes(b"these weights are bad")
        for model, labels, error, words in (
            ("resnet50", ("dog", "eel"), RefusedError, "no model 'resnet50'"),
            ("vit_tiny_patch16_224", ("dog", "gnu"), RefusedError, "'gnu' is not a label"),
            ("vit_tiny_patch16_224", ("dog",), RefusedError, "at least two"),
            ("vit_tiny_patch16_224", ("dog", "eel"), WorkerError, "not finite"),
        ):
            with pytest.raises(error, match=words):
                a.client.import_classifier(str(a.folder / "bad"), model, labels)
        assert classifiers(a)["a"]["digest"] == made["digest"]

        assert a.client.withdraw("eel") == {"label": "eel", "digest": made["digest"]}
        federation.until(
            lambda: classifiers(b).get("a", {"labels": 0})["labels"] == {"ant": 35, "bee": 35, "cat": 35},
            "the own one is back",
        )
        assert federation.settle() == before
        with pytest.raises(RefusedError, match="'eel' is withdrawn"):
            a.client.import_classifier(str(file), "vit_tiny_patch16_224", ("dog", "eel"))
