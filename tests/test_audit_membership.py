"""Attacks on published weights: energies and norms with known values, areas by counting pairs, and the gap in nats."""

import math

import pytest
import torch
from torch import Tensor

from fednode.learning.audit.membership import (
    Losses,
    Scores,
    Sides,
    area_under_curve,
    gap,
    judge,
    loss_scores,
    losses,
    sima_scores,
)
from fednode.recipe import AuditRecipe

RECIPE = AuditRecipe(levels_milli=(500, 1_000), draws=2)
SIDES = Sides(torch.full((3, 1, 2, 2), 0.5), torch.full((2, 1, 2, 2), -1.0))


def constant(x: Tensor, sigma: Tensor) -> Tensor:
    """Answers 0 whatever it sees."""
    return torch.zeros_like(x)


def honest(x: Tensor, sigma: Tensor) -> Tensor:
    """Takes nothing away."""
    return x


def test_the_energy_of_a_constant_answer_is_the_squared_image_over_the_squared_level() -> None:
    found = losses(constant, SIDES, RECIPE, seed=1)
    assert found.train.tolist() == [pytest.approx([1.0 / 0.25, 1.0])] * 3
    assert found.holdout.tolist() == [pytest.approx([4.0 / 0.25, 4.0])] * 2


def test_the_energy_of_no_denoising_is_the_squared_noise_the_same_for_every_image_and_seed() -> None:
    found = losses(honest, SIDES, RECIPE, seed=1)
    assert torch.allclose(found.train[:1], found.holdout)
    assert torch.equal(found.train, losses(honest, SIDES, RECIPE, seed=1).train)
    assert not torch.equal(found.train, losses(honest, SIDES, RECIPE, seed=2).train)


def test_the_scores_are_sums_of_logarithms_over_the_levels() -> None:
    scores = loss_scores(losses(constant, SIDES, RECIPE, seed=1))
    assert scores.others.tolist() == pytest.approx([-math.log(16 * 4)] * 2, rel=1e-5)
    sima = sima_scores(constant, SIDES, RECIPE)
    assert sima.members.tolist() == pytest.approx([-math.log(2.0 * 1.0)] * 3, rel=1e-5)


def test_the_area_is_the_share_of_pairs_in_order_with_ties_as_halves() -> None:
    scores = Scores(torch.tensor([3.0, 1.0, 2.0]), torch.tensor([1.0, 2.5]))
    pairs = [(a > b) + 0.5 * (a == b) for a in scores.members.tolist() for b in scores.others.tolist()]
    assert area_under_curve(scores) == pytest.approx(sum(pairs) / len(pairs))


def test_members_are_counted_above_all_but_one_percent_of_held_out_images() -> None:
    others = torch.arange(200.0)
    found = judge(Scores(torch.tensor([197.5, 198.5, 250.0, 3.0]), others), RECIPE)
    assert found["false_alarms_allowed"] == 2
    assert (found["members_found"], found["share_found"]) == (3, "0.7500")


def test_one_percent_of_a_few_images_is_none() -> None:
    found = judge(Scores(torch.tensor([0.5, 1.5]), torch.tensor([0.0, 1.0])), RECIPE)
    assert (found["members_found"], found["false_alarms_allowed"]) == (1, 0)


def test_the_gap_is_the_area_between_the_mean_energies_over_the_logarithm_of_the_level() -> None:
    levels = [1.0, math.e, math.e**2]
    found = gap(Losses(torch.tensor([[1.0, 1.0, 1.0]]), torch.tensor([[1.0, 3.0, 1.0], [1.0, 3.0, 3.0]]), levels))
    assert float(str(found["nats"])) == pytest.approx(1.0 + 1.5)
    assert float(str(found["excess_risk_bound"])) == pytest.approx(math.sqrt(5.0), abs=1e-4)


def test_a_negative_gap_bounds_the_risk_by_nothing_more_than_zero() -> None:
    found = gap(Losses(torch.tensor([[2.0]]), torch.tensor([[1.0]]), [1.0]))
    assert (found["nats"], found["excess_risk_bound"]) == ("-1.0000", "0.0000")
