"""The audit: copies and remembered images fail, fresh images pass at the promised rate, what cannot be told is refused."""

import json
from typing import Any

import pytest
import torch
from audited import exhibit, images, memory_of
from torch import Tensor

from fednode.learning.audit import copies, examine
from fednode.learning.audit.copies import Points, nearest, ratios
from fednode.learning.audit.features import features
from fednode.recipe import AuditRecipe
from fednode_crypto import strict_json

RECIPE = AuditRecipe()
SPEC = "ab" * 32


def audit(samples: Tensor, train: Tensor, holdout: Tensor, *denoise: object) -> dict[str, Any]:
    shown = exhibit(samples, train, holdout, *denoise)
    report: dict[str, Any] = examine(shown, RECIPE, SPEC, torch.device("cpu")).report
    return report


def test_nearest_distances_are_euclidean_exact_for_copies_and_come_with_their_images() -> None:
    known = torch.tensor([[0.0, 0.0], [200.0, 0.0], [0.0, 10.0]])
    distances, found = nearest(torch.tensor([[200.0, 0.0], [3.0, 4.0]]), known, 2)
    assert distances[0, 0] == 0
    assert distances[1].tolist() == pytest.approx([5.0, 45**0.5])
    assert found[:, 0].tolist() == [1, 0]


def test_the_carlini_ratio_is_small_for_a_near_copy_and_one_amid_equals() -> None:
    found = ratios(torch.tensor([[1.0, 1.0, 1.0], [0.1, 1.4, 1.5], [0.0, 0.0, 0.0]]))
    assert found.tolist() == pytest.approx([1.0, 0.1, 1.0])


def test_visits_count_the_samples_that_are_nearest_to_held_out_images() -> None:
    points = Points(torch.tensor([[0.1], [0.2], [5.1]]), torch.tensor([[0.0], [1.0]]), torch.tensor([[5.0], [9.0]]))
    found = copies.visits(points)
    assert (found["heldout"], found["expected"]) == (1, "1.500")
    # Of the 6 ways to take 2 of the 4 images, with visits 2, 0, 1 and 0, three hold at most one visit.
    assert float(str(found["chance"])) == pytest.approx(3 / 6)


def test_features_are_always_the_same_numbers_and_tell_images_apart() -> None:
    one = features(images(3, 1))
    assert one.shape == (3, 128)
    assert torch.equal(one, features(images(3, 1)))
    assert torch.cdist(one, one)[0, 1] > 0.1
    assert features(images(2, 1, side=33).repeat(1, 3, 1, 1)).shape == (2, 128)


def test_copies_of_training_images_fail_in_both_spaces() -> None:
    train = images(118, 1)
    report = audit(train[torch.arange(256) % 118], train, images(17, 2))
    assert report["passed"] is False
    assert report["copies"]["pixels"]["copies"] == 256
    for space in ("pixels", "features"):
        assert report["copies"][space]["distance"]["nearer"] == 256
        assert report["copies"][space]["visits"]["heldout"] == 0
        assert any(f"In {space}, 256 of 256" in reason for reason in report["reasons"])


def test_training_images_with_a_little_noise_fail() -> None:
    train = images(118, 1)
    noise = torch.randint(-2, 3, (256, 1, 8, 8), generator=torch.Generator().manual_seed(4))
    report = audit((train[torch.arange(256) % 118] + noise).clamp(0, 255).to(torch.uint8), train, images(17, 2))
    assert (report["passed"], report["copies"]["pixels"]["copies"]) == (False, 0)


def test_every_second_sample_a_copy_fails() -> None:
    train, fresh = images(118, 1), images(256, 3)
    fresh[::2] = train[torch.arange(128) % 118]
    assert audit(fresh, train, images(17, 2))["passed"] is False


def test_a_generator_that_remembers_its_images_fails_though_its_samples_are_fresh() -> None:
    train = images(60, 1)
    report = audit(images(64, 3), train, images(17, 2), memory_of(train))
    assert report["passed"] is False
    assert {name: one["auc"] for name, one in report["membership"].items()} == {"loss": "1.0000", "sima": "1.0000"}
    assert len(report["reasons"]) == 2
    assert "SimA" in report["reasons"][1]
    assert float(report["gap"]["nats"]) > 1


def test_fresh_images_and_a_blind_denoiser_pass_nearly_always() -> None:
    passed = [audit(images(64, 3 * i), images(60, 3 * i + 1), images(9, 3 * i + 2))["passed"] for i in range(15)]
    assert passed.count(True) >= 14


def test_too_few_images_are_refused_with_both_numbers() -> None:
    report = audit(images(64, 1), images(28, 2), images(3, 3))
    assert report["passed"] is False
    assert report["reasons"] == ["There are 31 images, and at least 32 are needed."]


def test_the_fewest_images_that_are_accepted_are_enough_to_pass_and_to_fail() -> None:
    train, holdout = images(28, 2), images(4, 3)
    assert audit(images(64, 1), train, holdout)["passed"] is True
    failed = audit(images(64, 1), train, holdout, memory_of(train))["reasons"]
    assert ["loss" in reason or "SimA" in reason for reason in failed] == [True, True]
    copied = audit(train[torch.arange(64) % 28], train, holdout)["reasons"]
    assert any("In pixels" in reason for reason in copied)


def test_an_image_on_both_sides_of_the_split_is_refused() -> None:
    train = images(118, 1)
    report = audit(images(64, 3), train, torch.cat([train[:1], images(8, 2)]))
    assert report["passed"] is False
    assert report["reasons"] == [
        "1 of the held-out images are training images as well, so nothing could be told by them."
    ]


def test_no_held_out_image_is_refused() -> None:
    assert audit(images(64, 1), images(40, 2), images(0, 3))["reasons"][0].startswith("No image is held out")


def test_the_report_has_one_byte_form_and_depends_on_its_inputs_alone() -> None:
    reports = [audit(images(64, 1), images(60, 2), images(9, 3)) for _ in range(2)]
    assert strict_json.dumps(reports[0]) == strict_json.dumps(reports[1])
    assert json.loads(strict_json.dumps(reports[0])) == reports[0]
