"""The sampler against exact answers: Karras levels, Gaussians whose denoiser is known, and equal bits for every range."""

import math

import pytest
import torch
from diffusers import EDMDPMSolverMultistepScheduler, EDMEulerScheduler
from torch import Tensor

from fednode.contract import ImageShape
from fednode.learning.denoiser import Denoiser
from fednode.learning.sampler import SOLVERS, Denoise, Solve, dpm2m, draw, heun, noise_levels, to_bytes, to_data
from fednode.presets import generator_architecture
from fednode.recipe import SamplerRecipe, Solver

RECIPE = SamplerRecipe(steps=3, batch=4)


@pytest.fixture(scope="module")
def denoiser() -> Denoiser:
    torch.manual_seed(0)
    model = Denoiser(generator_architecture("nano", ImageShape(size=8, channels=1)))
    with torch.no_grad():
        model.leave_gain.fill_(0.5)
    return model.freeze()


def gaussian(mean: float, spread: float) -> Denoise:
    """The exact denoiser of data ~ N(mean, spread^2): D = (spread^2 x + s^2 mean) / (spread^2 + s^2)."""

    def denoise(x: Tensor, sigma: Tensor) -> Tensor:
        s2 = (sigma**2)[:, None, None, None]
        return (spread**2 * x + s2 * mean) / (spread**2 + s2)

    return denoise


def draw_gaussian(solve: Solve, steps: int, noise: Tensor) -> Tensor:
    return solve(gaussian(0.3, 0.5), noise, noise_levels(steps, 0.002, 80.0, 7.0))


@pytest.mark.parametrize("steps", [2, 12, 50])
def test_the_levels_are_those_of_an_independent_implementation(steps: int) -> None:
    scheduler = EDMEulerScheduler(sigma_min=0.002, sigma_max=80.0, rho=7.0)
    scheduler.set_timesteps(steps)
    assert noise_levels(steps, 0.002, 80.0, 7.0) == pytest.approx(scheduler.sigmas.tolist(), rel=1e-4)


@pytest.mark.parametrize("solve", [heun, dpm2m])
def test_a_solver_reaches_the_exact_solution_of_a_gaussian(solve: Solve) -> None:
    noise = torch.randn(64, 1, 4, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    exact = 0.3 + 0.5 / math.sqrt(0.25 + 80.0**2) * (80.0 * noise - 0.3)
    assert torch.allclose(draw_gaussian(solve, 400, noise), exact, atol=1e-3)


@pytest.mark.parametrize("solve", [heun, dpm2m])
def test_a_solver_is_of_second_order(solve: Solve) -> None:
    noise = torch.randn(64, 1, 4, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    exact = 0.3 + 0.5 / math.sqrt(0.25 + 80.0**2) * (80.0 * noise - 0.3)
    errors = [float((draw_gaussian(solve, steps, noise) - exact).abs().max()) for steps in (50, 100)]
    assert 3.2 < errors[0] / errors[1] < 5.0


@pytest.mark.parametrize("steps", [2, 9, 20])
def test_dpm_solver_draws_what_an_independent_implementation_draws(steps: int) -> None:
    scheduler = EDMDPMSolverMultistepScheduler(sigma_min=0.002, sigma_max=80.0, rho=7.0, solver_order=2)
    scheduler.set_timesteps(steps)
    noise = torch.randn(8, 1, 4, 4, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    x = noise * 80.0
    for sigma, time in zip(scheduler.sigmas.double()[:-1], scheduler.timesteps, strict=True):
        clean = gaussian(0.3, 0.5)(x, sigma.repeat(8))
        raw = (clean - 0.25 / (sigma**2 + 0.25) * x) / (sigma * 0.5 / (sigma**2 + 0.25).sqrt())
        x = scheduler.step(raw, time, x).prev_sample
    assert torch.allclose(draw_gaussian(dpm2m, steps, noise), x, atol=1e-4)


@pytest.mark.parametrize("solver", ["heun", "dpm2m"])
def test_a_recipe_knows_how_often_its_solver_calls_the_network(solver: Solver) -> None:
    calls = []

    def denoise(x: Tensor, sigma: Tensor) -> Tensor:
        calls.append(float(sigma[0]))
        return x

    recipe = SamplerRecipe(solver=solver, steps=12)
    SOLVERS[solver](denoise, torch.zeros(1, 1, 2, 2), noise_levels(12, 0.002, 80.0, 7.0))
    assert len(calls) == recipe.calls == {"heun": 23, "dpm2m": 12}[solver]
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
