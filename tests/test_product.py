"""The product of experts on cases whose answer is known by hand."""

import math

import pytest
import torch

from fednode.learning.product import product_of_experts


def logits(*rows: list[float]) -> torch.Tensor:
    return torch.tensor(rows)


def test_one_expert_answers_as_it_does_alone() -> None:
    answer = product_of_experts([logits([math.log(0.7), math.log(0.2), math.log(0.1)])])
    assert answer[0].tolist() == pytest.approx([0.7, 0.2, 0.1], abs=1e-6)


def test_two_experts_give_the_normalised_geometric_mean() -> None:
    first, second = [0.8, 0.2], [0.5, 0.5]
    answer = product_of_experts([logits([math.log(p) for p in first]), logits([math.log(p) for p in second])])
    means = [math.sqrt(0.8 * 0.5), math.sqrt(0.2 * 0.5)]
    assert answer[0].tolist() == pytest.approx([mean / sum(means) for mean in means], abs=1e-6)


def test_equal_experts_are_no_more_certain_than_one() -> None:
    row = logits([2.0, 0.5, -1.0])
    assert torch.allclose(product_of_experts([row] * 5), product_of_experts([row]))


def test_the_scale_and_offset_of_an_experts_logits_follow_from_its_probabilities() -> None:
    shifted = product_of_experts([logits([3.0, 1.0]), logits([101.0, 104.0])])
    assert torch.allclose(shifted, product_of_experts([logits([2.0, 0.0]), logits([0.0, 3.0])]))


def test_an_expert_vetoes_by_no_more_than_the_floor() -> None:
    sure, other = logits([0.0, -1000.0]), logits([-20.0, 0.0])
    answer = product_of_experts([sure, other])
    # the log odds: the floor, 12 ln 10, against 20, halved
    assert math.log(float(answer[0, 0] / answer[0, 1])) == pytest.approx((12 * math.log(10) - 20) / 2, abs=1e-3)


def test_the_answer_has_the_argmax_of_the_unweighted_product() -> None:
    generator = torch.Generator().manual_seed(0)
    parts = [torch.randn(50, 4, generator=generator) * 3 for _ in range(3)]
    product = torch.stack([torch.softmax(part, 1) for part in parts]).prod(0)
    assert (product_of_experts(parts).argmax(1) == product.argmax(1)).all()
