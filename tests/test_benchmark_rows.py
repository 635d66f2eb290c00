"""Rows: what is chosen is chosen on validation images, and what they come to over seeds, with intervals and bytes."""

from types import SimpleNamespace

import numpy as np
import pytest
from comparison import wire
from comparison.budgets import Budget
from comparison.rows import Row, Rows
from comparison.summary import Found, bootstrap, minus, student_interval, summarise

from fednode.learning.dataset import Evaluated


def row(answers: list[int], chosen: str = "") -> Row:
    """A predictor of three labels that is sure of these answers to four test images."""
    sure = np.eye(3)[answers][None]
    return Row(sure, sure, {"wire": 1_000_000, "rounds_200": 5}, 1, 2.0, chosen)


TESTS = {
    name: Evaluated(np.arange(seed * 4, seed * 4 + 4, dtype=np.uint8).reshape(4, 1, 1, 1), np.array([0, 1, 2, 0]))
    for seed, name in enumerate(("0", "1"))
}


def chooser(monkeypatch: pytest.MonkeyPatch, rows: dict[str, Row], images: list[int] | None = None) -> Rows:
    """Rows of a draw whose products and experts are given; its validation images have the labels 0, 0, 0 and 1, or `images`."""
    labels = np.array([0, 0, 0, 1] if images is None else images)
    held = Evaluated(np.zeros((len(labels), 1, 1, 1), dtype=np.uint8), labels)
    monkeypatch.setattr(Rows, "_fits", [])
    monkeypatch.setattr(Rows, "_product", lambda self, recipe: rows["product"])
    monkeypatch.setattr(Rows, "_generative", lambda self: rows["generative"])
    monkeypatch.setattr(Rows, "_experts", lambda self: rows["experts"])
    making = SimpleNamespace(draw=SimpleNamespace(validation=held), recipes=SimpleNamespace(expert=None))
    return Rows(making, Budget(rounds=1))  # type: ignore[arg-type]


def said(validation: list[list[int]], test: list[list[int]], moved: int = 0) -> Row:
    return Row(0.9 * np.eye(3)[validation] + 1 / 30, np.eye(3)[test], {"wire": moved}, 1, 1.0)


def test_auto_takes_the_product_that_is_right_about_more_labels_of_validation_images(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The product is right about 30 of 40 images but knows one label only; the other, about 30 too, and of both labels."""
    images, knows_one = [0] * 30 + [1] * 10, [0] * 40
    knows_both = [0] * 20 + [2] * 10 + [1] * 10
    rows = {"product": said([knows_one], [[0, 1, 2, 0]], 9), "generative": said([knows_both], [[2, 2, 1, 1]], 5)}
    found = chooser(monkeypatch, rows, images).row("auto")
    assert found.chosen == "generative"
    assert found.test is rows["generative"].test
    assert found.bytes == {"wire": 9}


def test_auto_stays_with_the_product_of_experts_where_another_is_no_better(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {"product": said([[0, 0, 1, 1]], [[0, 1, 2, 0]]), "generative": said([[0, 0, 1, 1]], [[2, 2, 1, 1]])}
    assert chooser(monkeypatch, rows).row("auto").chosen == "product"


def test_the_best_expert_is_the_best_on_validation_images_whatever_it_does_on_test_images(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    experts = said([[0, 0, 0, 0], [0, 0, 0, 1], [2, 2, 2, 2]], [[0, 1, 2, 0], [1, 1, 1, 1], [0, 1, 2, 0]])
    found = chooser(monkeypatch, {"experts": experts}).row("best_expert")
    assert found.chosen == "node 1"
    assert found.test.argmax(2).tolist() == [[1, 1, 1, 1]]


def test_both_is_the_geometric_mean_of_the_products(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = np.array([[[0.6, 0.3, 0.1]]]), np.array([[[0.1, 0.3, 0.6]]])
    rows = {name: Row(p, p, {"wire": 1}, 3, 5.0) for name, p in (("product", one), ("generative", other))}
    made = chooser(monkeypatch, rows)
    monkeypatch.setattr(Rows, "_fits", [{"seconds": 4.0}])
    found = made.row("both")
    root = np.sqrt(0.06)
    assert found.test[0, 0] == pytest.approx(np.array([root, 0.3, root]) / (2 * root + 0.3))
    assert (found.calls, found.seconds) == (6, 6.0)


def test_rows_are_summed_up_as_mean_and_deviation_over_the_seeds() -> None:
    rows = {"pooled": {"0": row([0, 1, 2, 0]), "1": row([0, 1, 2, 2])}}
    found = summarise(Found(rows, TESTS, TESTS))["pooled"]
    assert found["mean"] == pytest.approx(0.875)
    assert found["sd"] == pytest.approx(0.125 * 2**0.5)
    assert found["seeds"] == {"0": 1.0, "1": 0.75}
    assert found["validation"]["mean"] == pytest.approx(0.875)
    assert found["bytes"]["wire"] == 1_000_000
    assert {"auroc", "f1", "ece", "network_calls", "seconds"} <= found.keys()


def test_auto_is_compared_with_pooled_image_by_image() -> None:
    rows = {
        "pooled": {"0": row([0, 1, 2, 1]), "1": row([0, 1, 2, 0])},
        "auto": {"0": row([0, 1, 2, 0], "generative"), "1": row([0, 1, 1, 0], "product")},
    }
    found = summarise(Found(rows, TESTS, TESTS))["auto"]
    assert found["chosen"] == {"0": "generative", "1": "product"}
    gap = found["minus_pooled"]
    assert (gap["mean"], gap["images"]) == (0.0, 8)
    low, high = gap["interval_images"]
    assert low == -high == pytest.approx(-0.375, abs=0.13)
    reach = 12.706 * 0.25  # t of 1 degree of freedom, times s / sqrt(2) for gaps of +-1/4
    assert gap["interval_draws"] == pytest.approx([-reach, reach], abs=1e-3)


def test_one_image_in_several_draws_counts_as_one() -> None:
    tests = {"0": TESTS["0"], "1": TESTS["0"]}
    one, other = {"0": row([0] * 4), "1": row([0] * 4)}, {"0": row([0, 1, 2, 0]), "1": row([0] * 4)}
    gap = minus(one, other, tests)
    assert gap["images"] == 4
    assert gap["mean"] == -0.25


def test_intervals_are_those_of_the_textbook() -> None:
    """Of 1000 values of which 100 are 1: the standard error is sqrt(0.1 0.9 / 1000) = 0.0095."""
    low, high = bootstrap(np.repeat([0.0, 1.0], [900, 100]))
    assert (low, high) == pytest.approx((0.1 - 1.96 * 0.0095, 0.1 + 1.96 * 0.0095), abs=0.002)
    assert student_interval([1.0, 2.0, 3.0]) == pytest.approx([2 - 2.484, 2 + 2.484], abs=1e-3)
    assert student_interval([1.0]) is None


def test_bytes_are_counted_for_each_way_of_moving_them() -> None:
    """Ten generators of 3 bytes: 9 copies of each go to peers, one more through a relay, and one each to one place."""
    assert wire.exchanged([3] * 10, 10) == {"wire": 270, "p2p": 270, "relayed": 300}
    assert wire.centralised([3] * 10)["wire"] == 30
    found = wire.averaged(7, nodes=10, rounds=2, many=200)
    assert (found["wire"], found["rounds_200"]) == (280, 28_000)
