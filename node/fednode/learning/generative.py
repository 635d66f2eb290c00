"""The generative product: one generator a label, and the label whose generator explains an image best (2303.16203, 2305.15241).

Rule 1: the noise follows from constants and the image alone and is common to all labels, so an answer depends neither on the
        other images nor on who asks.
Rule 2: levels, pruning and temperature are constants of the recipe.
Rule 3: a label's score follows from its own generators alone; another label's can only spare it calls.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256

import torch
from torch import Tensor

from fednode.learning.energies import energies_of_asked, in_one_forward
from fednode.learning.halving import race, rounds_of
from fednode.learning.precision import computing
from fednode.learning.sampler import Denoise, to_data
from fednode.learning.seeds import seed_of
from fednode.recipe import TeacherRecipe

NOISE_DOMAIN = b"fednode/product-noise/v1\0"
PART_VALUES = 1 << 21
PART_IMAGES = 512
TINY = 1e-30

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Term:
    """One generator of the product: the index of its label, the images it learned from, and D(x; sigma)."""

    label: int
    count: int
    denoise: Denoise


@dataclass(frozen=True)
class Scored:
    """Scores (N, K), float64, and how many network calls, each of one image at one level, they took together."""

    scores: Tensor
    calls: int


def noise_levels(recipe: TeacherRecipe) -> Tensor:
    """(L,) levels in data units, equally spaced in ln sigma, both ends included."""
    low, high = recipe.sigma_min_milli / 1e3, recipe.sigma_max_milli / 1e3
    return torch.linspace(math.log(low), math.log(high), recipe.levels, dtype=torch.float64).exp().float()


def order_of_levels(levels: int) -> tuple[int, ...]:
    """The indices of the levels in the order in which they are asked: from the middle outwards, the lower of two first."""
    return tuple(sorted(range(levels), key=lambda index: (abs(2 * index - levels + 1), index)))


def common_noise(images: Tensor, levels: int) -> Tensor:
    """Unit normal noise (N, L, C, H, W) for uint8 images (N, C, H, W), by Rule 1."""
    digests = [sha256(NOISE_DOMAIN + image.numpy().tobytes()).hexdigest() for image in images]
    generators = [torch.Generator().manual_seed(seed_of(digest, "noise")) for digest in digests]
    return torch.stack([torch.randn((levels, *images.shape[1:]), generator=g) for g in generators])


def mixed_by_label(sums: Tensor, terms: Sequence[Term], outputs: int) -> Tensor:
    """log p(x|label) up to a constant, (N, K), from that of each term, (N, T).

    Several donors of a label are one mixture, p(x|c) = sum_k (n_kc / n_c) p_k(x|c), over the image and not level by level: a
    minimum at each level would favour labels with more donors.
    """
    labels = torch.tensor([term.label for term in terms])
    counts = torch.tensor([max(term.count, 1) for term in terms], dtype=torch.float64)
    totals = torch.zeros(outputs, dtype=torch.float64).scatter_add(0, labels, counts)
    weighted = sums + (counts / totals[labels]).log()
    columns = labels.expand(len(sums), -1)
    top = weighted.new_full((len(sums), outputs), -torch.inf).scatter_reduce(1, columns, weighted, "amax")
    share = torch.zeros_like(top).scatter_add(1, columns, (weighted - top[:, labels]).exp())
    return top + share.log()


def score(
    terms: Sequence[Term],
    images: Tensor,
    outputs: int,
    recipe: TeacherRecipe,
    device: torch.device,
    progress: Progress | None = None,
) -> Scored:
    """Estimates of log p(x|label), up to a constant of the image, of `outputs` labels, each of which has a term.

    `images` is uint8 (N, C, H, W). A term's score is -h times the mean over the levels s of ln ||D(x + s n; s) - x||^2: a
    Gaussian residual of m independent values and unknown scale has the log likelihood -(m/2) ln ||residual||^2, and h, the
    recipe's `sharpness`, stands for m/2, since neighbouring pixels and levels err together.
    """
    found, calls = [], 0
    size = min(PART_IMAGES, max(1, PART_VALUES // (recipe.levels * images[0].numel())))
    rounds = rounds_of(order_of_levels(recipe.levels), outputs, recipe.keep_percent)
    for some in torch.split(images, size):
        part = _Part(terms, some, recipe, device)
        found.append(race(len(some), outputs, rounds, part.ask))
        calls += part.calls
        if progress:
            progress(sum(len(scores) for scores in found), len(images))
    return Scored(torch.cat(found), calls)


def log_scores(
    terms: Sequence[Term],
    images: Tensor,
    outputs: int,
    recipe: TeacherRecipe,
    device: torch.device,
    progress: Progress | None = None,
) -> Tensor:
    """The scores (N, K), float64, of `score`, which no temperature has touched: probabilities are softmax(scores / T)."""
    return score(terms, images, outputs, recipe, device, progress).scores


def posterior(
    terms: Sequence[Term],
    images: Tensor,
    outputs: int,
    recipe: TeacherRecipe,
    device: torch.device,
    progress: Progress | None = None,
) -> Tensor:
    """Probabilities (N, K), float64, of `outputs` labels, each of which has a term, for uint8 images (N, C, H, W)."""
    return probabilities(log_scores(terms, images, outputs, recipe, device, progress), recipe)


def probabilities(scores: Tensor, recipe: TeacherRecipe) -> Tensor:
    """softmax(scores / T) at the recipe's temperature, for scores (N, K)."""
    return torch.softmax(scores / (recipe.temperature_milli / 1e3), dim=1)


class _Part:
    """Images under way: for each term its score over the levels asked so far, and the calls that it took.

    What fits in one stacked forward is computed at once, which costs less than a forward for each round.
    """

    def __init__(self, terms: Sequence[Term], images: Tensor, recipe: TeacherRecipe, device: torch.device) -> None:
        self._terms = terms
        self._x = to_data(images).to(device)
        self._noise = common_noise(images, recipe.levels).to(device)
        self._levels = noise_levels(recipe).to(device)
        self._dtype = recipe.dtype
        self._gain = recipe.sharpness / recipe.levels
        self._sums = torch.zeros((len(images), len(terms)), dtype=torch.float64)
        self.calls = 0
        self._known = None
        if in_one_forward([term.denoise for term in terms], self._noise):
            everything = torch.ones_like(self._sums, dtype=torch.bool)
            self._known = self._energies(everything, tuple(range(recipe.levels)))

    def ask(self, alive: Tensor, levels: tuple[int, ...]) -> Tensor:
        """The sums by label (N, K), after the terms of the labels `alive` (N, K) were asked at these levels too."""
        if self._known is None:
            energy = self._energies(alive[:, [term.label for term in self._terms]], levels)
        else:
            energy = self._known[:, list(levels)]
        self._sums -= self._gain * energy.clamp_min(TINY).log().sum(dim=1)
        return mixed_by_label(self._sums, self._terms, alive.shape[1])

    def _energies(self, asked: Tensor, levels: tuple[int, ...]) -> Tensor:
        self.calls += int(asked.sum()) * len(levels)
        chosen = torch.tensor(levels, device=self._x.device)
        denoisers = [term.denoise for term in self._terms]
        with computing(self._dtype, self._x.device):
            return energies_of_asked(denoisers, asked, self._x, self._noise[:, chosen], self._levels[chosen])
