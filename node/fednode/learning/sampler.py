"""Drawing images along the probability-flow equation of EDM (Karras et al., 2206.00364), by one of two solvers.

Rule: a sample depends on its generator, its seed, the sampler's settings and the numerics alone. Floating-point sums may depend
on how many images share a batch, so batches are aligned to the index and always full, whatever range is asked for.
"""

import math
from collections.abc import Callable, Iterator
from itertools import pairwise

import torch
from torch import Tensor

from fednode.learning.denoiser import Denoiser
from fednode.learning.precision import computing
from fednode.recipe import SamplerRecipe, Solver

Denoise = Callable[[Tensor, Tensor], Tensor]
Solve = Callable[[Denoise, Tensor, list[float]], Tensor]


def noise_levels(steps: int, sigma_min: float, sigma_max: float, rho: float) -> list[float]:
    """sigma_i = (max^(1/rho) + i/(N-1) (min^(1/rho) - max^(1/rho)))^rho for i < N = `steps`, then 0 (eq. 5)."""
    high, low = sigma_max ** (1 / rho), sigma_min ** (1 / rho)
    return [(high + i / max(steps - 1, 1) * (low - high)) ** rho for i in range(steps)] + [0.0]


@torch.no_grad()
def heun(denoise: Denoise, noise: Tensor, levels: list[float]) -> Tensor:
    """Images (N, C, H, W) in data units from unit normal `noise` of that shape, by algorithm 1 without churn.

    Costs two calls of `denoise(x, sigma)` for each level but the last, which ends at sigma 0 and takes one.
    """
    x = noise * levels[0]
    for now, after in pairwise(levels):
        slope = _slope(denoise, x, now)
        ahead = x + (after - now) * slope
        if after > 0:
            slope = (slope + _slope(denoise, ahead, after)) / 2
            ahead = x + (after - now) * slope
        x = ahead
    return x


def _slope(denoise: Denoise, x: Tensor, sigma: float) -> Tensor:
    """dx/dsigma = (x - D(x; sigma)) / sigma (eq. 3)."""
    return (x - denoise(x, x.new_full((len(x),), sigma))) / sigma


@torch.no_grad()
def dpm2m(denoise: Denoise, noise: Tensor, levels: list[float]) -> Tensor:
    """As `heun`, by DPM-Solver++(2M), which takes one call for each level (Lu et al., 2211.01095, algorithm 2).

    With lambda = -ln sigma and h the step in lambda, x <- q x + (1 - q) (D + (D - D_before) h / (2 h_before)), q = e^-h: D is
    carried on along its last slope. The first step, and the last, which ends at sigma 0, have no slope.
    """
    x = noise * levels[0]
    before, step_before = None, 0.0
    for now, after in pairwise(levels):
        clean = denoise(x, x.new_full((len(x),), now))
        ahead = clean
        if before is not None and after > 0:
            ahead = clean + (clean - before) * (math.log(now / after) / (2 * step_before))
        x = ahead + (x - ahead) * (after / now)
        before, step_before = clean, math.log(now / after) if after > 0 else 0.0
    return x


SOLVERS: dict[Solver, Solve] = {"heun": heun, "dpm2m": dpm2m}


def to_bytes(x: Tensor) -> Tensor:
    """Data units [-1, 1] to uint8 0..255, clipped."""
    return ((x + 1.0) * 127.5).round().clamp(0, 255).to(torch.uint8)


def to_data(images: Tensor) -> Tensor:
    """uint8 0..255 to float32 data units [-1, 1]."""
    return images.float() / 127.5 - 1.0


def draw(denoiser: Denoiser, indices: range, seed: Callable[[int], int], recipe: SamplerRecipe) -> Tensor:
    """The samples of `indices` (contiguous, at least one): uint8 (N, C, H, W) on the CPU.

    `denoiser` is frozen; `seed(i)` is the seed of sample i. Equal bits for sample i in every range that holds it.
    """
    levels = noise_levels(recipe.steps, recipe.sigma_min, recipe.sigma_max, recipe.rho)
    with computing(recipe.dtype, denoiser.leave_gain.device):
        batches = [
            to_bytes(SOLVERS[recipe.solver](denoiser, _noise(denoiser, block, seed), levels)).cpu()
            for block in _blocks(indices, recipe.batch)
        ]
    first = indices.start - indices.start % recipe.batch
    return torch.cat(batches)[indices.start - first : indices.stop - first]


def _blocks(indices: range, batch: int) -> Iterator[range]:
    """The aligned, full blocks of `batch` indices that cover `indices`."""
    for start in range(indices.start - indices.start % batch, indices.stop, batch):
        yield range(start, start + batch)


def _noise(denoiser: Denoiser, block: range, seed: Callable[[int], int]) -> Tensor:
    """Unit normal noise (N, C, H, W) for the samples of `block`, drawn on the CPU so that every device starts alike."""
    image = denoiser.architecture.image
    shape = (image.channels, image.size, image.size)
    noise = [torch.randn(shape, generator=torch.Generator().manual_seed(seed(i))) for i in block]
    return torch.stack(noise).to(denoiser.leave_gain.device)
