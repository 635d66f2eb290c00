"""Scoring: counts and losses of known probabilities, and the product of both."""

import math

import pytest
import torch

from fednode.grid import GridRecipe
from fednode.learning.product import log_probabilities, product_of_both, tempered
from fednode.learning.scoring import rows_of
from fednode.recipe import TeacherRecipe

GRID = GridRecipe(teacher=TeacherRecipe(), temperatures_milli=(500, 1000, 2000))
PROBABILITIES = torch.tensor([[0.8, 0.2], [0.4, 0.6], [1.0, 0.0]], dtype=torch.float64)


def loss_at(temperature: float, label: int) -> float:
    """-log of p^(1/T), normalised, over the three images, each at most 16 nats."""
    total = 0.0
    for row in PROBABILITIES.tolist():
        weights = [p ** (1 / temperature) for p in row]
        share = weights[label] / sum(weights)
        total += min(-math.log(share), 16.0) if share else 16.0
    return total


@pytest.mark.parametrize(("label", "answered"), [(0, [[0, 2], [1, 1]]), (1, [[0, 2], [1, 1]])])
def test_answers_are_counted_and_losses_added_up_and_clipped(label: int, answered: list[list[int]]) -> None:
    found, losses = rows_of(log_probabilities(PROBABILITIES), label, GRID)
    assert found == answered
    assert losses == pytest.approx([loss_at(t, label) * 1e6 for t in (0.5, 1.0, 2.0)], abs=3)


def test_the_product_of_both_is_the_geometric_mean() -> None:
    one, two = torch.tensor([[0.9, 0.1]]).double(), torch.tensor([[0.2, 0.8]]).double()
    found = tempered(product_of_both(log_probabilities(one), log_probabilities(two)), 1000)
    left, right = math.sqrt(0.9 * 0.2), math.sqrt(0.1 * 0.8)
    assert found.tolist() == [pytest.approx([left / (left + right), right / (left + right)])]


def test_a_temperature_of_one_changes_nothing_and_what_was_ruled_out_stays_finite() -> None:
    logs = log_probabilities(PROBABILITIES)
    assert logs.isfinite().all()
    assert torch.allclose(tempered(logs, 1000), PROBABILITIES)
    assert tempered(logs, 1).isfinite().all()
