"""Differential privacy of a fit: DP-SGD with noise multiplicity (Abadi et al., 1607.00133; DPDM, Dockhorn et al., 2210.09929).

Rule 1: the unit of privacy is one image: each step takes every image with probability `rate`, independently of the others.
Rule 2: the gradient of an image is averaged over several noise levels first and clipped to `clip` then. Clipping is for each
        image alone: to clip the mean of several bounds the influence of none.
Rule 3: Gaussian noise of `multiplier` times `clip` is added to the sum, which is divided by the expected number of images.
Rule 4: nothing else of the fit depends on the images: no weights are chosen by held-out images, and no step count by their loss.
"""

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from hashlib import sha256

import numpy as np
import torch
from torch import Tensor
from torch.func import grad, vmap

CHUNK = 64

Gradients = dict[str, Tensor]
Loss = Callable[[Mapping[str, Tensor], Tensor, Tensor, Tensor], Tensor]


@lru_cache(64)
def noise_multiplier(epsilon: float, delta: float, rate: float, steps: int) -> float:
    """The multiplier, up to the next thousandth, with which `steps` steps at `rate` spend at most `epsilon` at `delta`.

    By Opacus' accountant of privacy random variables (Gopi et al., 2106.02848), which errs on the safe side. Raises ValueError
    if no multiplier is large enough.
    """
    from opacus.accountants.utils import get_noise_multiplier  # noqa: PLC0415  (seconds to import, for private fits alone)

    found = get_noise_multiplier(
        target_epsilon=epsilon, target_delta=delta, sample_rate=rate, steps=steps, accountant="prv"
    )
    return math.ceil(float(found) * 1e3) / 1e3


def spent(multiplier: float, delta: float, rate: float, steps: int) -> float:
    """An upper bound, at most 0.02 above the truth, of the epsilon that `steps` steps spend at `delta`."""
    from opacus.accountants import PRVAccountant  # noqa: PLC0415

    accountant = PRVAccountant()
    accountant.history = [(multiplier, rate, steps)]
    return float(accountant.get_epsilon(delta))


def source_of(secret: bytes, step: int) -> np.random.Generator:
    """The random numbers of one step of a fit, which nobody can repeat without the secret (32 bytes).

    torch's own generator takes 32 bits of its seed on a CPU: few enough to try them all.
    """
    key = sha256(secret + step.to_bytes(8)).digest()[:16]
    return np.random.Generator(np.random.Philox(key=int.from_bytes(key)))


def chosen(count: int, rate: float, source: np.random.Generator) -> Tensor:
    """The images of one step, ascending indices: each of `count` with probability `rate` (Poisson sampling, Rule 1)."""
    return torch.from_numpy(np.flatnonzero(source.random(count) < rate))


def clipped_sum(
    loss: Loss, parameters: Mapping[str, Tensor], clean: Tensor, sigma: Tensor, noise: Tensor, clip: float
) -> Gradients:
    """The sum over images of the gradients of `loss`, each scaled down to a norm of at most `clip` over all parameters.

    `clean` is (N, C, H, W), `sigma` (N, D) and `noise` (N, D, C, H, W): D draws for each image. `loss(parameters, image, sigma,
    noise)` is the mean over the draws of one image. One image more or less changes the sum by at most `clip`.
    """
    values = {name: parameter.detach() for name, parameter in parameters.items()}
    total = {name: torch.zeros_like(value) for name, value in values.items()}
    by_image = vmap(grad(loss), in_dims=(None, 0, 0, 0))
    for part in torch.split(torch.arange(len(clean)), CHUNK):
        found = by_image(values, clean[part], sigma[part], noise[part])
        found = {name: torch.nan_to_num(g, nan=0.0, posinf=0.0, neginf=0.0) for name, g in found.items()}
        squares = [g.reshape(len(part), math.prod(g.shape[1:])).square().sum(1) for g in found.values()]
        norms = torch.stack(squares).sum(0).sqrt()
        scale = clip / norms.clamp_min(clip)
        for name, g in found.items():
            total[name] += torch.tensordot(scale, g, dims=1)
    return total


def noised_mean(total: Gradients, expected: float, spread: float, source: np.random.Generator) -> Gradients:
    """(sum + N(0, spread^2)) / expected for each parameter (Rule 3)."""
    noise = {name: torch.as_tensor(spread * source.standard_normal(g.shape)).to(g) for name, g in total.items()}
    return {name: (g + noise[name]) / expected for name, g in total.items()}
