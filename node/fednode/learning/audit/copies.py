"""Copies: whether samples lie nearer to the training images than images do that the generator never saw.

Rule 1: the threshold is the recipe's percentile of the distances from held-out images to their nearest training image, as an
        order statistic.
Rule 2: a percentile of a few held-out images is uncertain itself, so the share of samples below it is not tested against the
        nominal percentage but by the exact law of ranks: were the samples as fresh as the held-out images, every order of the
        two would be equally likely. With k held-out images and rank 1 it takes a share near 1 - alpha^(1/k) to fail: of 17
        images two fifths, of 100 an eleventh.
Rule 3: each sample visits the real image that is nearest to it, of training and held-out ones together. Were the generator
        blind to the split, held-out images would be visited as often as any; the chance of so few visits is exact as well.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fednode.learning.audit import chance
from fednode.recipe import AuditRecipe
from fednode_crypto.strict_json import JSON

CHUNK = 64


@dataclass(frozen=True)
class Points:
    """Samples, training and held-out images as points of one space, each (N, D) float32."""

    samples: Tensor
    train: Tensor
    holdout: Tensor


def nearest(images: Tensor, known: Tensor, count: int = 1) -> tuple[Tensor, Tensor]:
    """Of each point its `count` nearest among the `known`, nearest first: Euclidean distances (N, count) and their indices."""
    # Exact differences: the faster way by inner products would not give a copy the distance 0.
    mode = "donot_use_mm_for_euclid_dist"
    chunks = torch.split(images, CHUNK)
    found = [torch.cdist(chunk, known, compute_mode=mode).topk(count, largest=False) for chunk in chunks]
    return torch.cat([one.values for one in found]), torch.cat([one.indices for one in found])


def ratios(distances: Tensor) -> Tensor:
    """The distance to the nearest over the mean distance to the k nearest, from these (N, k) (Carlini et al., 2301.13188).

    Near 1 where an image is as far from one as from others, near 0 for a copy of one; 1 where all distances are 0.
    """
    return torch.nan_to_num(distances[:, 0] / distances.mean(1), nan=1.0)


def compare(points: Points, recipe: AuditRecipe) -> dict[str, JSON]:
    """The figures of all rules in one space; every `chance` is that of so extreme a figure if nothing was copied."""
    count = min(recipe.neighbours, len(points.train))
    near, fresh = (nearest(part, points.train, count)[0] for part in (points.samples, points.holdout))
    return {
        "distance": below(near[:, 0], fresh[:, 0], recipe),
        "carlini_ratio": below(ratios(near), ratios(fresh), recipe),
        "visits": visits(points),
        "copies": int((near[:, 0] == 0).sum()),
    }


def below(samples: Tensor, fresh: Tensor, recipe: AuditRecipe) -> dict[str, JSON]:
    """Rules 1 and 2 for any figure (N,) that is small for copies."""
    rank = max(1, math.ceil(len(fresh) * recipe.percentile / 100))
    threshold = float(fresh.sort().values[rank - 1])
    nearer = int((samples < threshold).sum())
    low, high = chance.proportion(nearer, len(samples))
    return {
        "threshold": f"{threshold:.4f}",
        "median": f"{float(samples.median()):.4f}",
        "median_heldout": f"{float(fresh.median()):.4f}",
        "nearer": nearer,
        "interval": [f"{low:.4f}", f"{high:.4f}"],
        "expected": f"{len(samples) * rank / (len(fresh) + 1):.3f}",
        "chance": f"{chance.ranks(nearer, len(samples), len(fresh), rank):.3e}",
    }


def visits(points: Points) -> dict[str, JSON]:
    """Rule 3: how many samples visit held-out images, and the exact chance of so few."""
    real = torch.cat([points.train, points.holdout])
    _, visited = nearest(points.samples, real)
    counts = torch.bincount(visited[:, 0], minlength=len(real))
    seen = int(counts[len(points.train) :].sum())
    low, high = chance.proportion(seen, len(points.samples))
    by_image = [int(count) for count in counts[counts > 0]]
    return {
        "heldout": seen,
        "interval": [f"{low:.4f}", f"{high:.4f}"],
        "expected": f"{len(points.samples) * len(points.holdout) / len(real):.3f}",
        "chance": f"{chance.split(by_image, len(real), len(points.holdout), seen):.3e}",
    }
