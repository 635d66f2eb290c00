"""Gradients and stability bounds on losses whose derivatives are known."""

import math

import pytest
import torch
from mitr.theory import Training, gradients, stability, stability_convex
from torch import nn
from torch.nn import functional


def test_gradients_of_a_linear_classifier_are_those_of_the_textbook() -> None:
    """At zero weights, |grad| = |p - y| |x| = sqrt(1/2) |x| for two labels, and the Hessian is (pp^T) (x) (xx^T)."""
    network = nn.Linear(2, 2, bias=False)
    nn.init.zeros_(network.weight)
    images = torch.tensor([[3.0, 4.0], [0.0, 1.0], [3.0, 4.0]])
    targets = torch.tensor([0, 0, 1])

    def loss(at: int) -> torch.Tensor:
        return functional.cross_entropy(network(images[at : at + 1]), targets[at : at + 1])

    found = gradients([lambda at=at: loss(at) for at in range(3)], list(network.parameters()))
    norms = [5 / math.sqrt(2), 1 / math.sqrt(2), 5 / math.sqrt(2)]
    assert found.largest == pytest.approx(norms[0])
    assert found.percentile == pytest.approx(norms[0])
    mean = 1 / 3 / math.sqrt(2)  # the first and the last cancel
    assert found.variance == pytest.approx((25 + 1 + 25) / 2 / 3 - mean**2, rel=1e-5)
    moments = (images.T @ images / 3).double()
    assert found.smoothness == pytest.approx(0.5 * float(torch.linalg.eigvalsh(moments)[-1]), rel=1e-4)


def test_the_convex_bound_is_two_l_squared_times_the_rates_over_the_images() -> None:
    assert stability_convex(3.0, Training([0.1, 0.2, 0.3], 100)) == pytest.approx(2 * 9 * 0.6 / 100)


def test_the_general_bound_takes_the_least_c_over_t_above_the_rates() -> None:
    """Rates of exactly c / t: beta c = 1, so the bound is 2 / (n - 1) sqrt(2 c L^2) sqrt(T)."""
    rates = [0.5 / step for step in range(1, 10)]
    expected = 2 / 9 * math.sqrt(2 * 0.5 * 4) * 3
    assert stability(2.0, 2.0, Training(rates, 10)) == pytest.approx(expected)


def test_a_loss_without_slope_has_no_gradients() -> None:
    weight = torch.ones(3, requires_grad=True)

    def flat() -> torch.Tensor:
        return (weight * 0).sum()

    found = gradients([flat, flat], [weight])
    assert (found.largest, found.variance, found.smoothness) == (0, 0, 0)
