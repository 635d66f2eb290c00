"""The sampler against exact answers: Karras levels, Gaussians whose denoiser is known, and equal bits for every range."""

import math

import pytest
import torch
from diffusers import EDMEulerScheduler
from torch import Tensor

from fednode.contract import ImageShape
from fednode.learning.denoiser import Denoiser
from fednode.learning.sampler import draw, heun, noise_levels, to_bytes, to_data
from fednode.recipe import SamplerRecipe, generator_architecture

RECIPE = SamplerRecipe(steps=3, batch=4)


@pytest.fixture(scope="module")
def denoiser() -> Denoiser:
    torch.manual_seed(0)
    model = Denoiser(generator_architecture("nano", ImageShape(size=8, channels=1)))
    with torch.no_grad():
        model.leave_gain.fill_(0.5)
    return model.freeze()


def gaussian(mean: float, spread: float) -> object:
    """The exact denoiser of data ~ N(mean, spread^2): D = (spread^2 x + s^2 mean) / (spread^2 + s^2)."""

    def denoise(x: Tensor, sigma: Tensor) -> Tensor:
        s2 = (sigma**2)[:, None, None, None]
        return (spread**2 * x + s2 * mean) / (spread**2 + s2)

    return denoise


def draw_gaussian(steps: int, noise: Tensor) -> Tensor:
    return heun(gaussian(0.3, 0.5), noise, noise_levels(steps, 0.002, 80.0, 7.0))  # type: ignore[arg-type]


@pytest.mark.parametrize("steps", [2, 12, 50])
def test_the_levels_are_those_of_an_independent_implementation(steps: int) -> None:
    scheduler = EDMEulerScheduler(sigma_min=0.002, sigma_max=80.0, rho=7.0)
    scheduler.set_timesteps(steps)
    assert noise_levels(steps, 0.002, 80.0, 7.0) == pytest.approx(scheduler.sigmas.tolist(), rel=1e-4)


def test_heun_reaches_the_exact_solution_of_a_gaussian() -> None:
    noise = torch.randn(64, 1, 4, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    exact = 0.3 + 0.5 / math.sqrt(0.25 + 80.0**2) * (80.0 * noise - 0.3)
    assert torch.allclose(draw_gaussian(400, noise), exact, atol=1e-3)


def test_heun_is_of_second_order() -> None:
    noise = torch.randn(64, 1, 4, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    exact = 0.3 + 0.5 / math.sqrt(0.25 + 80.0**2) * (80.0 * noise - 0.3)
    errors = [float((draw_gaussian(steps, noise) - exact).abs().max()) for steps in (50, 100)]
    assert 3.2 < errors[0] / errors[1] < 5.0


def test_heun_calls_the_network_twice_a_level_but_once_at_the_last() -> None:
    calls = []

    def denoise(x: Tensor, sigma: Tensor) -> Tensor:
        calls.append(float(sigma[0]))
        return x

    heun(denoise, torch.zeros(1, 1, 2, 2), noise_levels(12, 0.002, 80.0, 7.0))
    assert len(calls) == 2 * 12 - 1
    assert min(calls) == pytest.approx(0.002)


def test_bytes_and_data_units_are_each_others_inverse_and_clip() -> None:
    every = torch.arange(256, dtype=torch.uint8)
    assert torch.equal(to_bytes(to_data(every)), every)
    assert to_bytes(torch.tensor([-7.0, 7.0])).tolist() == [0, 255]


def test_a_sample_has_equal_bits_in_every_range_that_holds_it(denoiser: Denoiser) -> None:
    whole = draw(denoiser, range(11), lambda i: 100 + i, RECIPE)
    assert whole.shape == (11, 1, 8, 8)
    assert whole.dtype == torch.uint8
    for part in (range(3), range(3, 4), range(2, 9), range(8, 11)):
        assert torch.equal(draw(denoiser, part, lambda i: 100 + i, RECIPE), whole[part.start : part.stop])


def test_a_sample_follows_its_seed_alone(denoiser: Denoiser) -> None:
    first = draw(denoiser, range(4), lambda i: [5, 6, 7, 8][i], RECIPE)
    second = draw(denoiser, range(4), lambda i: [5, 6, 9, 8][i], RECIPE)
    assert [torch.equal(a, b) for a, b in zip(first, second, strict=True)] == [True, True, False, True]


def test_drawing_leaves_the_global_random_state_alone(denoiser: Denoiser) -> None:
    before = torch.random.get_rng_state()
    draw(denoiser, range(2), lambda i: i, RECIPE)
    assert torch.equal(before, torch.random.get_rng_state())
