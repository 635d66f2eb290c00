"""The power-function average against the paper's figures and against the sum it stands for."""

import pytest
import torch

from fednode.learning.ema import PowerEma, gamma_of


@pytest.mark.parametrize(("width", "gamma"), [(0.05, 16.97), (0.10, 6.94)])
def test_the_exponents_are_those_of_the_paper(width: float, gamma: float) -> None:
    assert gamma_of(width) == pytest.approx(gamma, abs=0.005)


@pytest.mark.parametrize("width", [0.02, 0.1, 0.2, 0.25])
def test_the_profile_of_the_exponent_has_the_width_that_was_asked_for(width: float) -> None:
    t = torch.linspace(0, 1, 200_001, dtype=torch.float64)
    weight = t ** gamma_of(width)
    weight /= weight.sum()
    mean = (weight * t).sum()
    assert float((weight * (t - mean) ** 2).sum().sqrt()) == pytest.approx(width, rel=1e-3)


def test_the_first_update_forgets_the_start() -> None:
    ema = PowerEma([torch.full((2,), 99.0)], width=0.1)
    ema.update([torch.tensor([1.0, 2.0])])
    assert torch.equal(ema.averages[0], torch.tensor([1.0, 2.0]))


def test_a_known_sequence_gives_the_average_that_the_recurrence_unrolls_to() -> None:
    ema, gamma = PowerEma([torch.zeros(1, dtype=torch.float64)], width=0.1), 6.9374
    values = [3.0, -1.0, 4.0, 1.0, -5.0]
    for value in values:
        ema.update([torch.tensor([value], dtype=torch.float64)])
    shares = [1.0 - (1.0 - 1.0 / t) ** (gamma + 1.0) for t in range(1, 6)]
    expected = 0.0
    for position, value in enumerate(values):
        kept = 1.0
        for share in shares[position + 1 :]:
            kept *= 1.0 - share
        expected += value * shares[position] * kept
    assert float(ema.averages[0]) == pytest.approx(expected, rel=1e-3)


def test_a_ramp_averages_to_the_mean_of_the_power_profile() -> None:
    ema, steps = PowerEma([torch.zeros(1, dtype=torch.float64)], width=0.1), 4000
    for step in range(1, steps + 1):
        ema.update([torch.tensor([step / steps], dtype=torch.float64)])
    gamma = gamma_of(0.1)
    assert float(ema.averages[0]) == pytest.approx((gamma + 1) / (gamma + 2), abs=1e-3)


def test_the_tensors_that_are_averaged_are_left_alone() -> None:
    tensor = torch.ones(3)
    ema = PowerEma([tensor], width=0.1)
    ema.update([tensor])
    ema.averages[0].zero_()
    assert torch.equal(tensor, torch.ones(3))
