"""FedCGS (Guan et al., 2503.06962): linear discriminant analysis on a frozen backbone, from sums that nodes send once.

Rule: sums are integers of features in steps of 1 / SCALE, so adding a node and taking it away again leaves the very same bits,
in any order: unlearning by subtraction is exact, and no partition of the images changes the result.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

SCALE = 2**12
LARGEST = 2**10  # of a feature's size: a million images of it still fit 64 bits


@dataclass(frozen=True)
class Statistics:
    """Sums over images: N_c (K,), sum h by label (K, D) in 1 / SCALE, sum h h^T (D, D) in 1 / SCALE^2, all int64."""

    counts: Tensor
    sums: Tensor
    squares: Tensor

    def __add__(self, other: "Statistics") -> "Statistics":
        return Statistics(self.counts + other.counts, self.sums + other.sums, self.squares + other.squares)

    def __sub__(self, other: "Statistics") -> "Statistics":
        return Statistics(self.counts - other.counts, self.sums - other.sums, self.squares - other.squares)

    @property
    def bytes(self) -> int:
        """On the wire, in 8 bytes a number and one triangle of the symmetric matrix."""
        labels, width = self.sums.shape
        return 8 * (labels + labels * width + width * (width + 1) // 2)


def statistics(features: Tensor, targets: Tensor, labels: int) -> Statistics:
    """The sums of features (N, D) with label indices (N,)."""
    steps = (features.double().clamp(-LARGEST, LARGEST) * SCALE).round().long().cpu()
    at = targets.cpu()
    sums = torch.zeros(labels, steps.shape[1], dtype=torch.long).index_add(0, at, steps)
    return Statistics(torch.bincount(at, minlength=labels), sums, steps.T @ steps)


def head(found: Statistics, shrink: float) -> tuple[Tensor, Tensor]:
    """Weights (K, D) and biases (K,) in float64: logits x^T S^-1 mu_c - mu_c^T S^-1 mu_c / 2 + log pi_c.

    S = (Q - sum_c N_c mu_c mu_c^T) / (N - C) is the covariance within labels, shrunk to (1 - g) S + g tr(S) / D I. A label
    without images has bias -inf: it is never answered.
    """
    counts, sums = found.counts.double(), found.sums.double() / SCALE
    known = counts > 0
    means = sums / counts.clamp_min(1)[:, None]
    within = found.squares.double() / SCALE**2 - torch.einsum("c,ci,cj->ij", counts, means, means)
    within = within / (counts.sum() - known.sum()).clamp_min(1)
    width = len(within)
    shrunk = (1 - shrink) * within + shrink * within.trace() / width * torch.eye(width).double()
    weights = torch.linalg.solve(shrunk, means.T).T
    biases = torch.log(counts / counts.sum()) - (weights * means).sum(1) / 2
    return weights, biases
