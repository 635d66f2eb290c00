"""The denoiser and its layers against the closed forms of the EDM and EDM2 papers."""

import math

import pytest
import torch
from torch import Tensor

from fednode.architecture import GeneratorArchitecture
from fednode.contract import ImageShape
from fednode.learning.denoiser import Attention, Block, BlockPlan, Denoiser, grid_side, preconditioning, resample
from fednode.learning.layers import (
    Fourier,
    MPConv,
    mp_cat,
    mp_silu,
    mp_sum,
    normalise,
    normalise_weights,
    project_gradients,
)
from fednode.presets import PRESETS, generator_architecture

NANO = generator_architecture("nano", ImageShape(size=8, channels=1))


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(1)


def rms(x: Tensor) -> float:
    return float(x.detach().square().mean().sqrt())


def test_pixel_norm_gives_each_pixel_unit_rms_over_its_channels() -> None:
    x = 7.0 * torch.randn(4, 16, 8, 8) + 3.0
    assert torch.allclose(normalise(x, (1,)).square().mean(1), torch.ones(4, 8, 8), atol=1e-3)


@pytest.mark.parametrize(("kernel", "shape"), [(0, (4096, 64)), (1, (16, 64, 16, 16)), (3, (16, 64, 64, 64))])
def test_mp_conv_keeps_unit_variance(kernel: int, shape: tuple[int, ...]) -> None:
    layer = MPConv(64, 64, kernel)
    normalise_weights(layer)
    interior = layer(torch.randn(shape))
    interior = interior[..., 1:-1, 1:-1] if kernel == 3 else interior
    assert rms(interior) == pytest.approx(1.0, abs=0.03)


def test_mp_silu_has_unit_variance_on_unit_normal_inputs() -> None:
    assert rms(mp_silu(torch.randn(200_000))) == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("t", [0.0, 0.3, 0.5, 1.0])
def test_mp_sum_has_unit_variance_and_the_mix_that_was_asked_for(t: float) -> None:
    a, b = torch.randn(2, 200_000)
    mixed = mp_sum(a, b, t)
    assert rms(mixed) == pytest.approx(1.0, abs=0.01)
    ratio = float((mixed * b).mean() / (mixed * a).mean()) if t not in (0.0, 1.0) else t
    assert ratio == pytest.approx(t / (1 - t) if t not in (0.0, 1.0) else t, abs=0.02)


@pytest.mark.parametrize(("n_a", "n_b"), [(16, 16), (48, 16), (8, 64)])
def test_mp_cat_has_unit_variance_and_equal_shares_whatever_the_channels(n_a: int, n_b: int) -> None:
    joined = mp_cat(torch.randn(64, n_a, 16, 16), torch.randn(64, n_b, 16, 16))
    assert joined.shape[1] == n_a + n_b
    assert rms(joined) == pytest.approx(1.0, abs=0.01)
    energy_a, energy_b = float(joined[:, :n_a].square().sum()), float(joined[:, n_a:].square().sum())
    assert energy_a / energy_b == pytest.approx(1.0, abs=0.03)


def test_fourier_features_have_unit_variance_at_every_noise_level() -> None:
    features = Fourier(4096)
    for c_noise in (-1.5, 0.0, 0.3, 1.1):
        assert rms(features(torch.tensor([c_noise]))) == pytest.approx(1.0, abs=0.05)


def test_fourier_features_are_exact_in_half_precision() -> None:
    features = Fourier(64)
    assert torch.equal(features.frequencies, features.frequencies.half().float())
    assert torch.equal(features.phases, features.phases.half().float())


@pytest.mark.parametrize("half", ["encoder", "decoder"])
@pytest.mark.parametrize("channels", [(64, 64), (96, 64)])
def test_a_block_keeps_unit_variance(half: str, channels: tuple[int, int]) -> None:
    plan = BlockPlan(*channels, half=half, attends=True)  # type: ignore[arg-type]
    block = Block(plan, embedding=32, dropout=0.0)
    normalise_weights(block)
    y = block(torch.randn(16, channels[0], 16, 16), torch.randn(16, 32))
    assert rms(y[..., 2:-2, 2:-2]) == pytest.approx(1.0, abs=0.1)


def test_attention_over_one_pixel_is_the_mean_of_its_only_value() -> None:
    attention = Attention(8)
    normalise_weights(attention)
    x = torch.randn(3, 8, 1, 1)
    value = normalise(attention.qkv(x).reshape(3, 1, 8, 3, 1), (2,))[:, 0, :, 2, :, None]
    assert torch.allclose(attention(x), mp_sum(x, attention.projection(value), 0.3), atol=1e-6)


def test_resampling_up_and_down_again_changes_nothing_and_down_is_the_mean_of_four() -> None:
    x = torch.randn(2, 3, 4, 4)
    assert torch.allclose(resample(resample(x, "up"), "down"), x, atol=1e-6)
    assert float(resample(x, "down")[0, 0, 0, 0]) == pytest.approx(float(x[0, 0, :2, :2].mean()), abs=1e-6)


def test_forced_normalisation_gives_every_output_channel_unit_rms() -> None:
    model = Denoiser(NANO)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(5.0)
    normalise_weights(model)
    for layer in model.modules():
        if isinstance(layer, MPConv):
            assert torch.allclose(layer.weight.flatten(1).square().mean(1), torch.tensor(1.0), atol=1e-3)


def test_projected_gradients_equal_autograd_through_the_normalisation() -> None:
    layer, x = MPConv(6, 5, 3), torch.randn(4, 6, 8, 8)
    normalise_weights(layer)
    layer(x).square().sum().backward()
    project_gradients(layer)
    free = layer.weight.detach().clone().requires_grad_()
    unit = free / free.square().mean((1, 2, 3), keepdim=True).sqrt()
    torch.nn.functional.conv2d(x, unit / math.sqrt(54), padding=1).square().sum().backward()  # type: ignore[no-untyped-call]
    assert free.grad is not None
    assert layer.weight.grad is not None
    assert torch.allclose(layer.weight.grad, free.grad, rtol=1e-3, atol=1e-2)


def test_preconditioning_gives_the_network_inputs_and_targets_of_unit_variance() -> None:
    clean, noise = 0.5 * torch.randn(400_000), torch.randn(400_000)
    for level in (0.02, 0.5, 3.0, 80.0):
        c_skip, c_out, c_in, c_noise = (float(c) for c in preconditioning(torch.tensor(level)))
        noisy = clean + level * noise
        assert rms(c_in * noisy) == pytest.approx(1.0, abs=0.01)
        assert rms((clean - c_skip * noisy) / c_out) == pytest.approx(1.0, abs=0.01)
        assert c_noise == pytest.approx(math.log(level) / 4)


def test_the_preconditioning_coefficients_are_those_of_the_paper_at_sigma_one() -> None:
    values = [float(c) for c in preconditioning(torch.tensor(1.0))]
    assert values == pytest.approx([0.2, 0.5 / math.sqrt(1.25), 1 / math.sqrt(1.25), 0.0], abs=1e-6)


def test_the_denoiser_returns_its_input_as_the_noise_vanishes_and_the_prior_mean_when_it_drowns() -> None:
    model = Denoiser(NANO)
    with torch.no_grad():
        model.leave_gain.fill_(1.0)
    model.freeze()
    x = torch.randn(2, 1, 8, 8)
    assert torch.allclose(model(x, torch.full((2,), 1e-5)), x, atol=1e-3)
    with torch.no_grad():
        model.leave_gain.zero_()
    assert torch.allclose(model(1e4 * x, torch.full((2,), 1e4)), torch.zeros_like(x), atol=1e-3)


def test_the_untrained_denoiser_shrinks_its_input_as_a_gaussian_of_the_data_spread_would() -> None:
    model, x = Denoiser(NANO).freeze(), torch.randn(3, 1, 8, 8)
    sigma = torch.tensor([0.1, 0.5, 2.0])
    expected = x * (0.25 / (sigma**2 + 0.25))[:, None, None, None]
    assert torch.allclose(model(x, sigma), expected, atol=1e-6)


def test_the_network_starts_with_outputs_of_unit_magnitude() -> None:
    model = Denoiser(generator_architecture("s", ImageShape(size=32, channels=3)))
    with torch.no_grad():
        model.leave_gain.fill_(1.0)
    model.freeze()
    # Zeros beyond the borders take some of the variance, the more the smaller the sides.
    assert rms(model.network(torch.randn(8, 3, 32, 32), torch.randn(8))) == pytest.approx(1.0, abs=0.25)


@pytest.mark.parametrize("size", [4, 7, 8, 9, 13, 28])
@pytest.mark.parametrize("channels", [1, 3])
def test_images_of_any_side_go_in_and_come_out_in_their_shape(size: int, channels: int) -> None:
    architecture = GeneratorArchitecture(
        image=ImageShape(size=size, channels=channels), channels=(8, 16, 16), blocks=1, attention=(4, 7)
    )
    x = torch.randn(2, channels, size, size)
    assert Denoiser(architecture).freeze()(x, torch.ones(2)).shape == x.shape


@pytest.mark.parametrize("patch", [2, 4])
@pytest.mark.parametrize("size", [8, 9, 28])
def test_a_grid_of_patches_holds_every_pixel_once_beside_the_share_that_the_image_covers(size: int, patch: int) -> None:
    architecture = GeneratorArchitecture(
        image=ImageShape(size=size, channels=3), channels=(64, 64), blocks=1, patch=patch
    )
    model, x = Denoiser(architecture), torch.randn(2, 3, size, size)
    grid = model._framed(x)
    assert grid.shape[1:] == (3 * patch**2 + 1, *2 * [grid_side(architecture)])
    assert torch.equal(torch.nn.functional.pixel_shuffle(grid[:, :-1], patch)[:, :, :size, :size], x)
    assert float(grid[:, -1].sum()) * patch**2 == pytest.approx(2 * size**2)
    assert model.freeze()(x, torch.ones(2)).shape == x.shape


def test_a_frozen_denoiser_is_deaf_to_the_scale_of_its_weights() -> None:
    torch.manual_seed(3)
    plain = Denoiser(NANO)
    torch.manual_seed(3)
    scaled = Denoiser(NANO)
    with torch.no_grad():
        for model in (plain, scaled):
            model.leave_gain.fill_(1.0)
        for layer in scaled.modules():
            if isinstance(layer, MPConv):
                layer.weight.mul_(3.0)
    x, sigma = torch.randn(2, 1, 8, 8), torch.ones(2)
    assert torch.allclose(plain.freeze()(x, sigma), scaled.freeze()(x, sigma), atol=2e-3)


def test_the_paper_preset_has_the_size_of_the_paper() -> None:
    with torch.device("meta"):
        model = Denoiser(generator_architecture("paper", ImageShape(size=32, channels=3)))
    count = sum(parameter.numel() for parameter in model.parameters())
    assert count == pytest.approx(50.7e6, rel=0.001)


def test_every_preset_fits_small_and_large_images() -> None:
    for preset in PRESETS:
        for size in (4, 8, 28, 32, 128):
            architecture = generator_architecture(preset, ImageShape(size=size, channels=3))
            assert (
                size / architecture.patch / 2 ** (len(architecture.channels) - 1) >= 3.5
                or len(architecture.channels) == 1
            )
