"""Differential privacy: what the accountant says against closed forms, and that no image has more influence than the clip."""

import math

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from scipy.optimize import brentq
from scipy.stats import norm
from torch import Tensor

from fednode.architecture import GeneratorArchitecture
from fednode.contract import ImageShape
from fednode.learning.generator import Aids, fit
from fednode.learning.privacy import chosen, clipped_sum, noise_multiplier, noised_mean, spent
from fednode.presets import PRESETS, recipes
from fednode.recipe import GeneratorRecipe, Preset, PrivacyRecipe

DELTA = 1e-4


def gaussian_epsilon(multiplier: float, steps: int) -> float:
    """Exactly, for `steps` releases without sampling: one of mu = sqrt(steps) / multiplier (Balle and Wang, 1805.06530)."""
    mu = math.sqrt(steps) / multiplier

    def excess(epsilon: float) -> float:
        above = norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2)
        return float(above) - DELTA

    return float(brentq(excess, 0.0, 100.0))


def sampled_epsilon(multiplier: float, rate: float) -> float:
    """Exactly, for one release of a sample: the hockey-stick divergence of (1-q) N(0, s^2) + q N(1, s^2) from N(0, s^2)."""

    def excess(epsilon: float) -> float:
        edge = multiplier**2 * math.log1p(math.expm1(epsilon) / rate) + 0.5
        without, with_it = norm.sf(edge / multiplier), norm.sf((edge - 1) / multiplier)
        return float((1 - rate) * without + rate * with_it - math.exp(epsilon) * without) - DELTA

    return float(brentq(excess, 1e-9, 50.0))


def loss(parameters: dict[str, Tensor], clean: Tensor, sigma: Tensor, noise: Tensor) -> Tensor:
    """The mean squared error of a linear denoiser with a bias, for one image and all its draws."""
    noisy = clean + sigma[:, None, None, None] * noise
    return ((noisy.flatten(1) @ parameters["weight"] + parameters["bias"] - clean.flatten()) ** 2).mean()


def batch(count: int, draws: int = 3) -> tuple[Tensor, Tensor, Tensor]:
    source = torch.Generator().manual_seed(1)
    clean = torch.randn(count, 1, 2, 2, generator=source) * torch.logspace(-3, 3, count)[:, None, None, None]
    return clean, torch.rand(count, draws, generator=source), torch.randn(count, draws, 1, 2, 2, generator=source)


PARAMETERS = {"weight": torch.eye(4) * 0.3, "bias": torch.full((4,), 0.1)}


def norm_of(gradients: dict[str, Tensor]) -> float:
    return math.sqrt(sum(float(g.square().sum()) for g in gradients.values()))


def test_epsilon_without_sampling_is_that_of_the_gaussian_mechanism() -> None:
    exact = gaussian_epsilon(20.0, 200)
    assert exact <= spent(20.0, DELTA, 1.0, 200) <= exact + 0.03


@pytest.mark.parametrize(("multiplier", "rate"), [(0.8, 0.1), (1.5, 0.5)])
def test_epsilon_of_one_sampled_step_is_that_of_the_closed_form(multiplier: float, rate: float) -> None:
    exact = sampled_epsilon(multiplier, rate)
    assert exact - 1e-6 <= spent(multiplier, DELTA, rate, 1) <= exact + 0.03


def test_the_multiplier_keeps_the_budget_and_hardly_wastes_any() -> None:
    multiplier = noise_multiplier(4.0, DELTA, 0.2, 50)
    assert 3.9 <= spent(multiplier, DELTA, 0.2, 50) <= 4.0
    assert multiplier == pytest.approx(round(multiplier, 3), abs=1e-12)


def test_one_image_more_changes_the_sum_by_no_more_than_the_clip() -> None:
    clean, sigma, noise = batch(9)
    everyone = clipped_sum(loss, PARAMETERS, clean, sigma, noise, 0.5)
    for gone in range(9):
        rest = torch.tensor([i for i in range(9) if i != gone])
        others = clipped_sum(loss, PARAMETERS, clean[rest], sigma[rest], noise[rest], 0.5)
        assert norm_of({name: everyone[name] - others[name] for name in everyone}) <= 0.5 * (1 + 1e-4)


def test_a_gradient_below_the_clip_is_whole_and_one_above_it_has_its_norm() -> None:
    clean, sigma, noise = batch(9)
    for index in (0, 8):
        one = slice(index, index + 1)
        parameters = {name: p.clone().requires_grad_() for name, p in PARAMETERS.items()}
        loss(parameters, clean[index], sigma[index], noise[index]).backward()
        plain = {name: p.grad for name, p in parameters.items() if p.grad is not None}
        length = norm_of(plain)
        clip = 2 * length if index == 0 else length / 7
        found = clipped_sum(loss, PARAMETERS, clean[one], sigma[one], noise[one], clip)
        for name, gradient in plain.items():
            assert torch.allclose(found[name], gradient * min(1.0, clip / length), rtol=1e-4)


def test_an_image_whose_gradient_is_not_finite_has_no_influence() -> None:
    clean, sigma, noise = batch(3)
    rest = clipped_sum(loss, PARAMETERS, clean[:2], sigma[:2], noise[:2], 0.5)
    clean[2] = math.inf
    found = clipped_sum(loss, PARAMETERS, clean, sigma, noise, 0.5)
    assert all(torch.equal(found[name], rest[name]) for name in rest)


def fitted(secret: bytes, seed: int = 1, images: int = 12) -> dict[str, Tensor]:
    shape = ImageShape(size=8, channels=1)
    recipe = GeneratorRecipe(images=16, batch=4, privacy=PrivacyRecipe(epsilon_milli=300_000, draws=2))
    architecture = GeneratorArchitecture(image=shape, channels=(8,), blocks=1)
    data = torch.randint(0, 256, (images, 1, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(3))
    return fit(data, architecture, recipe, seed, lambda *_: None, torch.device("cpu"), Aids(secret=secret))


def test_a_private_fit_follows_from_its_secret() -> None:
    first, again, other = fitted(b"a" * 32), fitted(b"a" * 32), fitted(b"b" * 32)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)
    assert all(bool(tensor.isfinite().all()) for tensor in first.values())


@pytest.mark.parametrize(
    "choice", [{"patience": 2}, {"ema_choices_milli": (50, 100)}, {"augment": "dihedral"}, {"dropout_milli": 100}]
)
def test_a_private_fit_may_see_its_images_in_no_other_way(choice: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="private fit"):
        GeneratorRecipe.model_validate({"images": 10, "privacy": {"epsilon_milli": 1_000}, **choice})


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_can_be_fitted_privately(preset: Preset) -> None:
    made = recipes(ImageShape(size=32, channels=3), preset, epsilon=7.5).generator
    assert made.privacy == PrivacyRecipe(epsilon_milli=7_500)
    assert made.images == PRESETS[preset].recipe.images


def test_no_image_at_all_gives_a_sum_of_zero() -> None:
    clean, sigma, noise = batch(3)
    found = clipped_sum(loss, PARAMETERS, clean[:0], sigma[:0], noise[:0], 0.5)
    assert norm_of(found) == 0


def test_each_image_is_taken_with_the_rate_and_independently_of_the_others() -> None:
    source = np.random.default_rng(0)
    sizes = torch.tensor([float(len(chosen(100, 0.3, source))) for _ in range(2000)])
    assert float(sizes.mean()) == pytest.approx(30, abs=0.5)
    assert float(sizes.std()) == pytest.approx(math.sqrt(100 * 0.3 * 0.7), rel=0.06)


def test_the_noise_has_the_spread_that_the_accountant_counts_with() -> None:
    total = {"weight": torch.full((200, 200), 8.0)}
    mean = noised_mean(total, 4.0, 3.0, np.random.default_rng(0))["weight"]
    assert float(mean.mean()) == pytest.approx(2.0, abs=0.02)
    assert float(mean.std()) == pytest.approx(3.0 / 4.0, rel=0.02)
