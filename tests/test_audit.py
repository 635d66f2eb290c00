"""The audit: copies fail, fresh images pass at the promised rate, and what cannot be told is refused."""

import json
import math
from itertools import combinations

import pytest
import torch
from torch import Tensor

from fednode.learning.audit import audit, chance_of, nearest
from fednode.recipe import AuditRecipe
from fednode_crypto import strict_json

RECIPE = AuditRecipe()


def images(count: int, seed: int) -> Tensor:
    """Noisy images of one shape, 8 x 8 grey."""
    generator = torch.Generator().manual_seed(seed)
    shape = torch.linspace(40, 200, 64).reshape(1, 1, 8, 8)
    return (shape + 30 * torch.randn(count, 1, 8, 8, generator=generator)).clamp(0, 255).to(torch.uint8)


def by_enumeration(nearer: int, samples: int, fresh: int, rank: int) -> float:
    """The share of all orders in which at least `nearer` samples come before the rank-th fresh one."""
    orders = list(combinations(range(samples + fresh), fresh))
    return sum(places[rank - 1] - (rank - 1) >= nearer for places in orders) / len(orders)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("nearer", range(6))
def test_the_chance_is_that_of_counting_all_orders(nearer: int, rank: int) -> None:
    assert float(chance_of(nearer, 5, 4, rank)) == pytest.approx(by_enumeration(nearer, 5, 4, rank))


def test_nearest_distances_are_euclidean_and_exact_for_copies() -> None:
    train = torch.zeros(2, 1, 2, 2, dtype=torch.uint8)
    train[1] = 200
    probe = torch.stack([train[1], torch.tensor([[[3, 4], [0, 0]]], dtype=torch.uint8)])
    assert nearest(probe, train).tolist() == [0.0, 5.0]


def test_copies_of_training_images_fail() -> None:
    train = images(118, 1)
    report = audit(train[torch.arange(256) % 118], train, images(17, 2), RECIPE)
    assert report["passed"] is False
    assert report["copies"] == report["nearer"] == 256
    assert "256 of 256" in str(report["reasons"])


def test_training_images_with_a_little_noise_fail() -> None:
    train = images(118, 1)
    noise = torch.randint(-2, 3, (256, 1, 8, 8), generator=torch.Generator().manual_seed(4))
    near = (train[torch.arange(256) % 118] + noise).clamp(0, 255).to(torch.uint8)
    report = audit(near, train, images(17, 2), RECIPE)
    assert (report["passed"], report["copies"]) == (False, 0)


def test_every_second_sample_a_copy_fails() -> None:
    train, fresh = images(118, 1), images(256, 3)
    fresh[::2] = train[torch.arange(128) % 118]
    assert audit(fresh, train, images(17, 2), RECIPE)["passed"] is False


def test_fresh_images_pass_nearly_always() -> None:
    passed = [
        audit(images(64, 3 * i), images(60, 3 * i + 1), images(9, 3 * i + 2), RECIPE)["passed"] for i in range(100)
    ]
    assert passed.count(True) >= 99


def test_the_fewer_the_held_out_images_the_more_must_be_near_before_it_fails() -> None:
    def needed(fresh: int) -> int:
        return next(count for count in range(257) if chance_of(count, 256, fresh, 1) < 0.001)

    assert needed(100) < needed(30) < needed(10)
    assert math.isclose(needed(17) / 256, 1 - 0.001 ** (1 / 17), abs_tol=0.03)


def test_too_few_images_are_refused_with_both_numbers() -> None:
    report = audit(images(64, 1), images(17, 2), images(2, 3), RECIPE)
    assert report["passed"] is False
    assert report["reasons"] == ["There are 19 images, and at least 20 are needed."]


def test_twenty_images_are_enough() -> None:
    assert audit(images(64, 1), images(18, 2), images(2, 3), RECIPE)["passed"] is True


def test_held_out_images_that_are_training_images_count_for_nothing() -> None:
    train = images(118, 1)
    report = audit(train[:64], train, torch.cat([train[:9], images(8, 2)]), RECIPE)
    assert (report["passed"], report["heldout"]) == (False, 8)
    assert "could not be told" in str(audit(images(64, 3), train, train[:9], RECIPE)["reasons"])


def test_no_held_out_image_is_refused() -> None:
    assert audit(images(64, 1), images(30, 2), images(0, 3), RECIPE)["passed"] is False


def test_the_report_has_one_byte_form_and_depends_on_its_inputs_alone() -> None:
    reports = [audit(images(64, 1), images(60, 2), images(9, 3), RECIPE) for _ in range(2)]
    assert strict_json.dumps(reports[0]) == strict_json.dumps(reports[1])
    assert json.loads(strict_json.dumps(reports[0])) == reports[0]
