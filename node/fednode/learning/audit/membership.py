"""Membership: whether whoever holds the published weights can tell training images from held-out ones.

Rule 1: the noise follows from the spec and is common to all images, so that scores differ by the images alone.
Rule 2: a score is high for what looks like a member. The generator fails if even the lower bound of the area under the curve
        lies above the recipe's limit: members are told apart, and not only in these few images.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fednode.learning.audit import chance
from fednode.learning.sampler import Denoise
from fednode.recipe import AuditRecipe
from fednode_crypto.strict_json import JSON

BATCH = 256
FALSE_ALARMS = 0.01
TINY = 1e-30


@dataclass(frozen=True)
class Sides:
    """Training and held-out images in data units, (N, C, H, W) float32, on the device of the denoiser."""

    train: Tensor
    holdout: Tensor


@dataclass(frozen=True)
class Scores:
    """The scores of one attack, of training and of held-out images, each (N,)."""

    members: Tensor
    others: Tensor


@dataclass(frozen=True)
class Losses:
    """Denoising energies ||D(x + s n; s) - x||^2 / s^2 of training and of held-out images, each (N, L), and the L levels."""

    train: Tensor
    holdout: Tensor
    levels: Sequence[float]


def losses(denoise: Denoise, sides: Sides, recipe: AuditRecipe, seed: int) -> Losses:
    """The energies of both sides, each the mean over `recipe.draws` draws of noise, by Rule 1."""
    shape = sides.train.shape[1:]
    noise = torch.randn(recipe.draws, *shape, generator=torch.Generator().manual_seed(seed)).to(sides.train.device)
    levels = [level / 1e3 for level in recipe.levels_milli]

    def energies(x: Tensor, sigma: float) -> Tensor:
        errors = [_error(denoise, x, sigma, draw).square().sum((1, 2, 3)) for draw in noise]
        return torch.stack(errors).mean(0) / sigma**2

    train, holdout = (_by_level(energies, part, levels) for part in (sides.train, sides.holdout))
    return Losses(train, holdout, levels)


def loss_scores(found: Losses) -> Scores:
    """-sum over the levels of ln energy: a member is denoised better (loss attack, Matsumoto et al., 2302.03262)."""
    return Scores(*(-part.clamp_min(TINY).log().sum(1) for part in (found.train, found.holdout)))


def sima_scores(denoise: Denoise, sides: Sides, recipe: AuditRecipe) -> Scores:
    """-sum over the levels of ln ||(x - D(x; s)) / s||: the norm of the noise that is seen in a clean image (SimA, 2509.25003).

    The best denoiser answers the mean of the training images near x, weighted by a Gaussian of width s: for a member that is
    nearly x itself. The paper takes one level and one call; the product over the levels needs no choice among them.
    """
    levels = [level / 1e3 for level in recipe.levels_milli]

    def norms(x: Tensor, sigma: float) -> Tensor:
        error = _error(denoise, x, sigma, torch.zeros_like(x))
        return error.square().sum((1, 2, 3)).sqrt() / sigma

    return Scores(
        *(-_by_level(norms, part, levels).clamp_min(TINY).log().sum(1) for part in (sides.train, sides.holdout))
    )


def judge(scores: Scores, recipe: AuditRecipe) -> dict[str, JSON]:
    """Area under the curve with its interval, the `bound` that decides, and how many members are found at 1 % false alarms."""
    members, others = len(scores.members), len(scores.others)
    area = area_under_curve(scores)
    low, high = chance.auc_interval(area, members, others)
    allowed = math.floor(FALSE_ALARMS * others)
    threshold = scores.others.sort(descending=True).values[allowed]
    caught = int((scores.members > threshold).sum())
    share = chance.proportion(caught, members)
    return {
        "auc": f"{area:.4f}",
        "interval": [f"{low:.4f}", f"{high:.4f}"],
        "bound": f"{chance.auc_bound(area, members, others, recipe.auc_tail_ppm / 1e6):.4f}",
        "limit": f"{recipe.auc_limit_milli / 1e3:.4f}",
        "members_found": caught,
        "share_found": f"{caught / members:.4f}",
        "share_interval": [f"{end:.4f}" for end in share],
        "false_alarms_allowed": allowed,
    }


def area_under_curve(scores: Scores) -> float:
    """The chance that a training image scores above a held-out one; ties count one half."""
    ordered = scores.others.sort().values
    beaten = torch.searchsorted(ordered, scores.members) + torch.searchsorted(ordered, scores.members, right=True)
    return float(beaten.double().mean()) / (2 * len(ordered))


def gap(found: Losses) -> dict[str, JSON]:
    """How much worse held-out images are explained than training images, in nats, and Theorem 1's bound from it.

    The integral over ln s of the mean energies' difference is the difference of the mean log likelihoods (the ELBO of 2303.00848
    at unit weight), here by trapezoids over the recipe's levels. It stands in for KL(p || q) of the label, of which it knows
    only what was memorised. FederatedFactory's Theorem 1 (2603.16370) bounds the label's excess risk by B sqrt(2 KL); B is 1.
    """
    train, holdout = found.train.double().mean(0), found.holdout.double().mean(0)
    logs = torch.tensor(found.levels, dtype=torch.float64).log()
    nats = float(torch.trapezoid(holdout - train, logs)) if len(found.levels) > 1 else float(holdout - train)
    return {
        "levels": [f"{level:.3f}" for level in found.levels],
        "train": [f"{energy:.4f}" for energy in train.tolist()],
        "heldout": [f"{energy:.4f}" for energy in holdout.tolist()],
        "nats": f"{nats:.4f}",
        "excess_risk_bound": f"{math.sqrt(2 * max(nats, 0.0)):.4f}",
    }


def _error(denoise: Denoise, x: Tensor, sigma: float, noise: Tensor) -> Tensor:
    return denoise(x + sigma * noise, x.new_full((len(x),), sigma)) - x


@torch.no_grad()
def _by_level(figure: Callable[[Tensor, float], Tensor], images: Tensor, levels: Sequence[float]) -> Tensor:
    """(N, L): the figure of each image at each level, batch by batch, on the CPU."""
    batches = torch.split(images, BATCH)
    return torch.stack([torch.cat([figure(x, level).cpu() for x in batches]) for level in levels], dim=1)
