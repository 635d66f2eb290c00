"""The generative product: one generator a label, and the label whose generator explains an image best (2303.16203, 2305.15241).

Rule 1: the noise follows from constants and the image alone and is common to all labels, so an answer depends neither on the
        other images nor on who asks.
Rule 2: levels and temperature are constants of the recipe.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256

import torch
from torch import Tensor

from fednode.learning.sampler import Denoise, to_data
from fednode.learning.seeds import seed_of
from fednode.recipe import TeacherRecipe

NOISE_DOMAIN = b"fednode/product-noise/v1\0"
PASS = 256
TINY = 1e-30
WORST = 1e12  # far above the energy of any image, and far below where float32 ends

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Term:
    """One generator of the product: the index of its label, the images it learned from, and D(x; sigma)."""

    label: int
    count: int
    denoise: Denoise


def noise_levels(recipe: TeacherRecipe) -> Tensor:
    """(L,) levels in data units, equally spaced in ln sigma, both ends included."""
    low, high = recipe.sigma_min_milli / 1e3, recipe.sigma_max_milli / 1e3
    return torch.linspace(math.log(low), math.log(high), recipe.levels, dtype=torch.float64).exp().float()


def common_noise(images: Tensor, levels: int) -> Tensor:
    """Unit normal noise (N, L, C, H, W) for uint8 images (N, C, H, W), by Rule 1."""
    digests = [sha256(NOISE_DOMAIN + image.numpy().tobytes()).hexdigest() for image in images]
    generators = [torch.Generator().manual_seed(seed_of(digest, "noise")) for digest in digests]
    return torch.stack([torch.randn((levels, *images.shape[1:]), generator=g) for g in generators])


@torch.no_grad()
def energies(denoise: Denoise, x: Tensor, noise: Tensor, levels: Tensor) -> Tensor:
    """||D(x + s n; s) - x||^2 / s^2 for each level s: (N, L), from x (N, C, H, W) in data units and noise (N, L, C, H, W).

    Integrated over ln s this is minus the log likelihood of x, up to a constant that all generators share (2110.00473). A
    network that overflows explains nothing: its energy is WORST.
    """
    count, depth = noise.shape[:2]
    sigma = levels.repeat(count)
    noisy = (x[:, None] + levels[:, None, None, None] * noise).flatten(0, 1)
    error = denoise(noisy, sigma).view_as(noise) - x[:, None]
    energy = error.square().sum((2, 3, 4)).view(count, depth) / levels**2
    return energy.nan_to_num(nan=WORST, posinf=WORST).clamp_max(WORST)


def scores(energy: Tensor, terms: Sequence[Term], outputs: int) -> Tensor:
    """Log p(x|label) up to a constant, (N, K), from the energies of each term, (N, L, terms).

    Several donors of a label: a softmin weighted by their counts, from p(x|c) = sum_k (n_kc / n_c) p_k(x|c). Then each level is
    divided by the spread (standard deviation) of its energies over the labels, and the levels are added up.
    """
    by_label = torch.stack([_softmin(energy, terms, label) for label in range(outputs)], dim=2)
    spread = by_label.std(dim=2, correction=0, keepdim=True).clamp_min(TINY)
    return -((by_label - by_label.mean(dim=2, keepdim=True)) / spread).sum(dim=1)


def posterior(
    terms: Sequence[Term],
    images: Tensor,
    outputs: int,
    recipe: TeacherRecipe,
    device: torch.device,
    progress: Progress | None = None,
) -> Tensor:
    """Probabilities (N, K), float64, of `outputs` labels, each of which has a term, for uint8 images (N, C, H, W)."""
    levels = noise_levels(recipe).to(device)
    answers = []
    for part in torch.split(images, max(1, PASS // recipe.levels)):
        x, noise = to_data(part).to(device), common_noise(part, recipe.levels).to(device)
        energy = torch.stack([energies(term.denoise, x, noise, levels) for term in terms], dim=2)
        answers.append(scores(energy.double().cpu(), terms, outputs))
        if progress:
            progress(sum(len(answer) for answer in answers), len(images))
    return torch.softmax(torch.cat(answers) / (recipe.temperature_milli / 1e3), dim=1)


def _softmin(energy: Tensor, terms: Sequence[Term], label: int) -> Tensor:
    """(N, L): -log of the mean of exp(-energy) over the label's terms, weighted by their counts."""
    members = [index for index, term in enumerate(terms) if term.label == label]
    counts = torch.tensor([max(terms[index].count, 1) for index in members], dtype=torch.float64)
    return -torch.logsumexp(-energy[:, :, members] + (counts / counts.sum()).log(), dim=2)
