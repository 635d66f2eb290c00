"""The examination of one generator: all figures of the audit, what they rest on, and the verdict with its reasons.

Rule 1: what cannot be told is refused: fewer images than the recipe's minimum, no held-out image, an image on both sides of the
        split.
Rule 2: a generator fails if any test of copies finds less chance than the recipe's alpha, or if any attack tells members apart
        beyond the recipe's limit. Fidelity and the gap are told and decide nothing.
Rule 3: the report holds integers and decimal strings only, so that equal figures have equal bytes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import torch
from torch import Tensor

from fednode.learning.audit import copies, membership
from fednode.learning.audit.chance import CONFIDENCE
from fednode.learning.audit.copies import Points
from fednode.learning.audit.features import features
from fednode.learning.audit.fidelity import fidelity
from fednode.learning.audit.membership import Scores, Sides
from fednode.learning.sampler import Denoise, to_data
from fednode.learning.seeds import seed_of
from fednode.recipe import AuditRecipe
from fednode_crypto.strict_json import JSON

VERSION = 2
TESTS = {
    "distance": "{nearer} of {samples} samples are nearer to a training image than fresh images are",
    "carlini_ratio": "{nearer} of {samples} samples single out one training image as fresh images do not",
    "visits": "only {heldout} of {samples} samples are nearest to a held-out image, where some {expected} were to be expected",
}
ATTACKS = {"loss": "The denoising loss", "sima": "The noise seen in a clean image (SimA)"}


@dataclass(frozen=True)
class Exhibit:
    """What is examined: uint8 samples, training and held-out images (N, C, H, W), and D(x; sigma)."""

    samples: Tensor
    train: Tensor
    holdout: Tensor
    denoise: Denoise


@dataclass(frozen=True)
class Examination:
    """The report, and for its page the scores of each attack and the features that it measured in."""

    report: dict[str, JSON]
    scores: Mapping[str, Scores] = field(default_factory=dict)
    points: Points | None = None


def examine(exhibit: Exhibit, recipe: AuditRecipe, spec: str, device: torch.device) -> Examination:
    """Examine a generator; all random numbers follow from `spec`, the digest (hex) of the audit's spec."""
    images = len(exhibit.train) + len(exhibit.holdout)
    if reason := refusal(exhibit.train, exhibit.holdout, recipe):
        return Examination({"version": VERSION, "passed": False, "reasons": [reason], "images": images})
    parts = (exhibit.samples, exhibit.train, exhibit.holdout)
    spaces = {
        "pixels": Points(*(part.flatten(1).float() for part in parts)),
        "features": Points(*(features(part) for part in parts)),
    }
    sides = Sides(*(to_data(part).to(device) for part in (exhibit.train, exhibit.holdout)))
    found = membership.losses(exhibit.denoise, sides, recipe, seed_of(spec, "noise"))
    scores = {
        "loss": membership.loss_scores(found),
        "sima": membership.sima_scores(exhibit.denoise, sides, recipe),
    }
    figures: dict[str, Any] = {
        "copies": {name: copies.compare(points, recipe) for name, points in spaces.items()},
        "membership": {name: membership.judge(one, recipe) for name, one in scores.items()},
        "gap": membership.gap(found),
        "fidelity": _fidelity(spaces["features"], recipe, seed_of(spec, "subsets")),
    }
    reasons = list(failures(figures, len(exhibit.samples), recipe).values())
    report: dict[str, JSON] = {
        "version": VERSION,
        "passed": not reasons,
        "reasons": reasons,
        "images": images,
        "heldout": len(exhibit.holdout),
        "samples": len(exhibit.samples),
        "confidence": f"{CONFIDENCE:.2f}",
        "features": recipe.features,
        **figures,
    }
    return Examination(report, scores, spaces["features"])


def refusal(train: Tensor, holdout: Tensor, recipe: AuditRecipe) -> str:
    """Why nothing can be told from these images (Rule 1), or an empty text."""
    images = len(train) + len(holdout)
    if images < recipe.minimum_images:
        return f"There are {images} images, and at least {recipe.minimum_images} are needed."
    if not len(holdout):
        return "No image is held out, so neither copies nor members could be told."
    twice = {image.numpy().tobytes() for image in train} & {image.numpy().tobytes() for image in holdout}
    if twice:
        return f"{len(twice)} of the held-out images are training images as well, so nothing could be told by them."
    return ""


def _fidelity(points: Points, recipe: AuditRecipe, seed: int) -> dict[str, JSON]:
    return fidelity(torch.cat([points.train, points.holdout]), points.samples, recipe.manifold, seed)


def failures(figures: Mapping[str, Any], samples: int, recipe: AuditRecipe) -> dict[str, str]:
    """Rule 2: the tests that the figures of a report fail, by name (`pixels distance`, ..., `sima`), each in one sentence."""
    alpha, found = Decimal(recipe.alpha_ppm) / 1_000_000, {}
    for space, tests in figures["copies"].items():
        for test, sentence in TESTS.items():
            if Decimal(tests[test]["chance"]) < alpha:
                said = sentence.format(
                    **tests[test] | {"samples": samples, "expected": round(float(tests[test]["expected"]))}
                )
                found[f"{space} {test}"] = f"In {space}, {said}; the chance of that is {tests[test]['chance']}."
    for attack, name in ATTACKS.items():
        one = figures["membership"][attack]
        if Decimal(one["bound"]) > Decimal(one["limit"]):
            apart = f"with an area under the curve of {one['auc']}, surely above {one['bound']}"
            found[attack] = f"{name} tells training from held-out images {apart}; the limit is {one['limit']}."
    return found
