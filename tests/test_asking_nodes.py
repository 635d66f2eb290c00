"""What real nodes answer while they read their images, and when two of them have equal ones."""

import pytest
from federation import Federation

from fednode.errors import RefusedError


def test_a_rescan_while_images_are_read_reads_them_anew_and_labels_are_known_only_then() -> None:
    with Federation({"a": ("ant", "bee")}) as federation:
        node = federation["a"]
        node.pull("hold-scan")
        federation.start()
        federation.until(lambda: len(node.requests("scan")) == 1, "it reads")
        with pytest.raises(RefusedError, match="still being read"):
            node.client.withdraw("ant")
        node.client.rescan()
        federation.until(lambda: len(node.requests("scan")) == 2, "it reads anew")
        node.release("hold-scan")
        federation.settle()
        assert len(node.requests("scan")) == 2


def test_equal_experts_of_two_nodes_are_measured_each_under_its_own_name() -> None:
    with Federation({"a": ("1",), "b": ("1",), "c": ("2",)}, labels=("1", "2"), source="digits") as federation:
        federation.start()
        product = federation.settle()
        assert product["a"] == product["b"] != product["c"]
        measured = federation["c"].client.evaluate("digits")["experts"]
        assert sorted(expert["peer"] for expert in measured) == ["a", "b", "c"]
