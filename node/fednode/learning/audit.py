"""The audit that precedes signing: enough images, and samples that are no nearer to them than fresh images are.

Rule 1: a label with fewer than the recipe's minimum of images, or with no held-out image to compare with, does not pass.
Rule 2: the threshold is the recipe's percentile of the distances from held-out images to their nearest training image, as an
        order statistic. Distances are Euclidean over pixels 0..255. A held-out image that equals a training image tells nothing
        of what is fresh and is left out.
Rule 3: a percentile of a few held-out images is uncertain itself, so the share of samples below it is not tested against the
        nominal percentage but by the exact law of ranks: were the samples as fresh as the held-out images, every order of the
        two would be equally likely. The generator fails if so many samples below the threshold are less likely than `alpha`.
        With k held-out images and rank 1 that takes a share near 1 - alpha^(1/k): of 17 images a third, of 100 a fifteenth.
"""

import math
from decimal import Decimal

import torch
from torch import Tensor

from fednode.recipe import AuditRecipe
from fednode_crypto.strict_json import JSON

CHUNK = 64


def audit(samples: Tensor, train: Tensor, holdout: Tensor, recipe: AuditRecipe) -> dict[str, JSON]:
    """The report on a generator whose `samples` stand beside the images it learned from and those held out.

    All are uint8 (N, C, H, W). Integers and decimal strings only: `passed`, `reasons` (one sentence each), the counts, the
    threshold, how many samples are `nearer` than it and how many were `expected`, the `chance` of so many, and exact `copies`.
    """
    images = len(train) + len(holdout)
    if images < recipe.minimum_images:
        return _refused(f"There are {images} images, and at least {recipe.minimum_images} are needed.", images)
    fresh = nearest(holdout, train)
    fresh = fresh[fresh > 0].sort().values
    if not len(fresh):
        return _refused("No held-out image differs from all training images, so copies could not be told.", images)
    return _compare(nearest(samples, train), fresh, images, recipe)


def nearest(images: Tensor, train: Tensor) -> Tensor:
    """The Euclidean distance over pixels 0..255 of each image to its nearest training image, (N,) float32."""
    known = train.flatten(1).float()
    chunks = torch.split(images.flatten(1).float(), CHUNK)
    # Exact differences: the faster way by inner products would not give a copy the distance 0.
    mode = "donot_use_mm_for_euclid_dist"
    return torch.cat([torch.cdist(chunk, known, compute_mode=mode).min(1).values for chunk in chunks])


def chance_of(nearer: int, samples: int, fresh: int, rank: int) -> Decimal:
    """P(at least `nearer` of the samples lie below the rank-th smallest of the fresh distances | all orders equally likely).

    That is: of the first nearer + rank - 1 in the joint order, at most rank - 1 are fresh; a tail of the hypergeometric law.
    """
    first = nearer + rank - 1
    ways = sum(math.comb(fresh, few) * math.comb(samples, first - few) for few in range(min(rank, first + 1)))
    return Decimal(ways) / Decimal(math.comb(samples + fresh, first))


def _compare(distances: Tensor, fresh: Tensor, images: int, recipe: AuditRecipe) -> dict[str, JSON]:
    """The report of Rule 3; `fresh` is sorted."""
    rank = max(1, math.ceil(len(fresh) * recipe.percentile / 100))
    threshold = float(fresh[rank - 1])
    nearer = int((distances < threshold).sum())
    chance = chance_of(nearer, len(distances), len(fresh), rank)
    passed = chance >= Decimal(recipe.alpha_ppm) / 1_000_000
    share = f"{nearer} of {len(distances)} samples are nearer to a training image than fresh images are"
    return {
        "passed": passed,
        "reasons": [] if passed else [f"{share}; the chance of that is {chance:.2e}."],
        "images": images,
        "heldout": len(fresh),
        "samples": len(distances),
        "threshold": f"{threshold:.3f}",
        "nearer": nearer,
        "expected": f"{len(distances) * rank / (len(fresh) + 1):.3f}",
        "chance": f"{chance:.3e}",
        "copies": int((distances == 0).sum()),
    }


def _refused(reason: str, images: int) -> dict[str, JSON]:
    return {"passed": False, "reasons": [reason], "images": images}
