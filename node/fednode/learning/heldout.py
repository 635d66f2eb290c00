"""What a fit learns from held-out images: how well an average of its weights denoises what it never saw.

Rule: images, noise levels and noise are fixed by the fit's seed, so that two losses differ by their weights alone.
"""

import copy
from collections.abc import Sequence

import torch
from torch import Tensor

from fednode.learning.denoiser import Denoiser
from fednode.learning.ema import Profile, coefficients, combine, gamma_of
from fednode.learning.fitting import Look, Run, weight_of
from fednode.learning.layers import normalise_weights
from fednode.learning.precision import computing
from fednode.learning.sampler import to_data
from fednode.learning.seeds import seed_of
from fednode.recipe import GeneratorRecipe

PASS = 64


class Judge:
    """Measures averages of a model's weights on held-out images, uint8 (N, C, H, W), N >= 1.

    The noise levels are evenly spread quantiles of those of training, in random order over the images.
    """

    def __init__(self, model: Denoiser, images: Tensor, recipe: GeneratorRecipe, seed: int) -> None:
        device, draws = model.leave_gain.device, recipe.held_draws
        source = torch.Generator().manual_seed(seed_of(f"{seed:x}", "held-out"))
        quantiles = (torch.randperm(draws, generator=source) + 0.5) / draws
        normal = torch.erfinv(2.0 * quantiles - 1.0) * 2.0**0.5
        self._sigma = (normal * recipe.p_std_milli / 1e3 + recipe.p_mean_milli / 1e3).exp().to(device)
        self._clean = to_data(images[torch.arange(draws) % len(images)]).to(device)
        noise = torch.randn(self._clean.shape, generator=source).to(device)
        self._noisy = self._clean + self._sigma[:, None, None, None] * noise
        self._dtype = recipe.dtype
        self._model = copy.deepcopy(model).eval().requires_grad_(False)

    @torch.no_grad()
    def loss(self, weights: Sequence[Tensor]) -> float:
        """The mean of lam(sigma) ||D(noisy; sigma) - clean||^2 a pixel, with these as the model's parameters, in their order."""
        for parameter, tensor in zip(self._model.parameters(), weights, strict=True):
            parameter.copy_(tensor)
        normalise_weights(self._model)
        parts = zip(self._noisy.split(PASS), self._sigma.split(PASS), strict=True)
        with computing(self._dtype, self._sigma.device):
            denoised = torch.cat([self._model(noisy, sigma) for noisy, sigma in parts])
        error = (denoised - self._clean).square().mean((1, 2, 3))
        return float((weight_of(self._sigma) * error).mean())


def chosen(run: Run, judge: Judge | None) -> list[Tensor]:
    """The result of a fit: the averages of its parameters, in float32, of the width and at the look that are best held out."""
    recipe = run.recipe
    if not run.looks:
        return run.averages[0].averages
    looks = run.looks[: run.best + 1]
    if not recipe.ema_choices_milli:
        return [tensor.float() for tensor in looks[-1].averages[0]]
    if judge is None:
        return reconstruct(looks, recipe.widths, recipe.ema_milli / 1e3)
    found = [reconstruct(looks, recipe.widths, width / 1e3) for width in recipe.ema_choices_milli]
    losses = [judge.loss(weights) for weights in found]
    return found[losses.index(min(losses))]


def reconstruct(looks: Sequence[Look], stored: Sequence[float], width: float) -> list[Tensor]:
    """The average of `width` at the last of the looks, from those of the `stored` widths at all of them (2312.02696, 3.2)."""
    profiles = [Profile(look.step, gamma_of(one)) for look in looks for one in stored]
    shares = coefficients(profiles, Profile(looks[-1].step, gamma_of(width)))
    return combine([average for look in looks for average in look.averages], shares)
