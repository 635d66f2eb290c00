"""Fidelity: how well samples match real images, as points of a feature space. Nothing here decides whether a generator passes.

All take points (N, D), real ones first. The real ones are training and held-out images together.
"""

import math

import torch
from torch import Tensor

from fednode.learning.audit import chance
from fednode.learning.audit.copies import nearest
from fednode_crypto.strict_json import JSON

SUBSETS = 100
SUBSET_SIZE = 100


def fidelity(real: Tensor, samples: Tensor, manifold: int, seed: int) -> dict[str, JSON]:
    """FID, KID with its mean and deviation over subsets, precision and recall with exact intervals."""
    mean, deviation = kid(real.double(), samples.double(), seed)
    found = {"precision": coverage(real, samples, manifold), "recall": coverage(samples, real, manifold)}
    return {
        "fid": f"{fid(real.double(), samples.double()):.6f}",
        "kid": f"{mean:.6f}",
        "kid_deviation": f"{deviation:.6f}",
        **{name: _share(inside) for name, inside in found.items()},
    }


def fid(real: Tensor, samples: Tensor) -> float:
    """|m1 - m2|^2 + tr(S1 + S2 - 2 (S1 S2)^(1/2)) of means and covariances (Heusel et al., 1706.08500).

    With S = A^T A / (N - 1) for the centred points A, the last trace is the sum of the singular values of A1 A2^T, scaled.
    """
    centred = [part - part.mean(0) for part in (real, samples)]
    spread: float = sum(float(part.square().sum()) / (len(part) - 1) for part in centred)
    triangles = [torch.linalg.qr(part, mode="r").R for part in centred]  # A^T A = R^T R, and R is small
    scale = math.sqrt((len(real) - 1) * (len(samples) - 1))
    shared = float(torch.linalg.svdvals(triangles[0] @ triangles[1].T).sum()) / scale
    return float((real.mean(0) - samples.mean(0)).square().sum()) + spread - 2 * shared


def kid(real: Tensor, samples: Tensor, seed: int) -> tuple[float, float]:
    """Mean and deviation over random subsets of the unbiased MMD^2 with the kernel (x.y / D + 1)^3 (1801.01401)."""
    generator = torch.Generator().manual_seed(seed)
    size = min(SUBSET_SIZE, len(real), len(samples))
    subsets = (
        [part[torch.randperm(len(part), generator=generator)[:size]] for part in (real, samples)]
        for _ in range(SUBSETS)
    )
    found = torch.tensor([_mmd(*subset) for subset in subsets], dtype=torch.float64)
    return float(found.mean()), float(found.std())


def coverage(known: Tensor, points: Tensor, manifold: int) -> Tensor:
    """Whether each of `points` is within the distance of some known point to its `manifold`-th neighbour (1904.06991): (N,)."""
    radius = nearest(known, known, min(manifold + 1, len(known)))[0][:, -1]
    distances = torch.cdist(points, known, compute_mode="donot_use_mm_for_euclid_dist")
    return (distances <= radius).any(1)


def _mmd(one: Tensor, two: Tensor) -> float:
    """Of two sets of equal size; a point is never compared with itself."""

    def kernel(a: Tensor, b: Tensor) -> Tensor:
        return (a @ b.T / a.shape[1] + 1) ** 3

    within = sum(float(own.sum() - own.trace()) for own in (kernel(one, one), kernel(two, two)))
    return within / (len(one) * (len(one) - 1)) - 2 * float(kernel(one, two).mean())


def _share(inside: Tensor) -> dict[str, JSON]:
    hits = int(inside.sum())
    low, high = chance.proportion(hits, len(inside))
    return {"share": f"{hits / len(inside):.4f}", "interval": [f"{low:.4f}", f"{high:.4f}"]}
