"""Three real nodes with real learning on handwritten digits: they fit, exchange, train, answer, and unlearn one of them."""

import io

import pytest
from federation import Federation, reference
from PIL import Image
from sklearn.datasets import load_digits

pytestmark = [pytest.mark.process, pytest.mark.timeout(1200)]

DIGITS = tuple("0123456789")
THREE = {"a": ("0", "1"), "b": ("2",), "c": ("4",)}
TWO = {name: THREE[name] for name in ("a", "b")}
LEARNING_SECONDS = 400.0


def png(pixels: object) -> bytes:
    """A picture file of one of scikit-learn's digits, whose values go from 0 to 16."""
    stream = io.BytesIO()
    Image.fromarray((pixels * 255 / 16).round().astype("uint8")).save(stream, "PNG")
    return stream.getvalue()


def test_three_hospitals_learn_from_each_other_and_two_of_them_unlearn_the_third() -> None:
    options = {"labels": DIGITS, "worker": "", "source": "digits"}
    with Federation(THREE, **options) as federation:
        a, c = federation["a"], federation["c"]
        federation.start()
        before = federation.settle(deadline=LEARNING_SECONDS)
        federation.until(
            lambda: all(node.status()["evaluation"]["nodes"] == list("abc") for node in federation.nodes.values()),
            "every node has all counts",
            LEARNING_SECONDS,
        )
        said = [node.status()["evaluation"] for node in federation.nodes.values()]
        assert said[0] == said[1] == said[2]
        assert said[0]["labels"] == 4
        assert said[0]["accuracy"]["value"] > 0.9
        assert [row["label"] for row in a.client.evaluate_federation()["rows"]] == list("0124")
        measured = a.client.evaluate("digits")
        assert measured["labels"] == list("0124")
        assert measured["default"] == said[0]["product"]
        assert measured["chosen"]["accuracy"] > 0.9
        assert measured["products"]["experts"]["accuracy"] > 0.9
        assert measured["products"]["generative"]["accuracy"] > 0.85
        digits = load_digits()
        pictures = {label: png(digits.images[digits.target == int(label)][0]) for label in "0124"}
        answers = a.client.predict(list(pictures.items()))["answers"]
        assert sum(answer["label"] == answer["name"] for answer in answers) >= 3
        weights = [path.read_bytes() for path in (a.home.store / c.id).rglob("weights.safetensors")]
        assert len(weights) == 2

        c.client.leave("a test")
        federation.until(lambda: not a.product() and "c" not in a.gamma(), "A has erased what descends from C")
        answer = a.predict(image=pictures["0"])
        assert (answer["product"], answer["chosen_by"]) == ("generative", "default")
        after = federation.settle("a", "b", deadline=LEARNING_SECONDS)
        assert not before.items() & after.items()
        for node in (a, federation["b"]):
            assert [path for data in weights for path in node.files_with(data)] == []
        assert a.predict(image=pictures["2"])["answers"][0]["probabilities"].keys() == {"0", "1", "2"}
    assert after == reference(TWO, deadline=LEARNING_SECONDS, **options)
