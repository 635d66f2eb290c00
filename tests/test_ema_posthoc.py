"""Averages of any width from stored ones: inner products against integration, and reconstructions against direct averages."""

import itertools

import numpy as np
import pytest
import torch

from fednode.learning.ema import PowerEma, Profile, coefficients, combine, gamma_of, inner_product

STORED = (0.05, 0.10)
POINTS = tuple(range(100, 1001, 100))


def weights_of(profile: Profile, t: np.ndarray) -> np.ndarray:
    """The profile by its definition."""
    inside = (profile.gamma + 1) * t**profile.gamma / profile.time ** (profile.gamma + 1)
    return np.where(t <= profile.time, inside, 0.0)


@pytest.mark.parametrize(
    ("a", "b"), list(itertools.product([Profile(0.3, 16.97), Profile(1.0, 6.94), Profile(0.7, 2.0)], repeat=2))
)
def test_the_inner_product_is_the_integral_of_the_product(a: Profile, b: Profile) -> None:
    t = (np.arange(1_000_000) + 0.5) / 1_000_000
    assert inner_product(a, b) == pytest.approx(float((weights_of(a, t) * weights_of(b, t)).mean()), rel=1e-4)


@pytest.mark.parametrize("index", [0, 1, 7, 18, 19])
def test_a_stored_average_is_given_back_as_it_is(index: int) -> None:
    stored = [Profile(point, gamma_of(width)) for point in POINTS for width in STORED]
    shares = coefficients(stored[: index + 1], stored[index])
    assert shares == pytest.approx([0.0] * index + [1.0], abs=1e-6)


def test_the_shares_sum_to_one_whatever_the_width() -> None:
    stored = [Profile(point, gamma_of(width)) for point in POINTS for width in STORED]
    for width in (0.02, 0.07, 0.2):
        assert sum(coefficients(stored, Profile(1000, gamma_of(width)))) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize(("width", "error"), [(0.05, 1e-4), (0.10, 1e-4), (0.07, 0.01), (0.15, 0.01), (0.20, 0.01)])
def test_an_average_of_a_random_walk_follows_from_those_of_other_widths(width: float, error: float) -> None:
    steps = torch.randn(POINTS[-1], 200, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    walk = steps.cumsum(0)
    running = [PowerEma([walk[0]], one) for one in STORED]
    direct, kept = PowerEma([walk[0]], width), []
    for number, now in enumerate(walk, start=1):
        for one in (*running, direct):
            one.update([now])
        if number in POINTS:
            kept += [[one.averages[0].clone()] for one in running]
    stored = [Profile(point, gamma_of(one)) for point in POINTS for one in STORED]
    (found,) = combine(kept, coefficients(stored, Profile(POINTS[-1], gamma_of(width))))
    spread = float((direct.averages[0] - walk[-1]).square().mean().sqrt())
    assert float((found - direct.averages[0]).square().mean().sqrt()) < error * spread
